package stream

import (
	"bytes"
	"io"
	"iter"

	"github.com/tmaxmax/go-sse"
)

// SSE yields the events of a stream of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html), those
// without data left out. maxEvent is in bytes, 0 for the default. An error is
// yielded last, and alone.
//
// Fields are parsed by go-sse. Its input is cut into whole events first,
// for four reasons: it looks through an unfinished event from the start each
// time bytes arrive, which takes minutes for one of several MB; it waits for
// the byte after a closing CR; it drops an event that the stream's end leaves
// without its blank line, where servers may have put the usage or an error;
// and it ignores lines of a field "error", in which old llama.cpp servers
// report failures.
func SSE(src Source, maxEvent int) iter.Seq2[Event, error] {
	b := &blocks{lines: lines{src: src, max: limit(maxEvent)}}
	return func(yield func(Event, error) bool) {
		// The parser's own limit has room for what blocks adds to an event.
		for e, err := range sse.Read(b, &sse.ReadConfig{MaxEventSize: 2*b.max + firstBuffer}) {
			if err != nil {
				yield(Event{}, err)
				return
			}
			if e.Data == "" && e.Type != errorField {
				continue
			}
			ev := Event{Type: e.Type, Data: lend(e.Data), Stamp: src.Stamp(), Unterminated: b.unterminated}
			if !yield(ev, nil) {
				return
			}
		}
		if err := b.failure(); err != nil {
			yield(Event{}, err)
		}
	}
}

// errorField is the field, and the event type, that reports a failure.
const errorField = "error"

// blocks cuts a stream into events, each of whole lines up to the blank line
// that ends it, and hands them out one a Read.
type blocks struct {
	lines
	begun        bool
	line         int    // start of the line being looked at
	skipLF       bool   // a newline next belongs to the CR before it
	hasError     bool   // a line of the event under way is an error field
	rest         []byte // of an event handed out in parts
	unterminated bool
}

// Read hands out the next event, or its next part.
func (b *blocks) Read(p []byte) (int, error) {
	if len(b.rest) == 0 && !b.next() {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// next finds the next event; false at the end.
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
			b.hasError = b.hasError || bytes.HasPrefix(b.buf[b.line:stop], []byte(errorField+":"))
			b.line = b.scan
			continue
		}
		b.line = b.scan
		whole := b.buf[b.start:b.scan]
		b.start = b.scan
		if b.emit(whole) {
			return true
		}
		if b.err != nil {
			return false
		}
	}
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
	b.hasError = b.hasError || bytes.HasPrefix(b.buf[b.line:b.end], []byte(errorField+":"))
	whole := append(b.buf[b.start:b.end:b.end], "\n\n"...)
	b.start = b.end
	b.unterminated = true
	return b.emit(whole)
}

// cut says whether the connection, rather than a limit of ours, ended the
// stream.
func (b *blocks) cut() bool {
	_, tooLarge := b.err.(*TooLargeError)
	return !tooLarge
}

// emit makes an event ready to be handed out, unless it is blank or over the
// limit.
func (b *blocks) emit(event []byte) bool {
	hasError := b.hasError
	b.hasError = false
	if len(event) <= 1 {
		return false
	}
	if len(event) > b.max+2*len("\r\n") {
		b.err = &TooLargeError{b.max}
		return false
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
