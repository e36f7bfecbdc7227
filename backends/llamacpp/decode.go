package llamacpp

import (
	"bytes"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/answer"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// decoder reads the events of one answer. Each counts the tokens so far; the
// last says stop, and repeats no text.
type decoder struct{ answer answer.Answer }

func (d *decoder) Reset(*backends.Request) { d.answer.Reset() }

// EndsWithBody is false: the last event says stop.
func (d *decoder) EndsWithBody() bool { return false }

func (d *decoder) Sum() wire.Sum { return d.answer.Sum() }

// Whole decodes an answer that came at once: one event that says stop.
func (d *decoder) Whole(data []byte, out *wire.Decoded) error { return d.Event("", data, out) }

// Event decodes an event, the [DONE] of some versions, or an error.
func (d *decoder) Event(typ string, data []byte, out *wire.Decoded) error {
	data = bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(data, []byte("[DONE]")):
		out.End = true
		return nil
	case typ == "error":
		out.Failure = wire.Message(data)
		return nil
	}
	a := &d.answer
	a.Begin(data)
	if a.Null() {
		return a.End()
	}
	stop := false
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "content":
			a.Output(backends.KindText)
		case "tokens":
			a.IDs()
		case "tokens_predicted":
			a.Running()
		case "tokens_evaluated":
			a.Usage.Prompt = a.Tokens()
		case "timings":
			d.timings()
		case "stop":
			stop = a.Bool()
		case "stop_type":
			a.Reason()
		case "error":
			a.Fault()
		default:
			a.Skip()
		}
	}
	if stop {
		a.Mark(backends.KindUsage)
	}
	out.End = stop
	return a.Finish(data, out)
}

// timings reads how much of the prompt a cache had.
func (d *decoder) timings() {
	a := &d.answer
	if !a.Opens('{') {
		return
	}
	for a.Object(); a.More('}'); {
		if string(a.Key()) == "cache_n" {
			a.Usage.Cached = a.Tokens()
		} else {
			a.Skip()
		}
	}
}
