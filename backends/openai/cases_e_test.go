package openai

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

var answerA = wiretest.Stream(sse(text("a"), stopChunk, done)...)

// TestServerClosesUnsaid is the llama-server trial: it closes the connection
// after each stream without saying so. 200 streams back to back, no failure.
func TestServerClosesUnsaid(t *testing.T) {
	s := wiretest.Serve(t, wiretest.WriteAndClose(answerA))
	client := open(t, s.URL, "llamacpp")
	reconnects := 0
	for i := range 200 {
		sink, out := stream(t, client, 16)
		if out.Class != backends.OK || sink.Text() != "a" || out.Retries != 0 {
			t.Fatalf("stream %d: %v %s, %q", i, out.Class, out.Err, sink.Text())
		}
		reconnects += out.Reconnects
		if i > 0 && out.Connect == 0 {
			t.Fatalf("stream %d has no time to connect", i)
		}
	}
	if reconnects != 199 || s.Connections() != 200 {
		t.Errorf("%d reconnects over %d connections", reconnects, s.Connections())
	}
}

// TestResetBeforeAnswer: a reused connection that dies after the request was
// written, before any byte of the answer, is replaced too.
func TestResetBeforeAnswer(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		if c.Turn == 1 { // it took the request, and hangs up on it
			c.Conn.(*net.TCPConn).SetLinger(0)
			return false
		}
		_, err := io.WriteString(c, answerA)
		return err == nil
	})
	client := open(t, s.URL, "vllm")
	for i := range 20 {
		sink, out := stream(t, client, 16)
		want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
		if want := min(i, 1); out.Reconnects != want || sink.Sends != want+1 {
			t.Fatalf("stream %d: %d reconnects, sent %d times", i, out.Reconnects, sink.Sends)
		}
	}
}

// TestResetAfterFirstByte: once a byte of the answer is there, nothing is sent
// again.
func TestResetAfterFirstByte(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		if c.Turn == 1 {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			return false
		}
		_, err := io.WriteString(c, answerA)
		return err == nil
	})
	client := open(t, s.URL, "vllm")
	stream(t, client, 16)
	if sink, out := stream(t, client, 16); out.Class != backends.Truncated || sink.Sends != 1 || out.Reconnects != 0 {
		t.Errorf("%v, sent %d times, %d reconnects", out.Class, sink.Sends, out.Reconnects)
	}
}

// TestNoPoolLimit is vllm#14513: 256 at once are 256 at once.
func TestNoPoolLimit(t *testing.T) {
	const n = 256
	var arrived sync.WaitGroup
	arrived.Add(n)
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		arrived.Done()
		arrived.Wait() // nobody is answered before all have asked
		_, err := io.WriteString(c, answerA)
		return err == nil
	})
	client := open(t, s.URL, "vllm")
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			if _, out := stream(t, client, 16); out.Class != backends.OK {
				t.Errorf("%v: %s", out.Class, out.Err)
			}
		})
	}
	wait.Wait()
}

// TestReuse is vllm#21981 and hey ff0773a: connections are kept, since bodies
// are read to their end after DONE, and the time to connect stands apart.
func TestReuse(t *testing.T) {
	s := wiretest.Serve(t, wiretest.Write(answerA))
	client := open(t, s.URL, "vllm")
	for i := range 20 {
		_, out := stream(t, client, 16)
		if (out.Connect == 0) != (i > 0) || out.Reconnects != 0 {
			t.Errorf("stream %d: connect %v, %d reconnects", i, out.Connect, out.Reconnects)
		}
	}
	if n := s.Connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// certificate writes the server's certificate to a file.
func certificate(t *testing.T, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// secureServer answers every request over TLS, HTTP/2 included, with answerA's
// events.
func secureServer(t *testing.T, seen func(*http.Request)) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if seen != nil {
			seen(r)
		}
		for _, e := range sse(text("a"), text("b"), stopChunk, done) {
			io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tested
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestTLS is vllm#29042 and hey#69: own certificates, a name that differs from
// the address, and errors that say what is wrong.
func TestTLS(t *testing.T) {
	s := secureServer(t, func(r *http.Request) {
		if r.TLS.ServerName != "example.com" || r.Host != "example.com" {
			t.Errorf("asked for %s by name %s", r.Host, r.TLS.ServerName)
		}
	})
	with := func(reach transport.Config) (*wiretest.Sink, backends.Outcome) {
		return stream(t, openWith(t, s.URL, "vllm", reach), 16)
	}
	file := certificate(t, s)
	sink, out := with(transport.Config{CACert: file, Host: "example.com"})
	want{Text: "ab", Outputs: 2, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
	if out.Connect == 0 {
		t.Error("no time to connect")
	}
	sink, out = with(transport.Config{Insecure: true, Host: "example.com", ServerName: "example.com"})
	want{Text: "ab", Outputs: 2, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
	_, out = with(transport.Config{})
	if out.Class != backends.TLS || !strings.Contains(out.Err, "x509") || !strings.Contains(out.Err, "--cacert") {
		t.Errorf("%v: %s", out.Class, out.Err)
	}
	_, out = with(transport.Config{CACert: file, Host: "other.test"})
	if out.Class != backends.TLS || !strings.Contains(out.Err, "other.test") {
		t.Errorf("%v: %s", out.Class, out.Err)
	}
}

// TestTLSToPlainServer names the mistake.
func TestTLSToPlainServer(t *testing.T) {
	s := wiretest.Serve(t, wiretest.Write(answerA))
	_, out := stream(t, open(t, strings.Replace(s.URL, "http", "https", 1), "vllm"), 16)
	if out.Class != backends.TLS {
		t.Errorf("%v: %s", out.Class, out.Err)
	}
}

// TestHTTP2 asks for HTTP/2: many streams on one connection, stamped as they
// are read.
func TestHTTP2(t *testing.T) {
	s := secureServer(t, func(r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked by %s", r.Proto)
		}
	})
	client := openWith(t, s.URL, "vllm", transport.Config{CACert: certificate(t, s), ServerName: "example.com", HTTP2: true})
	for range 3 {
		sink, out := stream(t, client, 16)
		want{Text: "ab", Outputs: 2, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
		if out.Stamps != "user" {
			t.Errorf("stamps by %s", out.Stamps)
		}
	}
}

// TestUnixSocket speaks to a server behind a Unix socket.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Skip(err)
	}
	wiretest.ServeOn(t, l, wiretest.Write(answerA))
	sink, out := stream(t, open(t, "unix://"+path, "vllm"), 16)
	want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
	if out.Stamps != "user" {
		t.Errorf("stamps by %s", out.Stamps)
	}
}

// TestIPv6 is vegeta 6fbe391.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	s := wiretest.ServeOn(t, l, wiretest.Write(answerA))
	sink, out := stream(t, open(t, s.URL, "vllm"), 16)
	want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
	if out.Remote != l.Addr().String() {
		t.Errorf("answered by %s", out.Remote)
	}
}

// TestProxy goes through an HTTP proxy, whose password is not told.
func TestProxy(t *testing.T) {
	s := wiretest.Serve(t, wiretest.Write(answerA))
	asked := make(chan string, 1)
	proxy := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		asked <- c.Request.RequestURI + " " + c.Request.Header.Get("Proxy-Authorization")
		_, err := io.WriteString(c, answerA)
		return err == nil
	})
	via, _ := url.Parse(proxy.URL)
	via.User = url.UserPassword("u", "p")
	client := openWith(t, s.URL, "vllm", transport.Config{Proxy: via, Insecure: true})
	sink, out := stream(t, client, 16)
	want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
	if got, want := <-asked, s.URL+"/v1/chat/completions Basic dTpw"; got != want {
		t.Errorf("the proxy was asked for %q, want %q", got, want)
	}
}

// TestProxyTunnel goes to a TLS server through a proxy.
func TestProxyTunnel(t *testing.T) {
	s := secureServer(t, nil)
	proxy := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		if c.Request.Method != http.MethodConnect {
			t.Errorf("asked to %s", c.Request.Method)
		}
		up, err := net.Dial("tcp", c.Request.Host)
		if err != nil {
			return false
		}
		defer up.Close()
		io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			io.Copy(up, c)
			up.Close()
		}()
		io.Copy(c, up)
		return false
	})
	via, _ := url.Parse(proxy.URL)
	client := openWith(t, s.URL, "vllm", transport.Config{Proxy: via, Insecure: true})
	sink, out := stream(t, client, 16)
	want{Text: "ab", Outputs: 2, Tokens: -1, Finish: "stop"}.Check(t, sink, out)
}

// TestRequestOnTheWire: the header and body that a server sees.
func TestRequestOnTheWire(t *testing.T) {
	asked := make(chan *wiretest.Conn, 1)
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		asked <- c
		_, err := io.WriteString(c, answerA)
		return err == nil
	})
	client := open(t, s.URL+"/?tenant=7", "vllm", func(c *Config) {
		c.Key = "k"
		c.Wire.Header = []transport.Field{{Name: "X-Team", Value: "a"}}
	})
	stream(t, client, 16)
	got := <-asked
	h := got.Request.Header
	for name, want := range map[string]string{
		"Accept-Encoding": "identity", "Authorization": "Bearer k", "X-Request-Id": "r-1", "X-Team": "a",
		"Content-Type": "application/json", "Accept": "text/event-stream",
	} {
		if h.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, h.Get(name), want)
		}
	}
	if got.Request.RequestURI != "/v1/chat/completions?tenant=7" {
		t.Errorf("asked for %s", got.Request.RequestURI)
	}
	const body = `{"stream":true,"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":16,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`
	if string(got.Body) != body {
		t.Errorf("the body is\n%s\nwant\n%s", got.Body, body)
	}
}

// TestKernelStamps: arrivals are stamped by the kernel, before the read
// returns, even when the reader is late.
func TestKernelStamps(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			second := make(chan bool)
			written := make(chan bool)
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for i, e := range sse(text("a"), text("b"), stopChunk, done) {
					if i == 1 {
						<-second
					}
					io.WriteString(w, e)
					w.(http.Flusher).Flush()
				}
				written <- true
			})
			s := httptest.NewUnstartedServer(handler)
			if secure {
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			const late = 20 * time.Millisecond
			sink := wiretest.Sink{OnEvent: func(e backends.Event) {
				if string(e.Text) == "a" { // the reader is away while the rest comes in
					second <- true
					<-written
					time.Sleep(late)
				}
			}}
			out := open(t, s.URL, "vllm").Stream(context.Background(), ask(16), &sink)
			want{Text: "ab", Outputs: 2, Tokens: -1, Finish: "stop"}.Check(t, &sink, out)
			if out.Stamps != "kernel" {
				t.Skipf("stamps by %s: the kernel gives none here", out.Stamps)
			}
			if b := sink.Events[1]; time.Duration(b.Returned-b.At) < late {
				t.Errorf("the late read was stamped %v before it returned, want %v or more", time.Duration(b.Returned-b.At), late)
			}
		})
	}
}

// TestStreamAllocatesNothing: from socket to sink, an event costs no
// allocation.
func TestStreamAllocatesNothing(t *testing.T) {
	perStream := func(n int) float64 {
		answer := []byte(benchAnswer(n))
		s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
			_, err := c.Write(answer)
			return err == nil
		})
		client := open(t, s.URL, "vllm")
		r := &backends.Request{MaxTokens: n, Prompt: backends.Prompt{Text: "x"}}
		return testing.AllocsPerRun(50, func() {
			if out := client.Stream(context.Background(), r, discard{}); out.Class != backends.OK {
				t.Fatal(out.Err)
			}
		})
	}
	if few, many := perStream(10), perStream(1010); many-few > 50 {
		t.Errorf("%v allocations for 10 tokens, %v for 1010", few, many)
	}
}

// TestManyAtOnce: streams side by side on connections that close unsaid, now
// and then, keep their own answers.
func TestManyAtOnce(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		id := c.Request.Header.Get("X-Request-Id")
		io.WriteString(c, wiretest.Stream(sse(text(id), text(" "+id), stopChunk, done)...))
		return c.Number%3 != 0
	})
	client := open(t, s.URL, "vllm")
	var wait sync.WaitGroup
	for worker := range 16 {
		wait.Go(func() {
			for i := range 25 {
				var sink wiretest.Sink
				r := ask(16)
				r.ID = fmt.Sprintf("w%d-%d", worker, i)
				out := client.Stream(context.Background(), r, &sink)
				if want := r.ID + " " + r.ID; out.Class != backends.OK || sink.Text() != want {
					t.Errorf("%v %s: %q, want %q", out.Class, out.Err, sink.Text(), want)
				}
			}
		})
	}
	wait.Wait()
}
