// Package ollama speaks Ollama's own routes, /api/generate and /api/chat,
// which answer with a JSON object a line. Its OpenAI-compatible routes are a
// dialect of package openai.
package ollama

import (
	"fmt"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/jsonscan"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// The paths of the routes from the server's root.
const (
	Generate = "/api/generate"
	Chat     = "/api/chat"
)

// Config says what a client speaks to.
type Config struct {
	// Path is the route with the URL's query.
	Path string
	// Chat says that it is the chat route.
	Chat bool
	// Model is the name sent.
	Model string
}

// New returns a client of one of the routes. The protocol and what it can are
// filled in.
func New(cfg Config, c wire.ClientConfig) *wire.Client {
	c.Protocol = &protocol{path: cfg.Path, chat: cfg.Chat, model: string(jsonscan.AppendString(nil, cfg.Model))}
	c.Can.Chat, c.Can.PrefixCaching = cfg.Chat, true
	return wire.NewClient(c)
}

// protocol writes requests and reads answers of one route.
type protocol struct {
	path  string
	chat  bool
	model string // as JSON
}

func (p *protocol) Framing() wire.Framing { return wire.NDJSON }

func (p *protocol) NewDecoder() wire.Decoder { return &decoder{} }

// Request writes a streamed generation. On the generate route the prompt is
// raw: the model reads it as it is, without the chat template.
func (p *protocol) Request(b []byte, r *backends.Request) (string, []byte, error) {
	switch {
	case r.Prompt.IDs != nil:
		return "", b, fmt.Errorf("Ollama takes no token ids: use --prompt text")
	case r.Prompt.Messages != nil && !p.chat:
		return "", b, fmt.Errorf("Ollama's generate route takes no chat messages: use --endpoint chat, or %s as the target's path", Chat)
	}
	b = append(b, `{"stream":true,"model":`...)
	b = append(b, p.model...)
	if p.chat {
		b = wire.AppendMessages(b, "messages", wire.Turns(r.Prompt))
	} else {
		b = wire.AppendText(append(b, `,"raw":true`...), "prompt", r.Prompt.Text)
	}
	b = append(wire.AppendName(b, "options"), '{')
	b = wire.AppendInt(b, "num_predict", int64(r.MaxTokens))
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
	return p.path, append(b, "}}"...), nil
}
