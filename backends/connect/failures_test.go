package connect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// raw is a stream whose pieces are chunks of raw bytes that bring no event but
// the last, which brings n.
func raw(n int, parts ...string) script {
	pieces := make([]piece, len(parts))
	for i, p := range parts {
		pieces[i] = piece{bytes: p}
	}
	pieces[len(pieces)-1].events = n
	return framed(pieces...)
}

// cut closes the connection where the end of the body is due.
func (s script) cut() script {
	s.pieces, s.closes = s.pieces[:len(s.pieces)-1], true
	return s
}

// shut closes the connection after the answer.
func (s script) shut() script {
	s.closes = true
	return s
}

// TestFraming are public reports about events and their framing, from the bytes
// a server writes, cut where each report says, to the rung's result.
func TestFraming(t *testing.T) {
	a, b := word("a"), word("b")
	long := func(n int) string { return data(word(strings.Repeat("x", n))) }
	tail := say(stop, usage(1), done)
	cases := []struct {
		name   string
		script script
		want   truth
	}{
		{"genai-bench#163 no blank after the colon", framed(piece{"data:" + a + "\n\n", 1}, piece{"data:" + b + "\n\n", 1}, piece{"data:" + usage(2) + "\n\ndata:[DONE]\n\n", 1}),
			truth{output: 2, source: "usage", events: []tokens{{1, 1}, {2, 1}}, text: "ab"}},
		{"TensorRT-LLM: a blank before the line's end", framed(piece{"data: " + role + " \n\ndata: " + a + "\n\n", 2}, tail),
			truth{output: 1, source: "usage", events: []tokens{{1, 1}}, text: "a"}},
		{"xuan#194 CRLF", framed(piece{"data: " + a + "\r\n\r\n", 1}, piece{"data: " + b + "\r\n\r\n", 1}, piece{"data: " + usage(2) + "\r\n\r\ndata: [DONE]\r\n\r\n", 1}),
			truth{output: 2, source: "usage", events: []tokens{{1, 1}, {2, 1}}, text: "ab"}},
		{"vm0#24687 a byte order mark in two reads", framed(piece{"\xef", 0}, piece{"\xbb\xbf" + data(a), 1}, tail),
			truth{output: 1, source: "usage", events: []tokens{{2, 1}}, text: "a"}},
		{"lathe#131 usage without a blank line at the end", raw(2, data(a, stop)+"data: "+usage(1)+"\n"),
			truth{output: 1, source: "usage", events: []tokens{{1, 1}}, text: "a"}},
		{"openai-go#368 an event of 70 000 bytes", framed(piece{long(70_000), 1}, tail), truth{output: 1, source: "usage", events: []tokens{{1, 1}}, text: strings.Repeat("x", 70_000)}},
		{"ragflow#15381 an event of 1 100 000 bytes", framed(piece{long(1_100_000), 1}, tail), truth{output: 1, source: "usage", events: []tokens{{1, 1}}, text: strings.Repeat("x", 1_100_000)}},
		{"azure-sdk-for-go#22703 an event of 5 000 000 bytes", framed(piece{long(5_000_000), 1}, tail), truth{output: 1, source: "usage", events: []tokens{{1, 1}}, text: strings.Repeat("x", 5_000_000)}},
		{"an event over the limit", script{pieces: []piece{{wiretest.Head + wiretest.Chunk(data(a)), 1}, {bytes: wiretest.Chunk(long(9 << 20))}}},
			truth{class: "malformed", err: "8388608", output: 1, source: "events", events: []tokens{{0, 1}}, text: "a"}},
		{"vllm#38717 a character cut between reads", framed(piece{"data: " + word("\xe4")[:len(word("\xe4"))-len(`"}}]}`)], 0}, piece{"\xb8\xad" + `"}}]}` + "\n\n", 1}, tail),
			truth{output: 1, source: "usage", events: []tokens{{2, 1}}, text: "\u4e2d"}},
		{"inference-perf#284 an event over three reads", framed(piece{"data: " + a[:9], 0}, piece{a[9:40], 0}, piece{a[40:] + "\n\n", 1}, tail),
			truth{output: 1, source: "usage", events: []tokens{{3, 1}}, text: "a"}},
		{"evalscope#1474 other fields of events", framed(piece{"id: 7\nevent: message\nretry: 10\ndata: " + a + "\n\n", 1}, piece{"id: 8\n\n", 0}, tail),
			truth{output: 1, source: "usage", events: []tokens{{1, 1}}, text: "a"}},
		{"vllm bench: a ping in the event's block", framed(piece{": ping\n\n", 0}, piece{": ping\ndata: " + a + "\n\n", 1}, tail),
			truth{output: 1, source: "usage", events: []tokens{{2, 1}}, text: "a"}},
		{"llama.cpp of old: an error line", framed(say(a), piece{"error: {\"code\":500,\"message\":\"slot lost\"}\n\n", 0}),
			truth{class: "stream_error", err: "slot lost", output: 1, source: "events", events: []tokens{{1, 1}}, text: "a"}},
		{"TensorRT-LLM: the connection drops inside the stream", framed(say(a), say(b), say(word("c"))).cut(),
			truth{class: "truncated", err: "without a finish reason", output: 3, source: "events", events: []tokens{{1, 1}, {2, 1}, {3, 1}}, text: "abc"}},
		{"elasticsearch#154632 data over several lines", framed(piece{"data: {\"choices\":[{\ndata: \"text\":\"a\"}]}\n\n", 1}, tail),
			truth{output: 1, source: "usage", events: []tokens{{1, 1}}, text: "a"}},
		{"tau2-bench#503 two events in one read", framed(say(a, b), say(stop, usage(2), done)),
			truth{output: 2, source: "usage", events: []tokens{{1, 2}}, text: "ab"}},
		{"tau2-bench#503 one event in five reads", framed(piece{"da", 0}, piece{"ta: " + a[:5], 0}, piece{a[5:20], 0}, piece{a[20:], 0}, piece{"\n\n", 1}, tail),
			truth{output: 1, source: "usage", events: []tokens{{5, 1}}, text: "a"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, experiment{dialect: "vllm", asked: 16, scripts: []script{c.script}}.run(t))
		})
	}
}

// TestFailures are public reports about errors taken for success and answers
// that break off: none is in a latency, each is counted by its class.
func TestFailures(t *testing.T) {
	const page = "<html><head><title>502 Bad Gateway</title></head></html>"
	failed := func(class, err string) truth { return truth{class: class, err: err, output: -1} }
	after := func(class, err string) truth {
		return truth{class: class, err: err, output: 1, source: "events", events: []tokens{{1, 1}}}
	}
	refusal := func(status int, body string) script {
		return atOnce(wiretest.Plain(status, "application/json", body), 0)
	}
	cases := []struct {
		name    string
		script  script
		timeout time.Duration
		want    truth
	}{
		{"inference-perf#713 an error event under 200", framed(piece{data(`{"error":{"message":"queue is full"}}`), 0}), 0, failed("stream_error", "the server reports: queue is full")},
		{"guidellm#795 an error event and DONE", framed(piece{data(`{"error":{"message":"x","type":"InternalServerError","code":500}}`, done), 0}), 0, failed("stream_error", "the server reports: x")},
		{"guidellm#743 error null is none", framed(say(`{"error":null,"choices":[{"delta":{"content":"a"}}]}`), say(stop, usage(1), done)), 0,
			truth{output: 1, source: "usage", events: []tokens{{1, 1}}}},
		{"adk-anthropic-go#32 event: error in mid-stream", framed(say(word("a")), piece{"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", 0}), 0, after("stream_error", "Overloaded")},
		{"ai-gateway#2698 a gateway's error and no DONE", framed(say(word("a")), piece{data(`{"error":{"message":"upstream reset"}}`), 0}).shut(), 0, after("stream_error", "upstream reset")},
		{"inference-perf#247 a page under 502", atOnce(wiretest.Plain(502, "text/html", page), 0), 0, failed("http_5xx", "HTTP 502 Bad Gateway: 502 Bad Gateway")},
		{"inference-benchmarker 0af45e1: closed in mid-stream", framed(say(word("a"))).cut(), 0, after("truncated", "without a finish reason")},
		{"fortio#914 silence after a token", script{pieces: framed(say(word("a"))).pieces[:2], hangs: true}, 80 * time.Millisecond,
			truth{class: "timeout", err: "time limit", output: 1, source: "events", events: []tokens{{1, 1}}, lasts: 80 * time.Millisecond, warnings: "timeouts"}},
		{"guidellm#589 silence from the start", script{hangs: true}, 80 * time.Millisecond,
			truth{class: "timeout", err: "time limit", output: -1, lasts: 80 * time.Millisecond, warnings: "timeouts"}},
		{"vllm#13117 the body's message", refusal(404, `{"error":{"message":"The model x does not exist.","code":404}}`), 0, failed("http_4xx", "/v1/chat/completions: HTTP 404 Not Found: The model x does not exist.")},
		{"void#128 the field that is refused", refusal(400, `{"object":"error","message":"[{'type':'extra_forbidden','loc':('body','max_completion_tokens')}]","code":400}`), 0, failed("http_4xx", "refuses the field max_completion_tokens")},
		{"genai-bench#116 ignore_eos is refused", refusal(400, `{"detail":[{"type":"extra_forbidden","loc":["body","ignore_eos"]}]}`), 0, failed("http_4xx", "refuses the field ignore_eos")},
		{"llm-d-async#122 slow down", atOnce(wiretest.Plain(429, "application/json", `{"error":"busy"}`, "Retry-After: 2"), 0), 0, failed("http_429", "HTTP 429 Too Many Requests: busy")},
		{"vLLM: a token id that is not in the vocabulary", framed(piece{data(`{"error": {"message": "Token id 900000 is not in the vocabulary", "type": "BadRequestError", "param": null, "code": 400}}`, done), 0}), 0, failed("stream_error", "the server reports: Token id 900000 is not in the vocabulary")},
		{"vLLM: the engine dies", framed(say(role), piece{data(`{"error": {"message": "The engine stopped", "type": "InternalServerError", "param": null, "code": 500}}`, done), 0}), 0, failed("stream_error", "the server reports: The engine stopped")},
		{"vLLM: the queue is full", refusal(503, `{"error":{"message":"The engine takes no more requests.","type":"Service Unavailable","param":null,"code":503}}`), 0, failed("http_5xx", "HTTP 503 Service Unavailable: The engine takes no more")},
		{"vLLM: an unknown route", refusal(404, `{"detail":"Not Found"}`), 0, failed("http_4xx", "HTTP 404 Not Found: Not Found")},
		{"llama-server: errors with a number for a code", refusal(400, `{"error":{"code":400,"message":"the request exceeds the context","type":"exceed_context_size_error","n_prompt_tokens":1100,"n_ctx":1024}}`), 0, failed("http_4xx", "HTTP 400 Bad Request: the request exceeds the context")},
		{"LiteLLM: errors with a text for a code", refusal(400, `{"error":{"message":"No database.","type":"auth_error","param":null,"code":"400"}}`), 0, failed("http_4xx", "HTTP 400 Bad Request: No database.")},
		{"llama-server: a limit of -5", refusal(400, `{"error":{"code":400,"message":"max_tokens must be -1 or more","type":"invalid_request_error"}}`), 0, failed("http_4xx", "HTTP 400 Bad Request: max_tokens must be -1 or more")},
		{"vLLM: errors of /v1/messages in another's shape", refusal(400, `{"error":{"message":"max_tokens: Field required","type":"Bad Request","param":"max_tokens","code":400}}`), 0, failed("http_4xx", "HTTP 400 Bad Request: max_tokens: Field required")},
		{"vLLM: 500 and the connection closes, the engine being dead", atOnce(wiretest.Plain(500, "application/json", `{"error":{"message":"The engine is dead","type":"InternalServerError","param":null,"code":500}}`), 0).shut(), 0, failed("http_5xx", "HTTP 500 Internal Server Error: The engine is dead")},
		{"a finish reason and then the cut is complete", framed(say(word("a")), say(stop, usage(1))).cut(), 0,
			truth{output: 1, source: "usage", events: []tokens{{1, 1}}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, experiment{dialect: "vllm", asked: 16, timeout: c.timeout, scripts: []script{c.script}}.run(t))
		})
	}
}

// TestBytesOfFailuresAreKept is inference-perf#530: the log of requests holds
// the head of an answer that failed, beside its error.
func TestBytesOfFailuresAreKept(t *testing.T) {
	for name, s := range map[string]script{
		"cut":       framed(say(word("a"))).cut(),
		"error":     framed(say(word("a")), piece{data(`{"error":{"message":"upstream reset"}}`), 0}),
		"malformed": framed(say(word("a")), piece{"data: {oops}\n\n", 0}),
	} {
		line := experiment{dialect: "vllm", asked: 16, scripts: []script{s}}.run(t).lines[0]
		if !strings.HasPrefix(line.Body, data(word("a"))) || len(line.Body) > 1024 {
			t.Errorf("%s: %q is kept", name, line.Body)
		}
	}
	long := strings.Repeat(data(word("word")), 100)
	got := experiment{dialect: "vllm", asked: 16, scripts: []script{framed(piece{long, 0}).cut()}}.run(t).lines[0]
	if len(got.Body) != 1024 {
		t.Errorf("%d bytes are kept, want 1024", len(got.Body))
	}
	good := experiment{dialect: "vllm", asked: 16, scripts: []script{framed(say(word("a")), say(stop, done))}}.run(t).lines[0]
	if good.Body != "" {
		t.Errorf("%q is kept of a good answer", good.Body)
	}
}

// TestOneErrorAmongMany is perf_analyzer#440, and inference-benchmarker 9f91e3a:
// one request fails, in each of the ways, and the others count as before.
func TestOneErrorAmongMany(t *testing.T) {
	good := framed(say(word("a")), say(word("b")), say(stop, usage(2), done))
	for class, bad := range map[string]script{
		"stream_error": framed(piece{data(`{"error":{"message":"x"}}`), 0}),
		"truncated":    framed(say(word("a"))).cut(),
		"http_5xx":     atOnce(wiretest.Plain(500, "text/plain", ""), 0),
		"malformed":    framed(piece{"data: {oops}\n\n", 0}),
		"no_output":    framed(piece{data(done), 0}),
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			scripts := make([]script, 100)
			for i := range scripts {
				scripts[i] = good
			}
			scripts[40] = bad
			got := experiment{dialect: "vllm", asked: 16, scripts: scripts}.run(t)
			if got.Totals.Completed != 99 || got.Totals.Failed != 1 || got.Requests.Failures[class] != 1 || got.TTFT.Count != 99 || got.OutputTokens.Count != 99 {
				t.Errorf("totals %+v, failures %v, %d TTFT", got.Totals, got.Requests.Failures, got.TTFT.Count)
			}
		})
	}
}

// TestNothingCompletes is evalscope#690: ten refusals are a result without a
// figure.
func TestNothingCompletes(t *testing.T) {
	scripts := make([]script, 10)
	for i := range scripts {
		scripts[i] = atOnce(wiretest.Plain(500, "application/json", `{"error":{"message":"no"}}`), 0)
	}
	got := experiment{dialect: "vllm", asked: 16, scripts: scripts}.run(t)
	if got.Totals.Completed != 0 || got.Totals.Failed != 10 || got.Requests.Failures["http_5xx"] != 10 || got.TTFT.Mean.OK() || got.E2E.Mean.OK() || got.TPOT.Mean.OK() {
		t.Errorf("totals %+v, TTFT %+v", got.Totals, got.TTFT)
	}
}

// TestConnections: a server that closes after each answer without saying so, as
// llama-server does, costs reconnects and no failure; one that keeps them open
// (hey ff0773a, vllm#21981) costs one connection, whose time is in no latency.
func TestConnections(t *testing.T) {
	for _, c := range []struct {
		name        string
		closes      bool
		reconnects  int64
		connections int64
	}{{"closed unsaid", true, 199, 200}, {"kept", false, 0, 1}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			scripts := make([]script, 200)
			for i := range scripts {
				scripts[i] = framed(say(word("a"), word("b")), say(length, usage(2), done))
				scripts[i].closes = c.closes
			}
			got := experiment{dialect: "llamacpp", asked: 2, scripts: scripts}.run(t)
			if got.Totals.Completed != 200 || got.Totals.Failed != 0 || got.Totals.OutputTokens != 400 || got.Requests.Retries != 0 {
				t.Errorf("totals %+v, failures %v", got.Totals, got.Requests.Failures)
			}
			if r := got.Requests; r.Completed != 200 || r.Failed != 0 || len(r.Failures) != 0 || got.TTFT.Count != 200 || got.E2E.Count != 200 {
				t.Errorf("requests %+v, %d TTFT and %d E2E: a reconnect is no failure", r, got.TTFT.Count, got.E2E.Count)
			}
			if got.Requests.Reconnects != c.reconnects || got.Client.Connections != c.connections || got.Connect.Count != c.connections {
				t.Errorf("%d reconnects over %d connections, want %d over %d", got.Requests.Reconnects, got.Client.Connections, c.reconnects, c.connections)
			}
		})
	}
}

// TestInFlightHasNoHiddenLimit is vllm#14513: 256 at once are 256 at once, as
// the server sees it and as the rung says it.
func TestInFlightHasNoHiddenLimit(t *testing.T) {
	const n = 256
	scripts := make([]script, n)
	for i := range scripts {
		scripts[i] = atOnce(wiretest.Stream(data(word("a")), data(length, usage(1), done)), 0)
		scripts[i].together = n
	}
	got := experiment{dialect: "vllm", asked: 1, inFlight: n, scripts: scripts}.run(t)
	if got.InFlightMax.Or(0) != n || got.Totals.Completed != n {
		t.Errorf("%v in flight, totals %+v", got.InFlightMax, got.Totals)
	}
}

// TestFakeStream is imp#754 and dstack#4269: a stream that comes all at once
// after a silence, or in bursts, is said to be none.
func TestFakeStream(t *testing.T) {
	all := make([]string, 0, 24)
	for i := range 20 {
		all = append(all, word(fmt.Sprint(i)))
	}
	all = append(all, length, usage(20), done)
	got := experiment{dialect: "vllm", asked: 20, scripts: []script{framed(say(role), say(all...))}}.run(t)
	if codes := warned(got.Rung); !strings.Contains(codes, "buffered_stream") {
		t.Errorf("warnings %s", codes)
	}
	if got.Totals.OutputTokens != 20 || got.ITL.Mean.OK() || got.TPOT.Mean.OK() {
		t.Errorf("%d tokens, ITL %v, TPOT %v", got.Totals.OutputTokens, got.ITL.Mean, got.TPOT.Mean)
	}
}
