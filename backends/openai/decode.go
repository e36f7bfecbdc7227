package openai

import (
	"bytes"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/answer"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// decoder reads the chunks of one answer. It allocates nothing per event once
// its buffers have grown.
type decoder struct {
	answer    answer.Answer
	reasoning []byte // raw reasoning of the event, to tell doubles
	tally     tally

	// Of the event under way.
	empty    bool // it has no choice
	finishes bool // it has a finish reason
	usage    usage
}

func (d *decoder) Reset(*backends.Request) {
	d.answer.Reset()
	*d = decoder{answer: d.answer}
}

// EndsWithBody is false: the end is [DONE] or a finish reason.
func (d *decoder) EndsWithBody() bool { return false }

func (d *decoder) Sum() wire.Sum {
	d.answer.Usage = d.tally.final()
	sum := d.answer.Sum()
	sum.Running = d.tally.running
	return sum
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
	a := &d.answer
	a.Begin(data)
	if a.Null() {
		return a.End()
	}
	d.reasoning, d.empty, d.finishes, d.usage = nil, true, false, usage{}
	flat, message := false, false
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "choices":
			d.choices()
		case "usage":
			d.readUsage()
		case "error":
			a.Fault()
		case "x_groq":
			d.groq()
		case "token_ids":
			a.IDs()
		case "object":
			flat = string(a.Raw()) == `"error"`
		case "message", "detail":
			message = true
			a.Skip()
		default:
			a.Skip()
		}
	}
	running := d.count()
	if err := a.Finish(data, out); err != nil || out.Failure != "" {
		return err
	}
	switch {
	case flat || message && d.empty && !d.usage.told:
		*out = wire.Decoded{Completion: -1, Failure: wire.Message(data)}
	case a.Ended() == "error":
		out.Failure = "the finish reason is error"
	}
	out.Completion = running
	return nil
}

// count adds up the chunk's usage. It returns the running count of output
// tokens, -1 for none.
func (d *decoder) count() (running int) {
	if !d.usage.told {
		return -1
	}
	a := &d.answer
	running, grew, final := d.tally.add(&d.usage, d.empty, d.finishes, a.Ended() != "", a.Generated() || a.HasOutput())
	if d.tally.unbelieved {
		a.Warn("usage_not_believed")
	}
	if grew {
		a.Mark(backends.KindUsageStep)
	}
	if final {
		a.Mark(backends.KindUsage)
	}
	return running
}

// choices reads the list of choices.
func (d *decoder) choices() {
	s := &d.answer
	if !s.Opens('[') {
		return
	}
	for s.Array(); s.More(']'); {
		if !s.Opens('{') {
			continue
		}
		d.empty = false
		d.choice()
	}
}

func (d *decoder) choice() {
	s := &d.answer
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "index":
			n, _ := s.Number()
			d.tally.choice(int(n))
		case "delta", "message":
			d.delta()
		case "text":
			s.Output(backends.KindText)
		case "finish_reason":
			d.finishes = s.Reason() || d.finishes
		case "token_ids":
			s.IDs()
		case "usage":
			d.readUsage()
		default:
			s.Skip()
		}
	}
}

// delta reads what a choice adds to its message.
func (d *decoder) delta() {
	s := &d.answer
	if !s.Opens('{') {
		return
	}
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "role":
			if s.Peek() == '"' {
				s.Mark(backends.KindRole)
			}
			s.Skip()
		case "content":
			d.content(backends.KindText, 0)
		case "refusal":
			s.Output(backends.KindText)
		case "reasoning", "reasoning_content":
			d.reasoningText()
		case "tool_calls":
			d.toolCalls()
		case "function_call":
			d.function()
		case "audio":
			d.audio()
		case "token_ids":
			s.IDs()
		default:
			s.Skip()
		}
	}
}

// maxParts bounds how deep parts of content may nest.
const maxParts = 8

// content reads text, or a list of parts that hold text.
func (d *decoder) content(kind backends.Kind, depth int) {
	s := &d.answer
	if s.Peek() != '[' || depth > maxParts {
		s.Output(kind)
		return
	}
	for s.Array(); s.More(']'); {
		if s.Peek() != '{' {
			s.Output(kind)
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

// reasoningText reads reasoning, which some servers send under both its names
// at once.
func (d *decoder) reasoningText() {
	s := &d.answer
	raw := s.Name()
	if !bytes.Equal(raw, d.reasoning) {
		d.reasoning = raw
		s.Emit(backends.KindReasoning, raw)
	}
}

// toolCalls reads a list of parts of tool calls.
func (d *decoder) toolCalls() {
	s := &d.answer
	if !s.Opens('[') {
		return
	}
	for s.Array(); s.More(']'); {
		if !s.Opens('{') {
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
	s := &d.answer
	if !s.Opens('{') {
		return
	}
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "name", "arguments":
			s.Output(backends.KindTool)
		default:
			s.Skip()
		}
	}
}

// audio reads the transcript of spoken output.
func (d *decoder) audio() {
	s := &d.answer
	if !s.Opens('{') {
		return
	}
	for s.Object(); s.More('}'); {
		if string(s.Key()) == "transcript" {
			s.Output(backends.KindText)
		} else {
			s.Skip()
		}
	}
}

// groq reads Groq's own member.
func (d *decoder) groq() {
	s := &d.answer
	if !s.Opens('{') {
		return
	}
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "usage":
			d.groqUsage()
		case "error":
			s.Fault()
		default:
			s.Skip()
		}
	}
}

// groqUsage reads the usage in Groq's own member, which says the same as the
// common one where both are there.
func (d *decoder) groqUsage() {
	before := d.usage
	d.usage = usage{}
	d.readUsage()
	if before.told {
		d.usage = before
		return
	}
	d.usage.last = d.usage.told
}
