// Package anthropic speaks the Anthropic messages route, which other servers
// and gateways offer too.
package anthropic

import (
	"fmt"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/jsonscan"
	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// version is the version of the interface that is asked for.
const version = "2023-06-01"

// Route is the path of the messages route under a server's /v1.
const Route = "/messages"

// Config says what a client speaks to.
type Config struct {
	// Path is the route with the URL's query, as /v1/messages.
	Path string
	// Model is the id sent.
	Model string
}

// New returns a client of a messages route. The protocol and what it can are
// filled in; the header is the caller's, see Header.
func New(cfg Config, c wire.ClientConfig) *wire.Client {
	c.Protocol = &protocol{path: cfg.Path, model: string(jsonscan.AppendString(nil, cfg.Model))}
	c.Can.Chat = true
	return wire.NewClient(c)
}

// Header is the header lines of every request: the version, and the key when
// there is one, in Anthropic's way and in that of the servers which offer its
// route beside others.
func Header(key string) []transport.Field {
	fields := []transport.Field{{Name: "Anthropic-Version", Value: version}}
	if key != "" {
		fields = append(fields, transport.Field{Name: "X-Api-Key", Value: key})
	}
	return fields
}

// protocol writes requests and reads answers of the route.
type protocol struct {
	path  string
	model string // as JSON
}

func (p *protocol) Framing() wire.Framing { return wire.SSE }

func (p *protocol) NewDecoder() wire.Decoder { return &decoder{} }

// Request writes a streamed generation. Messages of the role system come first
// in a chat and stand apart here.
func (p *protocol) Request(b []byte, r *backends.Request) (string, []byte, error) {
	if r.Prompt.IDs != nil {
		return "", b, fmt.Errorf("the Anthropic messages route takes no token ids: use --prompt text")
	}
	if r.Sampling.Seed != nil {
		return "", b, fmt.Errorf("the Anthropic messages route has no seed: leave sampling.seed out")
	}
	b = append(b, `{"stream":true,"model":`...)
	b = append(b, p.model...)
	b = wire.AppendInt(b, "max_tokens", int64(r.MaxTokens))
	turns := wire.Turns(r.Prompt)
	if len(turns) > 0 && turns[0].Role == "system" {
		b = wire.AppendText(b, "system", turns[0].Content)
		turns = turns[1:]
	}
	b = wire.AppendMessages(b, "messages", turns)
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
	if len(s.Stop) > 0 {
		b = wire.AppendTexts(b, "stop_sequences", s.Stop)
	}
	return p.path, append(b, '}'), nil
}
