package openai

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// tokenize returns the ids that the server's tokenizer makes of a prompt, with
// what the route adds to it: the chat template on the chat route, the
// beginning of text on the completions route.
func (c *Client) tokenize(ctx context.Context, p backends.Prompt) ([]int32, error) {
	if c.cfg.Chat && p.Messages == nil {
		p = backends.Prompt{Messages: wire.Turns(p)}
	}
	switch c.cfg.Dialect.Name {
	case "llamacpp":
		return c.tokenizeLlama(ctx, p)
	case "tgi":
		return c.tokenizeTGI(ctx, p)
	case "trtllm":
		if p.Messages != nil {
			return nil, backends.ErrNoTokenizer // its route applies no template
		}
		return c.tokens(ctx, c.cfg.Dialect.Tokenize, append(wire.AppendText([]byte{'{'}, "prompt", p.Text), '}'))
	}
	b := append([]byte(`{"model":`), quote(c.cfg.Model)...)
	if p.Messages != nil {
		b = wire.AppendMessages(b, "messages", p.Messages)
		b = append(b, `,"add_generation_prompt":true}`...)
	} else {
		b = append(wire.AppendText(b, "prompt", p.Text), '}')
	}
	return c.tokens(ctx, c.cfg.Dialect.Tokenize, b)
}

// tokens posts a body to a route that answers {"tokens": [...]}.
func (c *Client) tokens(ctx context.Context, route string, body []byte) ([]int32, error) {
	answer, err := c.fetch.Post(ctx, c.cfg.Routes.Root(route), body)
	if err != nil {
		return nil, fmt.Errorf("tokenizer route: %w", err)
	}
	var v struct{ Tokens []int32 }
	if err := json.Unmarshal(answer, &v); err != nil || v.Tokens == nil {
		return nil, fmt.Errorf("tokenizer route %s: the answer has no list of tokens", route)
	}
	return v.Tokens, nil
}

// tokenizeLlama has llama.cpp apply its template first, and then makes tokens
// of the result, in which the template's special tokens are text.
func (c *Client) tokenizeLlama(ctx context.Context, p backends.Prompt) ([]int32, error) {
	text := p.Text
	if p.Messages != nil {
		body := append(wire.AppendMessages([]byte{'{'}, "messages", p.Messages), '}')
		answer, err := c.fetch.Post(ctx, c.cfg.Routes.Root("/apply-template"), body)
		if err != nil {
			return nil, fmt.Errorf("template route: %w", err)
		}
		var v struct{ Prompt *string }
		if err := json.Unmarshal(answer, &v); err != nil || v.Prompt == nil {
			return nil, fmt.Errorf("template route /apply-template: the answer has no prompt")
		}
		text = *v.Prompt
	}
	b := wire.AppendText([]byte{'{'}, "content", text)
	b = append(b, `,"add_special":true,"parse_special":true}`...)
	return c.tokens(ctx, c.cfg.Dialect.Tokenize, b)
}

// tokenizeTGI reads TGI's list of tokens with their places in the text.
func (c *Client) tokenizeTGI(ctx context.Context, p backends.Prompt) ([]int32, error) {
	type token struct{ ID int32 }
	var list []token
	if p.Messages != nil {
		b := append(wire.AppendMessages([]byte{'{'}, "messages", p.Messages), '}')
		answer, err := c.fetch.Post(ctx, c.cfg.Routes.Root("/chat_tokenize"), b)
		if err != nil {
			return nil, fmt.Errorf("tokenizer route: %w", err)
		}
		var v struct {
			Tokens []token `json:"tokenize_response"`
		}
		if err := json.Unmarshal(answer, &v); err != nil {
			return nil, fmt.Errorf("tokenizer route /chat_tokenize: %w", err)
		}
		list = v.Tokens
	} else {
		answer, err := c.fetch.Post(ctx, c.cfg.Routes.Root("/tokenize"), append(wire.AppendText([]byte{'{'}, "inputs", p.Text), '}'))
		if err != nil {
			return nil, fmt.Errorf("tokenizer route: %w", err)
		}
		if err := json.Unmarshal(answer, &list); err != nil {
			return nil, fmt.Errorf("tokenizer route /tokenize: %w", err)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("tokenizer route: the answer has no tokens")
	}
	ids := make([]int32, len(list))
	for i, t := range list {
		ids[i] = t.ID
	}
	return ids, nil
}
