package openai

import (
	"fmt"
	"math"
	"strconv"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/jsonscan"
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
	b = appendInt(b, limit, int64(r.MaxTokens))
	if r.ForceLength && p.dialect.IgnoreEOS {
		b = append(b, `,"ignore_eos":true`...)
	}
	if r.ForceLength && p.dialect.MinTokens {
		b = appendInt(b, "min_tokens", int64(r.MaxTokens))
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
		b = appendName(b, p.dialect.Salt)
		b = jsonscan.AppendString(b, r.CacheSalt)
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
		return appendIDs(appendName(b, "prompt"), prompt.IDs), nil
	case !p.chat:
		return jsonscan.AppendString(appendName(b, "prompt"), prompt.Text), nil
	case prompt.IDs != nil:
		if p.dialect.ChatIDs == "" {
			return b, fmt.Errorf("the chat route of dialect %s takes no token ids: use --endpoint completions or --prompt text", p.dialect.Name)
		}
		b = append(b, `,"messages":[]`...)
		return appendIDs(appendName(b, p.dialect.ChatIDs), prompt.IDs), nil
	case prompt.Messages == nil:
		b = append(b, `,"messages":[`...)
		b = appendMessage(b, "user", prompt.Text)
		return append(b, ']'), nil
	}
	return appendMessages(appendName(b, "messages"), prompt.Messages), nil
}

// appendSampling writes the parameters that are set.
func (p *protocol) appendSampling(b []byte, s backends.Sampling) ([]byte, error) {
	if s.Temperature != nil {
		b = appendFloat(b, "temperature", *s.Temperature)
	}
	if s.TopP != nil {
		b = appendFloat(b, "top_p", *s.TopP)
	}
	if s.TopK != nil {
		if !p.dialect.TopK {
			return b, fmt.Errorf("dialect %s has no top_k: leave sampling.top_k out", p.dialect.Name)
		}
		b = appendInt(b, "top_k", int64(*s.TopK))
	}
	if s.Seed != nil {
		b = appendInt(b, "seed", *s.Seed)
	}
	if len(s.Stop) > 0 {
		b = append(b, `,"stop":[`...)
		for i, stop := range s.Stop {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsonscan.AppendString(b, stop)
		}
		b = append(b, ']')
	}
	return b, nil
}

// appendPriority writes a priority, of which the larger is served first, in the
// dialect's sense.
func (p *protocol) appendPriority(b []byte, priority float64) []byte {
	switch p.dialect.Priority {
	case LowFirst:
		return appendInt(b, "priority", int64(math.Round(-priority)))
	case HighFirst:
		return appendInt(b, "priority", int64(math.Round(priority)))
	case Unit:
		return appendFloat(b, "priority", min(max(priority, 0), 1))
	}
	return b
}

func appendName(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func appendInt(b []byte, name string, v int64) []byte {
	return strconv.AppendInt(appendName(b, name), v, 10)
}

func appendFloat(b []byte, name string, v float64) []byte {
	return strconv.AppendFloat(appendName(b, name), v, 'g', -1, 64)
}

func appendIDs(b []byte, ids []int32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

func appendMessages(b []byte, messages []backends.Message) []byte {
	b = append(b, '[')
	for i, m := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessage(b, m.Role, m.Content)
	}
	return append(b, ']')
}

func appendMessage(b []byte, role, content string) []byte {
	b = append(b, `{"role":`...)
	b = jsonscan.AppendString(b, role)
	b = append(b, `,"content":`...)
	b = jsonscan.AppendString(b, content)
	return append(b, '}')
}
