// Package stream reads the two framings in which servers send generated text:
// server-sent events and newline-delimited JSON. It bounds what it holds,
// stamps each event with the read that completed it, and keeps no bytes longer
// than the caller's use of an event.
package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"
	"unsafe"

	"github.com/headway-bench/headway/backends/internal/transport"
)

// DefaultMaxEvent is the largest event that is accepted unless another limit
// is given, in bytes.
const DefaultMaxEvent = 8 << 20

// Source is a body whose reads are stamped. Read must not wait once it has
// bytes, and Stamp tells when the bytes of the last Read arrived.
type Source interface {
	io.Reader
	Stamp() transport.Stamp
}

// Event is one event of a stream. Data is lent until the next event is asked
// for.
type Event struct {
	// Type is the SSE event field, "" when it has none, and "error" for an
	// event in an error field; "" in NDJSON.
	Type string
	Data []byte
	transport.Stamp
	// Unterminated says that the stream ended inside the event's closing line
	// ends, so that its data may be cut.
	Unterminated bool
}

// TooLargeError is an event over the limit.
type TooLargeError struct{ Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("an event is larger than the limit of %d bytes", e.Limit)
}

// lines collects bytes of a source until a caller finds a boundary in them.
type lines struct {
	src   Source
	max   int
	buf   []byte
	start int // first byte not yet handed out
	scan  int // first byte not yet looked at
	end   int // end of the bytes read
	err   error
}

// firstBuffer is how much a stream holds until an event needs more, in bytes.
const firstBuffer = 2 << 10

// bom is the byte order mark that may open a stream.
var bom = []byte("\xEF\xBB\xBF")

// fill reads once more. It returns false at the end of the source or at the
// limit, which l.err tells.
func (l *lines) fill() bool {
	if l.err != nil {
		return false
	}
	if l.end-l.start > l.max {
		l.err = &TooLargeError{l.max}
		return false
	}
	switch {
	case l.start == l.end:
		l.start, l.scan, l.end = 0, 0, 0
	case l.end == len(l.buf) && l.start > 0:
		copy(l.buf, l.buf[l.start:l.end])
		l.end, l.scan, l.start = l.end-l.start, l.scan-l.start, 0
	}
	if l.end == len(l.buf) {
		bigger := make([]byte, max(firstBuffer, 2*len(l.buf)))
		copy(bigger, l.buf[:l.end])
		l.buf = bigger
	}
	n, err := l.src.Read(l.buf[l.end:])
	l.end += n
	if err != nil {
		l.err = err
	}
	return n > 0 || err == nil
}

// skipBOM passes over a byte order mark at the very start.
func (l *lines) skipBOM() {
	for bytes.HasPrefix(bom, l.buf[l.start:l.end]) && l.end-l.start < len(bom) {
		if !l.fill() {
			return
		}
	}
	if bytes.HasPrefix(l.buf[l.start:l.end], bom) {
		l.start += len(bom)
		l.scan = l.start
	}
}

// failure is the error that ended the source, nil at its proper end.
func (l *lines) failure() error {
	if errors.Is(l.err, io.EOF) {
		return nil
	}
	return l.err
}

// NDJSON yields the lines of a stream of JSON values, blank lines left out. A
// last line without a newline is yielded as unterminated. maxEvent is in
// bytes, 0 for the default. An error is yielded last, and alone.
func NDJSON(src Source, maxEvent int) iter.Seq2[Event, error] {
	l := &lines{src: src, max: limit(maxEvent)}
	return func(yield func(Event, error) bool) {
		l.skipBOM()
		for {
			i := bytes.IndexByte(l.buf[l.scan:l.end], '\n')
			if i < 0 {
				l.scan = l.end
				if l.fill() {
					continue
				}
				break
			}
			line := bytes.TrimSpace(l.buf[l.start : l.scan+i])
			l.start, l.scan = l.scan+i+1, l.scan+i+1
			if len(line) > l.max {
				l.err = &TooLargeError{l.max}
				break
			}
			if len(line) > 0 && !yield(Event{Data: line, Stamp: src.Stamp()}, nil) {
				return
			}
		}
		if rest := bytes.TrimSpace(l.buf[l.start:l.end]); len(rest) > 0 && len(rest) <= l.max {
			if !yield(Event{Data: rest, Stamp: src.Stamp(), Unterminated: true}, nil) {
				return
			}
		}
		if err := l.failure(); err != nil {
			yield(Event{}, err)
		}
	}
}

func limit(maxEvent int) int {
	if maxEvent <= 0 {
		return DefaultMaxEvent
	}
	return maxEvent
}

// lend is the bytes of s, which must not be written to.
func lend(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Head cuts b to at most n bytes, at the end of a character.
func Head(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:n]
}
