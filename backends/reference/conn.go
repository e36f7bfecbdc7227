package reference

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// maxBody and maxHead bound one request, in bytes.
const (
	maxBody = 64 << 20
	maxHead = 1 << 20
)

// conn is one HTTP/1.1 connection. Its goroutine reads requests; while an
// answer is being streamed by the engine's lanes it waits for the first byte
// of the next request, and so sees at once when the client goes away.
type conn struct {
	server *Server
	nc     net.Conn
	raw    syscall.RawConn
	limit  io.LimitedReader
	br     *bufio.Reader
	// Of the request at hand: whether the answer may be sent in chunks, and
	// whether the connection ends with it.
	chunked, closing bool
	head             bool // the method is HEAD
	requestID        string
	cur              *stream

	rawWrite func(fd uintptr) bool
	rawBytes []byte
	rawN     int
	rawErr   error
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc}
	c.limit.R = nc
	c.br = bufio.NewReaderSize(&c.limit, 4096)
	if sc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	c.rawWrite = func(fd uintptr) bool {
		c.rawN, c.rawErr = writeFD(fd, c.rawBytes)
		return true
	}
	return c
}

// serve answers requests until the connection ends.
func (c *conn) serve() {
	defer c.nc.Close()
	for {
		c.limit.N = maxHead
		_, err := c.br.Peek(1)
		accepted := clock.Now()
		if st := c.cur; st != nil {
			if err != nil {
				c.server.cancel(st)
			}
			<-st.done
			c.cur = nil
		}
		if err != nil || c.closing {
			return
		}
		if !c.request(accepted) {
			return
		}
	}
}

// request reads and answers one request, or starts answering it; it reports
// whether the connection goes on.
func (c *conn) request(accepted int64) bool {
	r, err := http.ReadRequest(c.br)
	if err != nil {
		c.closing = true
		if c.limit.N <= 0 {
			c.reply(431, jsonBody, badValue("", "the head of the request is larger than %d bytes", maxHead).body())
			return false
		}
		c.reply(400, jsonBody, badShape("", "not an HTTP request: %v", err).body())
		return false
	}
	c.limit.N += maxBody
	c.chunked = r.ProtoAtLeast(1, 1)
	c.closing = r.Close
	c.head = r.Method == http.MethodHead
	c.requestID = r.Header.Get("X-Request-Id")
	if len(c.requestID) > 256 {
		c.requestID = c.requestID[:256]
	}
	if r.Header.Get("Expect") == "100-continue" {
		_, _ = io.WriteString(c.nc, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	body, err := readBody(r)
	if err != nil {
		c.closing = true
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			c.reply(413, jsonBody, badValue("", "the body is larger than %d bytes", maxBody).body())
		} else {
			c.reply(400, jsonBody, badShape("", "the body can't be read: %v", err).body())
		}
		return false
	}
	c.server.route(&call{conn: c, http: r, body: body, accepted: accepted, arrival: clock.Now()})
	return c.cur != nil || !c.closing
}

func readBody(r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n > maxBody {
		return nil, &http.MaxBytesError{Limit: maxBody}
	} else if n >= 0 {
		body := make([]byte, n)
		_, err := io.ReadFull(r.Body, body)
		return body, err
	}
	return io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
}

// reply sends an answer in one piece.
func (c *conn) reply(status int, contentType string, body []byte, header ...string) {
	if _, err := c.nc.Write(c.appendReply(nil, status, contentType, body, header...)); err != nil {
		c.closing = true
	}
}

// replyJSON sends v, which has only plain values.
func (c *conn) replyJSON(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		c.reply(500, jsonBody, (&apiError{status: 500, kind: "InternalServerError", message: err.Error()}).body())
		return
	}
	c.reply(200, jsonBody, b)
}

// appendReply appends an answer in one piece; header are whole header lines.
func (c *conn) appendReply(b []byte, status int, contentType string, body []byte, header ...string) []byte {
	b = c.appendHead(b, status)
	if contentType != "" {
		b = append(b, "content-type: "...)
		b = append(b, contentType...)
		b = append(b, "\r\n"...)
	}
	for _, line := range header {
		b = append(b, line...)
		b = append(b, "\r\n"...)
	}
	b = append(b, "content-length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	if c.head {
		return b
	}
	return append(b, body...)
}

// appendHead appends the status line and the headers that every answer has.
func (c *conn) appendHead(b []byte, status int) []byte {
	b = fmt.Appendf(b, "HTTP/1.1 %d %s\r\ndate: ", status, http.StatusText(status))
	b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\nserver: headway\r\n"...)
	if c.requestID != "" {
		b = append(b, "x-request-id: "...)
		b = append(b, c.requestID...)
		b = append(b, "\r\n"...)
	}
	if c.closing {
		b = append(b, "connection: close\r\n"...)
	}
	return b
}

// openStream sends the head of a streamed answer. Without chunks (HTTP/1.0)
// the body ends with the connection.
func (c *conn) openStream() error {
	if !c.chunked {
		c.closing = true
	}
	b := c.appendHead(make([]byte, 0, 256), 200)
	b = append(b, "content-type: text/event-stream; charset=utf-8\r\n"...)
	if c.chunked {
		b = append(b, "transfer-encoding: chunked\r\n"...)
	}
	_, err := c.nc.Write(append(b, "\r\n"...))
	return err
}

// tryWrite writes what the socket takes at once. blocked says that it took
// only n bytes.
func (c *conn) tryWrite(b []byte) (n int, blocked bool, err error) {
	if c.raw == nil {
		return c.write(b)
	}
	c.rawBytes = b
	if err := c.raw.Write(c.rawWrite); err != nil {
		return 0, false, err
	}
	if c.rawErr == nil || wouldBlock(c.rawErr) {
		return max(0, c.rawN), c.rawN < len(b), nil
	}
	return 0, false, c.rawErr
}

// write waits until all of b is written.
func (c *conn) write(b []byte) (n int, blocked bool, err error) {
	_ = c.nc.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err = c.nc.Write(b)
	_ = c.nc.SetWriteDeadline(time.Time{})
	return n, false, err
}

// reset ends the connection with an RST.
func (c *conn) reset() {
	if t, ok := c.nc.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.closing = true
	_ = c.nc.Close()
}
