package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-bench/headway/loadgen/record"
)

// patient is a server to be examined. It answers at once, so that every answer
// looks buffered: how tokens come is no matter of these tests.
type patient struct {
	owner  string // of its models
	models int    // how many it lists
	// delta is the field of a chunk that has the text.
	delta string
	// length is how many tokens it makes when asked for so many.
	length func(asked int) int
	// cached is how many tokens of a prompt that comes again its usage calls
	// cached, -1 to say nothing of that.
	cached int
	whole  bool // it answers in one piece
	prompt int  // tokens of the prompt by its usage; 0 counts them
	// perWord is how many tokens it counts of a word, template what it adds.
	perWord, template int
	// refuses answers the n-th request with a status and message, "" to none.
	refuses func(n int) string
	metrics string // ASKED in it is the number of requests so far

	mu    sync.Mutex // of what follows
	asked int
	seen  map[string]bool
}

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages  []struct{ Content string }
		Prompt    string
		MaxTokens int `json:"max_tokens"`
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &q)
	switch r.URL.Path {
	case "/v1/models":
		var list []string
		for i := range p.models {
			list = append(list, fmt.Sprintf(`{"id":"m%d","owned_by":%q,"max_model_len":4096}`, i, p.owner))
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(list, ","))
	case "/version":
		io.WriteString(w, `{"version":"1.2.3"}`)
	case "/tokenize":
		text := q.Prompt
		for _, m := range q.Messages {
			text += m.Content
		}
		ids, _ := json.Marshal(make([]int, len(strings.Fields(text))))
		fmt.Fprintf(w, `{"tokens":%s}`, ids)
	case "/metrics":
		if p.metrics == "" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, strings.ReplaceAll(p.metrics, "ASKED", strconv.Itoa(p.asked)))
	case "/v1/chat/completions":
		p.asked++
		if message := p.refuses(p.asked); message != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":%q}}`, message)
			return
		}
		p.answer(w, q.Messages[0].Content, q.MaxTokens)
	default:
		http.NotFound(w, r)
	}
}

func (p *patient) answer(w io.Writer, text string, asked int) {
	prompt, n := p.prompt, p.length(asked)
	if prompt == 0 {
		prompt = p.perWord*len(strings.Fields(text)) + p.template
	}
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d`, prompt, n)
	if p.cached >= 0 {
		hit := 0
		if p.seen[text] {
			hit = p.cached
		}
		usage += fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, hit)
	}
	p.seen[text] = true
	usage += "}"
	if p.whole {
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"a b c"},"finish_reason":"length"}],"usage":%s}`, usage)
		return
	}
	for range n {
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{%q:\"a \"}}]}\n\n", p.delta)
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: {\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", usage)
}

// newPatient is a vLLM that does all as it should, with a change.
func newPatient(change func(*patient)) *patient {
	p := &patient{owner: "vllm", models: 1, delta: "content", perWord: 1, cached: 128, seen: map[string]bool{},
		length: func(asked int) int { return asked }, refuses: func(int) string { return "" },
		metrics: "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"}
	change(p)
	return p
}

// examine is what doctor finds out about a server, and its advice.
func examine(t *testing.T, server http.Handler, flags doctorFlags) (*targetState, string, error) {
	t.Helper()
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	flags.target, flags.timeout = s.URL+flags.target, time.Minute
	options, err := flags.options()
	if err != nil {
		t.Fatal(err)
	}
	state, err := flags.examineTarget(t.Context(), options)
	if err != nil {
		return nil, "", err
	}
	return state, strings.Join(advise(&checkup{Target: state}), "\n"), nil
}

// TestDoctorTells holds what doctor says of servers to what they are.
func TestDoctorTells(t *testing.T) {
	is := func(b *bool) string {
		if b == nil {
			return "unknown"
		}
		return fmt.Sprint(*b)
	}
	for _, c := range []struct {
		name   string
		change func(*patient)
		holds  func(s *targetState) bool
		advice string // a part of it
	}{
		{"as it should be", func(*patient) {}, func(s *targetState) bool {
			return s.Engine == "vllm" && s.Version == "1.2.3" && s.Model == "m0" && s.MaxModelLen.Or(0) == 4096 && s.Failed == "" &&
				is(s.Lengths.Obeyed) == "true" && is(s.Tokenizer.Agrees) == "true" && s.Stream.Usage == "final" && s.Stream.TokensPerEvent.Or(0) == 1 &&
				len(s.Metrics) == 1 && s.Metrics[0].Tells[0] == "running" && !s.Stream.Reasoning && s.Stream.Tokens.Or(0) == 64
		}, ""},
		{"prefixes cached", func(*patient) {}, func(s *targetState) bool {
			return is(s.Cache.On) == "true" && s.Cache.CachedTokens.Or(0) == 128 && s.Cache.By == "its usage"
		}, "Prefixes are cached"},
		{"no prefix cache", func(p *patient) { p.cached = 0 }, func(s *targetState) bool { return is(s.Cache.On) == "false" }, ""},
		{"a service that may cache longer prompts", func(p *patient) { p.cached, p.metrics = 0, "" }, func(s *targetState) bool {
			return is(s.Cache.On) == "unknown" && strings.HasPrefix(s.Cache.By, "usage counts none")
		}, ""},
		{"blocks longer than the prompt", func(p *patient) {
			p.cached = -1
			p.metrics = "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"256\",num_gpu_blocks=\"9\"} 1\nvllm:prefix_cache_queries_total ASKED\nvllm:prefix_cache_hits_total 0\n"
		}, func(s *targetState) bool {
			return is(s.Cache.On) == "unknown" && strings.Contains(s.Cache.By, "no block of 256") && s.Metrics[0].KVTokens.Or(0) == 9*256
		}, ""},
		{"nothing tells of a cache", func(p *patient) { p.cached = -1 }, func(s *targetState) bool { return s.Cache.By != "its usage" }, ""},
		{"all in one burst", func(*patient) {}, func(s *targetState) bool { return is(s.Stream.Buffered) == "true" && !s.Stream.ITLMeanMS.OK() }, "proxy_buffering off"},
		{"one token is too short to tell", func(p *patient) { p.length = func(int) int { return 1 } }, func(s *targetState) bool {
			return is(s.Stream.Buffered) == "unknown" && is(s.Lengths.Obeyed) == "false"
		}, "Output lengths are not obeyed"},
		{"not streamed", func(p *patient) { p.whole = true }, func(s *targetState) bool { return s.Stream.NotStreamed }, "at once"},
		{"reasoning", func(p *patient) { p.delta = "reasoning" }, func(s *targetState) bool { return s.Stream.Reasoning && s.Stream.Events == 64 }, ""},
		{"prompts of another length", func(p *patient) { p.prompt = 99 }, func(s *targetState) bool {
			return is(s.Tokenizer.Agrees) == "false" && s.Tokenizer.Server.Or(0) == 99
		}, "Prompts have not the length asked for"},
		{"prompts sized by usage", func(p *patient) { p.owner, p.metrics, p.perWord, p.template = "someone", "", 5, 9 }, func(s *targetState) bool {
			n := s.Tokenizer.Server.Or(0)
			return is(s.Tokenizer.Agrees) == "unknown" && s.Tokenizer.Made == 64 && n > 60 && n < 68
		}, "Input lengths are estimated"},
		{"ends early and can't be forced", func(p *patient) { p.owner, p.metrics, p.length = "someone", "", func(n int) int { return min(n, 20) } }, func(s *targetState) bool {
			return s.Engine == "" && is(s.Lengths.Obeyed) == "unknown" && *s.Lengths.Got[2] == 20
		}, "can't be forced"},
		{"a request fails in the middle", func(p *patient) {
			p.refuses = func(n int) string { return map[int]string{3: "no more of that"}[n] }
		}, func(s *targetState) bool {
			return strings.Contains(s.Failed, "no more of that") && len(s.Lengths.Got) == 2 && s.Stream.Events == 16 && s.Cache == nil
		}, "A request failed"},
		{"every request fails", func(p *patient) { p.refuses = func(int) string { return "no chat template" } }, func(s *targetState) bool {
			return strings.Contains(s.Failed, "HTTP 400") && s.Stream == nil && s.Lengths == nil
		}, "no chat template"},
		{"no metrics", func(p *patient) { p.metrics = "" }, func(s *targetState) bool { return len(s.Metrics) == 0 }, "The server has no metrics page"},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, advice, err := examine(t, newPatient(c.change), doctorFlags{})
			if err != nil {
				t.Fatal(err)
			}
			page, _ := json.MarshalIndent(state, "", " ")
			if !c.holds(state) {
				t.Errorf("%s", page)
			}
			if !strings.Contains(advice, c.advice) {
				t.Errorf("no %q in: %s", c.advice, advice)
			}
		})
	}
}

// TestDoctorMetrics reads pages that --metrics names beside the server's own.
func TestDoctorMetrics(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			io.WriteString(w, "# TYPE up gauge\nup 1\n")
			return
		}
		io.WriteString(w, "DCGM_FI_DEV_POWER_USAGE{UUID=\"GPU-aaaa\"} 300\n")
	}))
	t.Cleanup(exporter.Close)
	state, advice, err := examine(t, newPatient(func(*patient) {}), doctorFlags{metrics: []string{exporter.URL + "/metrics", exporter.URL + "/other", "http://127.0.0.1:1/metrics"}})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range state.Metrics {
		said = append(said, m.line())
	}
	got := strings.Join(said, "\n") + "\n" + advice
	for _, want := range []string{"/metrics (vllm): running", "/metrics (dcgm): power", "/other (unknown): unknown", "connection refused", "is it the right page?", "Telemetry can't be read"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

// TestDoctorRefuses names what keeps a target from being examined.
func TestDoctorRefuses(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html><title>Welcome</title></html>")
	})
	locked := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"who are you?"}}`, http.StatusUnauthorized)
	})
	for _, c := range []struct {
		name   string
		server http.Handler
		flags  doctorFlags
		code   int
		want   []string
	}{
		{"nothing there", http.NotFoundHandler(), doctorFlags{}, exitUsage, []string{"/v1/models: HTTP 404", "is it an LLM server"}},
		{"a page for people", page, doctorFlags{}, exitUsage, []string{"no list of models", "is it an LLM server"}},
		{"a wrong path", newPatient(func(*patient) {}), doctorFlags{target: "/api"}, exitUsage, []string{"/api/v1/models: HTTP 404"}},
		{"a key is wanted", locked, doctorFlags{}, exitNoResult, []string{"who are you?", "--api-key-env"}},
		{"several models", newPatient(func(p *patient) { p.models = 2 }), doctorFlags{}, exitUsage, []string{"--model: m0, m1"}},
		{"another model", newPatient(func(*patient) {}), doctorFlags{model: "x"}, exitUsage, []string{`does not serve model "x"`}},
		{"no tokenizer", newPatient(func(*patient) {}), doctorFlags{tokenizer: "nowhere"}, exitUsage, []string{"--tokenizer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := examine(t, c.server, c.flags)
			if err == nil || exitCode(err) != c.code {
				t.Fatalf("%v: exit code %d, want %d", err, exitCode(err), c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
		})
	}
}

// TestDoctorPage holds the page to files: of a server that answered, of one
// whose requests failed, and of one that could not be reached.
func TestDoctorPage(t *testing.T) {
	yes, n16 := true, 16
	value := record.Known
	client := clientCheckup{CPUs: 8, MemoryBytes: value(16 << 30), OpenFiles: value(1024), OpenFilesHard: value(1 << 63), Scheduling: "real-time priority",
		Timer: timerCheckup{ClockStepNS: value(31), ClockReadNS: value(40.2), WakeUpP50MS: value(0.05), WakeUpP99MS: value(0.2), WakeUpMaxMS: value(2.5)},
		Capacity: clientCapacity{
			Events:   readCapacity{MaxPerS: value(612_345), CPUUS: value(13.1), BareCPUUS: value(12), CPURatio: value(1.09), ReadPerS: value(20_000), BarePerS: value(20_000)},
			Flooded:  readCapacity{MaxPerS: value(1_234_567), CPUUS: value(6.48), BareCPUUS: value(5.1), CPURatio: value(1.27), ReadPerS: value(400_000), BarePerS: value(500_000)},
			Requests: readCapacity{MaxPerS: value(98_765), CPUUS: value(81), BareCPUUS: value(120), CPURatio: value(0.675), ReadPerS: value(20_000), BarePerS: value(15_000)},
		}}
	target := func() *targetState {
		return &targetState{URL: "http://h:8000", Engine: "vllm", Version: "1.2.3", Model: "m", Models: []string{"m"}, MaxModelLen: value(4096),
			Settings: map[string]string{"dtype": "bf16"}, Dialect: "vllm", Why: `the models are owned by "vllm"`, Source: "/v1/models, /version", Route: "chat",
			Can: []string{"forced lengths"}}
	}
	answered := target()
	answered.Remote, answered.Stamps = "192.0.2.1:8000", "kernel"
	answered.Stream = &streamState{Events: 16, Tokens: value(16), TokenSource: "running_usage", TokensPerEvent: value(1), EventsPerReadMax: 1, Buffered: new(bool),
		Usage: "running", Finish: "length", TTFTMS: value(10.5), ITLMeanMS: value(5.25), E2EMS: value(89.2)}
	answered.Lengths = &lengthState{Forced: true, Asked: []int{16}, Got: []*int{&n16}, Obeyed: &yes}
	answered.Tokenizer = &tokenizerState{By: "text counted by the server", Made: 64, Server: value(64), Agrees: &yes}
	answered.Cache = &cacheState{On: &yes, By: "its usage", PromptTokens: 192, CachedTokens: value(176), RepeatTTFTMS: value(4), FreshTTFTMS: value(12)}
	answered.Metrics = []metricsState{{Source: "http://h:8000/metrics", Kinds: []string{"vllm"}, Tells: []string{"running", "waiting"}, KVTokens: value(8192)},
		{Source: "http://h:9400/metrics", Error: "http://h:9400/metrics: connection refused"}}
	failed := target()
	failed.Failed = "http_4xx: http://h:8000/v1/chat/completions: HTTP 400 Bad Request: no chat template"
	for name, state := range map[string]*targetState{
		"answered": answered, "failed": failed, "unreachable": {URL: "http://h:8000", Error: "http://h:8000/v1/models: connection refused"},
	} {
		c := checkup{Headway: build{Version: "1.0.0", Go: "go1.26", OS: "linux", Arch: "amd64"}, Client: client, Target: state}
		c.Advice = advise(&c)
		golden(t, "doctor/"+name, strings.TrimSuffix(string(c.text()), "\n"))
	}
}
