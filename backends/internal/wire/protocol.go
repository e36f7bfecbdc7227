// Package wire runs requests against a server for the protocol packages: it
// sends, reads, stamps, classifies failures, replaces closed connections,
// retries when asked to, and keeps secrets out of what it reports. A protocol
// package says what to write and what an event means.
package wire

import "github.com/headway-bench/headway/backends"

// Framing is how a protocol cuts its answer into events.
type Framing uint8

// The framings.
const (
	SSE    Framing = iota // server-sent events
	NDJSON                // a JSON value a line
)

// Protocol is what a wire protocol adds to HTTP. It is safe for concurrent
// use.
type Protocol interface {
	// Request appends the request's body to dst and returns it with the path
	// (and query) to post it to. An error is the caller's: a prompt in a form
	// that the route does not take.
	Request(dst []byte, r *backends.Request) (path string, body []byte, err error)
	// Framing says how answers are framed.
	Framing() Framing
	// NewDecoder returns a decoder, which is used for one answer at a time and
	// then again.
	NewDecoder() Decoder
}

// Decoder reads the events of one answer. It is used by one goroutine.
type Decoder interface {
	// Reset starts a new answer.
	Reset(r *backends.Request)
	// Event decodes one event into d, which is empty. The error says that the
	// bytes are not the protocol.
	Event(typ string, data []byte, d *Decoded) error
	// Whole decodes an answer that came at once instead of as a stream.
	Whole(data []byte, d *Decoded) error
	// Sum says what the answer has told so far.
	Sum() Sum
	// EndsWithBody says that the protocol has no end mark, so that a clean end
	// of the body is one.
	EndsWithBody() bool
}

// Decoded is what one event says.
type Decoded struct {
	Kind backends.Kind
	// Text is lent until the decoder's next call.
	Text       []byte
	TokenIDs   int
	Completion int // running count of output tokens, -1 for none
	// Failure is the server's message when the event reports an error.
	Failure string
	// End is the protocol's end mark: nothing of the answer follows it.
	End bool
}

// Sum is what an answer told beside its output.
type Sum struct {
	Finish string // the finish reason, "" for none
	Usage  backends.Usage
	// Running says that the usage came on the events.
	Running  bool
	Warnings []string
}
