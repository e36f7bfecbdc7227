package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	readBuffer = 4 << 10
	// maxHead bounds an answer's status line and header, in bytes.
	maxHead = 1 << 20
)

// errHead says that the answer's header is over the limit.
var errHead = fmt.Errorf("the answer's header is over %d bytes", maxHead)

// conn is one HTTP/1.1 connection, used by one request at a time.
type conn struct {
	stamped *stampedConn
	rw      net.Conn // stamped, or the TLS connection above it
	br      *bufio.Reader
	head    int64 // bytes that a header may still take, negative for no limit
	failed  error // of the last read
	used    bool  // has carried a request before
	remote  string
}

func newConn(s *stampedConn) *conn {
	c := &conn{stamped: s, rw: s, head: -1, remote: s.RemoteAddr().String()}
	c.br = bufio.NewReaderSize(c, readBuffer)
	return c
}

// secure puts TLS above the socket.
func (c *conn) secure(t *tls.Conn) { c.rw = t }

// Read reads once from the connection, within the header's limit.
func (c *conn) Read(p []byte) (int, error) {
	if c.head == 0 {
		c.failed = errHead
		return 0, errHead
	}
	if c.head > 0 && int64(len(p)) > c.head {
		p = p[:c.head]
	}
	n, err := c.rw.Read(p)
	if c.head > 0 {
		c.head -= int64(n)
	}
	c.failed = err
	return n, err
}

// Close closes the socket.
func (c *conn) Close() { c.stamped.Conn.Close() }

// interrupt makes reads and writes under way return at once.
// It fails only on a closed connection, where nothing is under way.
func (c *conn) interrupt() { _ = c.stamped.SetDeadline(time.Unix(1, 0)) }

// dead says whether an idle connection can no longer be used.
func (c *conn) dead() bool {
	if c.br.Buffered() > 0 {
		return true
	}
	eof, pending := c.stamped.closed()
	_, secure := c.rw.(*tls.Conn)
	// Pending bytes on a TLS connection may be a session ticket.
	return eof || (pending && !secure)
}

// checkout returns an idle connection, or nil, and how many were found closed
// before it.
func (t *Transport) checkout() (c *conn, closed int) {
	for {
		t.mu.Lock()
		n := len(t.idle)
		if n == 0 {
			t.mu.Unlock()
			return nil, closed
		}
		c = t.idle[n-1]
		t.idle[n-1] = nil
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
		if !c.dead() {
			return c, closed
		}
		c.Close()
		closed++
	}
}

// checkin keeps the connection for the next request.
func (t *Transport) checkin(c *conn) {
	t.mu.Lock()
	if !t.closed {
		t.idle = append(t.idle, c)
		c = nil
	}
	t.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// Request is one request, with what its sender wants to know on the way.
type Request struct {
	Method string
	// Path is the request target: escaped path and query.
	Path   string
	Header []Field
	Body   []byte
	// Sent is called with the time just before the last write; again when the
	// request is sent anew on another connection. FirstByte is called with the
	// arrival of the answer's first byte. Either may be nil.
	Sent, FirstByte func(at int64)
}

// UserAgent is what requests call their sender.
const UserAgent = "headway"

// Field is one header line.
type Field struct{ Name, Value string }

// Cost is what a request took beside its answer.
type Cost struct {
	// Connect is the time spent opening a connection, 0 when one was reused.
	Connect time.Duration
	// Reconnects counts reused connections that proved closed before any byte
	// of the answer and were replaced.
	Reconnects int
	// Remote is the address that was asked, "" when none was reached.
	Remote string
	// Kernel says that arrivals are stamped by the kernel.
	Kernel bool
}

// ErrClosedEarly says that a fresh connection was closed before any byte of
// the answer.
var ErrClosedEarly = errors.New("the connection was closed before any byte of the answer")

// Do sends the request and reads the answer's header. On success the Response
// must be closed. The context ends everything up to that close. An OpenError
// says that no connection could be opened.
func (t *Transport) Do(ctx context.Context, r *Request) (*Response, Cost, error) {
	if t.h2 != nil {
		return t.doNetHTTP(ctx, r)
	}
	var cost Cost
	c, err := t.connection(ctx, &cost)
	if err != nil {
		return nil, cost, err
	}
	for {
		cost.Remote, cost.Kernel = c.remote, c.stamped.kernel
		resp, early, err := t.exchange(ctx, c, r)
		if err == nil {
			return resp, cost, nil
		}
		c.Close()
		if !early || !c.used || ctx.Err() != nil {
			if early && errors.Is(err, io.EOF) {
				err = ErrClosedEarly
			}
			return nil, cost, err
		}
		cost.Reconnects++
		// A connection that was never used cannot prove stale.
		if c, err = t.fresh(ctx, &cost); err != nil {
			return nil, cost, err
		}
	}
}

// connection returns an idle connection, or a new one when its turn has come
// and none is idle by then.
func (t *Transport) connection(ctx context.Context, cost *Cost) (*conn, error) {
	c, closed := t.checkout()
	cost.Reconnects = closed
	if c != nil {
		return c, nil
	}
	if err := t.turn(ctx); err != nil {
		return nil, err
	}
	c, closed = t.checkout()
	cost.Reconnects += closed
	if c != nil {
		return c, nil
	}
	return t.open(ctx, cost)
}

// fresh returns a new connection when its turn has come.
func (t *Transport) fresh(ctx context.Context, cost *Cost) (*conn, error) {
	if err := t.turn(ctx); err != nil {
		return nil, err
	}
	return t.open(ctx, cost)
}

// turn waits until the ramp lets a new connection be opened. Where that is
// after the context's deadline it waits for the deadline.
func (t *Transport) turn(ctx context.Context) error {
	if t.ramp.Wait(ctx) != nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// exchange writes the request and reads the answer's header; early says that
// it failed before any byte of the answer.
func (t *Transport) exchange(ctx context.Context, c *conn, r *Request) (resp *Response, early bool, err error) {
	stop := context.AfterFunc(ctx, c.interrupt)
	writeErr := t.write(c, r)
	if r.Sent != nil {
		r.Sent(c.stamped.sent)
	}
	// A server may refuse a request before it has read it all, so the answer
	// is looked for even when the write failed.
	c.head = maxHead
	if _, err := c.br.Peek(1); err != nil {
		stop()
		if writeErr != nil {
			err = writeErr
		}
		return nil, true, err
	}
	if r.FirstByte != nil {
		r.FirstByte(c.stamped.last.At)
	}
	head, err := t.readHead(c, r.Method)
	if err != nil {
		stop()
		return nil, false, err
	}
	c.head = -1
	return &Response{
		Status: head.StatusCode, Header: head.Header,
		transport: t, conn: c, stop: stop,
		body: newBody(c.br, head), reuse: !head.Close && writeErr == nil,
	}, false, nil
}

// buffers holds what requests are written into, only while they are.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// write hands the whole request to the connection.
func (t *Transport) write(c *conn, r *Request) error {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	*b = t.appendRequest((*b)[:0], r)
	_, err := c.rw.Write(*b)
	return err
}

// readHead reads header after header until one is final.
func (t *Transport) readHead(c *conn, method string) (*http.Response, error) {
	for {
		head, err := http.ReadResponse(c.br, &http.Request{Method: method})
		if err != nil {
			// A header that is cut off reads like a malformed one.
			if c.failed == io.EOF {
				err = io.ErrUnexpectedEOF
			} else if c.failed != nil {
				err = c.failed
			}
			return nil, fmt.Errorf("reading the answer's header: %w", err)
		}
		if head.StatusCode >= 200 || head.StatusCode == http.StatusSwitchingProtocols {
			return head, nil
		}
	}
}

// appendRequest writes the request in wire form.
func (t *Transport) appendRequest(b []byte, r *Request) []byte {
	b = append(b, r.Method...)
	b = append(b, ' ')
	if t.proxy != nil && t.tls == nil {
		b = append(b, t.cfg.Base.Scheme...)
		b = append(b, "://"...)
		b = append(b, t.cfg.Base.Host...)
	}
	b = append(b, r.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, t.host...)
	b = append(b, "\r\nAccept-Encoding: identity\r\n"...)
	if !slices.ContainsFunc(r.Header, func(f Field) bool { return strings.EqualFold(f.Name, "User-Agent") }) {
		b = append(b, "User-Agent: "+UserAgent+"\r\n"...)
	}
	if t.proxy != nil && t.tls == nil {
		if auth := proxyAuth(t.proxy); auth != "" {
			b = append(b, "Proxy-Authorization: "...)
			b = append(b, auth...)
			b = append(b, "\r\n"...)
		}
	}
	for _, f := range r.Header {
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, f.Value...)
		b = append(b, "\r\n"...)
	}
	if r.Body != nil || r.Method == http.MethodPost {
		b = append(b, "Content-Length: "...)
		b = fmt.Appendf(b, "%d\r\n", len(r.Body))
	}
	b = append(b, "\r\n"...)
	b = slices.Grow(b, len(r.Body))
	return append(b, r.Body...)
}
