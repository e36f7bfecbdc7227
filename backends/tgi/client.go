// Package tgi speaks text-generation-inference's own route, /generate_stream.
// Its OpenAI-compatible routes are a dialect of package openai.
package tgi

import (
	"fmt"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// Route is the path of the route from the server's root.
const Route = "/generate_stream"

// New returns a client of the route at path. The protocol and what it can are
// filled in.
func New(path string, c wire.ClientConfig) *wire.Client {
	c.Protocol = protocol{path}
	c.Can.TokenIDsOut = true
	return wire.NewClient(c)
}

// protocol writes requests and reads answers of the route.
type protocol struct{ path string }

func (p protocol) Framing() wire.Framing { return wire.SSE }

func (p protocol) NewDecoder() wire.Decoder { return &decoder{} }

// Request writes a streamed generation. The server takes a temperature above 0
// and a top_p below 1 only; without them it chooses the likeliest token, or
// among all.
func (p protocol) Request(b []byte, r *backends.Request) (string, []byte, error) {
	switch {
	case r.Prompt.IDs != nil:
		return "", b, fmt.Errorf("TGI's native route takes no token ids: use --prompt text")
	case r.Prompt.Messages != nil:
		return "", b, fmt.Errorf("TGI's native route takes no chat messages: use --endpoint chat")
	}
	b = wire.AppendText(append(b, '{'), "inputs", r.Prompt.Text)
	b = append(b, `,"parameters":{"details":true`...)
	b = wire.AppendInt(b, "max_new_tokens", int64(r.MaxTokens))
	s := r.Sampling
	if s.Temperature != nil && *s.Temperature > 0 {
		b = wire.AppendFloat(append(b, `,"do_sample":true`...), "temperature", *s.Temperature)
	}
	if s.TopP != nil && *s.TopP < 1 {
		b = wire.AppendFloat(b, "top_p", *s.TopP)
	}
	if s.TopK != nil && *s.TopK > 0 {
		b = wire.AppendInt(b, "top_k", int64(*s.TopK))
	}
	if s.Seed != nil {
		b = wire.AppendInt(b, "seed", *s.Seed)
	}
	if len(s.Stop) > 0 {
		b = wire.AppendTexts(b, "stop", s.Stop)
	}
	return p.path, append(b, "}}"...), nil
}
