package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

func open(t testing.TB) func(url string) backends.Client {
	return func(url string) backends.Client {
		return New(Config{Path: "/v1/messages", Model: "m"}, wire.ClientConfig{Wire: wiretest.Wire(t, url), Server: backends.Server{}})
	}
}

func ask(n int) *backends.Request {
	return &backends.Request{ID: "r-1", MaxTokens: n, Prompt: backends.Prompt{Text: "hello"}}
}

// named frames the data of events, each under the name that it has in its
// type.
func named(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		var v struct{ Type string }
		if json.Unmarshal([]byte(d), &v) == nil && v.Type != "" {
			b.WriteString("event: " + v.Type + "\n")
		}
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

func start(usage string) string {
	return `{"type":"message_start","message":{"id":"msg-1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":` + usage + `}}`
}

func text(s string) string {
	return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + s + `"}}`
}

func stop(reason, usage string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":` + usage + `}`
}

const (
	block    = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	ping     = `{"type":"ping"}`
	endBlock = `{"type":"content_block_stop","index":0}`
	last     = `{"type":"message_stop"}`
)

var goldens = []wiretest.Golden{
	{Name: "several tokens a chunk, pings, cumulative usage",
		Body: named(start(`{"input_tokens":9,"output_tokens":1}`), block, ping, text("Good day"), ping, text(" to you"), endBlock, stop("end_turn", `{"output_tokens":6}`), last),
		Want: wiretest.Want{Text: "Good day to you", Outputs: 2, Tokens: 6, Prompt: 9, Finish: "end_turn"}},
	{Name: "llama-server: cached prompt, opening events in one chunk",
		Body: named(start(`{"cache_read_input_tokens":35,"input_tokens":1,"output_tokens":0}`), block, text("A"), text(" b"), endBlock, stop("max_tokens", `{"output_tokens":2}`), last),
		Want: wiretest.Want{Text: "A b", Outputs: 2, Tokens: 2, Prompt: 36, Finish: "max_tokens"}},
	{Name: "vLLM: input_tokens again at the end, fewer deltas than tokens",
		Body: named(start(`{"input_tokens":11,"output_tokens":0}`), block, text("A"), text("�b"), endBlock, stop("max_tokens", `{"input_tokens":11,"output_tokens":3}`), last),
		Want: wiretest.Want{Text: "A�b", Outputs: 2, Tokens: 3, Prompt: 11, Finish: "max_tokens"}},
	{Name: "LiteLLM: zeros at the start, counts at the end",
		Body: named(start(`{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}`), block, text("A"), endBlock,
			stop("end_turn", `{"input_tokens":1,"output_tokens":13,"cache_read_input_tokens":35}`), last),
		Want: wiretest.Want{Text: "A", Outputs: 1, Tokens: 13, Prompt: 36, Finish: "end_turn"}},
	{Name: "thinking, its signature, a tool call",
		Body: named(start(`{"input_tokens":9,"output_tokens":1}`),
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`, endBlock,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t-1","name":"find","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}`, endBlock,
			`{"type":"content_block_start","index":2,"content_block":{"type":"redacted_thinking","data":"c2Vj"}}`, endBlock,
			stop("tool_use", `{"output_tokens":20}`), last),
		Want: wiretest.Want{Text: `hmfind{"a":1}`, Outputs: 5, Tokens: 20, Prompt: 9, Finish: "tool_use"}},
	{Name: "unknown events and deltas",
		Body: named(start(`{"input_tokens":9,"output_tokens":1}`), `{"type":"weather","text":"rain"}`, block,
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":"x"}}}`, text("A"), stop("end_turn", `{"output_tokens":1}`), last),
		Want: wiretest.Want{Text: "A", Outputs: 1, Tokens: 1, Prompt: 9, Finish: "end_turn"}},
	{Name: "anthropic-sdk-python#688 overloaded inside a 200",
		Body: named(start(`{"input_tokens":9,"output_tokens":1}`), block, text("A"), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		Want: wiretest.Want{Class: backends.StreamError, Text: "A", Outputs: 1, Tokens: 1, Prompt: 9, Err: "overloaded_error: Overloaded"}},
	{Name: "an error first, in the OpenAI shape",
		Body: "data: " + `{"error":{"message":"engine gone","type":"InternalServerError","code":500}}` + "\n\ndata: [DONE]\n\n",
		Want: wiretest.Want{Class: backends.StreamError, Tokens: -1, Err: "InternalServerError: engine gone"}},
	{Name: "an error that is text",
		Body: "event: error\ndata: gone\n\n",
		Want: wiretest.Want{Class: backends.StreamError, Tokens: -1, Err: "gone"}},
	{Name: "cut before the stop reason", Cut: true,
		Body: named(start(`{"input_tokens":9,"output_tokens":1}`), block, text("A"), endBlock),
		Want: wiretest.Want{Class: backends.Truncated, Text: "A", Outputs: 1, Tokens: 1, Prompt: 9, Err: "without a finish reason"}},
	{Name: "ended before the stop reason",
		Body: named(start(`{"input_tokens":9,"output_tokens":1}`), block, text("A"), endBlock),
		Want: wiretest.Want{Class: backends.Truncated, Text: "A", Outputs: 1, Tokens: 1, Prompt: 9, Err: "without a finish reason"}},
	{Name: "a stop reason and no message_stop",
		Body: named(start(`{"input_tokens":9,"output_tokens":1}`), block, text("A"), stop("end_turn", `{"output_tokens":1}`)),
		Want: wiretest.Want{Text: "A", Outputs: 1, Tokens: 1, Prompt: 9, Finish: "end_turn"}},
	{Name: "nothing generated",
		Body: named(start(`{"input_tokens":9,"output_tokens":0}`), stop("end_turn", `{"output_tokens":0}`), last),
		Want: wiretest.Want{Class: backends.NoOutput, Prompt: 9, Finish: "end_turn", Err: "no output"}},
	{Name: "a usage of 0 beside text",
		Body: named(start(`{"input_tokens":9,"output_tokens":0}`), block, text("A"), stop("end_turn", `{"output_tokens":0}`), last),
		Want: wiretest.Want{Text: "A", Outputs: 1, Tokens: -1, Prompt: 9, Finish: "end_turn", Warnings: "usage_not_believed"}},
	{Name: "not JSON", Body: named(text("A")) + "data: {oops}\n\n",
		Want: wiretest.Want{Class: backends.Malformed, Text: "A", Outputs: 1, Tokens: -1, Err: "{oops}"}},
}

func TestConformance(t *testing.T) {
	wiretest.Conform(t, goldens, true, open(t), ask(32))
}

// TestWholeAnswer is an answer that came at once where a stream was asked for.
func TestWholeAnswer(t *testing.T) {
	body := `{"id":"msg-1","type":"message","role":"assistant","content":[{"type":"text","text":"Good day"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":2}}`
	s := wiretest.Serve(t, wiretest.Write(wiretest.Plain(200, "application/json", body)))
	client := open(t)(s.URL)
	defer client.Close()
	var sink wiretest.Sink
	out := client.Stream(t.Context(), ask(16), &sink)
	wiretest.Want{Text: "Good day", Outputs: 1, Tokens: 2, Prompt: 9, Finish: "end_turn"}.Check(t, &sink, out)
	if !out.NotStreamed {
		t.Error("not seen as an answer at once")
	}
}

// TestRefusals are statuses with the error body of the interface.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		class  backends.Class
		body   string
	}{
		{429, backends.HTTP429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`},
		{529, backends.HTTP5xx, `{"type":"error","error":{"type":"overloaded_error","message":"slow down"}}`},
		{400, backends.HTTP4xx, `{"error":{"message":"slow down","type":"Bad Request","code":400}}`},
	} {
		s := wiretest.Serve(t, wiretest.Write(wiretest.Plain(c.status, "application/json", c.body, "Retry-After: 2")))
		client := open(t)(s.URL)
		out := client.Stream(t.Context(), ask(16), &wiretest.Sink{})
		client.Close()
		if out.Class != c.class || !strings.Contains(out.Err, "slow down") || out.RetryAfter == 0 {
			t.Errorf("%d is %v, %s, after %v", c.status, out.Class, out.Err, out.RetryAfter)
		}
	}
}

func TestRequest(t *testing.T) {
	p := &protocol{path: "/v1/messages", model: `"m"`}
	temperature, topP, k, seed := 0.0, 0.5, 4, int64(1)
	for _, c := range []struct {
		name string
		r    backends.Request
		want string // of the body, or of the error
	}{
		{"text", backends.Request{MaxTokens: 4, Prompt: backends.Prompt{Text: "a\"b"}},
			`{"stream":true,"model":"m","max_tokens":4,"messages":[{"role":"user","content":"a\"b"}]}`},
		{"a system turn", backends.Request{MaxTokens: 4, ForceLength: true, Prompt: backends.Prompt{Messages: []backends.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u"}}},
			Sampling: backends.Sampling{Temperature: &temperature, TopP: &topP, TopK: &k, Stop: []string{"x", "y"}}},
			`{"stream":true,"model":"m","max_tokens":4,"system":"s","messages":[{"role":"user","content":"u"}],"temperature":0,"top_p":0.5,"top_k":4,"stop_sequences":["x","y"]}`},
		{"ids", backends.Request{Prompt: backends.Prompt{IDs: []int32{1}}}, "--prompt text"},
		{"seed", backends.Request{Prompt: backends.Prompt{Text: "a"}, Sampling: backends.Sampling{Seed: &seed}}, "sampling.seed"},
	} {
		path, body, err := p.Request(nil, &c.r)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case err == nil && (string(body) != c.want || path != "/v1/messages" || !json.Valid(body)):
			t.Errorf("%s: %s %s, want %s", c.name, path, body, c.want)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	wiretest.NoAllocs(t, &decoder{}, text("word"), text(`caf\u00e9`), ping, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"x"}}`)
}

func FuzzEvent(f *testing.F) {
	wiretest.FuzzDecoder(f, func() wire.Decoder { return &decoder{} },
		start(`{"input_tokens":9}`), block, text("a"), stop("end_turn", `{"output_tokens":-1}`), last, ping,
		`{"type":"error","error":{"type":"overloaded_error"}}`, `{"content":[{"text":"a"},{"data":"b"}],"usage":{"output_tokens":1e99}}`)
}
