package openai

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// TestCasesC are public reports about errors counted as success and streams
// that break off.
func TestCasesC(t *testing.T) {
	partial := wiretest.Head + wiretest.Chunk(sse(text("a"))[0])
	cases := []struct {
		name   string
		answer string
		closes bool
		want   want
	}{
		{"inference-perf#713 error event under 200", wiretest.Stream(sse(`{"error":{"message":"queue is full","type":"Overloaded"}}`)...), false,
			want{Class: backends.StreamError, Tokens: -1, Err: "queue is full"}},
		{"guidellm#743 error event and DONE", wiretest.Stream(sse(`{"error": {"message": "engine died", "type": "InternalServerError", "param": null, "code": 500}}`, done)...), false,
			want{Class: backends.StreamError, Tokens: -1, Err: "engine died"}},
		{"guidellm#795 error null is none", wiretest.Stream(sse(`{"error":null,"choices":[{"delta":{"content":"a"}}]}`, stopChunk, done)...), false,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"empty error is none", wiretest.Stream(sse(`{"error":{},"choices":[{"delta":{"content":"a"}}]}`, stopChunk, done)...), false,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"error as text", wiretest.Stream(sse(text("a"), `{"error":"model failed"}`)...), false,
			want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Err: "model failed"}},
		{"flat error", wiretest.Stream(sse(`{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`)...), false,
			want{Class: backends.StreamError, Tokens: -1, Err: "too long"}},
		{"detail alone", wiretest.Stream(sse(`{"detail":"Not Found"}`)...), false,
			want{Class: backends.StreamError, Tokens: -1, Err: "Not Found"}},
		{"x_groq error", wiretest.Stream(sse(text("a"), `{"choices":[],"x_groq":{"id":"r","error":"over capacity"}}`)...), false,
			want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Err: "over capacity"}},
		{"finish reason error", wiretest.Stream(sse(text("a"), `{"choices":[{"delta":{},"finish_reason":"error"}]}`, done)...), false,
			want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Finish: "error", Err: "finish reason"}},
		{"anthropic-sdk#688 event: error", wiretest.Stream(sse(text("a"))[0], "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"), false,
			want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Err: "Overloaded"}},
		{"ai-gateway#2698 error without DONE, then the end", wiretest.Stream(sse(text("a"), `{"error":{"message":"upstream reset"}}`)...), true,
			want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Err: "upstream reset"}},
		{"error body under 200", wiretest.Plain(200, "application/json", `{"error":"generate expects one response"}`), false,
			want{Class: backends.StreamError, Tokens: -1, Err: "generate expects"}},
		{"TensorRT-LLM cut inside the stream", partial, true,
			want{Class: backends.Truncated, Text: "a", Outputs: 1, Tokens: -1, Err: "without a finish reason"}},
		{"clean end without a finish", wiretest.Stream(sse(text("a"))...), false,
			want{Class: backends.Truncated, Text: "a", Outputs: 1, Tokens: -1, Err: "without a finish reason"}},
		{"finish and a cut", wiretest.Head + wiretest.Chunk(sse(text("a"))[0]) + wiretest.Chunk(sse(stopChunk)[0]), true,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop", Warnings: "cut_after_end"}},
		{"finish and a clean end", wiretest.Stream(sse(text("a"), stopChunk)...), false,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"DONE without a finish", wiretest.Stream(sse(text("a"), done)...), false,
			want{Text: "a", Outputs: 1, Tokens: -1}},
		{"DONE and a cut", wiretest.Head + wiretest.Chunk(sse(text("a"))[0]) + wiretest.Chunk(sse(done)[0]), true,
			want{Text: "a", Outputs: 1, Tokens: -1, Warnings: "cut_after_end"}},
		{"inference-perf#247 502 page", wiretest.Plain(502, "text/html", "<html><head><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>"), false,
			want{Class: backends.HTTP5xx, Tokens: -1, Err: "HTTP 502 Bad Gateway: 502 Bad Gateway nginx"}},
		{"vllm#13117 the body's message", wiretest.Plain(404, "application/json", `{"error":{"message":"The model x does not exist.","type":"NotFoundError","param":"model","code":404}}`), false,
			want{Class: backends.HTTP4xx, Tokens: -1, Err: "/v1/chat/completions: HTTP 404 Not Found: The model x does not exist."}},
		{"void#128 the field that is refused", wiretest.Plain(400, "application/json", `{"object":"error","message":"[{'type':'extra_forbidden','loc':('body','max_completion_tokens'),'msg':'Extra inputs'}]","code":400}`), false,
			want{Class: backends.HTTP4xx, Tokens: -1, Err: "refuses the field max_completion_tokens"}},
		{"genai-bench#116 unknown field refused as a list", wiretest.Plain(400, "application/json", `{"detail":[{"type":"extra_forbidden","loc":["body","ignore_eos"],"msg":"Extra inputs are not permitted"}]}`), false,
			want{Class: backends.HTTP4xx, Tokens: -1, Err: "refuses the field ignore_eos"}},
		{"error of an unbounded prompt", wiretest.Plain(400, "application/json", `{"error":{"message":"prompt is too long","input":"`+strings.Repeat("x ", 50_000)+`"}}`), false,
			want{Class: backends.HTTP4xx, Tokens: -1, Err: "prompt is too long"}},
		{"empty 500", wiretest.Plain(500, "text/plain", ""), false,
			want{Class: backends.HTTP5xx, Tokens: -1, Err: "(empty body)"}},
		{"redirect", wiretest.Plain(307, "text/plain", "", "Location: /v2/chat"), false,
			want{Class: backends.Malformed, Tokens: -1, Err: "points to /v2/chat"}},
		{"not HTTP", "SSH-2.0-x\r\n\r\n", true,
			want{Class: backends.Malformed, Tokens: -1, Err: "header"}},
		{"header cut", "HTTP/1.1 200 OK\r\nContent-Ty", true,
			want{Class: backends.Truncated, Tokens: -1, Err: "header"}},
		{"broken chunk", wiretest.Head + wiretest.Chunk(sse(text("a"))[0]) + "zz\r\n", true,
			want{Class: backends.Malformed, Text: "a", Outputs: 1, Tokens: -1, Err: "chunk size"}},
		{"closed before any byte on a fresh connection", "", true,
			want{Class: backends.Truncated, Tokens: -1, Err: "before any byte"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			answer := wiretest.Write(c.answer)
			if c.closes {
				answer = wiretest.WriteAndClose(c.answer)
			}
			s := wiretest.Serve(t, answer)
			sink, out := stream(t, open(t, s.URL, "vllm"), 16)
			c.want.Check(t, sink, out)
			if out.Class != backends.OK && out.Status != 0 && len(out.Body) == 0 && len(c.answer) > 200 && out.Status < 300 {
				t.Error("inference-perf#530: nothing of the failed answer is kept")
			}
		})
	}
}

// TestRateLimit is llm-d-async#122: what the server asks to wait is told, and
// nobody waits unless asked.
func TestRateLimit(t *testing.T) {
	soon := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
	for header, want := range map[string][2]time.Duration{
		"Retry-After: 2":                             {2 * time.Second, 2 * time.Second},
		"Retry-After: 0.5":                           {500 * time.Millisecond, 500 * time.Millisecond},
		"retry-after-ms: 1500":                       {1500 * time.Millisecond, 1500 * time.Millisecond},
		"Retry-After: " + soon:                       {60 * time.Second, 90 * time.Second},
		"Retry-After: soon":                          {0, 0},
		"Retry-After: -1":                            {0, 0},
		"Retry-After: Mon, 02 Jan 2006 15:04:05 GMT": {0, 0},
	} {
		s := wiretest.Serve(t, wiretest.Write(wiretest.Plain(429, "application/json", `{"error":{"message":"slow down"}}`, header)))
		_, out := stream(t, open(t, s.URL, "vllm"), 16)
		if out.Class != backends.HTTP429 || out.RetryAfter < want[0] || out.RetryAfter > want[1] || out.Retries != 0 {
			t.Errorf("%s: %v, wait %v after %d retries", header, out.Class, out.RetryAfter, out.Retries)
		}
	}
}

// TestRetries is empirical#166: retries happen when asked for, and their
// waiting stands apart.
func TestRetries(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		answer := wiretest.Plain(429, "application/json", `{"error":"busy"}`, "retry-after-ms: 1")
		if c.Number == 2 {
			answer = wiretest.Stream(sse(text("a"), stopChunk, done)...)
		}
		_, err := io.WriteString(c, answer)
		return err == nil
	})
	client := open(t, s.URL, "vllm", func(c *Config) { c.Wire.Retries = 3 })
	sink, out := stream(t, client, 16)
	want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
	if out.Retries != 2 || out.RetryWait < 2*time.Millisecond || sink.Sends != 3 {
		t.Errorf("%d retries, %v waited, sent %d times", out.Retries, out.RetryWait, sink.Sends)
	}
	failing := wiretest.Serve(t, wiretest.Write(wiretest.Stream(sse(text("a"), `{"error":"x"}`)...)))
	client = open(t, failing.URL, "vllm", func(c *Config) { c.Wire.Retries = 3 })
	if sink, out := stream(t, client, 16); out.Class != backends.StreamError || out.Retries != 0 || sink.Sends != 1 {
		t.Errorf("anthropic-sdk#688: %v was sent again after its first token", out.Class)
	}
}

// TestTimeoutAndCancel are fortio#914, inference-perf#555 and
// inference-benchmarker 0af45e1: a server that says nothing more.
func TestTimeoutAndCancel(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer string
	}{
		{"no byte at all", ""},
		{"header alone", wiretest.Head},
		{"stops after a token", wiretest.Head + wiretest.Chunk(sse(text("a"))[0])},
		{"stops inside a header", "HTTP/1.1 200 OK\r\nCont"},
		{"stops inside a refusal", "HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\nabc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			written := make(chan bool, 8)
			s := wiretest.Serve(t, func(conn *wiretest.Conn) bool {
				io.WriteString(conn, c.answer)
				written <- true
				io.Copy(io.Discard, conn)
				return false
			})
			client := open(t, s.URL, "vllm", func(c *Config) { c.Wire.Timeout = 20 * time.Millisecond })
			if _, out := stream(t, client, 16); out.Class != backends.Timeout {
				t.Errorf("timed out as %v: %s", out.Class, out.Err)
			}
			client = open(t, s.URL, "vllm")
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-written
				cancel()
			}()
			if out := client.Stream(ctx, ask(16), &wiretest.Sink{}); out.Class != backends.Cancelled {
				t.Errorf("cancelled as %v: %s", out.Class, out.Err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if out := client.Stream(ctx, ask(16), &wiretest.Sink{}); out.Class != backends.Timeout {
				t.Errorf("a deadline of the caller's is %v: %s", out.Class, out.Err)
			}
		})
	}
}

// TestFinishThenSilence: an answer that finished is complete even if the
// server never ends it.
func TestFinishThenSilence(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		io.WriteString(c, wiretest.Head+wiretest.Chunk(sse(text("a"))[0]+sse(stopChunk)[0]))
		io.Copy(io.Discard, c)
		return false
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sink := wiretest.Sink{OnEvent: func(e backends.Event) {
		if e.Kind&backends.KindFinish != 0 {
			cancel()
		}
	}}
	out := open(t, s.URL, "vllm").Stream(ctx, ask(16), &sink)
	want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop", Warnings: "open_after_end"}.Check(t, &sink, out)
}

// TestEndlessStream: a server that never stops is left once the output is
// clearly too long.
func TestEndlessStream(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		io.WriteString(c, wiretest.Head)
		for {
			if _, err := io.WriteString(c, wiretest.Chunk(sse(text("word"))[0])); err != nil {
				return false
			}
		}
	})
	sink, out := stream(t, open(t, s.URL, "vllm"), 100)
	want{Class: backends.TooLong, Text: words(117), Outputs: 117, Tokens: -1, Err: "100 were asked"}.Check(t, sink, out)
}

// TestSecrets: no error, body or warning holds the key or a header's value,
// even when the server repeats them.
func TestSecrets(t *testing.T) {
	const key, header = "sk-very-secret-9", `hidden "value"`
	answers := []string{
		wiretest.Plain(401, "application/json", `{"error":{"message":"Incorrect API key provided: `+key+`"}}`),
		wiretest.Plain(500, "text/html", "<p>"+key+" "+header+"</p>"),
		wiretest.Stream(sse(text("a"), `{"error":{"message":"key `+key+` header hidden \"value\""}}`)...),
		wiretest.Stream("data: {" + key + "}\n\n"),
		wiretest.Stream(sse(text("a") + ` `)[0], ": "+key+"\n\n"),
	}
	for _, answer := range answers {
		s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
			if c.Request.Header.Get("Authorization") != "Bearer "+key {
				t.Errorf("the key is not sent: %v", c.Request.Header)
			}
			_, err := io.WriteString(c, answer)
			return err == nil
		})
		client := open(t, s.URL, "vllm", func(c *Config) {
			c.Key = key
			c.Wire.Secrets = []string{key, header}
		})
		_, out := stream(t, client, 16)
		if out.Class == backends.OK {
			t.Errorf("%q is no failure", answer)
		}
		all := out.Err + string(out.Body) + strings.Join(out.Warnings, "")
		for _, secret := range []string{key, header, `hidden \"value\"`} {
			if strings.Contains(all, secret) {
				t.Errorf("%q stands in %q", secret, all)
			}
		}
	}
}

// TestRefusedConnection names the class and the address.
func TestRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, out := stream(t, open(t, "http://"+addr, "vllm"), 16)
	if out.Class != backends.Connect || !strings.Contains(out.Err, addr) || !strings.Contains(out.Err, "refused") {
		t.Errorf("%v: %s", out.Class, out.Err)
	}
	if out.Usage != backends.NoUsage {
		t.Errorf("usage %+v", out.Usage)
	}
}
