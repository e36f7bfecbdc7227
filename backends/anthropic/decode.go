package anthropic

import (
	"bytes"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/answer"
	"github.com/headway-bench/headway/backends/internal/jsonscan"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// decoder reads the named events of one answer. The name also stands in the
// data, as "type", and that one counts; events of unknown types, pings among
// them, say nothing.
type decoder struct {
	answer answer.Answer
	// Counts of the prompt; each event replaces those that it names.
	input, created, read int
	stop                 bool   // the event is message_stop
	fault                []byte // type of the error in it
}

func (d *decoder) Reset(*backends.Request) {
	d.answer.Reset()
	*d = decoder{answer: d.answer, input: -1, created: -1, read: -1}
}

// EndsWithBody is false: the end is message_stop or a stop reason.
func (d *decoder) EndsWithBody() bool { return false }

// Sum adds up the prompt: input_tokens are those that no cache was asked for
// or had. Gateways that learn the counts at the end send zeros before.
func (d *decoder) Sum() wire.Sum {
	if total := max(d.input, 0) + max(d.created, 0) + max(d.read, 0); total > 0 {
		d.answer.Usage.Prompt = total
		d.answer.Usage.Cached = d.read
	}
	return d.answer.Sum()
}

// Event decodes an event, the [DONE] that some gateways add, or an error.
func (d *decoder) Event(typ string, data []byte, out *wire.Decoded) error {
	data = bytes.TrimSpace(data)
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		out.End = true
		return nil
	}
	if len(data) == 0 {
		return nil
	}
	if typ == "error" && data[0] != '{' {
		out.Failure = wire.Message(data)
		return nil
	}
	return d.event(data, out)
}

// Whole decodes an answer that came at once: the message itself.
func (d *decoder) Whole(data []byte, out *wire.Decoded) error {
	return d.event(bytes.TrimSpace(data), out)
}

func (d *decoder) event(data []byte, out *wire.Decoded) error {
	a := &d.answer
	a.Begin(data)
	d.stop, d.fault = false, nil
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "type":
			switch string(a.Name()) {
			case "message_stop":
				d.stop = true
			case "message_start":
				a.Mark(backends.KindRole)
			}
		case "message":
			d.message()
		case "delta":
			d.readDelta()
		case "content_block":
			d.block()
		case "content":
			d.content()
		case "stop_reason":
			a.Reason()
		case "usage":
			d.usage()
			a.Mark(backends.KindUsage)
		case "error":
			d.error()
		default:
			a.Skip()
		}
	}
	if err := a.Finish(data, out); err != nil {
		return err
	}
	if out.Failure != "" && len(d.fault) > 0 {
		out.Failure = string(d.fault) + ": " + out.Failure
	}
	out.End = d.stop
	return nil
}

// message reads the opening message, whose content is empty and whose usage is
// that of the prompt.
func (d *decoder) message() {
	a := &d.answer
	if !a.Opens('{') {
		return
	}
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "usage":
			d.usage()
		case "content":
			d.content()
		default:
			a.Skip()
		}
	}
}

// content reads a list of whole blocks.
func (d *decoder) content() {
	a := &d.answer
	if !a.Opens('[') {
		return
	}
	for a.Array(); a.More(']'); {
		d.block()
	}
}

// block reads a block of content as it begins, or whole. The input of a tool
// call follows in deltas; the data of hidden thinking is generated, but is no
// text.
func (d *decoder) block() {
	a := &d.answer
	if !a.Opens('{') {
		return
	}
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "text":
			a.Output(backends.KindText)
		case "thinking":
			a.Output(backends.KindReasoning)
		case "name":
			a.Output(backends.KindTool)
		case "data":
			if len(a.Name()) > 0 {
				a.Mark(backends.KindReasoning)
			}
		default:
			a.Skip()
		}
	}
}

// readDelta reads what a block, or the message, is continued by. Signatures
// and citations are no tokens.
func (d *decoder) readDelta() {
	a := &d.answer
	if !a.Opens('{') {
		return
	}
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "text":
			a.Output(backends.KindText)
		case "thinking":
			a.Output(backends.KindReasoning)
		case "partial_json":
			a.Output(backends.KindTool)
		case "stop_reason":
			a.Reason()
		default:
			a.Skip()
		}
	}
}

// usage reads counts, which are totals so far and no increments.
func (d *decoder) usage() {
	a := &d.answer
	if !a.Opens('{') {
		return
	}
	for a.Object(); a.More('}'); {
		var to *int
		switch string(a.Key()) {
		case "input_tokens":
			to = &d.input
		case "cache_creation_input_tokens":
			to = &d.created
		case "cache_read_input_tokens":
			to = &d.read
		case "output_tokens":
			to = &a.Usage.Completion
		default:
			a.Skip()
			continue
		}
		if n := a.Tokens(); n >= 0 {
			*to = n
		}
	}
}

// error reads an error, of which the type says more than the message.
func (d *decoder) error() {
	raw := d.answer.Fault()
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var s jsonscan.Scanner
	s.Reset(raw)
	for s.Object(); s.More('}'); {
		if string(s.Key()) == "type" && s.Peek() == '"' {
			d.fault = s.String()
		} else {
			s.Skip()
		}
	}
}
