package custom

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/internal/wiretest"
	"github.com/headway-bench/headway/backends/ollama"
	"github.com/headway-bench/headway/backends/tgi"
)

// load reads a file of testdata.
func load(t testing.TB, name string) *Backend {
	t.Helper()
	b, err := Load("testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rewritten are built-in protocols and the files that say the same.
var rewritten = []struct {
	name    string
	builtIn func(c wire.ClientConfig) backends.Client
	sse     bool
	bodies  map[string]string
}{
	{"ollama", func(c wire.ClientConfig) backends.Client {
		return ollama.New(ollama.Config{Path: ollama.Generate, Model: "m"}, c)
	}, false, map[string]string{
		"text": `{"model":"m","response":"Hi","done":false}` + "\n" + `{"model":"m","response":" caf\u00e9","done":false}` + "\n" +
			`{"model":"m","response":"","done":true,"done_reason":"length","context":[1,2],"prompt_eval_count":9,"eval_count":2}` + "\n",
		"thinking": `{"response":"","thinking":"hm","done":false}` + "\n" + `{"response":"A","done":true,"done_reason":"stop","eval_count":2}` + "\n",
		"error":    `{"response":"Hi","done":false}` + "\n" + `{"error":"runner has gone"}` + "\n",
		"ended":    `{"response":"Hi","done":false}` + "\n",
		"no JSON":  `{"response":"Hi","done":false}` + "\noops\n",
		"usage 0":  `{"response":"Hi","done":false}` + "\n" + `{"done":true,"eval_count":0}` + "\n",
		"odd":      `{"response":7,"done":"true","eval_count":-1}` + "\n" + `{"response":"a","done":true}` + "\n",
	}},
	{"tgi", func(c wire.ClientConfig) backends.Client { return tgi.New(tgi.Route, c) }, true, map[string]string{
		"text": `data:{"index":1,"token":{"id":11,"text":"Hi","logprob":-0.2,"special":false},"generated_text":null,"details":null}` + "\n\n:\n\n" +
			`data:{"index":2,"token":{"id":2,"text":"</s>","logprob":-0.1,"special":true},"generated_text":"Hi","details":{"finish_reason":"eos_token","generated_tokens":2,"seed":null,"input_length":9}}` + "\n\n",
		"half a character": `data:{"token":{"id":11,"text":"","special":false}}` + "\n\n" + `data:{"token":{"id":12,"text":"中","special":false},"generated_text":"中"}` + "\n\n",
		"error":            `data:{"token":{"id":11,"text":"Hi","special":false}}` + "\n\n" + `data:{"error":"shard lost"}` + "\n\n",
		"ended":            `data:{"token":{"id":11,"text":"Hi","special":false}}` + "\n\n",
		"no JSON":          "data:oops\n\n",
		"nothing":          `data:{"generated_text":"","details":{"finish_reason":"length","generated_tokens":0,"input_length":9}}` + "\n\n",
	}},
}

// TestRewritten holds a backend file to the built-in protocol that it says
// again: the same timeline, class, usage and finish from the same bytes,
// however they come.
func TestRewritten(t *testing.T) {
	for _, r := range rewritten {
		file := load(t, r.name)
		custom := func(c wire.ClientConfig) backends.Client { return file.New("", "", "m", c) }
		for name, body := range r.bodies {
			t.Run(r.name+" "+name, func(t *testing.T) {
				seen := func(make func(wire.ClientConfig) backends.Client) (timeline string, out backends.Outcome) {
					open := func(url string) backends.Client { return make(wire.ClientConfig{Wire: wiretest.Wire(t, url)}) }
					ask := &backends.Request{MaxTokens: 16, Prompt: backends.Prompt{Text: "hello"}}
					wiretest.EveryForm(t, body, false, r.sse, open, ask, func(s *wiretest.Sink, o backends.Outcome) {
						timeline, out = s.Timeline(), o
					})
					return timeline, out
				}
				wantTimeline, want := seen(r.builtIn)
				gotTimeline, got := seen(custom)
				if gotTimeline != wantTimeline {
					t.Errorf("timeline\n%swant\n%s", gotTimeline, wantTimeline)
				}
				if got.Class != want.Class || got.Usage != want.Usage || got.Finish != want.Finish || !cmp.Equal(got.Warnings, want.Warnings) {
					t.Errorf("%v %+v %q %v\nwant %v %+v %q %v", got.Class, got.Usage, got.Finish, got.Warnings, want.Class, want.Usage, want.Finish, want.Warnings)
				}
			})
		}
	}
}

// TestRewrittenRequests holds the bodies to those of the built-in protocols.
func TestRewrittenRequests(t *testing.T) {
	seed, half, k := int64(7), 0.5, 3
	requests := []backends.Request{
		{MaxTokens: 4, Prompt: backends.Prompt{Text: "a \"b\"\n"}},
		{MaxTokens: 4, Prompt: backends.Prompt{Text: "a"}, Sampling: backends.Sampling{Seed: &seed, Stop: []string{"x", "y"}}},
	}
	full := backends.Request{MaxTokens: 4, Prompt: backends.Prompt{Text: "a"}, Sampling: backends.Sampling{Temperature: &half, TopP: &half, TopK: &k}}
	for _, r := range rewritten {
		file := load(t, r.name)
		cases := requests
		if r.name == "ollama" {
			cases = append(cases[:2:2], full)
		}
		for _, request := range cases {
			asked := make(chan [2]string, 1)
			s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
				asked <- [2]string{c.Request.URL.Path, string(c.Body)}
				return false
			})
			body := func(client backends.Client) (path string, v any) {
				client.Stream(t.Context(), &request, &wiretest.Sink{})
				client.Close()
				got := <-asked
				if err := json.Unmarshal([]byte(got[1]), &v); err != nil {
					t.Fatal(err)
				}
				return got[0], v
			}
			wantPath, want := body(r.builtIn(wire.ClientConfig{Wire: wiretest.Wire(t, s.URL)}))
			gotPath, got := body(file.New("", "", "m", wire.ClientConfig{Wire: wiretest.Wire(t, s.URL)}))
			if d := cmp.Diff(want, got); d != "" || gotPath != wantPath {
				t.Errorf("%s asks %s: %s", r.name, gotPath, d)
			}
		}
	}
}

// change is the Ollama file with a line replaced.
func change(t *testing.T, old, new string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/ollama.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("the file has no %q", old)
	}
	return strings.Replace(string(data), old, new, 1)
}

// TestMistakes are faults of a file: each has its place and the way out.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown key", "  framing: ndjson", "  framming: ndjson", "f.yaml:16:3: framming: unknown key; did you mean answer.framing?"},
		{"unknown key of another place", "name: my-ollama", "name: x\nprompt: text", "did you mean request.prompt"},
		{"a key twice", "  text: response", "  text: response\n  text: x", "f.yaml:18:3"},
		{"no YAML", "name: my-ollama", "name: [", "f.yaml:"},
		{"a wrong type", "  text: response", "  text: {a: b}", "f.yaml:17:9: needs a text, not a mapping"},
		{"version", "headway-backend/v1", "headway/v9", `f.yaml:2:13: apiVersion: "headway/v9" is not known; write one of headway-backend/v1`},
		{"framing", "framing: ndjson", "framing: json", "f.yaml:16:12: answer.framing"},
		{"prompt", "prompt: text", "prompt: chat", "f.yaml:6:11: request.prompt"},
		{"path of the route", "path: /api/generate", "path: api/generate", "does not begin with /"},
		{"field of the path", "path: /api/generate", "path: /api/{{.Seed}}", "{{.Model}} is all"},
		{"a field that there is not", "{{.MaxTokens}}", "{{.MaxToken}}", ".MaxTokens"},
		{"quotes around a field", `{{.Prompt}}`, `"{{.Prompt}}"`, "makes no JSON object"},
		{"a field that may be open", "{{- if .Seed}}, \"seed\": {{.Seed}}{{end}}", ", \"seed\": {{.Seed}}", "{{if .Seed}}"},
		{"no limit", "{{.MaxTokens}}", "100", "does not limit the output"},
		{"no prompt", "{{.Prompt}}", `"x"`, "does not hold the prompt"},
		{"a template", "{{.Prompt}}", "{{.Prompt", "request.body"},
		{"a path in an event", "text: response", "text: a..b", `f.yaml:17:9: answer.text: path "a..b"`},
		{"an element", "text: response", "text: a[x]", "[x] is no element"},
		{"no end", "  end: {path: done, equals: \"true\"}\n", "", "f.yaml:"},
		{"an end without a path", `{path: done, equals: "true"}`, `{equals: "true"}`, "has no path"},
		{"an event type in lines", `{path: done, equals: "true"}`, `{event: x}`, "lines have no event types"},
		{"a secret", "  prompt: text", "  prompt: text\n  headers: {Authorization: Bearer abc}", "--api-key-env"},
		{"a secret in another header", "  prompt: text", "  prompt: text\n  headers: {Ocp-Apim-Subscription-Key: Bearer abc}", "Subscription-Key may hold a secret"},
		{"a secret in the path", "path: /api/generate", "path: \"/api/generate?mode=x&key=Bearer+abc\"", "the parameter key may hold a secret"},
		{"a blank in the path", "path: /api/generate", "path: /api/gene rate", "a blank or a control character"},
		{"a loop in the body", "{{.Prompt}}", "{{.Prompt}}{{if .Seed}}{{range 1000000000000}}{{end}}{{end}}", "range and template are not part of it"},
		{"templates in templates", "{{.Prompt}}", "{{define \"a\"}}{{template \"a\"}}{{end}}{{.Prompt}}", "range and template are not part of it"},
		{"a long body", "{{.Prompt}}", "{{.Prompt}}" + strings.Repeat("{{printf \"%1000000d\" 1}}", 2), "more than 1048576 bytes"},
		{"a long file", "name: my-ollama", "name: " + strings.Repeat("x", maxFile), "larger than 16384 bytes"},
		{"repeated reasoning", "  reasoning: thinking", "  reasoning: thinking\n  cumulative: true", "cannot stand beside"},
		{"a field of the version", "  version: /api/version\n", "", "server.version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := change(t, c.old, c.new)
			if c.name == "no end" {
				text = strings.Replace(text, "  finish: done_reason\n", "", 1)
			}
			_, err := Parse([]byte(text), "f.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "Bearer abc") {
				t.Errorf("a secret in %v", err)
			}
		})
	}
	_, err := Parse([]byte("apiVersion: x\nname: n\nrequest: {method: GET, prompt: p, path: q}\nanswer: {framing: f}\n"), "f.yaml")
	var lines []string
	for l := range strings.SplitSeq(err.Error(), "\n") {
		place, _, _ := strings.Cut(l, ": ")
		lines = append(lines, place)
	}
	if want := []string{"f.yaml:1:13", "f.yaml:3:10", "f.yaml:3:19", "f.yaml:3:32", "f.yaml:3:41", "f.yaml:4:9", "f.yaml:4:9", "f.yaml:4:19"}; !cmp.Equal(lines, want) {
		t.Errorf("faults at %v", lines)
	}
	if _, err := Load("testdata/none.yaml"); err == nil {
		t.Error("a file that is not there")
	}
}

// spec is a file around the answer part.
func spec(prompt, field, answer string) string {
	return "apiVersion: headway-backend/v1\nname: x\nrequest:\n  path: /models/{{.Model}}/run\n  prompt: " + prompt +
		"\n  key: {header: X-Key}\n  headers: {X-Mode: bench}\n  body: '{\"p\": {{." + field + "}}, \"n\": {{.MaxTokens}}{{if .ForceLength}}, \"full\": true{{end}}}'\nanswer:\n" + answer
}

// TestAnswers are files and the events that they read.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, answer, body string
		want               wiretest.Want
	}{
		{"OpenAI's chunks", "  framing: sse\n  text: choices[*].delta.content\n  reasoning: choices[0].delta.reasoning\n  finish: choices[0].finish_reason\n  usage: {prompt: usage.prompt_tokens, completion: usage.completion_tokens}\n  end: {data: \"[DONE]\"}\n",
			"data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}},{\"delta\":{\"content\":\"b\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n",
			wiretest.Want{Text: "hmab", Outputs: 2, Tokens: 3, Prompt: 9, Finish: "stop"}},
		{"text that repeats itself, to the end of the body", "  framing: sse\n  text: out[0]\n  cumulative: true\n  end: {body: true}\n",
			"data: {\"out\":[\"a\"]}\n\ndata: {\"out\":[\"ab\",\"x\"]}\n\ndata: {\"out\":[\"ab\"]}\n\n", wiretest.Want{Text: "ab", Outputs: 2, Tokens: -1}},
		{"a running count and ids, an end by its event", "  framing: sse\n  text: '[\"the text\"]'\n  token_ids: ids\n  usage: {running: n, cached: c, reasoning: r}\n  end: {event: bye}\n",
			"data: {\"the text\":\"a\",\"ids\":[1,2],\"n\":2,\"c\":1}\n\nevent: bye\ndata: {\"n\":2}\n\n", wiretest.Want{Text: "a", Outputs: 1, IDs: 2, Tokens: 2}},
		{"one value for two things", "  framing: ndjson\n  text: t\n  finish: stop\n  end: {path: stop}\n",
			"{\"t\":\"a\",\"stop\":null}\n{\"t\":\"b\",\"stop\":\"full\"}\n", wiretest.Want{Text: "ab", Outputs: 2, Tokens: -1, Finish: "full"}},
		{"a value and a part of it", "  framing: ndjson\n  text: t\n  error: e\n  finish: e.code\n  tool: calls[0]\n  end: {path: e.end}\n",
			"{\"t\":\"a\",\"e\":null,\"calls\":[{\"f\":1}]}\n{\"e\":{\"code\":\"x\",\"message\":\"gone\"}}\n", wiretest.Want{Class: backends.StreamError, Text: `a{"f":1}`, Outputs: 1, Tokens: -1, Err: "gone", Finish: "x"}},
		{"each element and one of them", "  framing: ndjson\n  text: parts[*].t\n  finish: parts[1].end\n",
			"{\"parts\":[{\"t\":\"a\"},{\"t\":\"b\",\"end\":\"ok\"}]}\n", wiretest.Want{Text: "ab", Outputs: 1, Tokens: -1, Finish: "ok"}},
		{"an error event", "  framing: sse\n  text: t\n  end: {body: true}\n",
			"data: {\"t\":\"a\"}\n\nevent: error\ndata: gone\n\n", wiretest.Want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Err: "gone"}},
	} {
		b, err := Parse([]byte(spec("text", "Prompt", c.answer)), "f.yaml")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		open := func(url string) backends.Client {
			return b.New("", "", "m", wire.ClientConfig{Wire: wiretest.Wire(t, url)})
		}
		wiretest.Conform(t, []wiretest.Golden{{Name: c.name, Body: c.body, Want: c.want}}, b.Answer.Framing == "sse", open,
			&backends.Request{MaxTokens: 16, Prompt: backends.Prompt{Text: "x"}})
	}
}

// TestForms are the forms of prompts, and what a file can.
func TestForms(t *testing.T) {
	ids, text := backends.Prompt{IDs: []int32{1, 2}}, backends.Prompt{Text: "a"}
	chat := backends.Prompt{Messages: []backends.Message{{Role: "user", Content: "a"}}}
	for _, c := range []struct {
		form, field string
		prompt      backends.Prompt
		want        string // of the body, or of the error
	}{
		{"text", "Prompt", text, `{"p": "a", "n": 4, "full": true}`},
		{"text", "Prompt", ids, "--prompt text"},
		{"text", "Prompt", chat, "request.prompt is text"},
		{"messages", "Messages", chat, `{"p": [{"role":"user","content":"a"}], "n": 4, "full": true}`},
		{"messages", "Messages", text, `{"p": [{"role":"user","content":"a"}], "n": 4, "full": true}`},
		{"token-ids", "TokenIDs", ids, `{"p": [1,2], "n": 4, "full": true}`},
		{"token-ids", "TokenIDs", text, "--prompt token-ids"},
	} {
		b, err := Parse([]byte(spec(c.form, c.field, "  framing: sse\n  text: t\n  end: {body: true}\n")), "f.yaml")
		if err != nil {
			t.Fatal(err)
		}
		p := &protocol{backend: b, prefix: "/v", query: "?a=1", model: "a/b"}
		path, body, err := p.Request(nil, &backends.Request{MaxTokens: 4, ForceLength: true, Prompt: c.prompt})
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.form, err, c.want)
		case err == nil && (string(body) != c.want || path != "/v/models/a%2Fb/run?a=1"):
			t.Errorf("%s: %s %s, want %s", c.form, path, body, c.want)
		}
		client := b.New("", "", "m", wire.ClientConfig{Wire: wiretest.Wire(t, "http://127.0.0.1:1")})
		if can := client.Can(); can.Chat != (c.form == "messages") || can.TokenIDs != (c.form == "token-ids") || !can.ForceLength || !b.UsesModel() {
			t.Errorf("%s: can %+v", c.form, can)
		}
		client.Close()
		if h := b.Header("k"); len(h) != 2 || h[0].Name != "X-Mode" || h[1].Name != "X-Key" || h[1].Value != "k" {
			t.Errorf("header %v", h)
		}
	}
}

// TestTokenizer asks the route of a file.
func TestTokenizer(t *testing.T) {
	for _, c := range []struct{ form, field, body, answer, asked, err string }{
		{"text", "Prompt", `{"p": {{.Prompt}}}`, `{"a":{"ids":[1,2]}}`, `{"p": "hi"}`, ""},
		{"token-ids", "TokenIDs", `{"p": {{.Prompt}}}`, `{"a":{"ids":[1,2]}}`, `{"p": "hi"}`, ""},
		{"messages", "Messages", `{"p": {{.Messages}}}`, `{"a":{"ids":[1,2]}}`, `{"p": [{"role":"user","content":"hi"}]}`, ""},
		{"text", "Prompt", `{"p": {{.Prompt}}}`, `{"a":{"ids":[1,"x"]}}`, `{"p": "hi"}`, "element 1"},
		{"text", "Prompt", `{"p": {{.Prompt}}}`, `{"a":7}`, `{"p": "hi"}`, `no list at "a.ids"`},
	} {
		file := spec(c.form, c.field, "  framing: sse\n  text: t\n  end: {body: true}\n") + "tokenizer: {path: /tok, ids: a.ids, body: '" + c.body + "'}\n"
		b, err := Parse([]byte(file), "f.yaml")
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan string, 1)
		s := wiretest.Serve(t, func(conn *wiretest.Conn) bool {
			asked <- conn.Request.URL.Path + " " + string(conn.Body)
			return wiretest.Write(wiretest.Plain(200, "application/json", c.answer))(conn)
		})
		client := b.New("/x", "", "m", wire.ClientConfig{Wire: wiretest.Wire(t, s.URL)})
		ids, err := client.Tokenize(t.Context(), backends.Prompt{Text: "hi"})
		client.Close()
		if got := <-asked; got != "/x/tok "+c.asked {
			t.Errorf("asked %s, want %s", got, c.asked)
		}
		if c.err == "" && (err != nil || !cmp.Equal(ids, []int32{1, 2})) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%v, %v; want %q", ids, err, c.err)
		}
	}
	for body, want := range map[string]string{`{"p": 1}`: "does not hold the prompt", `{"p": "{{.Prompt}}"}`: "no JSON", `{"p": {{.X}}}`: ".Messages", `{{`: "tokenizer.body"} {
		file := spec("text", "Prompt", "  framing: sse\n  text: t\n  end: {body: true}\n") + "tokenizer: {path: /tok, ids: a, body: '" + body + "'}\n"
		if _, err := Parse([]byte(file), "f.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	b := load(t, "tgi")
	wiretest.NoAllocs(t, &decoder{paths: b.paths, spec: &b.Answer}, `{"index":1,"token":{"id":11,"text":"Hi","special":false},"generated_text":null}`)
	b = load(t, "ollama")
	wiretest.NoAllocs(t, &decoder{paths: b.paths, spec: &b.Answer}, `{"response":"caf\u00e9","done":false}`)
}

// FuzzEvent reads events by paths that lie over each other.
func FuzzEvent(f *testing.F) {
	b, err := Parse([]byte(spec("text", "Prompt", "  framing: sse\n  text: a[*].t\n  reasoning: a[0].r\n  tool: c\n  finish: c.d\n  token_ids: i\n  error: error\n  usage: {running: n, completion: u.c}\n  end: {path: a, data: \"[DONE]\"}\n")), "f.yaml")
	if err != nil {
		f.Fatal(err)
	}
	wiretest.FuzzDecoder(f, func() wire.Decoder { return &decoder{paths: b.paths, spec: &b.Answer} },
		`{"a":[{"t":"x","r":"y"},{"t":["z"]}],"c":{"d":"e"},"i":[1],"n":4,"u":{"c":1}}`, `{"a":{},"c":"d","n":-1}`)
}

// FuzzParse: no file breaks the reader, and one that is right makes requests.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"ollama", "tgi"} {
		data, err := os.ReadFile("testdata/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(spec("messages", "Messages", "  framing: sse\n  text: t\n  end: {body: true}\n"))
	short := spec("text", "Prompt", "  framing: sse\n  text: t\n  end: {body: true}\n")
	f.Add(strings.Replace(short, "{{.Prompt}}", "{{slice .Prompt 0 5}}\"", 1)) // fails on a shorter prompt
	f.Add(strings.Replace(short, "{{.Prompt}}", "{{.Prompt}}{{range 1000000000000}}{{end}}", 1))
	f.Fuzz(func(t *testing.T, text string) {
		b, err := Parse([]byte(text), "f.yaml")
		if err != nil {
			return
		}
		// The request is one that Parse has tried: templates may take others amiss.
		prompt := backends.Prompt{Text: `a "quoted" text`}
		if b.Request.Prompt == "token-ids" {
			prompt = backends.Prompt{IDs: []int32{1, 2}}
		}
		_, body, err := (&protocol{backend: b, model: "m"}).Request(nil, &backends.Request{MaxTokens: 7, Prompt: prompt})
		if err != nil || !json.Valid(body) {
			t.Fatalf("%q: %s, %v", text, body, err)
		}
	})
}
