package transport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// Response is an answer whose body has yet to be read.
type Response struct {
	Status int
	Header http.Header

	transport *Transport
	conn      *conn
	body      io.Reader
	stop      func() bool
	reuse     bool
	ended     bool

	// Of an answer that net/http reads: its body, and its reads.
	foreign io.ReadCloser
	last    Stamp
	cancel  func()
}

// Read reads the body. It never waits once it has bytes to hand out, so that
// what it returns came out of one read of the connection, whose stamp Stamp
// tells.
func (r *Response) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if r.foreign != nil && n > 0 {
		now := clock.Now()
		r.last = Stamp{At: now, Returned: now, Read: r.last.Read + 1}
	}
	if err == io.EOF {
		r.ended = true
	}
	return n, err
}

// Stamp says when the bytes of the last Read arrived.
func (r *Response) Stamp() Stamp {
	if r.foreign != nil {
		return r.last
	}
	return r.conn.stamped.last
}

// ErrOpen says that a body went on, or the connection stayed silent, beyond
// the limits of Drain.
var ErrOpen = errors.New("the body has not ended")

// Drain reads what is left of the body, at most limit bytes and for at most
// wait, so that the connection can be used again. It returns nil when the end
// was seen, ErrOpen at a limit, or what cut the body off.
func (r *Response) Drain(limit int64, wait time.Duration) error {
	if r.ended {
		return nil
	}
	interrupt := r.cancel
	if r.foreign == nil {
		interrupt = r.conn.interrupt
	}
	timer := time.AfterFunc(wait, interrupt)
	_, err := io.Copy(io.Discard, io.LimitReader(r, limit))
	if !timer.Stop() {
		r.reuse = false
		if !r.ended {
			return ErrOpen
		}
	}
	if err == nil && !r.ended {
		return ErrOpen
	}
	return err
}

// Close hands the connection back when the whole body was read, and closes it
// otherwise.
func (r *Response) Close() {
	if r.foreign != nil {
		r.foreign.Close()
		r.cancel()
		return
	}
	intact := r.stop()
	if intact && r.reuse && r.ended {
		r.conn.used = true
		r.transport.checkin(r.conn)
		return
	}
	r.conn.Close()
}

// newBody frames the body that follows the header.
func newBody(br *bufio.Reader, head *http.Response) io.Reader {
	switch {
	case head.StatusCode == http.StatusNoContent || head.StatusCode == http.StatusNotModified:
		return &lengthReader{br: br}
	case len(head.TransferEncoding) > 0 && head.TransferEncoding[0] == "chunked":
		return &chunkedReader{br: br}
	case head.ContentLength >= 0:
		return &lengthReader{br: br, left: head.ContentLength}
	}
	return br
}

// lengthReader reads a body of known length.
type lengthReader struct {
	br   *bufio.Reader
	left int64
}

func (l *lengthReader) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n, err := l.br.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	if err == io.EOF && l.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// ErrFraming says that a chunked body breaks RFC 9112 section 7.1.
var ErrFraming = errors.New("the chunked body is broken")

// chunkedReader reads a chunked body. It hands out what one read of the
// connection brought and waits only when it has nothing.
type chunkedReader struct {
	br   *bufio.Reader
	left int64 // of the chunk under way
	open bool  // a chunk's closing newline is due
	last bool  // the last chunk was seen, its trailer is due
	err  error
}

func (c *chunkedReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && c.err == nil {
		if c.left == 0 {
			if n > 0 && (c.last || !c.headerBuffered()) {
				break
			}
			if c.last {
				c.trailer()
			} else {
				c.begin()
			}
			continue
		}
		if n > 0 && c.br.Buffered() == 0 {
			break
		}
		m, err := c.br.Read(p[n:min(int64(len(p)), int64(n)+c.left)])
		n += m
		c.left -= int64(m)
		c.fail(err)
	}
	if n > 0 {
		return n, nil
	}
	return 0, c.err
}

// headerBuffered says whether the next chunk's header can be read without
// waiting.
func (c *chunkedReader) headerBuffered() bool {
	b, _ := c.br.Peek(c.br.Buffered())
	newlines := 1
	if c.open {
		newlines = 2
	}
	for _, x := range b {
		if x == '\n' {
			if newlines--; newlines == 0 {
				return true
			}
		}
	}
	return false
}

// begin reads the newline that closes the chunk before and the header of the
// next.
func (c *chunkedReader) begin() {
	if c.open {
		line, err := c.line()
		if err != nil || len(line) > 0 {
			c.fail(err)
			c.fail(fmt.Errorf("%w: bytes beyond the end of a chunk", ErrFraming))
			return
		}
		c.open = false
	}
	line, err := c.line()
	if err != nil {
		c.fail(err)
		return
	}
	size, err := chunkSize(line)
	if err != nil {
		c.fail(err)
		return
	}
	c.left, c.open, c.last = size, size > 0, size == 0
}

// trailer skips the lines after the last chunk, with which the body ends.
func (c *chunkedReader) trailer() {
	for size := 0; size < maxHead; {
		line, err := c.line()
		if err != nil {
			c.fail(err)
			return
		}
		if len(line) == 0 {
			c.fail(io.EOF)
			return
		}
		size += len(line)
	}
	c.fail(fmt.Errorf("%w: a trailer over %d bytes", ErrFraming, maxHead))
}

// line reads a line without its newline; one over the buffer is an error.
func (c *chunkedReader) line() ([]byte, error) {
	line, err := c.br.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return nil, fmt.Errorf("%w: a line over %d bytes", ErrFraming, c.br.Size())
	}
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	line = line[:len(line)-1]
	if len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	return line, nil
}

// fail keeps the first error; the end of the connection inside the body is
// unexpected.
func (c *chunkedReader) fail(err error) {
	if err == nil || c.err != nil {
		return
	}
	if err == io.EOF && !c.last {
		err = io.ErrUnexpectedEOF
	}
	c.err = err
}

// chunkSize parses a chunk's header, its extensions left aside.
func chunkSize(line []byte) (int64, error) {
	end := 0
	for end < len(line) && line[end] != ';' && line[end] != ' ' && line[end] != '\t' {
		end++
	}
	size, err := strconv.ParseInt(string(line[:end]), 16, 64)
	if err != nil || size < 0 || line[0] == '+' || line[0] == '-' {
		return 0, fmt.Errorf("%w: chunk size %.40q", ErrFraming, line)
	}
	return size, nil
}
