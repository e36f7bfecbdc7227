// Package wiretest has what tests of wire protocols share: a server that
// writes raw bytes on a socket, the answers it writes, and a sink that keeps
// what a client reports.
package wiretest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/headway-bench/headway/backends"
)

// Conn is a connection on which one request was read.
type Conn struct {
	net.Conn
	Request *http.Request
	Body    []byte
	// Number counts the requests of the server from 0, Turn those of the
	// connection.
	Number, Turn int
}

// Server answers requests with raw bytes. It stops when the test ends.
type Server struct {
	// URL is its address.
	URL      string
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	requests int
	wait     sync.WaitGroup
}

// Serve starts a server on a free port. Each request is given to answer, which
// writes the whole answer; when it returns false the connection is closed.
func Serve(t testing.TB, answer func(c *Conn) bool) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ServeOn(t, l, answer)
}

// ServeOn starts a server on a listener.
func ServeOn(t testing.TB, l net.Listener, answer func(c *Conn) bool) *Server {
	s := &Server{URL: "http://" + l.Addr().String(), listener: l}
	s.wait.Add(1)
	go func() {
		defer s.wait.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wait.Add(1)
			go func() {
				defer s.wait.Done()
				defer c.Close()
				s.serve(c, answer)
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wait.Wait()
	})
	return s
}

// Connections is how many connections were accepted.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Server) serve(c net.Conn, answer func(c *Conn) bool) {
	br := bufio.NewReader(c)
	for turn := 0; ; turn++ {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		number := s.requests
		s.requests++
		s.mu.Unlock()
		if !answer(&Conn{Conn: c, Request: req, Body: body, Number: number, Turn: turn}) {
			return
		}
	}
}

// Head is the start of a chunked answer of server-sent events.
const Head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// End ends a chunked body.
const End = "0\r\n\r\n"

// Chunk frames bytes as one chunk.
func Chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// Stream is a whole chunked answer, a chunk an event.
func Stream(events ...string) string {
	var b strings.Builder
	b.WriteString(Head)
	for _, e := range events {
		b.WriteString(Chunk(e))
	}
	b.WriteString(End)
	return b.String()
}

// Plain is a whole answer of known length.
func Plain(status int, contentType, body string, header ...string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), contentType, len(body))
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

// Write answers each request with the same bytes, and keeps the connection.
func Write(answer string) func(c *Conn) bool {
	return func(c *Conn) bool {
		_, err := io.WriteString(c, answer)
		return err == nil
	}
}

// WriteAndClose answers with the bytes and closes the connection.
func WriteAndClose(answer string) func(c *Conn) bool {
	return func(c *Conn) bool {
		_, _ = io.WriteString(c, answer) // the connection ends either way
		return false
	}
}

// Sink keeps what a client reports of a request.
type Sink struct {
	SentAt, FirstByteAt int64
	Sends               int
	Events              []backends.Event // with texts of their own
	// OnEvent, when set, is called with each event.
	OnEvent func(backends.Event)
}

// Sent notes the time of sending.
func (s *Sink) Sent(at int64) { s.SentAt, s.Sends = at, s.Sends+1 }

// FirstByte notes the first arrival.
func (s *Sink) FirstByte(at int64) { s.FirstByteAt = at }

// Event keeps an event.
func (s *Sink) Event(e backends.Event) {
	e.Text = bytes.Clone(e.Text)
	s.Events = append(s.Events, e)
	if s.OnEvent != nil {
		s.OnEvent(e)
	}
}

// Text joins the texts of the events.
func (s *Sink) Text() string {
	var b strings.Builder
	for _, e := range s.Events {
		b.Write(e.Text)
	}
	return b.String()
}

// Outputs are the events that carry output.
func (s *Sink) Outputs() []backends.Event {
	var out []backends.Event
	for _, e := range s.Events {
		if e.Kind&backends.KindOutput != 0 {
			out = append(out, e)
		}
	}
	return out
}

// Timeline writes the events in a line each, without times: kind, text, ids
// and running count. Streams that say the same have the same timeline.
func (s *Sink) Timeline() string {
	var b strings.Builder
	for _, e := range s.Events {
		fmt.Fprintf(&b, "%09b %q ids=%d running=%d\n", e.Kind, e.Text, e.TokenIDs, e.Completion)
	}
	return b.String()
}
