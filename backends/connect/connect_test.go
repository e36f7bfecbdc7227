package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// site is a server as its answers on paths; others are 404.
type site map[string]string

func (s site) serve(t *testing.T, header ...string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		body, ok := s[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"detail":"Not Found"}`)
			return
		}
		io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

const page = "# HELP %[1]s x\n# TYPE %[1]s gauge\n%[1]s 1\n"

func metrics(name string) string { return fmt.Sprintf(page, name) }

func models(owner, rest string) string {
	return `{"object":"list","data":[{"id":"m","object":"model","owned_by":"` + owner + `"` + rest + `}]}`
}

// TestAuto finds each server by what it says.
func TestAuto(t *testing.T) {
	cases := []struct {
		name   string
		site   site
		header []string
		want   backends.Server // Why is looked for as a part
	}{
		{"vLLM", site{
			"/v1/models": models("vllm", `,"root":"./m","max_model_len":512`),
			"/version":   `{"version":"0.32.0"}`, "/metrics": metrics("vllm:num_requests_running"),
		}, nil, backends.Server{Engine: "vllm", Version: "0.32.0", MaxModelLen: 512, Source: "/v1/models, /version",
			Dialect: "vllm", Why: `owned by "vllm"`, Metrics: "/metrics"}},
		{"the bundled server", site{
			"/v1/models": models("headway", `,"max_model_len":256`),
			"/version":   `{"version":"1.0.0"}`, "/metrics": metrics("vllm:num_requests_running"),
		}, nil, backends.Server{Engine: "headway", Version: "1.0.0", MaxModelLen: 256, Source: "/v1/models, /version",
			Dialect: "vllm", Why: `owned by "headway"`, Metrics: "/metrics"}},
		{"llama.cpp", site{
			"/v1/models": models("llamacpp", `,"aliases":["alias"],"meta":{"n_ctx":1024,"n_ctx_train":8192}`),
			"/props":     `{"total_slots":4,"build_info":"b1-abc"}`, "/metrics": metrics("llamacpp:requests_processing"),
		}, []string{"Server: llama.cpp"}, backends.Server{Engine: "llama.cpp", Version: "b1-abc", MaxModelLen: 1024, Source: "/v1/models, /props",
			Settings: map[string]string{"total_slots": "4"}, Dialect: "llamacpp", Why: "owned by", Metrics: "/metrics"}},
		{"TensorRT-LLM by its metrics", site{
			"/v1/models": models("", ""), "/version": `{"version":"1.2"}`, "/metrics": `[]`,
			"/prometheus/metrics": metrics("trtllm_num_requests_running"),
		}, nil, backends.Server{Engine: "tensorrt-llm", Version: "1.2", Source: "/v1/models, /version", Dialect: "trtllm",
			Why: "trtllm_", Metrics: "/prometheus/metrics"}},
		{"SGLang", site{
			"/v1/models": models("sglang", ""), "/get_server_info": `{"version":"0.5","tp_size":2,"dtype":"auto"}`, "/metrics": metrics("sglang:num_running_reqs"),
		}, nil, backends.Server{Engine: "sglang", Version: "0.5", Source: "/v1/models, /get_server_info",
			Settings: map[string]string{"tp_size": "2", "dtype": "auto"}, Dialect: "sglang", Why: "owned by", Metrics: "/metrics"}},
		{"TGI", site{
			"/v1/models": models("", ""), "/info": `{"version":"3.3","router":"text-generation-router","max_total_tokens":4096,"model_dtype":"float16"}`,
		}, nil, backends.Server{Engine: "tgi", Version: "3.3", MaxModelLen: 4096, Source: "/v1/models, /info",
			Settings: map[string]string{"max_total_tokens": "4096", "model_dtype": "float16"}, Dialect: "tgi", Why: "/info"}},
		{"Ollama", site{
			"/v1/models": models("library", ""), "/api/version": `{"version":"0.9"}`,
		}, nil, backends.Server{Engine: "ollama", Version: "0.9", Source: "/v1/models, /api/version", Dialect: "ollama", Why: "owned by"}},
		{"LiteLLM", site{"/v1/models": models("openai", "")}, []string{"X-Litellm-Version: 1.2.3"},
			backends.Server{Engine: "litellm", Version: "1.2.3", Source: "/v1/models", Dialect: "generic", Why: "LiteLLM"}},
		{"LiteLLM by its health", site{"/v1/models": models("openai", ""), "/health/liveliness": `"I'm alive!"`}, nil,
			backends.Server{Engine: "litellm", Source: "/v1/models", Dialect: "generic", Why: "/health/liveliness"}},
		{"LiteLLM with its version", site{"/v1/models": models("openai", ""), "/health/liveliness": `"I'm alive!"`, "/health/readiness": `{"litellm_version":"1.2"}`}, nil,
			backends.Server{Engine: "litellm", Version: "1.2", Source: "/v1/models, /health/readiness", Dialect: "generic", Why: "/health/liveliness"}},
		{"LiteLLM with its version for those with a key", site{"/v1/models": models("openai", ""), "/health/liveliness": `"I'm alive!"`,
			"/health/readiness": `{"status":"healthy"}`, "/health/readiness/details": `{"litellm_version":"1.3"}`}, nil,
			backends.Server{Engine: "litellm", Version: "1.3", Source: "/v1/models, /health/readiness/details", Dialect: "generic", Why: "/health/liveliness"}},
		{"unknown", site{"/v1/models": models("someone", "")}, nil,
			backends.Server{Source: "/v1/models", Dialect: "generic", Why: "nothing it says"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			url := c.site.serve(t, c.header...)
			client, err := Open(t.Context(), Options{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			got := client.Server()
			c.want.ModelID, c.want.Models = "m", []string{"m"}
			if c.want.Metrics != "" {
				c.want.Metrics = url + c.want.Metrics
			}
			if c.want.Settings == nil {
				c.want.Settings = map[string]string{}
			}
			if !strings.Contains(got.Why, c.want.Why) {
				t.Errorf("chosen because %q, want %q", got.Why, c.want.Why)
			}
			got.Why = c.want.Why
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestTargets is Rapid-MLX#1669 and text-generation-inference#1823: however a
// user writes the target, the route is the same.
func TestTargets(t *testing.T) {
	answer := wiretest.Stream("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n", "data: [DONE]\n\n")
	for _, prefix := range []string{"", "/openai", "/team/a"} {
		for _, suffix := range []string{"", "/", "//", "/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/"} {
			asked := make(chan string, 8)
			s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
				reply := answer
				if c.Request.Method == http.MethodGet {
					reply = wiretest.Plain(404, "text/plain", "")
					if strings.HasSuffix(c.Request.URL.Path, "/models") {
						reply = wiretest.Plain(200, "application/json", models("vllm", ""))
					}
				} else {
					asked <- c.Request.RequestURI
				}
				_, err := io.WriteString(c, reply)
				return err == nil
			})
			client, err := Open(t.Context(), Options{URL: s.URL + prefix + suffix})
			if err != nil {
				t.Errorf("%s%s: %v", prefix, suffix, err)
				continue
			}
			out := client.Stream(t.Context(), &backends.Request{MaxTokens: 4, Prompt: backends.Prompt{Text: "x"}}, &wiretest.Sink{})
			client.Close()
			if got, want := <-asked, prefix+"/v1/chat/completions"; out.Class != backends.OK || got != want || len(asked) != 0 {
				t.Errorf("%s%s: asked for %s (%v), want %s", prefix, suffix, got, out.Class, want)
			}
		}
	}
}

// TestMistakes are errors of the options: each names what is wrong and what
// there is.
func TestMistakes(t *testing.T) {
	two := site{"/v1/models": `{"data":[{"id":"a"},{"id":"b"}]}`}.serve(t)
	none := site{}.serve(t)
	cases := []struct {
		name string
		o    Options
		want string
	}{
		{"vllm#42457 a model that is not listed", Options{URL: two, Model: "c"}, `does not serve model "c"; it lists: a, b`},
		{"several models", Options{URL: two}, "choose one with --model: a, b"},
		{"no list of models", Options{URL: none}, "is it an LLM server, and the path right? If so, name one with --model"},
		{"no list of models by a known engine", Options{URL: site{"/metrics": metrics("vllm:num_requests_running")}.serve(t)}, "): name one with --model"},
		{"no URL", Options{URL: ""}, "no host"},
		{"scheme", Options{URL: "ftp://h"}, `scheme "ftp"`},
		{"not a URL", Options{URL: "http://u:secretpw@h:port"}, "not a URL"},
		{"dialect", Options{URL: two, Dialect: "vlm"}, "vllm"},
		{"endpoint", Options{URL: two, Model: "a", Endpoint: "chats"}, `"chats"`},
		{"header", Options{URL: two, Headers: []string{"secretvalue"}}, "name: value"},
		{"header with a line end", Options{URL: two, Headers: []string{"a: secretvalue\r\nb: c"}}, "name: value"},
		{"a header of the client's own", Options{URL: two, Headers: []string{"Content-Length: 7"}}, "belongs to the client"},
		{"certificates", Options{URL: "https://127.0.0.1:1", CACert: "/nowhere/ca.pem"}, "/nowhere/ca.pem"},
		{"HTTP/2 without TLS", Options{URL: two, HTTP2: true}, "https"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), c.o)
			var usage *UsageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%T: %v, want %q", err, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("a secret in %v", err)
			}
		})
	}
}

// TestNoAnswer says once that the time ran out.
func TestNoAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	url := wiretest.Serve(t, func(c *wiretest.Conn) bool { <-ctx.Done(); return false }).URL
	_, err := Open(ctx, Options{URL: url})
	if !IsTarget(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%T: %v", err, err)
	}
	if want := url + "/v1/models: context deadline exceeded (no answer came in time)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// TestUnusable are errors of the target.
func TestUnusable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + l.Addr().String()
	l.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tested
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	status := func(code int, body string) string {
		return wiretest.Serve(t, wiretest.Write(wiretest.Plain(code, "application/json", body))).URL
	}
	cases := []struct {
		name string
		o    Options
		want []string
	}{
		{"refused", Options{URL: refused}, []string{refused, "connection refused", "is the server up"}},
		{"vllm#29042 own certificate", Options{URL: secure.URL}, []string{"x509", "--cacert", "--insecure"}},
		{"key wanted", Options{URL: status(401, `{"error":{"message":"bad key sk-secret-1"}}`), APIKey: "sk-secret-1"},
			[]string{"/v1/models", "HTTP 401", "bad key [removed]", "key that --api-key-env names the right one"}},
		{"LiteLLM: a wrong key is a 400", Options{URL: status(400, `{"error":{"message":"No database.","type":"no_db_connection","param":null,"code":"400"}}`), APIKey: "k"},
			[]string{"HTTP 400", "No database.", "key that --api-key-env names the right one"}},
		{"no key", Options{URL: status(401, `{"error":{"message":"no key"}}`)}, []string{"HTTP 401", "give the key with --api-key-env"}},
		{"https to a server without", Options{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, []string{"use http://"}},
		{"loading", Options{URL: status(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`)}, []string{"HTTP 503", "Loading model"}},
		{"vllm#17489 gateway time-out", Options{URL: status(504, "<html><h1>504 Gateway Time-out</h1></html>")}, []string{"HTTP 504", "Gateway Time-out"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), c.o)
			if !IsTarget(err) {
				t.Fatalf("%T: %v", err, err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "sk-secret-1") {
				t.Errorf("the key stands in %v", err)
			}
		})
	}
}

// TestHeaders are sent with every request, probes included; Host is the name
// that is asked for.
func TestHeaders(t *testing.T) {
	asked := make(chan *http.Request, 32)
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		asked <- c.Request
		_, err := io.WriteString(c, wiretest.Plain(200, "application/json", models("vllm", "")))
		return err == nil
	})
	client, err := Open(t.Context(), Options{URL: s.URL, APIKey: "k", Headers: []string{"X-Team: a: b", "host: gateway.test"}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.Stream(t.Context(), &backends.Request{MaxTokens: 1, Prompt: backends.Prompt{Text: "x"}}, &wiretest.Sink{})
	for len(asked) > 0 {
		r := <-asked
		if r.Host != "gateway.test" || r.Header.Get("X-Team") != "a: b" || r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("User-Agent") != "headway" {
			t.Errorf("%s %s of %s with %v", r.Method, r.URL, r.Host, r.Header)
		}
	}
}

// TestTokenize asks each dialect's tokenizer in its own way.
func TestTokenize(t *testing.T) {
	cases := []struct {
		dialect, endpoint string
		answers           map[string]string // path to answer
		want              string            // the last body
	}{
		{"vllm", "completions", map[string]string{"/tokenize": `{"count":2,"tokens":[1,2]}`}, `{"model":"m","prompt":"hi"}`},
		{"vllm", "chat", map[string]string{"/tokenize": `{"count":2,"tokens":[1,2]}`},
			`{"model":"m","messages":[{"role":"user","content":"hi"}],"add_generation_prompt":true}`},
		{"llamacpp", "completions", map[string]string{"/tokenize": `{"tokens":[1,2]}`}, `{"content":"hi","add_special":true,"parse_special":true}`},
		{"llamacpp", "chat", map[string]string{"/apply-template": `{"prompt":"<u>hi"}`, "/tokenize": `{"tokens":[1,2]}`},
			`{"content":"<u>hi","add_special":true,"parse_special":true}`},
		{"tgi", "completions", map[string]string{"/tokenize": `[{"id":1,"text":"h","start":0,"stop":1},{"id":2,"text":"i","start":1,"stop":2}]`}, `{"inputs":"hi"}`},
		{"trtllm", "completions", map[string]string{"/_internal/tokenize": `{"count":2,"tokens":[1,2]}`}, `{"prompt":"hi"}`},
	}
	for _, c := range cases {
		t.Run(c.dialect+" "+c.endpoint, func(t *testing.T) {
			bodies := make(chan string, 8)
			s := wiretest.Serve(t, func(conn *wiretest.Conn) bool {
				reply := wiretest.Plain(404, "text/plain", "")
				if conn.Request.URL.Path == "/v1/models" {
					reply = wiretest.Plain(200, "application/json", models("x", ""))
				} else if a, ok := c.answers[conn.Request.URL.Path]; ok {
					bodies <- string(conn.Body)
					reply = wiretest.Plain(200, "application/json", a)
				}
				_, err := io.WriteString(conn, reply)
				return err == nil
			})
			client, err := Open(t.Context(), Options{URL: s.URL, Dialect: c.dialect, Endpoint: c.endpoint})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ids, err := client.Tokenize(t.Context(), backends.Prompt{Text: "hi"})
			last := ""
			for len(bodies) > 0 {
				last = <-bodies
			}
			if err != nil || len(ids) != 2 || ids[0] != 1 || ids[1] != 2 || last != c.want {
				t.Errorf("%v, %v; asked with %s, want %s", ids, err, last, c.want)
			}
		})
	}
	url := site{"/v1/models": models("x", "")}.serve(t)
	for _, dialect := range []string{"auto", "vllm", "llamacpp", "tgi", "trtllm"} { // a gateway may hide the routes of the server behind it
		client, err := Open(t.Context(), Options{URL: url, Dialect: dialect})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Tokenize(t.Context(), backends.Prompt{Text: "hi"}); !errors.Is(err, backends.ErrNoTokenizer) {
			t.Errorf("%s without a route: %v", dialect, err)
		}
	}
}
