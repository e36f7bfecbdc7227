package tgi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

func open(t testing.TB) func(url string) backends.Client {
	return func(url string) backends.Client {
		return New(Route, wire.ClientConfig{Wire: wiretest.Wire(t, url)})
	}
}

func token(id int, text string, special bool, rest string) string {
	return fmt.Sprintf(`{"index":%d,"token":{"id":%d,"text":"%s","logprob":-0.2,"special":%v}%s}`, id, id, text, special, rest)
}

const more = `,"generated_text":null,"details":null`

func last(text, reason string, tokens int) string {
	return fmt.Sprintf(`,"generated_text":"%s","details":{"finish_reason":"%s","generated_tokens":%d,"seed":null,"input_length":9}`, text, reason, tokens)
}

// events frames JSON without a blank after the colon, as the server does.
func events(data ...string) string {
	return "data:" + strings.Join(data, "\n\ndata:") + "\n\n"
}

var goldens = []wiretest.Golden{
	{Name: "perf_analyzer#395 no blank; the end mark of the model is a token without text",
		Body: events(token(1, "Hi", false, more), token(2, "</s>", true, last("Hi", "eos_token", 2))),
		Want: wiretest.Want{Text: "Hi", Outputs: 2, IDs: 2, Tokens: 2, Prompt: 9, Finish: "eos_token"}},
	{Name: "keep-alive comments and a character over two tokens",
		Body: events(token(1, "", false, more)) + ":\n\n" + events(token(2, "中", false, more)) + ":\n\n" + events(token(3, "!", false, last("中!", "length", 3))),
		Want: wiretest.Want{Text: "中!", Outputs: 3, IDs: 3, Tokens: 3, Prompt: 9, Finish: "length"}},
	{Name: "no details",
		Body: events(token(1, "Hi", false, `,"generated_text":"Hi","details":null`)),
		Want: wiretest.Want{Text: "Hi", Outputs: 1, IDs: 1, Tokens: -1}},
	{Name: "overloaded inside a 200", Body: events(`{"error":"Model is overloaded","error_type":"overloaded"}`),
		Want: wiretest.Want{Class: backends.StreamError, Tokens: -1, Err: "overloaded: Model is overloaded"}},
	{Name: "a request that is too long, inside a 200", Body: events(`{"error":"inputs must have less than 10 tokens","error_type":"validation"}`),
		Want: wiretest.Want{Class: backends.StreamError, Tokens: -1, Err: "validation: inputs must"}},
	{Name: "an error in mid-stream", Body: events(token(1, "Hi", false, more), `{"error":"shard lost","error_type":"generation"}`),
		Want: wiretest.Want{Class: backends.StreamError, Text: "Hi", Outputs: 1, IDs: 1, Tokens: -1, Err: "generation: shard lost"}},
	{Name: "ended before the last token", Body: events(token(1, "Hi", false, more)),
		Want: wiretest.Want{Class: backends.Truncated, Text: "Hi", Outputs: 1, IDs: 1, Tokens: -1, Err: "without a finish reason"}},
	{Name: "cut", Cut: true, Body: events(token(1, "Hi", false, more)) + `data:{"index":2,"tok`,
		Want: wiretest.Want{Class: backends.Truncated, Text: "Hi", Outputs: 1, IDs: 1, Tokens: -1, Err: "without a finish reason"}},
	{Name: "not JSON", Body: events("oops"), Want: wiretest.Want{Class: backends.Malformed, Tokens: -1, Err: "oops"}},
}

func TestConformance(t *testing.T) {
	wiretest.Conform(t, goldens, true, open(t), &backends.Request{MaxTokens: 16, Prompt: backends.Prompt{Text: "hello"}})
}

// TestWholeAnswer is an answer that came at once.
func TestWholeAnswer(t *testing.T) {
	s := wiretest.Serve(t, wiretest.Write(wiretest.Plain(200, "application/json", `{"generated_text":"Hi there","details":{"finish_reason":"length","generated_tokens":2}}`)))
	client := open(t)(s.URL)
	defer client.Close()
	var sink wiretest.Sink
	out := client.Stream(t.Context(), &backends.Request{MaxTokens: 16}, &sink)
	wiretest.Want{Text: "Hi there", Outputs: 1, Tokens: 2, Finish: "length"}.Check(t, &sink, out)
	if !out.NotStreamed {
		t.Error("not seen as an answer at once")
	}
}

func TestRequest(t *testing.T) {
	zero, warm, one, half, k, seed := 0.0, 0.7, 1.0, 0.5, 4, int64(7)
	for _, c := range []struct {
		name string
		r    backends.Request
		want string
	}{
		{"greedy: a temperature of 0 and a top_p of 1 are refused by the server",
			backends.Request{MaxTokens: 4, ForceLength: true, Prompt: backends.Prompt{Text: "a"}, Sampling: backends.Sampling{Temperature: &zero, TopP: &one}},
			`{"inputs":"a","parameters":{"details":true,"max_new_tokens":4}}`},
		{"sampled",
			backends.Request{MaxTokens: 4, Prompt: backends.Prompt{Text: "a"}, Sampling: backends.Sampling{Temperature: &warm, TopP: &half, TopK: &k, Seed: &seed, Stop: []string{"\n"}}},
			`{"inputs":"a","parameters":{"details":true,"max_new_tokens":4,"do_sample":true,"temperature":0.7,"top_p":0.5,"top_k":4,"seed":7,"stop":["\n"]}}`},
		{"ids", backends.Request{Prompt: backends.Prompt{IDs: []int32{1}}}, "--prompt text"},
		{"messages", backends.Request{Prompt: backends.Prompt{Messages: []backends.Message{{}}}}, "--endpoint chat"},
	} {
		_, body, err := protocol{Route}.Request(nil, &c.r)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case err == nil && (string(body) != c.want || !json.Valid(body)):
			t.Errorf("%s: %s, want %s", c.name, body, c.want)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	wiretest.NoAllocs(t, &decoder{}, token(1, "Hi", false, more), token(2, "</s>", true, more), token(3, "", false, more))
}

func FuzzEvent(f *testing.F) {
	wiretest.FuzzDecoder(f, func() wire.Decoder { return &decoder{} },
		token(1, "Hi", false, more), token(2, "</s>", true, last("Hi", "eos_token", 2)), `{"error":"a","error_type":"b"}`, `{"token":[{"id":"x"}],"details":{"generated_tokens":-4}}`)
}
