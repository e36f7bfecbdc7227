package ollama

import (
	"bytes"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/answer"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// decoder reads the lines of one answer.
type decoder struct{ answer answer.Answer }

func (d *decoder) Reset(*backends.Request) { d.answer.Reset() }

// EndsWithBody is false: the last line says done.
func (d *decoder) EndsWithBody() bool { return false }

func (d *decoder) Sum() wire.Sum { return d.answer.Sum() }

// Whole decodes an answer that came at once: one line that is done.
func (d *decoder) Whole(data []byte, out *wire.Decoded) error { return d.Event("", data, out) }

// Event decodes a line. The server leaves out counts that are 0.
func (d *decoder) Event(_ string, data []byte, out *wire.Decoded) error {
	data = bytes.TrimSpace(data)
	a := &d.answer
	a.Begin(data)
	done, counted := false, false
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "response":
			a.Output(backends.KindText)
		case "thinking":
			a.Output(backends.KindReasoning)
		case "message":
			d.message()
		case "done":
			done = a.Bool()
		case "done_reason":
			a.Reason()
		case "prompt_eval_count":
			a.Total(&a.Usage.Prompt)
		case "eval_count":
			a.Total(&a.Usage.Completion)
			counted = true
		case "error":
			a.Fault()
		default:
			a.Skip()
		}
	}
	if err := a.Finish(data, out); err != nil {
		return err
	}
	if done && !counted && !a.Generated() {
		a.Usage.Completion = 0
	}
	out.End = done
	return nil
}

// message reads a part of the answer on the chat route.
func (d *decoder) message() {
	a := &d.answer
	if !a.Opens('{') {
		return
	}
	for a.Object(); a.More('}'); {
		switch string(a.Key()) {
		case "content":
			a.Output(backends.KindText)
		case "thinking":
			a.Output(backends.KindReasoning)
		case "tool_calls":
			d.calls()
		default:
			a.Skip()
		}
	}
}

// calls reads tool calls, whose arguments are an object.
func (d *decoder) calls() {
	a := &d.answer
	if !a.Opens('[') {
		return
	}
	for a.Array(); a.More(']'); {
		if !a.Opens('{') {
			continue
		}
		for a.Object(); a.More('}'); {
			if string(a.Key()) != "function" || !a.Opens('{') {
				a.Skip()
				continue
			}
			for a.Object(); a.More('}'); {
				switch string(a.Key()) {
				case "name":
					a.Output(backends.KindTool)
				case "arguments":
					a.OutputRaw(backends.KindTool)
				default:
					a.Skip()
				}
			}
		}
	}
}
