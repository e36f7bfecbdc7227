package openai

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// open-ended answers: their body ends with the connection.
const (
	untilClosed = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	wholeHead   = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
)

// TestFloods are answers without an end, sent as fast as they are taken: each
// is left at a limit, with its class, and no more is read than that.
func TestFloods(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name, head, piece string
		class             backends.Class
		err               string
		most              int // bytes that are read
	}{
		{"a line", untilClosed + "data: ", "x", backends.Malformed, "limit of 1048576", 3 * mib},
		{"a line in one chunk", wiretest.Head + "7fffffffffffffff\r\ndata: ", "x", backends.Malformed, "limit of 1048576", 3 * mib},
		{"an event of many lines", untilClosed, "data: x\n", backends.Malformed, "limit of 1048576", 3 * mib},
		{"a comment", untilClosed + ": ", "x", backends.Malformed, "limit of 1048576", 3 * mib},
		{"comments without a blank line", untilClosed, ": ping\n", backends.Malformed, "limit of 1048576", 3 * mib},
		{"text", untilClosed, "data: " + text("word") + "\n\n", backends.TooLong, "where 16 were asked for", mib},
		{"tokens of an empty text", untilClosed, "data: " + text("") + "\n\n", backends.TooLong, "events or more where 16 tokens", 16 * mib},
		{"roles", untilClosed, "data: " + roleChunk + "\n\n", backends.TooLong, "events or more where 16 tokens", 16 * mib},
		{"a usage that stands still", untilClosed, `data: {"choices":[{"delta":{"content":"word"}}],"usage":{"completion_tokens":1}}` + "\n\n", backends.TooLong, "events or more where 16 tokens", 16 * mib},
		{"an answer at once", wholeHead + `{"choices":[{"message":{"content":"`, "x", backends.Malformed, "limit of 1048576", 3 * mib},
		{"a header line", "HTTP/1.1 200 OK\r\nX: ", "x", backends.Malformed, "header is over 1048576", 2 * mib},
		{"header lines", "HTTP/1.1 200 OK\r\n", "X-Filler: x\r\n", backends.Malformed, "header is over 1048576", 2 * mib},
		{"a status line", "HTTP/1.1 200 ", "x", backends.Malformed, "header is over 1048576", 2 * mib},
		{"interim answers", "", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", backends.Malformed, "header is over 1048576", 2 * mib},
		{"a chunk's extension", wiretest.Head + "5;", "x", backends.Malformed, "chunked body is broken", mib},
		{"a trailer", wiretest.Head + wiretest.Chunk(sse(text("a"))[0]) + "0\r\n", "X-Filler: x\r\n", backends.Malformed, "chunked body is broken", 2 * mib},
		{"a page", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", "<p>x</p>", backends.Malformed, "is a page", mib},
		{"the body of a refusal", "HTTP/1.1 500 X\r\n\r\nsorry ", "x", backends.HTTP5xx, "sorry", 2 * mib},
		{"after the end mark", untilClosed + strings.Join(sse(text("a"), stopChunk, done), ""), "data: " + text("a") + "\n\n", backends.OK, "", 2 * mib},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, taken := wiretest.Flood(t, c.head, c.piece)
			_, out := stream(t, open(t, s.URL, "vllm", func(c *Config) { c.Wire.MaxEvent = 1 << 20 }), 16)
			if out.Class != c.class || !strings.Contains(out.Err, c.err) {
				t.Errorf("%v: %s; want %v, %q", out.Class, out.Err, c.class, c.err)
			}
			if len(out.Body) > 4<<10 || len(out.Err) > 4<<10 {
				t.Errorf("%d bytes of the body are kept, %d of the error", len(out.Body), len(out.Err))
			}
			if n := <-taken; n > c.most+wiretest.Buffered {
				t.Errorf("%d bytes were taken, %d may be", n, c.most+wiretest.Buffered)
			}
		})
	}
}

// TestFloodsOfNothing are answers without an end that hold no event: the time
// limit ends them.
func TestFloodsOfNothing(t *testing.T) {
	for name, piece := range map[string]string{"pings": ": ping\n\n", "blank lines": "\r\n", "blanks": " \n", "empty events": "data:\n\n", "chunks of one byte": ""} {
		t.Run(name, func(t *testing.T) {
			head := untilClosed
			if piece == "" {
				head, piece = wiretest.Head, wiretest.Chunk("\n")
			}
			s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
				io.WriteString(c, head)
				for {
					if _, err := io.WriteString(c, strings.Repeat(piece, 1000)); err != nil {
						return false
					}
				}
			})
			client := open(t, s.URL, "vllm", func(c *Config) { c.Wire.Timeout = 50 * time.Millisecond })
			sink, out := stream(t, client, 16)
			want{Class: backends.Timeout, Tokens: -1, Err: "time limit"}.Check(t, sink, out)
			if len(sink.Events) > 0 {
				t.Errorf("%d events", len(sink.Events))
			}
		})
	}
}

// TestTrickle is a server that sends a byte now and then, at each place of an
// answer: the time limit ends the request, however alive the connection is.
func TestTrickle(t *testing.T) {
	for name, head := range map[string]string{
		"status line": "", "header": "HTTP/1.1 200 OK\r\nX: ", "event": untilClosed + "data: ", "answer at once": wholeHead + `{"a":"`,
		"refusal": "HTTP/1.1 500 X\r\nContent-Length: 2000\r\n\r\n", "chunk's header": wiretest.Head,
	} {
		t.Run(name, func(t *testing.T) {
			s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
				io.WriteString(c, head)
				for range time.Tick(time.Millisecond) {
					if _, err := io.WriteString(c, "1"); err != nil {
						break
					}
				}
				return false
			})
			client := open(t, s.URL, "vllm", func(c *Config) { c.Wire.Timeout = 30 * time.Millisecond })
			if _, out := stream(t, client, 16); out.Class != backends.Timeout || !strings.Contains(out.Err, "time limit") {
				t.Errorf("%v: %s", out.Class, out.Err)
			}
		})
	}
}

// TestHugeEvent is an event of 20 MB: it is refused at the limit, and taken
// below a larger one.
func TestHugeEvent(t *testing.T) {
	long := strings.Repeat("x", 20_000_000)
	s := wiretest.Serve(t, wiretest.WriteAndClose(wiretest.Stream(sse(text(long), stopChunk, done)...)))
	_, out := stream(t, open(t, s.URL, "vllm"), 16)
	if out.Class != backends.Malformed || !strings.Contains(out.Err, "limit of 8388608") {
		t.Errorf("%v: %s", out.Class, out.Err)
	}
	sink, out := stream(t, open(t, s.URL, "vllm", func(c *Config) { c.Wire.MaxEvent = 32 << 20 }), 16)
	if out.Class != backends.OK || sink.Text() != long {
		t.Errorf("%v: %s, %d bytes", out.Class, out.Err, len(sink.Text()))
	}
}

// TestLargeHeader is a header below the limit.
func TestLargeHeader(t *testing.T) {
	header := strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 900)
	s := wiretest.Serve(t, wiretest.Write(strings.Replace(wiretest.Stream(sse(text("a"), stopChunk, done)...), "\r\n", "\r\n"+header, 1)))
	sink, out := stream(t, open(t, s.URL, "vllm"), 16)
	want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
}

// TestCompressed are answers, that unpack to 4 MiB, from a server that
// compresses although identity was asked for: nothing is unpacked.
func TestCompressed(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	zeros := make([]byte, 1<<20)
	for range 4 {
		z.Write(zeros)
	}
	z.Close()
	for _, status := range []int{200, 500} {
		s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
			if got := c.Request.Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("asked for %q", got)
			}
			_, err := io.WriteString(c, wiretest.Plain(status, "text/event-stream", packed.String(), "Content-Encoding: gzip"))
			return err == nil
		})
		_, out := stream(t, open(t, s.URL, "vllm"), 16)
		if class := map[int]backends.Class{200: backends.Malformed, 500: backends.HTTP5xx}[status]; out.Class != class || !strings.Contains(out.Err, "compressed (gzip)") {
			t.Errorf("%v: %s", out.Class, out.Err)
		}
	}
}

// TestRedirectIsNotFollowed: the key goes to no other host.
func TestRedirectIsNotFollowed(t *testing.T) {
	other := wiretest.Serve(t, wiretest.Write(wiretest.Stream(sse(text("a"), stopChunk, done)...)))
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := wiretest.Serve(t, wiretest.Write(wiretest.Plain(status, "text/plain", "", "Location: "+other.URL+"/v1/chat/completions")))
		client := open(t, s.URL, "vllm", func(c *Config) { c.Key = "sk-0123456789" })
		if _, out := stream(t, client, 16); out.Class != backends.Malformed || !strings.Contains(out.Err, "points to "+other.URL) {
			t.Errorf("%d: %v: %s", status, out.Class, out.Err)
		}
	}
	if n := other.Connections(); n > 0 {
		t.Errorf("%d connections to the other host", n)
	}
}

// TestHandshakeWithoutEnd is a TLS server that says nothing, or nothing that is
// TLS, without an end.
func TestHandshakeWithoutEnd(t *testing.T) {
	listen := func() (l net.Listener, target string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l, "https://" + l.Addr().String()
	}
	_, silent := listen() // the system takes its connections
	client := open(t, silent, "vllm", func(c *Config) { c.Wire.Timeout = 30 * time.Millisecond })
	if _, out := stream(t, client, 16); out.Class != backends.Timeout {
		t.Errorf("silence: %v: %s", out.Class, out.Err)
	}
	l, talker := listen()
	taken := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		taken <- wiretest.Pour(c, "", "\x16\x03\x03\x3f\xff"+strings.Repeat("\x02\x00\x7f\xff", 0x3fff/4)) // records of a handshake
	}()
	_, out := stream(t, open(t, talker, "vllm"), 16)
	if n := <-taken; out.Class != backends.TLS || n > wiretest.Buffered {
		t.Errorf("records without an end: %v: %s; %d bytes were taken", out.Class, out.Err, n)
	}
}

// TestFloodedTunnel is a proxy whose answer has a header without an end.
func TestFloodedTunnel(t *testing.T) {
	s, taken := wiretest.Flood(t, "HTTP/1.1 200 OK\r\n", "X-Filler: x\r\n")
	proxy, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy.User = url.UserPassword("user-of-it", "pA55w0rd")
	_, out := stream(t, openWith(t, "https://replica.test", "vllm", transport.Config{Proxy: proxy}), 16)
	if out.Class != backends.Connect || !strings.Contains(out.Err, "header is over 1048576") || strings.Contains(out.Err, "-of-it") {
		t.Errorf("%v: %s", out.Class, out.Err)
	}
	if n := <-taken; n > 2<<20+wiretest.Buffered {
		t.Errorf("%d bytes were taken", n)
	}
}

// h2 is one frame of HTTP/2.
func h2(kind, flags byte, id uint32, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}) + payload
}

// The frames that a server sends (RFC 9113 section 6). An answer of status 200
// without further header is the one byte 0x88 (RFC 7541 appendix A).
func h2Data(s string) string { return h2(0, 0, 1, s) }

const h2OK = "\x88"

// TestHTTP2Failures are servers that break off, or never end, over HTTP/2.
func TestHTTP2Failures(t *testing.T) {
	cert := secureServer(t, nil).TLS.Certificates[0]
	answer := h2(1, 4, 1, h2OK) + h2Data(sse(text("a"))[0])
	goAway := h2(7, 0, 0, "\x00\x00\x00\x01\x00\x00\x00\x02")
	for _, c := range []struct {
		name, frames, flood string
		class               backends.Class
		text                string
	}{
		{"closed before the answer", "", "", backends.Truncated, ""},
		{"GOAWAY before the answer", h2(7, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x02"), "", backends.Truncated, ""},
		{"reset before the answer", h2(3, 0, 1, "\x00\x00\x00\x02"), "", backends.Truncated, ""},
		{"closed inside the answer", answer, "", backends.Truncated, "a"},
		{"GOAWAY inside the answer", answer + goAway, "", backends.Truncated, "a"},
		{"reset inside the answer", answer + h2(3, 0, 1, "\x00\x00\x00\x02"), "", backends.Truncated, "a"},
		{"a push, which no client of ours takes", answer + h2(5, 4, 1, "\x00\x00\x00\x02"+h2OK), "", backends.Truncated, "a"},
		{"a frame over the limit", answer + "\xff\xff\xff\x00\x00\x00\x00\x00\x01", "x", backends.Truncated, "a"},
		{"ended without a finish", answer + h2(0, 1, 1, ""), "", backends.Truncated, "a"},
		{"GOAWAY after the finish", answer + h2Data(sse(stopChunk)[0]) + goAway, "", backends.OK, "a"},
		{"a header without an end", h2(1, 0, 1, h2OK), h2(9, 0, 1, "\x00\x01x\x7f\x81\x7d"+strings.Repeat("y", 252)), backends.Malformed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			taken := make(chan int, 1)
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				io.WriteString(conn, h2(4, 0, 0, "")) // settings
				awaitRequest(conn)
				if c.flood == "" {
					io.WriteString(conn, c.frames)
					conn.(*tls.Conn).CloseWrite()
					io.Copy(io.Discard, conn)
					return
				}
				go io.Copy(io.Discard, conn)
				taken <- wiretest.Pour(conn, c.frames, c.flood)
			}()
			client := openWith(t, "https://"+l.Addr().String(), "vllm", transport.Config{Insecure: true, HTTP2: true})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var sink wiretest.Sink
			out := client.Stream(ctx, ask(16), &sink)
			if out.Class != c.class || sink.Text() != c.text {
				t.Errorf("%v: %s; text %q", out.Class, out.Err, sink.Text())
			}
			client.Close()
			if c.flood != "" {
				if n := <-taken; n > 17<<20+wiretest.Buffered {
					t.Errorf("%d bytes were taken", n)
				}
			}
		})
	}
}

// TestFloodHTTP2 is a line without an end over HTTP/2.
func TestFloodHTTP2(t *testing.T) {
	taken := make(chan int, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		taken <- wiretest.Pour(w, "data: ", "x")
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	client := openWith(t, s.URL, "vllm", transport.Config{Insecure: true, HTTP2: true})
	_, out := stream(t, client, 16)
	if out.Class != backends.Malformed || !strings.Contains(out.Err, "limit of 8388608") {
		t.Errorf("%v: %s", out.Class, out.Err)
	}
	if n := <-taken; n > 17<<20+wiretest.Buffered {
		t.Errorf("%d bytes were taken", n)
	}
}

// awaitRequest reads the client's preface and frames up to the end of its
// request.
func awaitRequest(conn net.Conn) {
	io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		io.CopyN(io.Discard, conn, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
		if head[3] <= 1 && head[4]&1 != 0 { // DATA or HEADERS that end the stream
			return
		}
	}
}
