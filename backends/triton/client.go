// Package triton speaks the generate extension of Triton Inference Server.
// What a request may hold and what an answer holds is the model's affair:
// Describe finds it out from the model's metadata.
package triton

import (
	"fmt"
	"net/url"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// Model is what a request to a model, and its answer, look like. A field is ""
// where the model has no such input or output.
type Model struct {
	Name string
	// Version is "" for the server's choice.
	Version string
	// Inputs.
	Text, MaxTokens, MinTokens                    string
	Temperature, TopP, TopK, Seed, Stop           string
	IgnoreEOS, Stream, ExcludeInput, SamplingJSON string
	// Outputs.
	TextOut, TokenIDsOut string
	// Mode says whether each text is new or repeats what came before.
	Mode Mode
}

// Mode is what the text of an event holds.
type Mode uint8

// The modes.
const (
	Learn      Mode = iota // found out from the first answers
	Delta                  // the text that is new
	Cumulative             // the text so far
)

// Path is the path of the model's route from the server's root.
func (m Model) Path() string { return m.root() + "/generate_stream" }

// Metadata is the path of the model's metadata from the server's root.
func (m Model) Metadata() string { return m.root() }

func (m Model) root() string {
	p := "/v2/models/" + url.PathEscape(m.Name)
	if m.Version != "" {
		p += "/versions/" + url.PathEscape(m.Version)
	}
	return p
}

// New returns a client of the model's route at path. The protocol and what it
// can are filled in.
func New(path string, m Model, c wire.ClientConfig) *wire.Client {
	c.Protocol = &protocol{path: path, model: m, learnt: &learnt{}}
	c.Can.ForceLength = m.IgnoreEOS != "" || m.MinTokens != "" || m.SamplingJSON != ""
	c.Can.TokenIDsOut = m.TokenIDsOut != ""
	return wire.NewClient(c)
}

// protocol writes requests and reads answers of one model.
type protocol struct {
	path   string
	model  Model
	learnt *learnt
}

func (p *protocol) Framing() wire.Framing { return wire.SSE }

func (p *protocol) NewDecoder() wire.Decoder {
	return &decoder{model: p.model, learnt: p.learnt}
}

// Request writes a streamed generation. What the model has no input for is
// left out, but for a limit of the output: without one no length is ever right.
func (p *protocol) Request(b []byte, r *backends.Request) (string, []byte, error) {
	switch {
	case r.Prompt.IDs != nil:
		return "", b, fmt.Errorf("Triton model %s takes text: use --prompt text", p.model.Name)
	case r.Prompt.Messages != nil:
		return "", b, fmt.Errorf("Triton model %s takes text, no chat messages", p.model.Name)
	}
	m, s := p.model, r.Sampling
	b = wire.AppendText(append(b, '{'), m.Text, r.Prompt.Text)
	if m.Stream != "" {
		b = append(wire.AppendName(b, m.Stream), "true"...)
	}
	if m.ExcludeInput != "" {
		b = append(wire.AppendName(b, m.ExcludeInput), "true"...)
	}
	if m.SamplingJSON != "" {
		b = wire.AppendText(b, m.SamplingJSON, string(samplingJSON(r)))
		return p.path, append(b, '}'), nil
	}
	if m.MaxTokens == "" {
		return "", b, fmt.Errorf("Triton model %s has no input that limits the output that headway knows: describe it with --backend-file", m.Name)
	}
	b = wire.AppendInt(b, m.MaxTokens, int64(r.MaxTokens))
	if r.ForceLength {
		if m.MinTokens != "" {
			b = wire.AppendInt(b, m.MinTokens, int64(r.MaxTokens))
		}
		if m.IgnoreEOS != "" {
			b = append(wire.AppendName(b, m.IgnoreEOS), "true"...)
		}
	}
	if s.Temperature != nil && m.Temperature != "" {
		b = wire.AppendFloat(b, m.Temperature, *s.Temperature)
	}
	if s.TopP != nil && m.TopP != "" {
		b = wire.AppendFloat(b, m.TopP, *s.TopP)
	}
	if s.TopK != nil && m.TopK != "" {
		b = wire.AppendInt(b, m.TopK, int64(*s.TopK))
	}
	if s.Seed != nil && m.Seed != "" {
		b = wire.AppendInt(b, m.Seed, *s.Seed)
	}
	if len(s.Stop) > 0 && m.Stop != "" {
		b = wire.AppendTexts(b, m.Stop, s.Stop)
	}
	return p.path, append(b, '}'), nil
}

// samplingJSON writes the one input in which Triton's vLLM backend takes all
// parameters, under vLLM's names.
func samplingJSON(r *backends.Request) []byte {
	s := r.Sampling
	b := wire.AppendInt([]byte{'{'}, "max_tokens", int64(r.MaxTokens))
	if r.ForceLength {
		b = append(wire.AppendInt(b, "min_tokens", int64(r.MaxTokens)), `,"ignore_eos":true`...)
	}
	if s.Temperature != nil {
		b = wire.AppendFloat(b, "temperature", *s.Temperature)
	}
	if s.TopP != nil {
		b = wire.AppendFloat(b, "top_p", *s.TopP)
	}
	if s.TopK != nil {
		b = wire.AppendInt(b, "top_k", int64(*s.TopK))
	}
	if s.Seed != nil {
		b = wire.AppendInt(b, "seed", *s.Seed)
	}
	if len(s.Stop) > 0 {
		b = wire.AppendTexts(b, "stop", s.Stop)
	}
	return append(b, '}')
}
