package openai

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// TestCasesB are public reports about framing, from raw bytes on a socket to
// the answer's class and text.
func TestCasesB(t *testing.T) {
	cases := []struct {
		name string
		body string
		want want
	}{
		{"genai-bench#163 no blank after data", "data:" + text("a") + "\n\ndata:" + stopChunk + "\n\ndata:[DONE]\n\n",
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"TensorRT-LLM trailing blank", "data: " + text("a") + " \n\ndata: " + stopChunk + "\n\ndata: [DONE]\n\n",
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"xuan#194 CRLF", "data: " + text("a") + "\r\n\r\ndata: " + text("b") + "\r\n\r\ndata: " + stopChunk + "\r\n\r\ndata: [DONE]\r\n\r\n",
			want{Text: "ab", Outputs: 2, Tokens: -1, Finish: "stop"}},
		{"vm0#24687 byte order mark", "\uFEFFdata: " + text("a") + "\n\ndata: [DONE]\n\n",
			want{Text: "a", Outputs: 1, Tokens: -1}},
		{"lathe#131 usage without a blank line at the end", "data: " + text("a") + "\n\ndata: " + stopChunk + "\n\ndata: " + final("1") + "\n",
			want{Text: "a", Outputs: 1, Tokens: 1, Finish: "stop", Warnings: "unterminated_event"}},
		{"an unterminated end without a finish is truncated", "data: " + text("a") + "\n\ndata: " + text("b") + "\n",
			want{Class: backends.Truncated, Text: "ab", Outputs: 2, Tokens: -1, Err: "without a finish reason", Warnings: "unterminated_event"}},
		{"a cut event without a finish is truncated", "data: " + text("a") + "\n\ndata: {\"choices\":[{\"del",
			want{Class: backends.Truncated, Text: "a", Outputs: 1, Tokens: -1, Err: "without a finish reason"}},
		{"evalscope#1474 other fields", "id: 7\nevent: message\nretry: 10\ndata: " + text("a") + "\n\nid: 8\n\ndata: [DONE]\n\n",
			want{Text: "a", Outputs: 1, Tokens: -1}},
		{"vllm bench ping in the block", ": ping\ndata: " + text("a") + "\n\n: ping\n\ndata: [DONE]\n\n",
			want{Text: "a", Outputs: 1, Tokens: -1}},
		{"old llama.cpp error line", "data: " + text("a") + "\n\nerror: {\"code\":500,\"message\":\"slot lost\"}\n\n",
			want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Err: "slot lost"}},
		{"elasticsearch#154632 several data lines", "data: {\"choices\":[{\ndata: \"text\":\"a\"}]}\n\ndata: [DONE]\n\n",
			want{Text: "a", Outputs: 1, Tokens: -1}},
		{"vllm#38717 a character of several bytes", "data: " + text("中") + "\n\ndata: [DONE]\n\n",
			want{Text: "中", Outputs: 1, Tokens: -1}},
		{"not JSON", "data: " + text("a") + "\n\ndata: {oops}\n\n",
			want{Class: backends.Malformed, Text: "a", Outputs: 1, Tokens: -1, Err: "{oops}"}},
		{"a page under 200", "<html><title>Welcome</title><script>x</script></html>",
			want{Class: backends.Malformed, Tokens: -1, Err: "Welcome"}},
		{"text under 200", "upstream gone\n",
			want{Class: backends.Truncated, Tokens: -1, Err: "upstream gone"}},
		{"an empty body", "", want{Class: backends.Truncated, Tokens: -1, Err: "without a finish reason"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			answer := wiretest.Head
			if c.body != "" {
				answer += wiretest.Chunk(c.body)
			}
			answer += wiretest.End
			send := func(url string) backends.Client { return open(t, url, "vllm") }
			wiretest.EverySplit(t, answer, false, send, ask(16), func(sink *wiretest.Sink, out backends.Outcome) {
				c.want.Check(t, sink, out)
			})
		})
	}
}

// TestChunkFraming puts the chunk boundaries, not the events, anywhere:
// inference-perf#284, JSON split over packets.
func TestChunkFraming(t *testing.T) {
	body := strings.Join(sse(roleChunk, text("中a"), text("b"), lengthTail, final("2"), done), "")
	s := wiretest.Serve(t, func(conn *wiretest.Conn) bool {
		var b strings.Builder
		b.WriteString(wiretest.Head)
		for rest := body; len(rest) > 0; {
			n := min(conn.Number+1, len(rest))
			b.WriteString(wiretest.Chunk(rest[:n]))
			rest = rest[n:]
		}
		b.WriteString(wiretest.End)
		_, err := io.WriteString(conn, b.String())
		return err == nil
	})
	client := open(t, s.URL, "vllm")
	for range 64 {
		sink, out := stream(t, client, 2)
		want{Text: "中ab", Outputs: 2, Tokens: 2, Finish: "length"}.Check(t, sink, out)
	}
	if n := s.Connections(); n != 1 {
		t.Errorf("%d connections for streams read to their end", n)
	}
}

// TestOneReadOneStamp is evalscope#1102: two events in one segment have one
// stamp and both count.
func TestOneReadOneStamp(t *testing.T) {
	seen := make(chan bool)
	s := wiretest.Serve(t, func(conn *wiretest.Conn) bool {
		io.WriteString(conn, wiretest.Head)
		for _, part := range []string{sse(text("a"))[0] + sse(text("b"))[0], sse(text("c"))[0]} {
			io.WriteString(conn, wiretest.Chunk(part))
			<-seen
		}
		io.WriteString(conn, wiretest.Chunk(sse(done)[0])+wiretest.End)
		return true
	})
	sink := wiretest.Sink{OnEvent: func(e backends.Event) {
		if string(e.Text) != "a" {
			seen <- true
		}
	}}
	out := open(t, s.URL, "vllm").Stream(t.Context(), ask(16), &sink)
	want{Text: "abc", Outputs: 3, Tokens: -1}.Check(t, &sink, out)
	a, b, c := sink.Events[0], sink.Events[1], sink.Events[2]
	if a.Read != b.Read || a.At != b.At || c.Read == b.Read || c.At <= b.At {
		t.Errorf("reads %d %d %d at %d %d %d", a.Read, b.Read, c.Read, a.At, b.At, c.At)
	}
}

// TestLargeEvents is openai-go#368 and its kind, and the limit above which an
// event ends the stream.
func TestLargeEvents(t *testing.T) {
	for _, size := range []int{70_000, 1_100_000, 4_000_000} {
		long := strings.Repeat("x", size)
		s := wiretest.Serve(t, wiretest.Write(wiretest.Stream(sse(text(long), done)...)))
		sink, out := stream(t, open(t, s.URL, "vllm"), 16)
		want{Text: long, Outputs: 1, Tokens: -1}.Check(t, sink, out)
	}
	s := wiretest.Serve(t, wiretest.Write(wiretest.Stream(sse(text("a"), text(strings.Repeat("x", 70_000)), done)...)))
	client := open(t, s.URL, "vllm", func(c *Config) { c.Wire.MaxEvent = 1 << 16 })
	sink, out := stream(t, client, 16)
	want{Class: backends.Malformed, Text: "a", Outputs: 1, Tokens: -1, Err: fmt.Sprint(1 << 16)}.Check(t, sink, out)
	if len(out.Body) == 0 || len(out.Body) > 8<<10 {
		t.Errorf("%d bytes of the body are kept", len(out.Body))
	}
}
