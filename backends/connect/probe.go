package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/anthropic"
	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/openai"
)

// probeTime bounds each question put to the server.
const probeTime = 15 * time.Second

// prober asks a server what it is.
type prober struct {
	fetch  wire.Fetcher
	cfg    wire.Config
	routes openai.Routes
	key    string
	header []transport.Field // of the questions, key included
}

// finding is what the questions showed.
type finding struct {
	protocol string // one beside OpenAI's, "" for OpenAI's or a native route
	dialect  openai.Dialect
	server   backends.Server
	aliases  []string // names of models beside their ids
	noModels string   // why no model is listed
	owner    string   // owned_by of the first model
	// anthropicList says that the models are listed as Anthropic lists them,
	// anthropicKey that a key was refused in its words.
	anthropicList, anthropicKey bool
}

// find asks for the models, and, unless the dialect is given, for what tells
// servers apart.
func (p *prober) find(ctx context.Context, dialect string, a address) (finding, error) {
	f := finding{server: backends.Server{Settings: map[string]string{}}}
	if dialect == "auto" {
		dialect = ""
	}
	why := "named by the user"
	if dialect == "" && a.named != "" {
		dialect = a.named
		why = "the target names the route " + a.route
	}
	if dialect == "" {
		dialect, why = hostDialect(a.url.Hostname())
	}
	given, known := openai.Find(dialect)
	if dialect == protocolAnthropic || a.named == protocolAnthropic {
		f.protocol = protocolAnthropic
	}
	if dialect == protocolTriton {
		f.protocol, f.server.Why = protocolTriton, why
		p.withHeader(openai.Header(given, p.key))
		return f, nil
	}
	p.withHeader(p.keyHeader(f.protocol, given, a))
	models, err := p.models(ctx, &f)
	if dialect == "" && f.anthropicKey {
		f.protocol, why = protocolAnthropic, "it refuses a key in Anthropic's words"
		p.withHeader(p.keyHeader(f.protocol, given, a))
		models, err = p.models(ctx, &f)
	}
	if err != nil {
		return f, err
	}
	if f.protocol == "" && dialect == "" && f.anthropicList {
		f.protocol, why = protocolAnthropic, "its models are listed as Anthropic lists them"
	}
	switch {
	case known:
		f.dialect, f.server.Why = given, why
		f.server.Engine = given.Engine
	case !isAnthropicHost(a.url.Hostname()): // which is what it is
		p.detect(ctx, &f, models)
	}
	if dialect == protocolAnthropic || a.named == protocolAnthropic {
		f.protocol = protocolAnthropic // whatever else the server speaks
	}
	if f.protocol == protocolTriton {
		return f, nil
	}
	f.server.Dialect = f.dialect.Name
	if f.protocol == protocolAnthropic {
		p.foundAnthropic(&f, why, a)
	}
	p.describe(ctx, &f)
	f.server.Metrics = p.metrics(ctx, f.dialect.Metrics)
	return f, nil
}

// foundAnthropic says that the messages route is spoken, to Anthropic's own
// server or to one that offers it too.
func (p *prober) foundAnthropic(f *finding, why string, a address) {
	f.server.Dialect = protocolAnthropic
	switch {
	case f.server.Engine != "":
		why += fmt.Sprintf("; the server is %s: %s", f.server.Engine, f.server.Why)
	case f.anthropicList || isAnthropicHost(a.url.Hostname()):
		f.server.Engine = protocolAnthropic
	}
	f.server.Why = why
}

// keyHeader is how the questions carry the key.
func (p *prober) keyHeader(protocol string, d openai.Dialect, a address) []transport.Field {
	if protocol != protocolAnthropic {
		return openai.Header(d, p.key)
	}
	header := anthropic.Header(p.key)
	if !isAnthropicHost(a.url.Hostname()) {
		header = append(header, openai.Header(d, p.key)...)
	}
	return header
}

// withHeader sets the header of the questions.
func (p *prober) withHeader(header []transport.Field) {
	p.header = append(header, p.cfg.Header...)
	p.fetch = p.fetcher()
}

// fetcher asks with the header of the questions.
func (p *prober) fetcher() wire.Fetcher {
	cfg := p.cfg
	cfg.Header = p.header
	return wire.NewFetcher(cfg)
}

// get asks for a path of the server's root.
func (p *prober) get(ctx context.Context, path string) (wire.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return p.fetch.Get(ctx, p.routes.Root(path))
}

// object asks for a path and returns its JSON object, nil when there is none.
func (p *prober) object(ctx context.Context, path string) map[string]any {
	a, err := p.get(ctx, path)
	if err != nil || a.Status != 200 {
		return nil
	}
	var v map[string]any
	if json.Unmarshal(a.Body, &v) != nil {
		return nil
	}
	return v
}

// models asks for the list of models. A server without one is fine; one that
// can't be reached, wants a key, or is not ready is a TargetError.
func (p *prober) models(ctx context.Context, f *finding) (wire.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	path := p.routes.Models()
	a, err := p.fetch.Get(ctx, path)
	if err != nil {
		return a, &TargetError{err}
	}
	return a, p.readModels(path, a, f)
}

// readModels reads a list of models as OpenAI or Anthropic write it.
func (p *prober) readModels(path string, a wire.Answer, f *finding) error {
	switch {
	case a.Status == 401 || a.Status == 403 || field(a.Body, "error.type") == litellmNoKey:
		f.anthropicKey = field(a.Body, "error.type") == "authentication_error" && field(a.Body, "type") == "error"
		hint := "give the key with --api-key-env"
		if p.key != "" {
			hint = "is the key that --api-key-env names the right one?"
		}
		return &TargetError{fmt.Errorf("%w (%s)", p.fetch.Refused(path, a), hint)}
	case a.Status == 429 || a.Status >= 500 && a.Status != 501:
		return &TargetError{p.fetch.Refused(path, a)}
	case a.Status != 200:
		f.noModels = p.fetch.Refused(path, a).Error()
		return nil
	}
	var list struct {
		Data []struct {
			ID          string   `json:"id"`
			Type        string   `json:"type"`
			Aliases     []string `json:"aliases"`
			OwnedBy     string   `json:"owned_by"`
			MaxModelLen int      `json:"max_model_len"`
			Window      int      `json:"context_window"`
			Meta        struct {
				Context int `json:"n_ctx"`
			} `json:"meta"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &list); err != nil {
		f.noModels = fmt.Sprintf("its %s is no list of models: %v", withoutQuery(path), err)
		return nil
	}
	for _, m := range list.Data {
		f.server.Models = append(f.server.Models, m.ID)
		f.aliases = append(f.aliases, m.Aliases...)
	}
	if len(list.Data) > 0 {
		m := list.Data[0]
		f.owner = m.OwnedBy
		f.anthropicList = m.Type == "model"
		f.server.MaxModelLen = max(m.MaxModelLen, m.Window, m.Meta.Context)
	} else {
		f.noModels = "the list is empty"
	}
	f.server.Source = withoutQuery(path)
	return nil
}

// withoutQuery is a path as it is told: keys travel in queries.
func withoutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// owners maps the owned_by of a list of models to a dialect.
var owners = map[string]string{
	"vllm": "vllm", "headway": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "library": "ollama",
	"tensorrt_llm": "trtllm", "tensorrt-llm": "trtllm", "groq": "groq",
}

// hosts maps the end of a host name to a dialect.
var hosts = map[string]string{
	"api.openai.com": "openai", ".openai.azure.com": "azure", ".cognitiveservices.azure.com": "azure", "api.groq.com": "groq",
	anthropicHost: protocolAnthropic,
}

const anthropicHost = "api.anthropic.com"

func isAnthropicHost(host string) bool { return strings.HasSuffix(host, anthropicHost) }

// hostDialect is the dialect of a host that is known by its name, and why; ""
// for none.
func hostDialect(host string) (dialect, why string) {
	for end, dialect := range hosts {
		if strings.HasSuffix(host, end) {
			return dialect, "the host is " + host
		}
	}
	return "", ""
}

// detect finds the dialect, by the surest sign first, and says which it was.
func (p *prober) detect(ctx context.Context, f *finding, models wire.Answer) {
	use := func(dialect, why string, args ...any) {
		f.dialect, _ = openai.Find(dialect)
		f.server.Engine = f.dialect.Engine
		f.server.Why = fmt.Sprintf(why, args...)
	}
	if v := models.Header.Get("X-Litellm-Version"); v != "" {
		use("generic", "the header x-litellm-version is that of the LiteLLM gateway")
		f.server.Engine, f.server.Version = "litellm", v
		return
	}
	if dialect, ok := owners[strings.ToLower(f.owner)]; ok {
		use(dialect, "the models are owned by %q", f.owner)
		if f.owner == "headway" {
			f.server.Engine = "headway"
		}
		return
	}
	if s := models.Header.Get("Server"); strings.HasPrefix(s, "llama.cpp") {
		use("llamacpp", "the server header is %q", s)
		return
	}
	for _, name := range openai.Names() {
		d, _ := openai.Find(name)
		if d.MetricPrefix == "" {
			continue
		}
		if a, err := p.get(ctx, d.Metrics); err == nil && a.Status == 200 && hasMetric(a.Body, d.MetricPrefix) {
			use(name, "its page %s has metrics named %s...", d.Metrics, d.MetricPrefix)
			return
		}
	}
	if a, err := p.get(ctx, litellmHealth); err == nil && a.Status == 200 && bytes.Contains(a.Body, []byte("I'm alive")) {
		use("generic", "it answers %s as the LiteLLM gateway does", litellmHealth)
		f.server.Engine = "litellm"
		p.litellmVersion(ctx, f)
		return
	}
	if about := p.object(ctx, "/v2"); about["name"] == "triton" {
		f.protocol = protocolTriton
		f.server.Why = "its /v2 names it triton"
		return
	}
	if p.object(ctx, "/api/version")["version"] != nil {
		use("ollama", "it answers /api/version")
		return
	}
	if info := p.object(ctx, "/info"); info["router"] != nil || info["max_total_tokens"] != nil {
		use("tgi", "its /info is that of text-generation-inference")
		return
	}
	use("generic", "nothing it says names a known engine")
}

// litellmHealth is LiteLLM's own route; its other routes are those of any
// server, and only its answers to requests name it in a header.
const litellmHealth = "/health/liveliness"

// litellmVersion asks LiteLLM for its version: newer ones tell it only to those
// who have the key.
func (p *prober) litellmVersion(ctx context.Context, f *finding) {
	for _, path := range []string{"/health/readiness/details", "/health/readiness"} {
		if v := plain(p.object(ctx, path)["litellm_version"]); v != "" {
			f.server.Version, f.server.Source = v, join(f.server.Source, path)
			return
		}
	}
}

// litellmNoKey is how LiteLLM without a database calls any key but its own; the
// status is 400.
const litellmNoKey = "no_db_connection"

// hasMetric says whether a metrics page has a name with the prefix.
func hasMetric(page []byte, prefix string) bool {
	return bytes.HasPrefix(page, []byte(prefix)) || bytes.Contains(page, []byte("\n"+prefix)) ||
		bytes.Contains(page, []byte("# HELP "+prefix)) || bytes.Contains(page, []byte("# TYPE "+prefix))
}

// describe asks for the version and for what else the engine tells.
func (p *prober) describe(ctx context.Context, f *finding) {
	s := &f.server
	tell := func(path string, info map[string]any, keys ...string) {
		if info == nil {
			return
		}
		s.Source = join(s.Source, withoutQuery(path))
		for _, k := range keys {
			if v := plain(info[k]); v != "" {
				s.Settings[k] = v
			}
		}
	}
	var info map[string]any
	path := f.dialect.Version
	if f.dialect.Name == "llamacpp" {
		path = "/props"
	}
	if path == "" || s.Version != "" {
		return
	}
	info = p.object(ctx, path)
	switch f.dialect.Name {
	case "llamacpp":
		tell(path, info, "total_slots", "model_path", "n_ctx")
		s.Version = plain(info["build_info"])
	case "tgi":
		if id := plain(info["model_id"]); id != "" && len(s.Models) == 0 {
			s.Models = []string{id}
		}
		tell(path, info, "model_dtype", "max_concurrent_requests", "max_input_tokens", "max_total_tokens", "max_batch_total_tokens")
		if n, err := strconv.Atoi(plain(info["max_total_tokens"])); err == nil && s.MaxModelLen == 0 {
			s.MaxModelLen = n
		}
	case "sglang":
		tell(path, info, "tp_size", "dp_size", "dtype", "kv_cache_dtype", "mem_fraction_static", "max_running_requests", "schedule_policy", "quantization")
	default:
		tell(path, info, "engine", "executor", "device", "simulated")
	}
	if v := plain(info["version"]); v != "" {
		s.Version = v
	}
}

// metrics is the URL of the Prometheus page at a path from the server's root,
// "" when there is none.
func (p *prober) metrics(ctx context.Context, path string) string {
	if path == "" {
		return ""
	}
	a, err := p.get(ctx, path)
	if err != nil || a.Status != 200 || !bytes.Contains(a.Body, []byte("# TYPE ")) {
		return ""
	}
	return p.cfg.Transport.URL(p.routes.Root(path))
}

// plain is a JSON scalar as text, "" for anything else.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// IsTarget says whether err is about the server rather than about the options.
func IsTarget(err error) bool {
	var t *TargetError
	return errors.As(err, &t)
}
