package connect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// TestOtherProtocols holds the protocols beside OpenAI's to the same truths,
// from the bytes a server writes to the rung's result.
func TestOtherProtocols(t *testing.T) {
	named := func(event, data string) string { return "event: " + event + "\ndata: " + data + "\n\n" }
	begin := named("message_start", `{"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":8,"output_tokens":1}}}`)
	delta := func(s string) string {
		return named("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+s+`"}}`)
	}
	end := func(n int) string {
		return named("message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}}`, n)) +
			named("message_stop", `{"type":"message_stop"}`)
	}
	line := func(s string) string {
		return `{"model":"m","message":{"role":"assistant","content":"` + s + `"},"done":false}` + "\n"
	}
	last := `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":8,"eval_count":2}` + "\n"
	token := func(id int, s, rest string) string {
		return fmt.Sprintf(`data:{"index":%d,"token":{"id":%d,"text":"%s","special":false},"generated_text":null%s}`+"\n\n", id, id, s, rest)
	}
	part := func(s string, n int) string {
		return fmt.Sprintf(`data: {"content":"%s","tokens":[7],"stop":false,"tokens_predicted":%d}`+"\n\n", s, n)
	}
	tensor := func(s string) string {
		return `data: {"model_name":"m","model_version":"1","text_output":"` + s + `"}` + "\n\n"
	}
	cases := []struct {
		name              string
		dialect, endpoint string
		script            script
		want              truth
	}{
		{"Anthropic: usage at the end is the whole, a ping is nothing", "anthropic", "",
			framed(piece{begin, 1}, piece{named("ping", `{"type":"ping"}`), 0}, piece{delta("Hi there"), 1}, piece{delta("."), 1}, piece{end(4), 1}),
			truth{output: 4, source: "usage", events: []tokens{{3, -1}, {4, -1}}}},
		{"anthropic-sdk-python#688 overloaded in mid-stream", "anthropic", "",
			framed(piece{begin, 1}, piece{delta("Hi"), 1}, piece{named("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), 0}),
			truth{class: "stream_error", err: "Overloaded", output: 1, source: "usage", events: []tokens{{2, 1}}}},
		{"Anthropic: 529 before the stream", "anthropic", "",
			atOnce(wiretest.Plain(529, "application/json", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), 0),
			truth{class: "http_5xx", err: ": Overloaded", output: -1}},
		{"Ollama: lines and their count", "ollama", "native",
			framed(piece{line("a"), 1}, piece{line("b"), 1}, piece{last, 1}),
			truth{output: 2, source: "usage", events: []tokens{{1, 1}, {2, 1}}}},
		{"ollama streamResponse: an error line in mid-stream", "ollama", "native",
			framed(piece{line("a"), 1}, piece{`{"error":"the runner has gone"}` + "\n", 0}),
			truth{class: "stream_error", err: "the runner has gone", output: 1, source: "events", events: []tokens{{1, 1}}}},
		{"TGI: no blank, comments between, no DONE", "tgi", "native",
			framed(piece{token(11, "Hi", ""), 1}, piece{":\n\n", 0}, piece{token(2, "!", `,"details":{"finish_reason":"eos_token","generated_tokens":2,"input_length":8}`), 1}),
			truth{output: 2, source: "token_ids", events: []tokens{{1, 1}, {3, 1}}}},
		{"TGI: overloaded inside a 200", "tgi", "native",
			framed(piece{`data:{"error":"Model is overloaded","error_type":"overloaded"}` + "\n\n", 0}),
			truth{class: "stream_error", err: "Model is overloaded", output: -1}},
		{"llama-server: native, no DONE", "llamacpp", "native",
			framed(piece{part("a", 1), 1}, piece{part("b", 2), 1}, piece{`data: {"content":"","tokens":[],"stop":true,"stop_type":"limit","tokens_predicted":2,"tokens_evaluated":8}` + "\n\n", 1}).shut(),
			truth{output: 2, source: "running_usage", events: []tokens{{1, 1}, {2, 1}}}},
		{"Triton: the end of the body is the end", "triton", "",
			framed(piece{tensor("a"), 1}, piece{tensor("b"), 1}),
			truth{output: 2, source: "events", events: []tokens{{1, 1}, {2, 1}}}},
		{"Triton: an error in mid-stream", "triton", "",
			framed(piece{tensor("a"), 1}, piece{`data: {"error":"the model failed"}` + "\n\n", 0}),
			truth{class: "stream_error", err: "the model failed", output: 1, source: "events", events: []tokens{{1, 1}}}},
		{"Triton: an error first, as events under 400", "triton", "",
			atOnce(strings.Replace(wiretest.Stream(`data: {"error":"the model failed"}`+"\n\n"), "200 OK", "400 Bad Request", 1), 0),
			truth{class: "http_4xx", err: "HTTP 400 Bad Request: the model failed", output: -1}},
		{"Triton: no response at all", "triton", "", framed(),
			truth{class: "no_output", err: "no output", output: -1}},
		{"Triton: a dead model says nothing, for ever", "triton", "", script{hangs: true},
			truth{class: "timeout", err: "time limit", output: -1, lasts: 80 * time.Millisecond, warnings: "timeouts"}},
		{"Triton: 500 for a type that does not fit", "triton", "",
			atOnce(wiretest.Plain(500, "application/json", `{"error":"Unable to parse 'data'"}`), 0),
			truth{class: "http_5xx", err: "HTTP 500 Internal Server Error: Unable to parse", output: -1}},
		{"Triton: generate of a model that streams, an error under 200", "triton", "",
			atOnce(wiretest.Plain(200, "application/json", `{"error":"generate expects exactly 1 response"}`), 0),
			truth{class: "stream_error", err: "the server reports: generate expects exactly 1 response", output: -1}},
		{"llama-server: /v1/messages with a cached prompt", "anthropic", "",
			framed(piece{named("message_start", `{"type":"message_start","message":{"usage":{"cache_read_input_tokens":35,"input_tokens":1,"output_tokens":0}}}`), 1}, piece{delta("a"), 1}, piece{end(1), 1}).shut(),
			truth{output: 1, source: "usage", events: []tokens{{2, 1}}, text: "a", input: 36}},
		{"vLLM: /v1/messages tells input_tokens twice and sends fewer deltas than tokens", "anthropic", "",
			framed(piece{begin, 1}, piece{delta("a"), 1}, piece{delta("bc"), 1}, piece{strings.Replace(end(6), `"usage":{`, `"usage":{"input_tokens":8,`, 1), 1}),
			truth{output: 6, source: "usage", events: []tokens{{2, -1}, {3, -1}}, text: "abc", input: 8}},
		{"LiteLLM: /v1/messages tells counts only at the end", "anthropic", "",
			framed(piece{strings.Replace(begin, `"input_tokens":8,"output_tokens":1`, `"input_tokens":0,"output_tokens":0`, 1), 1}, piece{delta("a"), 1},
				piece{strings.Replace(end(13), `"usage":{`, `"usage":{"input_tokens":36,`, 1), 1}),
			truth{output: 13, source: "usage", events: []tokens{{2, -1}}, text: "a", input: 36}},
		{"Triton: cut inside an event", "triton", "",
			framed(piece{tensor("a"), 1}, piece{`data: {"model_name":"m","text_ou`, 0}).cut(),
			truth{class: "truncated", output: 1, source: "events", events: []tokens{{1, 1}}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, experiment{dialect: c.dialect, endpoint: c.endpoint, asked: 16, timeout: c.want.lasts, scripts: []script{c.script}}.run(t))
		})
	}
}
