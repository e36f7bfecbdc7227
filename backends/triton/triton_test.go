package triton

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// model is one with the usual names and an output of token ids.
func model() Model {
	return Model{Name: "m", Text: "text_input", MaxTokens: "max_tokens", TextOut: "text_output", TokenIDsOut: "token_id"}
}

func open(t testing.TB, m Model) func(url string) backends.Client {
	return func(url string) backends.Client {
		return New(m.Path(), m, wire.ClientConfig{Wire: wiretest.Wire(t, url)})
	}
}

func ask() *backends.Request {
	return &backends.Request{MaxTokens: 16, Prompt: backends.Prompt{Text: "hello"}}
}

func response(rest string) string {
	return `data: {"model_name":"m","model_version":"1","sequence_end":false,` + rest + "}\n\n"
}

func text(s string) string { return response(`"text_output":"` + s + `"`) }

var goldens = []wiretest.Golden{
	{Name: "deltas with token ids, no end mark",
		Body: response(`"text_output":" a","token_id":300`) + response(`"text_output":" b","token_id":301`) + response(`"text_output":"","token_id":302`),
		Want: wiretest.Want{Text: " a b", Outputs: 3, IDs: 3, Tokens: -1}},
	{Name: "no ids: events are all there is to count", Body: text(" a") + text(" b"),
		Want: wiretest.Want{Text: " a b", Outputs: 2, Tokens: -1}},
	{Name: "arrays", Body: response(`"text_output":["one","two","three"],"token_id":[1,2,3]`),
		Want: wiretest.Want{Text: "onetwothree", Outputs: 1, IDs: 3, Tokens: -1}},
	{Name: "one response with all of the text", Body: text("all at once"),
		Want: wiretest.Want{Text: "all at once", Outputs: 1, Tokens: -1}},
	{Name: "the text so far each time", Body: text("a") + text("ab") + text("ab \uFFFD") + text("ab 中") + text("ab 中 d"),
		Want: wiretest.Want{Text: "ab \uFFFD中 d", Outputs: 5, Tokens: -1}},
	{Name: "an error in mid-stream", Body: text(" a") + "data: {\"error\":\"in ensemble 'm', step failed\"}\n\n",
		Want: wiretest.Want{Class: backends.StreamError, Text: " a", Outputs: 1, Tokens: -1, Err: "in ensemble 'm', step failed"}},
	{Name: "no response at all", Body: "",
		Want: wiretest.Want{Class: backends.NoOutput, Tokens: -1, Err: "no output"}},
	{Name: "responses without text", Body: text("") + response(`"other":1`),
		Want: wiretest.Want{Class: backends.NoOutput, Tokens: -1, Err: "no output"}},
	{Name: "cut", Cut: true, Body: text(" a"),
		Want: wiretest.Want{Class: backends.Truncated, Text: " a", Outputs: 1, Tokens: -1, Err: "without a finish reason"}},
	{Name: "a front end that sends an end mark", Body: text(" a") + "data: [DONE]\n\n",
		Want: wiretest.Want{Text: " a", Outputs: 1, Tokens: -1}},
	{Name: "not JSON", Body: text(" a") + "data: oops\n\n",
		Want: wiretest.Want{Class: backends.Malformed, Text: " a", Outputs: 1, Tokens: -1, Err: "oops"}},
}

func TestConformance(t *testing.T) { wiretest.Conform(t, goldens, true, open(t, model()), ask()) }

// TestErrorsByStatus are what Triton answers when nothing was generated: an
// error under 400 in the form of an event, a plain one under 500, and an error
// under 200 from a model that answers more than once.
func TestErrorsByStatus(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		class        backends.Class
		err          string
	}{
		{"before the first token", wiretest.Plain(400, "text/event-stream; charset=utf-8", "data: {\"error\":\"failed at token 0\"}\n\n"), backends.HTTP4xx, "Bad Request: failed at token 0"},
		{"a type that does not fit", wiretest.Plain(500, "application/json", `{"error":"Unable to parse 'data'"}`), backends.HTTP5xx, "Unable to parse"},
		{"generate on a decoupled model", wiretest.Plain(200, "application/json", `{"error":"generate expects exactly 1 response"}`), backends.StreamError, "exactly 1 response"},
		{"unknown model", wiretest.Plain(404, "application/json", `{"error":"Request for unknown model: 'm' is not found"}`), backends.HTTP4xx, "unknown model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := wiretest.Serve(t, wiretest.Write(c.answer))
			client := open(t, model())(s.URL)
			defer client.Close()
			if out := client.Stream(t.Context(), ask(), &wiretest.Sink{}); out.Class != c.class || !strings.Contains(out.Err, c.err) {
				t.Errorf("%v: %s", out.Class, out.Err)
			}
		})
	}
}

// TestSilence: a model whose thread has died sends no byte, for ever.
func TestSilence(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		io.Copy(io.Discard, c) // until the client hangs up
		return false
	})
	m := model()
	conf := wiretest.Wire(t, s.URL)
	conf.Timeout = 20 * time.Millisecond
	client := New(m.Path(), m, wire.ClientConfig{Wire: conf})
	defer client.Close()
	var sink wiretest.Sink
	wiretest.Want{Class: backends.Timeout, Tokens: -1, Err: "time limit"}.Check(t, &sink, client.Stream(t.Context(), ask(), &sink))
}

// TestMode: what the texts of a model are is learnt from its answers and then
// known from the first event of the next.
func TestMode(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  Mode
		texts []string // of the answers, events parted by |
		want  []string // new texts, likewise
	}{
		{"deltas", Learn, []string{"a|b|c", "a|ab|c"}, []string{"a|b|c", "a|ab|c"}},
		{"a delta that looks like a repetition before anything is known", Learn, []string{"a|ab|c|cd"}, []string{"a|b|c|cd"}},
		{"the same delta again", Learn, []string{`\n|\n|\n`}, []string{"\n|\n|\n"}},
		{"repeated", Learn, []string{"a|ab|abc|abcd|abcde", "x|x|xy|xyz|xyz"}, []string{"a|b|c|d|e", "x||y|z|"}},
		{"repeated, an event without growth before it is sure", Learn, []string{"a|ab|ab|abc"}, []string{"a|b||c"}},
		{"said to be deltas", Delta, []string{"a|ab|abc|abcd|abcde"}, []string{"a|ab|abc|abcd|abcde"}},
		{"said to be repeated", Cumulative, []string{"a|a|ab"}, []string{"a||b"}},
		{"repeated text that shrinks", Cumulative, []string{"abc|ab|abcd"}, []string{"abc||cd"}},
	} {
		m := model()
		m.Mode = c.mode
		p := &protocol{model: m, learnt: &learnt{}}
		d := p.NewDecoder()
		for i, texts := range c.texts {
			d.Reset(nil)
			var got []string
			for s := range strings.SplitSeq(texts, "|") {
				var out wire.Decoded
				if err := d.Event("", []byte(`{"text_output":"`+s+`"}`), &out); err != nil {
					t.Fatal(err)
				}
				got = append(got, string(out.Text))
				if (out.Kind&backends.KindText != 0) != (len(out.Text) > 0) {
					t.Errorf("%s: text %q of kind %b", c.name, out.Text, out.Kind)
				}
			}
			if got := strings.Join(got, "|"); got != c.want[i] {
				t.Errorf("%s, answer %d: %q, want %q", c.name, i, got, c.want[i])
			}
		}
	}
}

// metadata are as Triton gives them.
const (
	plain = `{"name":"m","versions":["1"],"platform":"python","inputs":[{"name":"text_input","datatype":"BYTES","shape":[1]},{"name":"max_tokens","datatype":"INT32","shape":[1]}],
		"outputs":[{"name":"text_output","datatype":"BYTES","shape":[-1]},{"name":"token_id","datatype":"INT32","shape":[-1]}]}`
	ensemble = `{"name":"m","versions":["1"],"platform":"ensemble","inputs":[{"name":"text_input","datatype":"BYTES"},{"name":"max_tokens","datatype":"INT32"},{"name":"min_tokens","datatype":"INT32"},
		{"name":"temperature","datatype":"FP32"},{"name":"top_p","datatype":"FP32"},{"name":"top_k","datatype":"INT32"},{"name":"seed","datatype":"UINT64"},{"name":"stop_words","datatype":"BYTES"},
		{"name":"stream","datatype":"BOOL"},{"name":"exclude_input_in_output","datatype":"BOOL"},{"name":"ignore_eos","datatype":"BOOL"}],"outputs":[{"name":"text_output","datatype":"BYTES"}]}`
	vllm = `{"name":"m","versions":["1"],"platform":"vllm","inputs":[{"name":"text_input","datatype":"BYTES"},{"name":"stream","datatype":"BOOL"},{"name":"sampling_parameters","datatype":"BYTES"}],
		"outputs":[{"name":"text_output","datatype":"BYTES"}]}`
	odd = `{"name":"m","inputs":[{"name":"QUERY","datatype":"BYTES"},{"name":"LEN","datatype":"INT32"}],"outputs":[{"name":"ANSWER","datatype":"BYTES"}]}`
)

func TestDescribe(t *testing.T) {
	got, err := Describe("m", "", []byte(plain))
	want := Described{Platform: "python", Versions: []string{"1"}, Model: Model{Name: "m", Text: "text_input", MaxTokens: "max_tokens", TextOut: "text_output", TokenIDsOut: "token_id"}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
	if got, err := Describe("m", "", []byte(odd)); err != nil || got.Text != "QUERY" || got.TextOut != "ANSWER" || got.MaxTokens != "" {
		t.Errorf("%+v, %v", got, err)
	}
	for body, want := range map[string]string{
		"": "metadata", `{"inputs":[{"name":"x","datatype":"INT32"}]}`: "no input of text", `{"inputs":[{"name":"x","datatype":"BYTES"}]}`: "no output of text",
	} {
		if _, err := Describe("m", "", []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
}

func TestRequest(t *testing.T) {
	half, k, seed := 0.5, 4, int64(7)
	full := backends.Request{MaxTokens: 4, ForceLength: true, Prompt: backends.Prompt{Text: "a"}, Sampling: backends.Sampling{Temperature: &half, TopP: &half, TopK: &k, Seed: &seed, Stop: []string{"x"}}}
	for _, c := range []struct {
		name, metadata string
		r              backends.Request
		want           string
	}{
		{"what the model has no input for is left out", plain, full, `{"text_input":"a","max_tokens":4}`},
		{"all inputs", ensemble, full,
			`{"text_input":"a","stream":true,"exclude_input_in_output":true,"max_tokens":4,"min_tokens":4,"ignore_eos":true,"temperature":0.5,"top_p":0.5,"top_k":4,"seed":7,"stop_words":["x"]}`},
		{"one input for all", vllm, full,
			`{"text_input":"a","stream":true,"sampling_parameters":"{\"max_tokens\":4,\"min_tokens\":4,\"ignore_eos\":true,\"temperature\":0.5,\"top_p\":0.5,\"top_k\":4,\"seed\":7,\"stop\":[\"x\"]}"}`},
		{"no limit of the output", odd, full, "--backend-file"},
		{"ids", plain, backends.Request{Prompt: backends.Prompt{IDs: []int32{1}}}, "--prompt text"},
		{"messages", plain, backends.Request{Prompt: backends.Prompt{Messages: []backends.Message{{}}}}, "no chat messages"},
	} {
		d, err := Describe("m", "", []byte(c.metadata))
		if err != nil {
			t.Fatal(err)
		}
		_, body, err := (&protocol{model: d.Model}).Request(nil, &c.r)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case err == nil && (string(body) != c.want || !json.Valid(body)):
			t.Errorf("%s: %s, want %s", c.name, body, c.want)
		}
	}
	if got, want := (Model{Name: "a b", Version: "2"}).Path(), "/v2/models/a%20b/versions/2/generate_stream"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	for _, mode := range []Mode{Learn, Delta, Cumulative} {
		m := model()
		m.Mode = mode
		wiretest.NoAllocs(t, &decoder{model: m, learnt: &learnt{}}, `{"model_name":"m","text_output":" a","token_id":300,"an_output_whose_name_is_a_long_one_indeed":1}`, `{"text_output":["b"]}`)
	}
}

func FuzzEvent(f *testing.F) {
	wiretest.FuzzDecoder(f, func() wire.Decoder { return &decoder{model: model(), learnt: &learnt{}} },
		`{"text_output":"a","token_id":1}`, `{"text_output":["a",1,null],"token_id":[1,[2]]}`, `{"text_output":{"a":1},"error":""}`)
}
