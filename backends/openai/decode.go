package openai

import (
	"bytes"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/jsonscan"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// decoder reads the chunks of one answer. It allocates nothing per event once
// its buffers have grown.
type decoder struct {
	scan      jsonscan.Scanner
	text      []byte // of the event
	reasoning []byte // raw reasoning of the event, to tell doubles
	finish    string
	tally     tally
	warnings  []string

	// Of the event under way.
	kind     backends.Kind
	ids      int
	empty    bool // it has no choice
	finishes bool // it has a finish reason
	usage    usage
}

func (d *decoder) Reset(*backends.Request) {
	*d = decoder{text: d.text[:0], warnings: d.warnings[:0]}
}

// EndsWithBody is false: the end is [DONE] or a finish reason.
func (d *decoder) EndsWithBody() bool { return false }

func (d *decoder) Sum() wire.Sum {
	return wire.Sum{Finish: d.finish, Usage: d.tally.final(), Running: d.tally.running, Warnings: d.warnings}
}

// Event decodes a chunk, [DONE], or an error.
func (d *decoder) Event(typ string, data []byte, out *wire.Decoded) error {
	data = bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(data, []byte("[DONE]")):
		out.End = true
		return nil
	case typ == "error":
		out.Failure = wire.Message(data)
		return nil
	case len(data) == 0:
		return nil
	}
	return d.chunk(data, out)
}

// Whole decodes an answer that came at once; its choices hold a message in
// place of a delta.
func (d *decoder) Whole(data []byte, out *wire.Decoded) error {
	return d.chunk(bytes.TrimSpace(data), out)
}

// chunk decodes one JSON chunk.
func (d *decoder) chunk(data []byte, out *wire.Decoded) error {
	s := &d.scan
	s.Reset(data)
	if s.Null() {
		return s.End()
	}
	d.text, d.reasoning, d.kind, d.ids = d.text[:0], nil, 0, 0
	d.empty, d.finishes, d.usage = true, false, usage{}
	failed, flat, message := false, false, false
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "choices":
			d.choices()
		case "usage":
			d.readUsage()
		case "error":
			failed = isError(s) || failed
		case "x_groq":
			failed = d.groq() || failed
		case "token_ids":
			d.ids += s.Count()
		case "object":
			flat = string(s.Raw()) == `"error"`
		case "message", "detail":
			message = true
			s.Skip()
		default:
			s.Skip()
		}
	}
	if err := s.End(); err != nil {
		return err
	}
	if failed || flat || message && d.empty && !d.usage.told {
		out.Failure = wire.Message(data)
		return nil
	}
	d.fill(out)
	return nil
}

// fill writes what the chunk says to out.
func (d *decoder) fill(out *wire.Decoded) {
	if d.ids > 0 {
		d.kind |= backends.KindTokenIDs
	}
	if d.usage.told {
		running, grew, final := d.tally.add(&d.usage, d.empty, d.finishes, d.finish != "", d.kind&backends.KindOutput != 0)
		if d.usage.odd || d.tally.unbelieved {
			d.warn("usage_not_believed")
		}
		out.Completion = running
		if grew {
			d.kind |= backends.KindUsageStep
		}
		if final {
			d.kind |= backends.KindUsage
		}
	}
	if d.kind&backends.KindOutput != 0 {
		d.tally.output = true
	}
	out.Kind, out.TokenIDs = d.kind, d.ids
	if len(d.text) > 0 {
		out.Text = d.text
	}
	if d.finish == "error" {
		out.Failure = "the finish reason is error"
	}
}

// choices reads the list of choices.
func (d *decoder) choices() {
	s := &d.scan
	if s.Peek() != '[' {
		s.Skip()
		return
	}
	for s.Array(); s.More(']'); {
		if s.Peek() != '{' {
			s.Skip()
			continue
		}
		d.empty = false
		d.choice()
	}
}

func (d *decoder) choice() {
	s := &d.scan
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "index":
			n, _ := s.Number()
			d.tally.choice(int(n))
		case "delta", "message":
			d.delta()
		case "text":
			d.string(backends.KindText)
		case "finish_reason":
			d.finishReason()
		case "token_ids":
			d.ids += s.Count()
		case "usage":
			d.readUsage()
		default:
			s.Skip()
		}
	}
}

// delta reads what a choice adds to its message.
func (d *decoder) delta() {
	s := &d.scan
	if s.Peek() != '{' {
		s.Skip()
		return
	}
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "role":
			if s.Peek() == '"' {
				d.kind |= backends.KindRole
			}
			s.Skip()
		case "content":
			d.content(backends.KindText, 0)
		case "refusal":
			d.string(backends.KindText)
		case "reasoning", "reasoning_content":
			d.reasoningText()
		case "tool_calls":
			d.toolCalls()
		case "function_call":
			d.function()
		case "audio":
			d.audio()
		case "token_ids":
			d.ids += s.Count()
		default:
			s.Skip()
		}
	}
}

// maxParts bounds how deep parts of content may nest.
const maxParts = 8

// content reads text, or a list of parts that hold text.
func (d *decoder) content(kind backends.Kind, depth int) {
	s := &d.scan
	if s.Peek() != '[' || depth > maxParts {
		d.string(kind)
		return
	}
	for s.Array(); s.More(']'); {
		if s.Peek() != '{' {
			d.string(kind)
			continue
		}
		for s.Object(); s.More('}'); {
			switch string(s.Key()) {
			case "text", "refusal":
				d.content(kind, depth+1)
			case "thinking":
				d.content(backends.KindReasoning, depth+1)
			default:
				s.Skip()
			}
		}
	}
}

// string reads text of a kind; what is no string, or empty, is no output.
func (d *decoder) string(kind backends.Kind) {
	s := &d.scan
	if s.Peek() != '"' {
		s.Skip()
		return
	}
	raw := s.String()
	if len(raw) == 0 {
		return
	}
	d.kind |= kind
	d.text = jsonscan.Unescape(d.text, raw)
}

// reasoningText reads reasoning, which some servers send under both its names
// at once.
func (d *decoder) reasoningText() {
	s := &d.scan
	if s.Peek() != '"' {
		s.Skip()
		return
	}
	raw := s.String()
	if len(raw) == 0 || bytes.Equal(raw, d.reasoning) {
		return
	}
	d.reasoning = raw
	d.kind |= backends.KindReasoning
	d.text = jsonscan.Unescape(d.text, raw)
}

// toolCalls reads a list of parts of tool calls.
func (d *decoder) toolCalls() {
	s := &d.scan
	if s.Peek() != '[' {
		s.Skip()
		return
	}
	for s.Array(); s.More(']'); {
		if s.Peek() != '{' {
			s.Skip()
			continue
		}
		for s.Object(); s.More('}'); {
			if string(s.Key()) == "function" {
				d.function()
			} else {
				s.Skip()
			}
		}
	}
}

// function reads a part of a call: name and arguments are output.
func (d *decoder) function() {
	s := &d.scan
	if s.Peek() != '{' {
		s.Skip()
		return
	}
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "name", "arguments":
			d.string(backends.KindTool)
		default:
			s.Skip()
		}
	}
}

// audio reads the transcript of spoken output.
func (d *decoder) audio() {
	s := &d.scan
	if s.Peek() != '{' {
		s.Skip()
		return
	}
	for s.Object(); s.More('}'); {
		if string(s.Key()) == "transcript" {
			d.string(backends.KindText)
		} else {
			s.Skip()
		}
	}
}

// finishReason reads a finish reason; null and "" are none.
func (d *decoder) finishReason() {
	s := &d.scan
	if s.Peek() != '"' {
		s.Skip()
		return
	}
	raw := s.String()
	if len(raw) == 0 {
		return
	}
	d.kind |= backends.KindFinish
	d.finishes = true
	d.finish = intern(raw)
}

// intern returns a finish reason as a string, without allocating for those
// that servers use.
func intern(raw []byte) string {
	switch string(raw) {
	case "stop":
		return "stop"
	case "length":
		return "length"
	case "tool_calls":
		return "tool_calls"
	case "content_filter":
		return "content_filter"
	}
	return string(jsonscan.Unescape(nil, raw[:min(len(raw), 64)]))
}

// groq reads Groq's own member, and says whether it reports an error.
func (d *decoder) groq() (failed bool) {
	s := &d.scan
	if s.Peek() != '{' {
		s.Skip()
		return false
	}
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "usage":
			d.groqUsage()
		case "error":
			failed = isError(s)
		default:
			s.Skip()
		}
	}
	return failed
}

// groqUsage reads the usage in Groq's own member, which says the same as the
// common one where both are there.
func (d *decoder) groqUsage() {
	before := d.usage
	d.usage = usage{odd: before.odd}
	d.readUsage()
	if before.told {
		before.odd = d.usage.odd
		d.usage = before
		return
	}
	d.usage.last = d.usage.told
}

// isError reads the value of an error member: null, false, "" and {} are none.
func isError(s *jsonscan.Scanner) bool {
	switch raw := s.Raw(); string(raw) {
	case "null", "false", `""`, "{}", "[]", "0", "":
		return false
	}
	return true
}

func (d *decoder) warn(code string) {
	for _, w := range d.warnings {
		if w == code {
			return
		}
	}
	d.warnings = append(d.warnings, code)
}
