package custom

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// tokenizer asks the route of a file for the ids of a prompt.
func (b *Backend) tokenizer(fetch wire.Fetcher, prefix, model string) func(context.Context, backends.Prompt) ([]int32, error) {
	return func(ctx context.Context, p backends.Prompt) ([]int32, error) {
		body, err := b.tokenizerBody(model, p)
		if err != nil {
			return nil, fmt.Errorf("backend %s: the tokenizer's body: %w", b.Name, err)
		}
		answer, err := fetch.Post(ctx, prefix+b.Tokenizer.Path, body)
		if err != nil {
			return nil, fmt.Errorf("tokenizer route: %w", err)
		}
		list, ok := Lookup(answer, b.Tokenizer.IDs).([]any)
		if !ok || len(list) == 0 {
			return nil, fmt.Errorf("tokenizer route %s: the answer has no list at %q", b.Tokenizer.Path, b.Tokenizer.IDs)
		}
		ids := make([]int32, len(list))
		for i, v := range list {
			id, ok := v.(float64)
			if !ok || id != float64(int32(id)) {
				return nil, fmt.Errorf("tokenizer route %s: element %d of %q is no token id", b.Tokenizer.Path, i, b.Tokenizer.IDs)
			}
			ids[i] = int32(id)
		}
		return ids, nil
	}
}

// tokenizerBody is what the route is asked with.
func (b *Backend) tokenizerBody(model string, p backends.Prompt) ([]byte, error) {
	var buf bytes.Buffer
	err := b.tokenize.Execute(&buf, b.tokenizerFields(model, p))
	return buf.Bytes(), err
}

func (b *Backend) tokenizerFields(model string, p backends.Prompt) *fields {
	f := &fields{Model: quote(model)}
	if b.Request.Prompt == "messages" || p.Messages != nil {
		f.Messages = string(valueOf(wire.AppendMessages(nil, "", wire.Turns(p))))
	} else {
		f.Prompt = quote(p.Text)
	}
	return f
}

// Lookup is the value at a path of names joined by dots, the whole value where
// the path is "" and nil where there is none.
func Lookup(body []byte, path string) any {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return nil
	}
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}
