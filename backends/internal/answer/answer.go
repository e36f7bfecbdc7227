// Package answer has what the decoders of JSON events share: an Answer reads
// the values that have a meaning in any protocol and keeps what they say.
package answer

import (
	"slices"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/jsonscan"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// maxCount is the largest token count that is believed.
const maxCount = 1 << 24

// Answer is one answer while it is read. A decoder walks each event with the
// scanner and calls the method that fits each value; between Begin and Finish the
// methods add to the event under way. It allocates nothing per event once its
// buffers have grown. It is used by one goroutine.
type Answer struct {
	jsonscan.Scanner
	// Usage is what the server counted so far, -1 where unknown.
	Usage    backends.Usage
	finish   string
	warnings []string
	output   bool // output was seen
	counted  int  // running count of output tokens, 0 for none

	// Of the event under way.
	kind    backends.Kind
	text    []byte
	from    int // what of text is new
	ids     int
	running int
	failed  bool
}

// Reset starts a new answer.
func (a *Answer) Reset() {
	*a = Answer{Usage: backends.NoUsage, text: a.text[:0], warnings: a.warnings[:0]}
}

// Begin starts an event.
func (a *Answer) Begin(data []byte) {
	a.Scanner.Reset(data)
	a.kind, a.text, a.from, a.ids, a.running, a.failed = 0, a.text[:0], 0, 0, -1, false
}

// Finish ends the event and writes what it said to d. The error says that the
// event is not JSON; data is what it was.
func (a *Answer) Finish(data []byte, d *wire.Decoded) error {
	if err := a.End(); err != nil {
		return err
	}
	if a.failed {
		d.Failure = wire.Message(data)
		return nil
	}
	if a.ids > 0 {
		a.kind |= backends.KindTokenIDs
	}
	if a.running > a.counted {
		a.counted = a.running
		a.kind |= backends.KindUsageStep
	}
	if a.running >= 0 {
		d.Completion = a.counted
		a.Usage.Completion = max(a.Usage.Completion, a.counted)
	}
	a.output = a.output || a.kind&backends.KindOutput != 0
	d.Kind, d.TokenIDs = a.kind, a.ids
	if len(a.text) > a.from {
		d.Text = a.text[a.from:]
	}
	return nil
}

// Sum says what the answer has told so far.
func (a *Answer) Sum() wire.Sum {
	u := a.Usage
	if u.Completion == 0 && a.output {
		a.Warn("usage_not_believed")
		u.Completion = -1
	}
	return wire.Sum{Finish: a.finish, Usage: u, Running: a.counted > 0, Warnings: a.warnings}
}

// Opens says whether the next value opens with c, '{' or '[', and skips it
// when it does not.
func (a *Answer) Opens(c byte) bool {
	if a.Peek() == c {
		return true
	}
	a.Skip()
	return false
}

// Output reads a string of generated text. What is no string, or empty, is no
// output.
func (a *Answer) Output(kind backends.Kind) { a.Emit(kind, a.Name()) }

// Emit takes raw, the inside of a string, for generated text; empty is none.
func (a *Answer) Emit(kind backends.Kind, raw []byte) {
	if len(raw) > 0 {
		a.kind |= kind
		a.text = jsonscan.Unescape(a.text, raw)
	}
}

// Outputs reads a string of generated text, or a list of them.
func (a *Answer) Outputs(kind backends.Kind) {
	if a.Peek() != '[' {
		a.Output(kind)
		return
	}
	for a.Array(); a.More(']'); {
		a.Output(kind)
	}
}

// OutputRaw takes the next value, whatever it is, for generated text.
func (a *Answer) OutputRaw(kind backends.Kind) {
	if a.Peek() == '"' {
		a.Output(kind)
		return
	}
	if raw := a.Raw(); len(raw) > 0 && string(raw) != "null" {
		a.kind |= kind
		a.text = append(a.text, raw...)
	}
}

// Generated says whether the events before this one had output.
func (a *Answer) Generated() bool { return a.output }

// HasOutput says whether the event under way has output.
func (a *Answer) HasOutput() bool { return a.kind&backends.KindOutput != 0 || a.ids > 0 }

// Text is the text of the event under way, lent until the next.
func (a *Answer) Text() []byte { return a.text }

// CutText takes the first n bytes off the text of the event under way, which
// is no output when nothing is left.
func (a *Answer) CutText(n int) {
	a.from = n
	if n >= len(a.text) {
		a.kind &^= backends.KindText
	}
}

// Mark adds a kind to the event.
func (a *Answer) Mark(kind backends.Kind) { a.kind |= kind }

// IDs reads a token id or a list of them.
func (a *Answer) IDs() {
	switch c := a.Peek(); {
	case c == '[':
		a.ids += a.Count()
	case c == '-' || c >= '0' && c <= '9':
		a.ids++
		a.Skip()
	default:
		a.Skip()
	}
}

// Tokens reads a count of tokens. Null is unknown, -1, and so is what can't be
// a count, which is warned of.
func (a *Answer) Tokens() int {
	if a.Null() {
		return -1
	}
	v, ok := a.Number()
	if !ok || v < 0 || v > maxCount || v != float64(int(v)) {
		a.Warn("usage_not_believed")
		return -1
	}
	return int(v)
}

// Total reads a count of the final usage into a field of Usage; the last one
// that is known holds.
func (a *Answer) Total(to *int) {
	if n := a.Tokens(); n >= 0 {
		*to = n
		a.kind |= backends.KindUsage
	}
}

// Running reads the running count of output tokens.
func (a *Answer) Running() { a.running = a.Tokens() }

// Ended is the finish reason so far, "" for none.
func (a *Answer) Ended() string { return a.finish }

// Reason reads a finish reason, and says whether there is one: what is no
// string, or empty, is none.
func (a *Answer) Reason() bool {
	raw := a.Name()
	if len(raw) == 0 {
		return false
	}
	a.kind |= backends.KindFinish
	if string(raw) != a.finish {
		a.finish = intern(raw)
	}
	return true
}

// intern returns a finish reason as a string, without allocating for those of
// nearly all answers.
func intern(raw []byte) string {
	switch string(raw) {
	case "stop":
		return "stop"
	case "length":
		return "length"
	}
	return string(jsonscan.Unescape(nil, raw[:min(len(raw), maxReason)]))
}

// maxReason bounds what is kept of a finish reason, in bytes.
const maxReason = 64

// Fault reads an error member, which makes the event a failure. It returns the
// value as it stands, nil for null, false, "" and {}, which are no error.
func (a *Answer) Fault() []byte {
	raw := a.Raw()
	switch string(raw) {
	case "null", "false", `""`, "{}", "[]", "0", "":
		return nil
	}
	a.failed = true
	return raw
}

// Name reads a string as it stands in the text, which is lent; nil for another
// value.
func (a *Answer) Name() []byte {
	if a.Peek() != '"' {
		a.Skip()
		return nil
	}
	return a.String()
}

// Warn notes an oddity by its code.
func (a *Answer) Warn(code string) {
	if !slices.Contains(a.warnings, code) {
		a.warnings = append(a.warnings, code)
	}
}
