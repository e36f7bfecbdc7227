package triton

import (
	"bytes"
	"sync/atomic"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/answer"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// learnt is what the answers of a model have shown so far. It is safe for
// concurrent use.
type learnt struct{ mode atomic.Uint32 }

// sureGrowths is how many texts, each of which continues the whole one before
// it, make sure that a model repeats its text.
const sureGrowths = 3

// decoder reads the responses of one answer. There is no end mark and no
// usage.
type decoder struct {
	answer answer.Answer
	model  Model
	learnt *learnt

	mode    Mode
	before  []byte // the text so far, while the mode is not Delta
	growths int
}

func (d *decoder) Reset(*backends.Request) {
	d.answer.Reset()
	d.before, d.growths = d.before[:0], 0
	if d.mode = d.model.Mode; d.mode == Learn {
		d.mode = Mode(d.learnt.mode.Load())
	}
}

// EndsWithBody is true: nothing but the end of the body ends an answer.
func (d *decoder) EndsWithBody() bool { return true }

func (d *decoder) Sum() wire.Sum { return d.answer.Sum() }

// Whole decodes an answer that came at once, as errors do.
func (d *decoder) Whole(data []byte, out *wire.Decoded) error { return d.Event("", data, out) }

// Event decodes a response or an error.
func (d *decoder) Event(typ string, data []byte, out *wire.Decoded) error {
	data = bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(data, []byte("[DONE]")): // from servers of the same interface
		out.End = true
		return nil
	case typ == "error":
		out.Failure = wire.Message(data)
		return nil
	}
	a := &d.answer
	a.Begin(data)
	for a.Object(); a.More('}'); {
		switch key := a.Key(); {
		case string(key) == d.model.TextOut:
			a.Outputs(backends.KindText)
		case string(key) == d.model.TokenIDsOut:
			a.IDs()
		case string(key) == "error":
			a.Fault()
		default:
			a.Skip()
		}
	}
	d.takeNew()
	return a.Finish(data, out)
}

// takeNew leaves in the event's text what is new of it. While the mode is not
// known a text that continues the one before counts as a repetition of it.
func (d *decoder) takeNew() {
	text := d.answer.Text()
	if d.mode == Delta || len(text) == 0 {
		return
	}
	known := bytes.TrimRight(d.before, "\uFFFD") // half a character is replaced by the whole
	repeats := bytes.HasPrefix(text, known) && (len(text) > len(known) || d.growths > 0)
	switch {
	case d.mode == Cumulative:
		d.answer.CutText(min(len(known), len(text)))
	case len(d.before) == 0:
	case repeats:
		d.answer.CutText(len(known))
		d.growths++
		if d.growths == sureGrowths {
			d.learn(Cumulative)
		}
	default:
		d.learn(Delta)
	}
	d.before = append(d.before[:0], text...)
}

// learn settles the mode of this answer, and of later ones unless another
// answer has.
func (d *decoder) learn(m Mode) {
	d.mode = m
	d.learnt.mode.CompareAndSwap(uint32(Learn), uint32(m))
}
