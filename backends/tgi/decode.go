package tgi

import (
	"bytes"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/answer"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// decoder reads the events of one answer: a token each, the last with the
// details.
type decoder struct {
	answer  answer.Answer
	whole   bool
	special bool // the token's text is a mark of the model, no text
	end     bool
}

func (d *decoder) Reset(*backends.Request) { d.answer.Reset() }

// EndsWithBody is false: the last event has the whole text.
func (d *decoder) EndsWithBody() bool { return false }

func (d *decoder) Sum() wire.Sum { return d.answer.Sum() }

// Event decodes a token or an error.
func (d *decoder) Event(typ string, data []byte, out *wire.Decoded) error {
	d.whole = false
	return d.event(typ, data, out)
}

// Whole decodes an answer that came at once, which has the text alone.
func (d *decoder) Whole(data []byte, out *wire.Decoded) error {
	d.whole = true
	return d.event("", data, out)
}

func (d *decoder) event(typ string, data []byte, out *wire.Decoded) error {
	data = bytes.TrimSpace(data)
	if typ == "error" {
		out.Failure = wire.Message(data)
		return nil
	}
	a := &d.answer
	a.Begin(data)
	d.special, d.end = false, false
	var kind []byte
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "token":
			d.token()
		case "generated_text":
			d.end = a.Peek() == '"'
			if d.whole {
				a.Output(backends.KindText)
			} else {
				a.Skip()
			}
		case "details":
			d.details()
		case "error":
			a.Fault()
		case "error_type":
			kind = a.Name()
		default:
			a.Skip()
		}
	}
	if d.special {
		a.CutText(len(a.Text()))
	}
	if err := a.Finish(data, out); err != nil {
		return err
	}
	if out.Failure != "" && len(kind) > 0 {
		out.Failure = string(kind) + ": " + out.Failure
	}
	out.End = d.end
	return nil
}

// token reads a token; one that is part of an unfinished character has no text.
func (d *decoder) token() {
	a := &d.answer
	if !a.Opens('{') {
		return
	}
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "id":
			a.IDs()
		case "text":
			a.Output(backends.KindText)
		case "special":
			d.special = a.Bool()
		default:
			a.Skip()
		}
	}
}

// details reads the server's counts.
func (d *decoder) details() {
	a := &d.answer
	if !a.Opens('{') {
		return
	}
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "finish_reason":
			a.Reason()
		case "generated_tokens":
			a.Total(&a.Usage.Completion)
		case "input_length":
			a.Total(&a.Usage.Prompt)
		default:
			a.Skip()
		}
	}
}
