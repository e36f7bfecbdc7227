package openai

import (
	"fmt"
	"math"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// protocol writes requests and reads answers of one route of a target.
type protocol struct {
	dialect Dialect
	chat    bool
	path    string
	model   string // as JSON
}

func (p *protocol) Framing() wire.Framing { return wire.SSE }

func (p *protocol) NewDecoder() wire.Decoder { return &decoder{} }

// Request writes a streamed generation.
func (p *protocol) Request(b []byte, r *backends.Request) (string, []byte, error) {
	b = append(b, `{"stream":true`...)
	if !p.dialect.ModelInURL {
		b = append(b, `,"model":`...)
		b = append(b, p.model...)
	}
	b, err := p.appendPrompt(b, r.Prompt)
	if err != nil {
		return "", b, err
	}
	limit := p.dialect.TextLimit
	if p.chat {
		limit = p.dialect.ChatLimit
	}
	b = wire.AppendInt(b, limit, int64(r.MaxTokens))
	if r.ForceLength && p.dialect.IgnoreEOS {
		b = append(b, `,"ignore_eos":true`...)
	}
	if r.ForceLength && p.dialect.MinTokens {
		b = wire.AppendInt(b, "min_tokens", int64(r.MaxTokens))
	}
	switch {
	case p.dialect.Running:
		b = append(b, `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`...)
	case p.dialect.Usage:
		b = append(b, `,"stream_options":{"include_usage":true}`...)
	}
	b, err = p.appendSampling(b, r.Sampling)
	if err != nil {
		return "", b, err
	}
	if r.Priority != nil {
		b = p.appendPriority(b, *r.Priority)
	}
	if r.CacheSalt != "" && p.dialect.Salt != "" {
		b = wire.AppendText(b, p.dialect.Salt, r.CacheSalt)
	}
	return p.path, append(b, '}'), nil
}

// appendPrompt writes the prompt in the route's form.
func (p *protocol) appendPrompt(b []byte, prompt backends.Prompt) ([]byte, error) {
	switch {
	case !p.chat && prompt.Messages != nil:
		return b, fmt.Errorf("the completions route takes no chat messages: use --endpoint chat")
	case !p.chat && prompt.IDs != nil:
		if !p.dialect.TextIDs {
			return b, fmt.Errorf("dialect %s takes no token ids: use --prompt text", p.dialect.Name)
		}
		return wire.AppendIDs(b, "prompt", prompt.IDs), nil
	case !p.chat:
		return wire.AppendText(b, "prompt", prompt.Text), nil
	case prompt.IDs != nil:
		if p.dialect.ChatIDs == "" {
			return b, fmt.Errorf("the chat route of dialect %s takes no token ids: use --endpoint completions or --prompt text", p.dialect.Name)
		}
		b = append(b, `,"messages":[]`...)
		return wire.AppendIDs(b, p.dialect.ChatIDs, prompt.IDs), nil
	}
	return wire.AppendMessages(b, "messages", wire.Turns(prompt)), nil
}

// appendSampling writes the parameters that are set.
func (p *protocol) appendSampling(b []byte, s backends.Sampling) ([]byte, error) {
	if s.Temperature != nil {
		b = wire.AppendFloat(b, "temperature", *s.Temperature)
	}
	if s.TopP != nil {
		b = wire.AppendFloat(b, "top_p", *s.TopP)
	}
	if s.TopK != nil {
		if !p.dialect.TopK {
			return b, fmt.Errorf("dialect %s has no top_k: leave sampling.top_k out", p.dialect.Name)
		}
		b = wire.AppendInt(b, "top_k", int64(*s.TopK))
	}
	if s.Seed != nil {
		b = wire.AppendInt(b, "seed", *s.Seed)
	}
	if len(s.Stop) > 0 {
		b = wire.AppendTexts(b, "stop", s.Stop)
	}
	return b, nil
}

// appendPriority writes a priority, of which the larger is served first, in the
// dialect's sense.
func (p *protocol) appendPriority(b []byte, priority float64) []byte {
	switch p.dialect.Priority {
	case LowFirst:
		return wire.AppendInt(b, "priority", int64(math.Round(-priority)))
	case HighFirst:
		return wire.AppendInt(b, "priority", int64(math.Round(priority)))
	case Unit:
		return wire.AppendFloat(b, "priority", min(max(priority, 0), 1))
	}
	return b
}
