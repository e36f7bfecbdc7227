// Package llamacpp speaks llama.cpp's own route, /completion. Its
// OpenAI-compatible routes are a dialect of package openai.
package llamacpp

import (
	"fmt"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// Route is the path of the route from the server's root.
const Route = "/completion"

// New returns a client of the route at path. The protocol and what it can are
// filled in.
func New(path string, c wire.ClientConfig) *wire.Client {
	c.Protocol = protocol{path}
	c.Can.TokenIDs, c.Can.ForceLength, c.Can.RunningUsage = true, true, true
	c.Can.TokenIDsOut, c.Can.PrefixCaching = true, true
	return wire.NewClient(c)
}

// protocol writes requests and reads answers of the route.
type protocol struct{ path string }

func (p protocol) Framing() wire.Framing { return wire.SSE }

func (p protocol) NewDecoder() wire.Decoder { return &decoder{} }

// Request writes a streamed generation.
func (p protocol) Request(b []byte, r *backends.Request) (string, []byte, error) {
	b = append(b, `{"stream":true,"return_tokens":true`...)
	switch {
	case r.Prompt.Messages != nil:
		return "", b, fmt.Errorf("llama.cpp's native route takes no chat messages: use --endpoint chat")
	case r.Prompt.IDs != nil:
		b = wire.AppendIDs(b, "prompt", r.Prompt.IDs)
	default:
		b = wire.AppendText(b, "prompt", r.Prompt.Text)
	}
	b = wire.AppendInt(b, "n_predict", int64(r.MaxTokens))
	if r.ForceLength {
		b = append(b, `,"ignore_eos":true`...)
	}
	s := r.Sampling
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
	return p.path, append(b, '}'), nil
}
