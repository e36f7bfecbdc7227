package connect

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// The answers of servers beside OpenAI's routes.
const (
	tritonAbout = `{"name":"triton","version":"2.51.0","extensions":["generate"]}`
	tritonIndex = `[{"name":"gen","version":"1","state":"READY"},{"name":"prep","version":"1","state":"READY"},{"name":"off","version":"1","state":"UNAVAILABLE"}]`
	tritonGen   = `{"name":"gen","platform":"ensemble","inputs":[{"name":"text_input","datatype":"BYTES"},{"name":"max_tokens","datatype":"INT32"}],"outputs":[{"name":"text_output","datatype":"BYTES"}]}`
	tritonPrep  = `{"name":"prep","platform":"python","inputs":[{"name":"QUERY","datatype":"BYTES"}],"outputs":[{"name":"IDS","datatype":"INT32"}]}`
)

var tritonSite = site{"/v2": tritonAbout, "/v2/health/ready": "", "/v2/repository/index": tritonIndex, "/v2/models/gen": tritonGen, "/v2/models/prep": tritonPrep}

// with is a site with further answers.
func (s site) with(more site) site {
	all := site{}
	for _, m := range []site{s, more} {
		for path, body := range m {
			all[path] = body
		}
	}
	return all
}

// request is what a server was asked for generation.
type request struct {
	path, body string
	header     http.Header
}

// generating serves a site whose POSTs to other paths are answered with a
// stream, and says what they asked.
func (s site) generating(t *testing.T, answer string) (url string, asked chan request) {
	asked = make(chan request, 8)
	srv := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		reply := wiretest.Plain(http.StatusNotFound, "application/json", `{"detail":"Not Found"}`)
		if body, ok := s[c.Request.URL.Path]; ok {
			reply = wiretest.Plain(http.StatusOK, "application/json", body)
		} else if c.Request.Method == http.MethodPost {
			asked <- request{c.Request.RequestURI, string(c.Body), c.Request.Header}
			reply = answer
		}
		_, err := io.WriteString(c, reply)
		return err == nil
	})
	return srv.URL, asked
}

// Streams of one word.
var (
	anthropicWord = wiretest.Stream("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\"}}\n\n", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	tritonWord    = wiretest.Stream("data: {\"text_output\":\"a\"}\n\n")
	tgiWord       = wiretest.Stream("data:{\"token\":{\"id\":1,\"text\":\"a\"},\"generated_text\":\"a\"}\n\n")
	ollamaWord    = wiretest.Stream("{\"response\":\"a\",\"message\":{},\"done\":true}\n")
	ollamaChat    = wiretest.Stream("{\"message\":{\"content\":\"a\"},\"done\":true}\n")
	llamaWord     = wiretest.Stream("data: {\"content\":\"a\",\"stop\":true}\n\n")
)

// TestProtocols opens targets of every protocol, by name, by the route in the
// URL and by what the server says, and looks at who was asked for what.
func TestProtocols(t *testing.T) {
	anthropicModels := `{"data":[{"type":"model","id":"m","display_name":"M"}],"has_more":false,"first_id":"m","last_id":"m"}`
	vllm := site{"/v1/models": models("vllm", ""), "/version": `{"version":"0.32.0"}`}
	llama := site{"/v1/models": models("llamacpp", "")}
	tgiSite := site{"/info": `{"router":"r","version":"3.3","model_id":"m"}`}
	library := site{"/v1/models": models("library", "")}
	cases := []struct {
		name    string
		site    site
		o       Options // URL is the suffix
		answer  string
		path    string // asked for
		dialect string
		engine  string
		why     string // part of it
	}{
		{"Triton by itself", tritonSite, Options{}, tritonWord, "/v2/models/gen/generate_stream", "triton", "triton", "/v2 names it"},
		{"Triton by name, behind a prefix", site{"/t/v2": tritonAbout, "/t/v2/health/ready": "", "/t/v2/repository/index": "[]", "/t/v2/models/gen": tritonGen}, Options{URL: "/t", Dialect: "triton", Model: "gen"}, tritonWord,
			"/t/v2/models/gen/generate_stream", "triton", "triton", "named by the user"},
		{"Triton by name and its root", tritonSite, Options{URL: "/v2/", Dialect: "triton"}, tritonWord, "/v2/models/gen/generate_stream", "triton", "triton", "named by the user"},
		{"Triton by its route", tritonSite.with(site{"/v2/models/gen/versions/2": tritonGen}), Options{URL: "/v2/models/gen/versions/2/generate_stream"}, tritonWord,
			"/v2/models/gen/versions/2/generate_stream", "triton", "triton", "names the route /v2/models/gen/versions/2/generate_stream"},
		{"Anthropic by its list of models", site{"/v1/models": anthropicModels}, Options{}, anthropicWord, "/v1/messages", "anthropic", "anthropic", "as Anthropic lists them"},
		{"Anthropic by its route, on vLLM", vllm, Options{URL: "/v1/messages?beta=true"}, anthropicWord, "/v1/messages?beta=true", "anthropic", "vllm", `the route /v1/messages; the server is vllm: the models are owned by "vllm"`},
		{"Anthropic by name, on llama.cpp", llama, Options{Dialect: "anthropic"}, anthropicWord, "/v1/messages", "anthropic", "llama.cpp", "named by the user; the server is llama.cpp"},
		{"Anthropic by name, no list", site{}, Options{URL: "/api", Dialect: "anthropic", Model: "m"}, anthropicWord, "/api/v1/messages", "anthropic", "", "named by the user"},
		{"Anthropic by name, at LiteLLM, whose list is then Anthropic's", site{"/v1/models": anthropicModels, "/health/liveliness": `"I'm alive!"`}, Options{Dialect: "anthropic"}, anthropicWord,
			"/v1/messages", "anthropic", "litellm", "the server is litellm"},
		{"a dialect by name and the messages route", vllm, Options{URL: "/v1/messages", Dialect: "vllm"}, anthropicWord, "/v1/messages", "anthropic", "vllm", "named by the user"},
		{"TGI's own route", tgiSite, Options{Endpoint: "native"}, tgiWord, "/generate_stream", "tgi", "tgi", "/info"},
		{"TGI by its route", tgiSite, Options{URL: "/generate_stream/"}, tgiWord, "/generate_stream", "tgi", "tgi", "names the route"},
		{"Ollama's generate", library, Options{Endpoint: "native"}, ollamaWord, "/api/generate", "ollama", "ollama", "owned by"},
		{"Ollama's chat by its route", library, Options{URL: "/api/chat"}, ollamaChat, "/api/chat", "ollama", "ollama", "names the route /api/chat"},
		{"llama.cpp's own route", llama, Options{Endpoint: "native"}, llamaWord, "/completion", "llamacpp", "llama.cpp", "owned by"},
		{"llama.cpp by its route", llama, Options{URL: "/completion"}, llamaWord, "/completion", "llamacpp", "llama.cpp", "names the route"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			url, asked := c.site.generating(t, c.answer)
			c.o.URL, c.o.APIKey = url+c.o.URL, "sk-1234"
			client, err := Open(t.Context(), c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			var sink wiretest.Sink
			out := client.Stream(t.Context(), &backends.Request{MaxTokens: 4, Prompt: backends.Prompt{Text: "x"}}, &sink)
			if out.Class != backends.OK || sink.Text() != "a" {
				t.Errorf("%v %s, %q", out.Class, out.Err, sink.Text())
			}
			got := <-asked
			if got.path != c.path {
				t.Errorf("asked for %s, want %s", got.path, c.path)
			}
			if h := got.header; h.Get("Authorization") != "Bearer sk-1234" && h.Get("X-Api-Key") != "sk-1234" {
				t.Errorf("no key in %v", h)
			}
			s := client.Server()
			if s.Dialect != c.dialect || s.Engine != c.engine || !strings.Contains(s.Why, c.why) {
				t.Errorf("%s on %s: %s; want %s on %s: %s", s.Dialect, s.Engine, s.Why, c.dialect, c.engine, c.why)
			}
		})
	}
}

// TestAnthropicKey: a server that refuses a key in Anthropic's words is asked
// again in its way, with the key where it looks for it.
func TestAnthropicKey(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		reply := wiretest.Plain(http.StatusUnauthorized, "application/json", `{"type":"error","error":{"type":"authentication_error","message":"x-api-key header is required"}}`)
		if c.Request.Header.Get("X-Api-Key") == "sk-1234" && c.Request.Header.Get("Anthropic-Version") != "" {
			reply = wiretest.Plain(http.StatusOK, "application/json", `{"data":[{"type":"model","id":"m"}],"has_more":false}`)
		}
		_, err := io.WriteString(c, reply)
		return err == nil
	})
	client, err := Open(t.Context(), Options{URL: s.URL, APIKey: "sk-1234"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if got := client.Server(); got.Dialect != "anthropic" || got.Engine != "anthropic" || got.ModelID != "m" {
		t.Errorf("%+v", got)
	}
	if _, err := Open(t.Context(), Options{URL: s.URL, APIKey: "sk-wrong"}); !IsTarget(err) || strings.Contains(err.Error(), "sk-wrong") {
		t.Errorf("%v", err)
	}
}

// TestOwnTokenizer: a server's tokenizer route serves its own protocols too.
func TestOwnTokenizer(t *testing.T) {
	for name, o := range map[string]Options{
		`{"content":"hi","add_special":true,"parse_special":true}`:    {Endpoint: "native"},
		`{"content":"<u>hi","add_special":true,"parse_special":true}`: {Dialect: "anthropic"},
	} {
		var bodies []string
		s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
			answers := site{"/v1/models": models("llamacpp", ""), "/apply-template": `{"prompt":"<u>hi"}`, "/tokenize": `{"tokens":[1,2]}`}
			if c.Request.URL.Path == "/tokenize" {
				bodies = append(bodies, string(c.Body))
			}
			reply := wiretest.Plain(http.StatusNotFound, "text/plain", "")
			if a, ok := answers[c.Request.URL.Path]; ok {
				reply = wiretest.Plain(http.StatusOK, "application/json", a)
			}
			_, err := io.WriteString(c, reply)
			return err == nil
		})
		o.URL = s.URL
		client, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := client.Tokenize(t.Context(), backends.Prompt{Text: "hi"})
		client.Close()
		if err != nil || !cmp.Equal(ids, []int32{1, 2}) || !client.Can().Tokenize || len(bodies) != 1 || bodies[0] != name {
			t.Errorf("%v, %v: %v, want %s", ids, err, bodies, name)
		}
	}
}

// backendFile writes a file into a folder of the test.
func backendFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "b.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const described = `apiVersion: headway-backend/v1
name: mine
request:
  path: /run/{{.Model}}
  prompt: text
  key: {header: X-Key}
  body: '{"p": {{.Prompt}}, "n": {{.MaxTokens}}}'
answer: {framing: ndjson, text: t, end: {path: done}}
`

const aboutItself = "server: {engine: e, version: /about, version_field: build.version, models: /list, metrics: /page}\n"

func TestBackendFile(t *testing.T) {
	word := wiretest.Stream("{\"t\":\"a\"}\n", "{\"done\":true}\n")
	all := site{"/x/list": models("o", ""), "/x/about": `{"build":{"version":"1.2"}}`, "/x/page": metrics("e_up")}
	url, asked := all.generating(t, word)
	o := Options{URL: url + "/x", BackendFile: backendFile(t, described+aboutItself), APIKey: "sk-1234"}
	client, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var sink wiretest.Sink
	out := client.Stream(t.Context(), &backends.Request{MaxTokens: 4, Prompt: backends.Prompt{Text: "x"}}, &sink)
	got := <-asked
	if out.Class != backends.OK || sink.Text() != "a" || got.path != "/x/run/m" || got.body != `{"p": "x", "n": 4}` || got.header.Get("X-Key") != "sk-1234" {
		t.Errorf("%v %s, %q; asked %+v", out.Class, out.Err, sink.Text(), got)
	}
	want := backends.Server{
		Engine: "e", Version: "1.2", ModelID: "m", Models: []string{"m"}, Settings: map[string]string{}, Source: "/x/list, /about",
		Dialect: "mine", Why: "described by " + o.BackendFile, Metrics: url + "/x/page",
	}
	if d := cmp.Diff(want, client.Server()); d != "" {
		t.Error(d)
	}
}

// TestProtocolMistakes are options that do not go together, and servers that
// lack what was asked for.
func TestProtocolMistakes(t *testing.T) {
	vllm := site{"/v1/models": models("vllm", "")}.serve(t)
	gen := tritonSite.serve(t)
	several := tritonSite.with(site{"/v2/models/prep": strings.ReplaceAll(tritonGen, `"gen"`, `"prep"`)}).serve(t)
	file := backendFile(t, described)
	for _, c := range []struct {
		name   string
		o      Options
		target bool // an error of the target
		want   string
	}{
		{"no native route", Options{URL: vllm, Endpoint: "native"}, false, "no endpoint native"},
		{"Anthropic completions", Options{URL: vllm, Dialect: "anthropic", Endpoint: "completions"}, false, "no endpoint completions"},
		{"Triton chat", Options{URL: gen, Dialect: "triton", Endpoint: "chat"}, false, "no endpoint chat"},
		{"Triton model that is not there", Options{URL: gen, Model: "x"}, false, `does not serve model "x"; it lists: gen, prep`},
		{"Triton model that makes no text", Options{URL: gen, Model: "prep"}, false, "no output of text"},
		{"several Triton models", Options{URL: several}, false, "choose one with --model: gen, prep"},
		{"not Triton", Options{URL: vllm, Dialect: "triton"}, true, "/v2: HTTP 404"},
		{"Triton that is not ready", Options{URL: site{"/v2": tritonAbout}.serve(t)}, true, "not ready"},
		{"a file and a dialect", Options{URL: vllm, BackendFile: file, Dialect: "vllm"}, false, "one of them"},
		{"a file and an endpoint", Options{URL: vllm, BackendFile: file, Endpoint: "chat"}, false, "--endpoint"},
		{"a file that is wrong", Options{URL: vllm, BackendFile: backendFile(t, strings.Replace(described, "framing", "framming", 1))}, false, ":8:10: framming: unknown key; did you mean answer.framing?"},
		{"a file that is not there", Options{URL: vllm, BackendFile: "/nowhere/b.yaml"}, false, "/nowhere/b.yaml"},
		{"a file that names the model", Options{URL: vllm, BackendFile: file}, false, "--model"},
		{"a file whose server is not there", Options{URL: "http://127.0.0.1:1", BackendFile: backendFile(t, described+aboutItself), Model: "m"}, true, "connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if usage := errors.As(err, new(*UsageError)); usage == c.target || IsTarget(err) != c.target {
				t.Errorf("%v is a %T", err, err)
			}
		})
	}
}

// TestTritonMetricsPort looks for metrics beside Triton's default port only.
func TestTritonMetricsPort(t *testing.T) {
	for target, want := range map[string]string{
		"http://h:8000":               "http://h:8002/metrics",
		"https://[::1]:8000/v2":       "http://[::1]:8002/metrics",
		"http://u:secret@h:8000/?k=v": "http://h:8002/metrics",
		"http://h:18000":              "",
		"http://h":                    "",
		"unix:///run/triton":          "",
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := tritonDefaultMetrics(u); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}
