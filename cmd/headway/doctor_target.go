package main

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/telemetry"
	"github.com/headway-bench/headway/backends/tokenizer"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// targetState is what doctor found out about a server. What it did not come to
// is null.
type targetState struct {
	URL         string            `json:"url"`
	Error       string            `json:"error,omitempty"`  // why it could not be examined
	Failed      string            `json:"failed,omitempty"` // the first question that got no good answer
	Engine      string            `json:"engine"`
	Version     string            `json:"version"`
	Model       string            `json:"model"`
	Models      []string          `json:"models"`
	MaxModelLen record.Value      `json:"max_model_len"` // tokens
	Settings    map[string]string `json:"settings"`
	Dialect     string            `json:"dialect"`
	Why         string            `json:"why"`    // how the dialect was chosen
	Source      string            `json:"source"` // what the server was asked
	Route       string            `json:"route"`
	Can         []string          `json:"can"`
	Remote      string            `json:"remote"`
	Stamps      string            `json:"stamps"` // who stamps arrivals: kernel or user
	Stream      *streamState      `json:"stream"`
	Lengths     *lengthState      `json:"lengths"`
	Tokenizer   *tokenizerState   `json:"tokenizer"`
	Cache       *cacheState       `json:"prefix_cache"`
	Metrics     []metricsState    `json:"metrics"`
}

// streamState is how the longest answer came.
type streamState struct {
	Events           int          `json:"events"` // that carry output
	Tokens           record.Value `json:"tokens"`
	TokenSource      string       `json:"token_source"`
	TokensPerEvent   record.Value `json:"tokens_per_event"`
	EventsPerReadMax int          `json:"events_per_read_max"`
	Buffered         *bool        `json:"buffered"` // null of an answer too short to tell
	NotStreamed      bool         `json:"not_streamed"`
	Usage            string       `json:"usage"` // running, final or none
	TokenIDs         bool         `json:"token_ids"`
	Reasoning        bool         `json:"reasoning"`
	Finish           string       `json:"finish"`
	TTFTMS           record.Value `json:"ttft_ms"`
	ITLMeanMS        record.Value `json:"itl_mean_ms"`
	E2EMS            record.Value `json:"e2e_ms"`
	Reconnects       int          `json:"reconnects"`
	Warnings         []string     `json:"warnings"`
}

// lengthState says whether output lengths are obeyed; Obeyed is null when the
// server stopped early and the dialect can't keep it from that.
type lengthState struct {
	Forced bool   `json:"forced"`
	Asked  []int  `json:"asked"`
	Got    []*int `json:"got"` // null where unknown
	Obeyed *bool  `json:"obeyed"`
}

// tokenizerState holds the prompt's length as made to the server's count;
// Agrees is null where the length is an estimate or the server does not count.
type tokenizerState struct {
	By     string       `json:"by"` // how the prompt got its length
	Made   int          `json:"made"`
	Server record.Value `json:"server"` // by its usage
	Agrees *bool        `json:"agrees"`
	// OutputOwn and OutputServer count the answer's text by --tokenizer and by
	// the server.
	OutputOwn    record.Value `json:"output_own"`
	OutputServer record.Value `json:"output_server"`
}

// cacheState says whether a prompt that comes again is computed again; On is
// null when nothing tells.
type cacheState struct {
	On           *bool        `json:"on"`
	By           string       `json:"by"` // what tells
	PromptTokens int          `json:"prompt_tokens"`
	CachedTokens record.Value `json:"cached_tokens"` // of the second time, by usage
	RepeatTTFTMS record.Value `json:"repeat_ttft_ms"`
	FreshTTFTMS  record.Value `json:"fresh_ttft_ms"`
}

// metricsState is one place that telemetry is read from: the server's own page,
// one of --metrics, or nvidia-smi.
type metricsState struct {
	Source   string       `json:"source"`
	Kinds    []string     `json:"kinds"`
	Tells    []string     `json:"tells"`           // of what, in words
	KVTokens record.Value `json:"kv_cache_tokens"` // that the KV cache holds
	Error    string       `json:"error,omitempty"`
}

// examiner asks one target.
type examiner struct {
	client backends.Client
	count  *tokenizer.Tokenizer // of --tokenizer, nil without
	items  *prompt.Stream
	form   prompt.Form
	watch  *observer
	state  *targetState
	run    string
}

// examineTarget opens the target and asks it. Its error says that nothing could
// be asked.
func (f *doctorFlags) examineTarget(ctx context.Context, options connect.Options) (*targetState, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	e := examiner{run: runID()}
	if f.tokenizer != "" {
		t, err := tokenizer.Load(f.tokenizer)
		if err != nil {
			return nil, usagef("--tokenizer: %w", err)
		}
		e.count = t
	}
	client, err := connect.Open(ctx, options)
	if err != nil {
		return nil, targetError(err)
	}
	defer client.Close()
	if e.watch, err = newObserver(ctx, options, client.Server(), f.metrics); err != nil {
		return nil, err
	}
	defer e.watch.close()
	e.client, e.state = client, describe(options.URL, options.Endpoint, client)
	for _, source := range e.watch.sources {
		e.state.Metrics = append(e.state.Metrics, examineMetrics(ctx, source))
	}
	if err := e.ask(ctx); err != nil {
		e.state.Failed = err.Error()
	}
	return e.state, nil
}

// describe is what the server told when it was opened.
func describe(at, endpoint string, client backends.Client) *targetState {
	s, can := client.Server(), client.Can()
	t := &targetState{URL: redacted(at), Engine: s.Engine, Version: s.Version, Model: s.ModelID, Models: append([]string{}, s.Models...),
		Settings: s.Settings, Dialect: s.Dialect, Why: s.Why, Route: "completions", Can: []string{}, Metrics: []metricsState{}, MaxModelLen: told(s.MaxModelLen)}
	for i, path := range strings.Split(s.Source, ", ") {
		path, _, _ = strings.Cut(path, "?")
		if i > 0 {
			path = ", " + path
		}
		t.Source += path
	}
	switch {
	case s.Dialect == "triton":
		t.Route = "generate_stream"
	case s.Dialect == "anthropic":
		t.Route = "messages"
	case endpoint == "native":
		t.Route = endpoint
	case can.Chat:
		t.Route = "chat"
	}
	for _, c := range []struct {
		name string
		can  bool
	}{{"token-id prompts", can.TokenIDs}, {"forced lengths", can.ForceLength}, {"running usage", can.RunningUsage},
		{"output token ids", can.TokenIDsOut}, {"tokenizer route", can.Tokenize}, {"cache reset", can.CacheReset}} {
		if c.can {
			t.Can = append(t.Can, c.name)
		}
	}
	return t
}

// The questions, in their order: three lengths of the output, and a long
// prompt, which is asked again before a new one.
const (
	ask1 = iota
	ask16
	ask64
	askLong
	askFresh
)

// lengths are those of a question, for a server that takes so many tokens; 0
// is unknown.
func lengths(question int64, most int) prompt.Lengths {
	short, long := 64, 192
	if most > 0 {
		short, long = min(short, most/4), min(long, most/2)
	}
	return [...]prompt.Lengths{ask1: {Input: short, Output: 1}, ask16: {Input: short, Output: 16}, ask64: {Input: short, Output: 64},
		askLong: {Input: long, Output: 2}, askFresh: {Input: long, Output: 2}}[min(question, askFresh)]
}

// ask puts the questions. Its error is the first that failed.
func (e *examiner) ask(ctx context.Context) error {
	most := e.client.Server().MaxModelLen
	w := profiles.Default().Workload
	w.InputTokens = profiles.Fixed(lengths(ask1, most).Input)
	source, err := prompt.New(ctx, prompt.Config{Workload: &w, Client: e.client, Tokenizer: e.count, Run: e.run})
	if err != nil {
		return err
	}
	e.form = source.Form()
	if err := e.size(ctx, source); err != nil {
		return err
	}
	e.items = source.Open(ctx, uint64(time.Now().UnixNano()), func(k int64) prompt.Lengths { return lengths(k, most) }, askFresh+1)
	defer e.items.Close()
	if err := e.lengths(ctx); err != nil {
		return err
	}
	return e.cache(ctx)
}

// size asks with a shorter prompt and a longer one where prompts get their
// length by the server's usage, so that the next ones have it.
func (e *examiner) size(ctx context.Context, source *prompt.Source) error {
	if e.form != prompt.ByUsage {
		return nil
	}
	short := lengths(ask1, e.client.Server().MaxModelLen).Input
	items := source.Open(ctx, uint64(time.Now().UnixNano()), func(k int64) prompt.Lengths {
		return prompt.Lengths{Input: []int{short / 4, short}[min(k, 1)], Output: 1}
	}, 2)
	defer items.Close()
	for k := range int64(2) {
		item, err := items.Take(ctx, k)
		if err != nil {
			return err
		}
		a, err := e.question(ctx, item)
		if err != nil {
			return err
		}
		source.Learn(item, a.out.Usage.Prompt)
	}
	return nil
}

// lengths asks for outputs of three lengths.
func (e *examiner) lengths(ctx context.Context) error {
	s := &lengthState{Forced: e.client.Can().ForceLength}
	obeyed, early := true, false
	for q := int64(ask1); q <= ask64; q++ {
		item, err := e.items.Take(ctx, q)
		if err != nil {
			return err
		}
		answer, err := e.question(ctx, item)
		if err != nil {
			return err
		}
		e.state.Lengths = s
		s.Asked = append(s.Asked, item.Output)
		var got *int
		if answer.tokensKnown {
			got = &answer.tokens
			obeyed = obeyed && (*got == item.Output || *got < item.Output && !s.Forced)
			early = early || *got < item.Output
		} else {
			early = true
		}
		s.Got = append(s.Got, got)
		e.tokenizer(item, answer)
		e.stream(answer)
	}
	if !obeyed || !early {
		s.Obeyed = &obeyed
	}
	return nil
}

// stream keeps how the latest answer came.
func (e *examiner) stream(a listened) {
	e.state.Remote, e.state.Stamps = a.out.Remote, a.out.Stamps
	s := &streamState{Events: a.output, TokenSource: a.source, EventsPerReadMax: a.mostPerRead,
		NotStreamed: a.out.NotStreamed, Usage: "none", TokenIDs: a.ids > 0, Reasoning: a.reasoning > 0, Finish: a.out.Finish,
		TTFTMS: ms(a.ttft, a.ttftKnown), ITLMeanMS: ms(a.itl, a.itlKnown), E2EMS: ms(a.e2e, a.e2eKnown), Reconnects: a.out.Reconnects, Warnings: append([]string{}, a.warnings...)}
	if a.judgeable {
		s.Buffered = &a.bursty
	}
	if a.bursty {
		s.ITLMeanMS = record.Value{}
	}
	if a.tokensKnown {
		s.Tokens = record.Known(float64(a.tokens))
		if a.output > 0 {
			s.TokensPerEvent = record.Known(float64(a.tokens) / float64(a.output))
		}
	}
	switch {
	case a.running > 0:
		s.Usage = "running"
	case a.out.Usage.Completion >= 0:
		s.Usage = "final"
	}
	e.state.Stream = s
}

// tokenizer holds counts of one prompt and answer together.
func (e *examiner) tokenizer(item *prompt.Item, a listened) {
	s := &tokenizerState{By: string(e.form), Made: item.Input}
	e.state.Tokenizer = s
	if n := a.out.Usage.Prompt; n >= 0 && item.Input > 0 {
		s.Server = record.Known(float64(n))
		if agrees := n == item.Input; item.Exact {
			s.Agrees = &agrees
		}
	}
	if e.count != nil && len(a.text) > 0 {
		s.OutputOwn = record.Known(float64(e.count.Count(string(a.text), false)))
		if a.out.Usage.Completion >= 0 {
			s.OutputServer = record.Known(float64(a.out.Usage.Completion))
		}
	}
}

// A repeated prompt was not computed again when its TTFT is below this share
// of a new one's, the first time's and a later one's, and by so much at least.
const (
	cachedShare = 0.4
	cachedLeast = 3 * time.Millisecond
)

// cache asks a long prompt twice, and a new one as long.
func (e *examiner) cache(ctx context.Context) error {
	long, err := e.items.Take(ctx, askLong)
	if err != nil {
		return err
	}
	fresh, err := e.items.Take(ctx, askFresh)
	if err != nil {
		return err
	}
	first, err := e.question(ctx, long)
	if err != nil {
		return err
	}
	again, told, err := e.again(ctx, long)
	if err != nil {
		return err
	}
	other, err := e.question(ctx, fresh)
	if err != nil {
		return err
	}
	s := &cacheState{PromptTokens: long.Input}
	e.state.Cache = s
	s.RepeatTTFTMS, s.FreshTTFTMS = ms(again.ttft, again.ttftKnown), ms(other.ttft, other.ttftKnown)
	decide := func(on bool, by string) { s.On, s.By = &on, by }
	timed := first.ttftKnown && again.ttftKnown && other.ttftKnown
	computed := min(first.ttft, other.ttft)
	cached := again.out.Usage.Cached
	if cached >= 0 {
		s.CachedTokens = record.Known(float64(cached))
	}
	switch {
	case cached > 0:
		decide(true, "its usage")
	case told.PrefixHitRatio > 0:
		decide(true, "its metrics")
	case told.PrefixLookups == 0:
		decide(false, "its metrics, which count no lookup")
	case told.BlockSize >= long.Input:
		s.By = fmt.Sprintf("the prompt fills no block of %d tokens", told.BlockSize)
	case !math.IsNaN(told.PrefixHitRatio):
		decide(false, "its metrics")
	case cached == 0 && e.client.Can().PrefixCaching && len(e.watch.sources) == 0:
		s.By = "usage counts none, and services cache long prompts only"
	case cached == 0:
		decide(false, "its usage")
	case timed && float64(again.ttft) < cachedShare*float64(computed) && computed-again.ttft > cachedLeast:
		decide(true, "the TTFT")
	default:
		s.By = "nothing tells: no cached tokens in usage or metrics, no shorter TTFT"
	}
	return nil
}

// again asks a prompt once more, and returns what the server's metrics told
// meanwhile.
func (e *examiner) again(ctx context.Context, item *prompt.Item) (listened, telemetry.Figures, error) {
	start := clock.Now()
	watch := telemetry.Start(ctx, e.watch.sources, time.Hour)
	a, err := e.question(ctx, item)
	return a, watch.Stop(start, clock.Now()), err
}

// question asks one thing.
func (e *examiner) question(ctx context.Context, item *prompt.Item) (listened, error) {
	l := newListener(e.run, item.Output, item.Input)
	defer l.Release()
	l.Intended = clock.Now()
	greedy := 0.0
	l.Finish(e.client.Stream(ctx, &backends.Request{ID: "doctor-" + e.run, Prompt: item.Prompt, MaxTokens: item.Output, ForceLength: true,
		Sampling: backends.Sampling{Temperature: &greedy}, CacheSalt: item.CacheSalt}, l))
	if !l.Good() && l.Class() != backends.NoOutput && l.Class() != backends.TooLong {
		return listened{}, fmt.Errorf("%s: %s", l.Class(), l.Outcome.Err)
	}
	return l.listened(), nil
}

// examineMetrics reads a source of telemetry once.
func examineMetrics(ctx context.Context, source telemetry.Source) metricsState {
	m := metricsState{Source: source.Name, Kinds: []string{}, Tells: []string{}}
	look, err := source.Look(ctx)
	if err != nil {
		m.Error = err.Error()
		return m
	}
	m.Kinds, m.Tells, m.KVTokens = append(m.Kinds, look.Kinds...), append(m.Tells, look.Tells...), told(look.KVTokens)
	return m
}

// ms is a time in milliseconds, where it is known.
func ms(d time.Duration, known bool) record.Value {
	if !known {
		return record.Value{}
	}
	return record.Known(d.Seconds() * 1e3)
}

// redacted is a URL without user, password, query and fragment.
func redacted(at string) string {
	full := at
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil {
		return "a target that is no URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
