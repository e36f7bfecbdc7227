package stream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"

	"github.com/tmaxmax/go-sse"
)

// SSE yields the events of a stream of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html), those
// without data left out. maxEvent is in bytes, 0 for the default. An error is
// yielded last, and alone.
//
// Events are parsed by go-sse, but their bytes are cut into whole events
// first, for four reasons: it looks through an unfinished event from the start
// each time bytes arrive, which takes minutes for one of several MB; it waits
// for the byte after a closing CR; it drops an event that the stream's end
// leaves without its blank line, where servers may have put the usage or an
// error; and it ignores lines of a field "error", in which old llama.cpp
// servers report failures. An event that is a single line of data, as nearly
// all are, needs no parsing beyond that and is yielded from where it lies;
// a test holds the two ways to each other.
func SSE(src Source, maxEvent int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		b := &blocks{lines: lines{src: src, max: limit(maxEvent)}, yield: yield}
		if b.next() {
			b.parse()
		}
		if err := b.failure(); err != nil && !b.stopped {
			yield(Event{}, err)
		}
	}
}

// parse gives the event at hand, and those that next finds after it, to the
// parser. A comment goes ahead of them, after which the parser looks for no
// byte order mark: it has been passed over.
func (b *blocks) parse() {
	b.rest = append([]byte(":\n\n"), b.rest...)
	// The parser's own limit has room for what blocks adds to an event.
	for e, err := range sse.Read(b, &sse.ReadConfig{MaxEventSize: 2*b.max + firstBuffer}) {
		if b.stopped {
			return
		}
		if errors.Is(err, bufio.ErrTooLong) { // error lines take more room as data
			err = &TooLargeError{b.max}
		}
		if err != nil {
			b.err = err
			return
		}
		if (e.Data != "" || e.Type == errorField) && !b.give(e.Type, lend(e.Data)) {
			return
		}
	}
}

// errorField is the field, and the event type, that reports a failure.
const errorField = "error"

// blocks cuts a stream into events, each of whole lines up to the blank line
// that ends it. It is the parser's input: a Read hands out one event. Events of
// a single line of data go to yield instead.
type blocks struct {
	lines
	yield        func(Event, error) bool
	stopped      bool // yield wants no more
	begun        bool
	line         int    // start of the line being looked at
	skipLF       bool   // a newline next belongs to the CR before it
	hasError     bool   // a line of the event under way is an error field
	count        int    // lines of the event under way
	first        int    // length of its first line
	rest         []byte // what the parser is yet to be given
	unterminated bool
}

// Read hands out the next event that needs parsing, or its next part.
func (b *blocks) Read(p []byte) (int, error) {
	if len(b.rest) == 0 && !b.next() {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// give yields an event, and says whether more are wanted.
func (b *blocks) give(typ string, data []byte) bool {
	b.stopped = !b.yield(Event{Type: typ, Data: data, Stamp: b.src.Stamp(), Unterminated: b.unterminated}, nil)
	return !b.stopped
}

// next finds the next event for the parser; false at the end.
func (b *blocks) next() bool {
	if !b.begun {
		b.begun = true
		b.fill()
		b.skipBOM()
		b.line = b.start
	}
	for {
		if b.skipLF && b.scan < b.end {
			b.skipLF = false
			if b.buf[b.scan] == '\n' {
				if b.start == b.scan {
					b.start++
				}
				b.scan++
				b.line = b.scan
			}
		}
		i := newline(b.buf[b.scan:b.end])
		if i < 0 {
			b.scan = b.end
			if !b.more() {
				return b.last()
			}
			continue
		}
		stop := b.scan + i // of the line
		b.skipLF = b.buf[stop] == '\r'
		b.scan = stop + 1
		if b.line < stop {
			b.seen(b.buf[b.line:stop])
			b.line = b.scan
			continue
		}
		b.line = b.scan
		whole := b.buf[b.start:b.scan]
		b.start = b.scan
		if b.emit(whole) {
			return true
		}
		if b.err != nil || b.stopped {
			return false
		}
	}
}

// seen notes a line of the event under way.
func (b *blocks) seen(line []byte) {
	if b.count == 0 {
		b.first = len(line)
	}
	b.count++
	b.hasError = b.hasError || bytes.HasPrefix(line, []byte(errorField+":"))
}

// more reads on, and keeps the place in the line.
func (b *blocks) more() bool {
	before := b.line - b.start
	ok := b.fill()
	b.line = b.start + before
	return ok
}

// last hands out what the end of the stream left unfinished, closed as an
// event would be.
func (b *blocks) last() bool {
	if b.failure() != nil && !b.cut() || b.start == b.end {
		return false
	}
	if b.line < b.end {
		b.seen(b.buf[b.line:b.end])
	}
	whole := append(b.buf[b.start:b.end:b.end], "\n\n"...)
	b.start = b.end
	b.unterminated = true
	return b.emit(whole)
}

// cut says whether the connection, rather than a limit of ours, ended the
// stream.
func (b *blocks) cut() bool {
	_, tooLarge := errors.AsType[*TooLargeError](b.err)
	return !tooLarge
}

// emit yields an event of a single line of data, and makes any other ready for
// the parser, which it says. A blank one, or one over the limit, is neither.
func (b *blocks) emit(event []byte) (ready bool) {
	hasError, count := b.hasError, b.count
	b.hasError, b.count = false, 0
	if len(event) <= 1 {
		return false
	}
	if len(event) > b.max+2*len("\r\n") {
		b.err = &TooLargeError{b.max}
		return false
	}
	if count == 1 {
		if data, ok := bytes.CutPrefix(event[:b.first], []byte("data:")); ok {
			if len(data) > 0 && data[0] == ' ' {
				data = data[1:]
			}
			if len(data) > 0 {
				b.give("", data)
			}
			return false
		}
	}
	if hasError {
		event = errorAsData(event)
	}
	b.rest = event
	return true
}

// errorAsData rewrites error fields as the data of an event of that type.
func errorAsData(event []byte) []byte {
	out := make([]byte, 0, len(event)+64)
	for len(event) > 0 {
		i := newline(event)
		if i < 0 {
			i = len(event) - 1
		}
		line := event[:i+1]
		event = event[i+1:]
		if value, ok := bytes.CutPrefix(line, []byte(errorField+":")); ok {
			out = append(out, "event: "+errorField+"\ndata:"...)
			line = value
		}
		out = append(out, line...)
	}
	return out
}

// newline finds the first CR or LF, -1 for none.
func newline(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}
