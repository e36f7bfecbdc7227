package custom

import (
	"bytes"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/answer"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// decoder reads the events of one answer by the paths of a backend file.
type decoder struct {
	answer answer.Answer
	paths  *node
	spec   *Answer

	before  []byte // the text so far, where it is cumulative
	special bool   // the event's text is a mark of the model
	end     bool
}

func (d *decoder) Reset(*backends.Request) {
	d.answer.Reset()
	d.before = d.before[:0]
}

func (d *decoder) EndsWithBody() bool { return d.spec.End.Body }

func (d *decoder) Sum() wire.Sum { return d.answer.Sum() }

// Whole decodes an answer that came at once, by the same paths.
func (d *decoder) Whole(data []byte, out *wire.Decoded) error { return d.Event("", data, out) }

// Event decodes an event.
func (d *decoder) Event(typ string, data []byte, out *wire.Decoded) error {
	data = bytes.TrimSpace(data)
	e := &d.spec.End
	if e.Data != "" && bytes.HasPrefix(data, []byte(e.Data)) {
		out.End = true
		return nil
	}
	if typ == "error" {
		out.Failure = wire.Message(data)
		return nil
	}
	if len(data) == 0 {
		return nil
	}
	a := &d.answer
	a.Begin(data)
	d.special, d.end = false, e.Event != "" && typ == e.Event
	d.walk(d.paths)
	d.takeNew()
	if err := a.Finish(data, out); err != nil {
		return err
	}
	out.End = d.end
	return nil
}

// walk reads the next value, which stands at n, nil for a place that no path
// names.
func (d *decoder) walk(n *node) {
	a := &d.answer
	if n == nil {
		a.Skip()
		return
	}
	inner := len(n.members) > 0 || len(n.items) > 0 || n.each != nil
	for i, do := range n.actions {
		here := a.Scanner
		d.do(do)
		if a.Err() == nil && (inner || i < len(n.actions)-1) {
			a.Scanner = here
		}
	}
	switch c := a.Peek(); {
	case !inner && len(n.actions) > 0:
	case c == '{' && len(n.members) > 0:
		for a.Object(); a.More('}'); {
			d.walk(n.find(a.Key()))
		}
	case c == '[' && (len(n.items) > 0 || n.each != nil):
		i := 0
		for a.Array(); a.More(']'); i++ {
			d.element(n, i)
		}
	default:
		a.Skip()
	}
}

// element reads element i of the array at n, which its own path and that of
// each element may name.
func (d *decoder) element(n *node, i int) {
	one := n.at(i)
	if one != nil && n.each != nil {
		here := d.answer.Scanner
		d.walk(one)
		if d.answer.Err() != nil {
			return
		}
		d.answer.Scanner, one = here, nil
	}
	if one == nil {
		one = n.each
	}
	d.walk(one)
}

// do reads the next value for what it means.
func (d *decoder) do(what action) {
	a := &d.answer
	switch what {
	case text:
		a.Outputs(backends.KindText)
	case noTextIf:
		d.special = a.Bool()
	case reasoning:
		a.Outputs(backends.KindReasoning)
	case tool:
		a.OutputRaw(backends.KindTool)
	case tokenIDs:
		a.IDs()
	case finish:
		a.Reason()
	case fault:
		a.Fault()
	case usagePrompt:
		a.Total(&a.Usage.Prompt)
	case usageCompletion:
		a.Total(&a.Usage.Completion)
	case usageCached:
		a.Total(&a.Usage.Cached)
	case usageReasoning:
		a.Total(&a.Usage.Reasoning)
	case running:
		a.Running()
	case end:
		d.end = d.ends(a.Raw()) || d.end
	}
}

// ends says whether the value at the end's path ends the answer.
func (d *decoder) ends(raw []byte) bool {
	if equals := d.spec.End.Equals; equals != "" {
		return string(raw) == equals
	}
	return len(raw) > 0 && string(raw) != "null" && string(raw) != "false"
}

// takeNew leaves in the event's text what is new and meant to be read.
func (d *decoder) takeNew() {
	a := &d.answer
	t := a.Text()
	switch {
	case d.special:
		a.CutText(len(t))
	case d.spec.Cumulative && len(t) > 0:
		a.CutText(min(len(d.before), len(t)))
		d.before = append(d.before[:0], t...)
	}
}
