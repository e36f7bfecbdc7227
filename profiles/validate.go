package profiles

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Bounds of a ladder and its rungs. They are far above what one client can
// offer and keep a mistyped number from filling the memory.
const (
	maxRungs       = 1000
	maxConcurrency = 1_000_000
	maxRate        = 10_000_000 // requests per second
	maxRequests    = 100_000_000
	maxRepeats     = 1000
	maxRetries     = 100
)

// Backends are the wire dialects that a target can name.
var backendNames = []string{"auto", "openai", "vllm", "trtllm", "sglang", "tgi", "llamacpp", "ollama", "groq", "azure", "anthropic", "triton"}

// serveFlags are the flags of the bundled server that target.serve can set.
var serveFlags = []string{
	"executor", "model", "law", "faults", "served-model-name", "max-num-seqs", "max-model-len",
	"kv-cache-memory", "block-size", "kv", "batching", "batch-size", "batch-window", "chunked-prefill",
	"emission-log", "gpu", "threads", "libcuda",
}

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	envPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// Validate checks every field and how they go together. It returns Errors.
func (p *Profile) Validate() error { return p.check().or() }

// Unknowns lists the facts that nobody told, as dotted paths. Publishing
// refuses a profile that has any.
func (p *Profile) Unknowns() []string {
	var paths []string
	for _, fact := range []struct{ path, value string }{
		{"model.family", p.Model.Family}, {"model.version", p.Model.Version},
		{"model.size", p.Model.Size}, {"model.id", p.Model.ID},
		{"precision.weights", p.Precision.Weights}, {"precision.kv_cache", p.Precision.KVCache},
		{"hardware.accelerator", p.Hardware.Accelerator},
		{"serving.engine", p.Serving.Engine}, {"serving.version", p.Serving.Version},
	} {
		if fact.value == Unknown {
			paths = append(paths, fact.path)
		}
	}
	if p.Hardware.Count == 0 {
		paths = append(paths, "hardware.count")
	}
	if p.Serving.Settings == nil {
		paths = append(paths, "serving.settings")
	}
	slices.Sort(paths)
	return paths
}

// checker collects the faults of a profile.
type checker struct{ errs Errors }

func (c *checker) fail(field, hint, format string, args ...any) {
	c.errs = append(c.errs, Error{Field: field, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// require reports a fault unless ok.
func (c *checker) require(ok bool, field, hint, format string, args ...any) {
	if !ok {
		c.fail(field, hint, format, args...)
	}
}

// oneOf reports a value that is none of the names.
func (c *checker) oneOf(field, value string, names ...string) {
	if !slices.Contains(names, value) {
		c.fail(field, didYouMean(value, names), "%q is not known", quotable(value))
	}
}

// within reports a number outside lo to hi, both allowed.
func within[T int | int64 | float64](c *checker, field string, v, lo, hi T) {
	if !(v >= lo && v <= hi) {
		c.fail(field, fmt.Sprintf("give %v to %v", lo, hi), "%v is out of range", v)
	}
}

func (p *Profile) check() Errors {
	c := new(checker)
	c.require(p.APIVersion == APIVersion, "apiVersion", "write "+APIVersion, "%q is not known", quotable(p.APIVersion))
	c.require(namePattern.MatchString(p.Name), "name", "use letters, digits, '.', '_' and '-', at most 100", "%q is no name", quotable(p.Name))
	c.facts(p)
	c.workload(p)
	c.load(&p.Load)
	c.stage(&p.Stage)
	_, limits := p.SLO.limits()
	c.errs = append(c.errs, limits...)
	c.cost(p.Cost)
	c.target(p.Target)
	c.matrix(p)
	return c.errs
}

func (c *checker) facts(p *Profile) {
	for _, fact := range []struct{ field, value string }{
		{"model.family", p.Model.Family}, {"model.version", p.Model.Version},
		{"model.size", p.Model.Size}, {"model.id", p.Model.ID},
		{"precision.weights", p.Precision.Weights}, {"precision.kv_cache", p.Precision.KVCache},
		{"hardware.accelerator", p.Hardware.Accelerator},
		{"serving.engine", p.Serving.Engine}, {"serving.version", p.Serving.Version},
	} {
		c.require(strings.TrimSpace(fact.value) != "", fact.field, "name it, or write unknown", "is empty")
	}
	within(c, "hardware.count", p.Hardware.Count, 0, 1_000_000)
}

func (c *checker) workload(p *Profile) {
	w := &p.Workload
	c.oneOf("workload.prompt", w.Prompt, "auto", "token-ids", "text", "conversation")
	input, output := p.lengthSources()
	c.lengthFrom("workload.input_tokens", w.InputTokens, input, input != "")
	c.lengthFrom("workload.output_tokens", w.OutputTokens, output, output == LengthTrace)
	if w.Dataset != nil {
		c.require(w.Dataset.File != "", "workload.dataset.file", "name the file with the prompts", "is missing")
		if w.Dataset.Format != "" {
			c.oneOf("workload.dataset.format", w.Dataset.Format, "auto", "sharegpt", "jsonl", "text")
		}
		c.require(w.Conversation == nil, "workload.conversation", "keep one of them", "stands beside workload.dataset")
	}
	if w.Conversation != nil {
		c.require(w.Prompt == "conversation", "workload.prompt", "write prompt: conversation, or remove workload.conversation", "%q does not fit workload.conversation", w.Prompt)
		if w.Conversation.File == "" {
			c.length("workload.conversation.turns", w.Conversation.Turns)
		}
	}
	c.require(w.Prompt != "conversation" || w.Conversation != nil, "workload.conversation", "add conversation: {turns: 4}", "is missing for prompt: conversation")
	c.sampling(w.Sampling)
	within(c, "workload.prefix.shared_tokens", w.Prefix.SharedTokens, 0, maxLength)
	within(c, "workload.prefix.groups", w.Prefix.Groups, 0, maxRequests)
	if lo, _, ok := w.InputTokens.bounds(); ok {
		c.require(w.Prefix.SharedTokens <= lo, "workload.prefix.shared_tokens", "make it shorter than the shortest prompt",
			"%d is more than the %d tokens of the shortest prompt", w.Prefix.SharedTokens, lo)
	}
	within(c, "workload.cancel.share", w.Cancel.Share, 0, 1)
	within(c, "workload.cancel.after_tokens", w.Cancel.AfterTokens, 0, maxLength)
	c.require((w.Cancel.Share > 0) == (w.Cancel.After > 0 || w.Cancel.AfterTokens > 0), "workload.cancel",
		"give after: 2s or after_tokens: 10, and the share of requests: share: 1 is all", "ends no request")
}

// lengthFrom checks a length that a file may give, by its kind: source, or "".
// Where the file alone decides, only then is another length refused.
func (c *checker) lengthFrom(field string, l Length, source string, decides bool) {
	switch {
	case l.Kind == source && source != "":
	case decides:
		c.fail(field, "remove it, or write "+source, "%s tokens have no effect: a %s gives the length of each request", l, source)
	case l.Kind == LengthDataset:
		c.fail(field, "name the file in workload.dataset", "comes from a dataset, and there is none")
	case l.Kind == LengthTrace:
		c.fail(field, "name the file in load.open.trace", "comes from a trace, and there is none")
	default:
		c.length(field, l)
	}
}

// length checks a distribution of counts of at least 1.
func (c *checker) length(field string, l Length) {
	switch l.Kind {
	case "":
		c.fail(field, "write a token count, such as "+field[strings.LastIndex(field, ".")+1:]+": 128", "is missing")
		return
	case LengthFixed, LengthUniform, LengthNormal, LengthLognormal, LengthEmpirical:
	default:
		c.fail(field, lengthHint, "%q is no distribution", quotable(l.Kind))
		return
	}
	lo, hi, ok := l.bounds()
	if !ok {
		c.fail(field, "list at least one token count", "has no values")
		return
	}
	c.require(lo >= 1 && hi <= maxLength, field, fmt.Sprintf("give 1 to %d tokens", maxLength), "%s is out of range", l)
	c.require(lo <= hi, field, "put the smaller count first", "the least count %d is above the greatest %d", lo, hi)
	if l.Kind == LengthNormal || l.Kind == LengthLognormal {
		c.require(l.StdDev >= 0, field, "give a stddev of 0 or more", "the standard deviation %v is negative", l.StdDev)
		c.require(l.Mean >= float64(lo) && l.Mean <= float64(hi), field, "put the mean between min and max", "the mean %v lies outside %d to %d", l.Mean, lo, hi)
	}
}

func (c *checker) sampling(s Sampling) {
	if s.Temperature != nil {
		within(c, "workload.sampling.temperature", *s.Temperature, 0, 10)
	}
	if s.TopP != nil {
		c.require(*s.TopP > 0 && *s.TopP <= 1, "workload.sampling.top_p", "give a share above 0, at most 1", "%v is out of range", *s.TopP)
	}
	if s.TopK != nil {
		within(c, "workload.sampling.top_k", *s.TopK, -1, 10_000_000)
	}
}

func (c *checker) load(l *Load) {
	var modes []string
	if l.Closed != nil {
		modes = append(modes, "closed")
		c.closed(l.Closed)
	}
	if l.Open != nil {
		modes = append(modes, "open")
		c.open(l.Open)
	}
	if l.Offline != nil {
		modes = append(modes, "offline")
		within(c, "load.offline.requests", l.Offline.Requests, 1, maxRequests)
		within(c, "load.offline.max_in_flight", l.Offline.MaxInFlight, 0, maxRequests)
	}
	switch len(modes) {
	case 0:
		c.fail("load", "add closed: {concurrency: [1, 2, 4, 8]}, open: {rate: [1, 2, 4]} or offline: {requests: 1000}", "offers nothing")
	case 1:
	default:
		c.fail("load", "keep one of them", "%s exclude each other", strings.Join(modes, " and "))
	}
	within(c, "load.refine.rungs", l.Refine.Rungs, 0, maxRungs)
}

func (c *checker) closed(l *ClosedLoad) {
	c.require(len(l.Concurrency) > 0, "load.closed.concurrency", "list the numbers of users: [1, 2, 4, 8]", "is empty")
	c.require(len(l.Concurrency) <= maxRungs, "load.closed.concurrency", fmt.Sprintf("list at most %d", maxRungs), "has %d rungs", len(l.Concurrency))
	for i, n := range l.Concurrency[:min(len(l.Concurrency), maxRungs)] {
		field := fmt.Sprintf("load.closed.concurrency[%d]", i)
		within(c, field, n, 1, maxConcurrency)
		c.require(!slices.Contains(l.Concurrency[:i], n), field, "raise stage.repeats to measure a load again", "%d stands twice", n)
	}
	t := l.ThinkTime
	if t.Kind != "" {
		c.oneOf("load.closed.think_time", t.Kind, ThinkFixed, ThinkExponential, ThinkLognormal)
		c.require(t.Mean > 0, "load.closed.think_time", "give a time above 0s, or remove it", "the mean is %v", t.Mean)
	}
}

func (c *checker) open(l *OpenLoad) {
	sources := 0
	for _, has := range []bool{len(l.Rate) > 0, l.Ramp != nil, l.Trace != nil} {
		if has {
			sources++
		}
	}
	c.require(sources == 1, "load.open", "give exactly one of rate, ramp and trace", "has %d of rate, ramp and trace", sources)
	c.require(len(l.Rate) <= maxRungs, "load.open.rate", fmt.Sprintf("list at most %d", maxRungs), "has %d rungs", len(l.Rate))
	for i, r := range l.Rate[:min(len(l.Rate), maxRungs)] {
		field := fmt.Sprintf("load.open.rate[%d]", i)
		c.rate(field, r, false)
		c.require(!slices.Contains(l.Rate[:i], r), field, "raise stage.repeats to measure a load again", "%v stands twice", r)
	}
	if l.Trace == nil {
		c.oneOf("load.open.arrivals", l.Arrivals, ArrivalsConstant, ArrivalsPoisson, ArrivalsGamma)
		if l.Arrivals == ArrivalsGamma {
			c.require(l.Burstiness > 0 && l.Burstiness <= 1e6, "load.open.burstiness", "give a shape above 0; 1 is Poisson, below 1 is bursty", "%v is out of range", l.Burstiness)
		} else {
			c.require(l.Burstiness == 0, "load.open.burstiness", "write arrivals: gamma, or remove it", "has no effect on %s arrivals", l.Arrivals)
		}
	}
	if r := l.Ramp; r != nil {
		c.rate("load.open.ramp.from", r.From, true)
		c.rate("load.open.ramp.to", r.To, true)
		c.require(r.From > 0 || r.To > 0, "load.open.ramp", "let one end be above 0", "stays at 0 requests/s")
		c.require(r.Over > 0, "load.open.ramp.over", "give a time above 0s", "is %v", r.Over)
		within(c, "load.open.ramp.steps", r.Steps, 0, maxRungs)
	}
	if t := l.Trace; t != nil {
		c.require(t.File != "", "load.open.trace.file", "name the file with the arrivals", "is missing")
		if t.Format != "" {
			c.oneOf("load.open.trace.format", t.Format, "auto", "mooncake", "azure", "burstgpt")
		}
		c.require(t.Speed > 0 && t.Speed <= 1e6, "load.open.trace.speed", "give a factor above 0; 2 replays twice as fast", "%v is out of range", t.Speed)
		within(c, "load.open.trace.limit", t.Limit, 0, maxRequests)
	}
	within(c, "load.open.max_in_flight", l.MaxInFlight, 0, maxRequests)
}

func (c *checker) rate(field string, r float64, zero bool) {
	c.require((r > 0 || zero && r == 0) && r <= maxRate, field, fmt.Sprintf("give requests per second above 0, at most %d", maxRate), "%v is out of range", r)
}

func (c *checker) stage(s *Stage) {
	c.require(s.Measure > 0, "stage.measure", "give a time above 0s, such as 60s", "is %v", s.Measure)
	c.require(s.MaxDuration >= s.Measure, "stage.max_duration", "raise it to at least stage.measure", "%v is shorter than stage.measure, %v", s.MaxDuration, s.Measure)
	c.require(s.Timeout > 0, "stage.timeout", "give a time above 0s, such as 10m", "is %v", s.Timeout)
	c.require(s.Drain >= 0, "stage.drain", "give a time of 0s or more", "is %v", s.Drain)
	within(c, "stage.min_requests", s.MinRequests, 0, maxRequests)
	within(c, "stage.min_requests_per_user", s.MinRequestsPerUser, 0, maxRequests/maxConcurrency)
	within(c, "stage.repeats", s.Repeats, 1, maxRepeats)
	within(c, "stage.retries", s.Retries, 0, maxRetries)
	if s.Until != "" {
		c.oneOf("stage.until", s.Until, "settled")
	}
}

func (c *checker) cost(k Cost) {
	for _, price := range []struct {
		field string
		value float64
	}{
		{"cost.usd_per_hour", k.USDPerHour}, {"cost.max_usd", k.MaxUSD},
		{"cost.usd_per_million_input_tokens", k.USDPerMIn}, {"cost.usd_per_million_output_tokens", k.USDPerMOut},
	} {
		within(c, price.field, price.value, 0, 1e12)
	}
	within(c, "cost.max_tokens", k.MaxTokens, 0, 1_000_000_000_000_000)
}

func (c *checker) target(t Target) {
	c.address("target.url", t.URL)
	for i, metrics := range t.Metrics {
		c.address(fmt.Sprintf("target.metrics[%d]", i), metrics)
	}
	if t.Backend != "" {
		c.oneOf("target.backend", t.Backend, backendNames...)
	}
	c.require(t.Backend == "" || t.Backend == "auto" || t.BackendFile == "", "target.backend_file", "keep one of them", "stands beside target.backend")
	if t.Endpoint != "" {
		c.oneOf("target.endpoint", t.Endpoint, "chat", "completions", "native")
	}
	// The value is not shown: who mistakes this field pastes a key here.
	c.require(t.APIKeyEnv == "" || envPattern.MatchString(t.APIKeyEnv), "target.api_key_env", "write its name, such as HEADWAY_API_KEY, and export the key there", "is not the name of an environment variable")
	c.require(len(t.Serve) == 0 || t.URL == "", "target.serve", "keep one of them", "stands beside target.url")
	for _, name := range sortedKeys(t.Serve) {
		if !slices.Contains(serveFlags, name) {
			c.fail("target.serve."+quotable(name), didYouMean(name, serveFlags), "the bundled server has no such flag")
		}
	}
	if len(t.Serve) > 0 {
		c.require(t.Serve["executor"] != "", "target.serve.executor", "write cpu, cuda or sim", "is missing")
		if e := t.Serve["executor"]; e != "" {
			c.oneOf("target.serve.executor", e, "cpu", "cuda", "sim")
		}
	}
}

// address checks a URL and keeps credentials out of it and of the message.
func (c *checker) address(field, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		c.fail(field, "write http://host:port or https://host, quoted where it stands in brackets", "is no http URL")
	case u.User != nil:
		c.fail(field, "remove user and password; name the environment variable of the key in target.api_key_env", "carries credentials")
	}
}
