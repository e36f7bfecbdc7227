package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNoTemplate says that a model has no chat template.
var ErrNoTemplate = errors.New("the model has no chat template (in tokenizer_config.json or chat_template.jinja); use the completions route")

// Limits in bytes of the files that are read. The tokenizer.json of Llama 3 has
// 17 MB.
const (
	maxTokenizer = 256 << 20
	maxSettings  = 16 << 20
)

// Load reads a tokenizer.json, given as the file or the folder that it is in.
// From tokenizer_config.json beside it, where there is one, come BOS, EOS and
// the chat template, which may also be in chat_template.jinja.
func Load(path string) (*Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	data, err := ReadFile(path, maxTokenizer)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, h, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	if err := t.configure(h, dir); err != nil {
		return nil, fmt.Errorf("tokenizer settings in %s: %w", dir, err)
	}
	return t, nil
}

// settings is what is read of tokenizer_config.json.
type settings struct {
	BOS      tokenName    `json:"bos_token"`
	EOS      tokenName    `json:"eos_token"`
	AddBOS   *bool        `json:"add_bos_token"`
	Template chatTemplate `json:"chat_template"`
}

// tokenName is a token written as a string, or as an object with its content.
type tokenName string

func (n *tokenName) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*string)(n)) == nil {
		return nil
	}
	var object struct {
		Content string `json:"content"`
	}
	err := json.Unmarshal(b, &object)
	*n = tokenName(object.Content)
	return err
}

// chatTemplate is a template, or the one named default in a list of them.
type chatTemplate string

func (c *chatTemplate) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*string)(c)) == nil {
		return nil
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for _, entry := range list {
		if entry.Name == "default" {
			*c = chatTemplate(entry.Template)
		}
	}
	return nil
}

// configure takes the settings beside a tokenizer.json.
func (t *Tokenizer) configure(h *hub, dir string) error {
	var s settings
	data, err := readIfThere(filepath.Join(dir, "tokenizer_config.json"), maxSettings)
	if err != nil {
		return err
	}
	if data != nil {
		if err := Unmarshal(data, &s); err != nil {
			return fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	jinja, err := readIfThere(filepath.Join(dir, "chat_template.jinja"), maxSettings)
	if err != nil {
		return err
	}
	if jinja != nil {
		s.Template = chatTemplate(jinja)
	}
	if t.bos, err = h.named(s.BOS); err != nil {
		return fmt.Errorf("bos_token: %w", err)
	}
	if t.eos, err = h.named(s.EOS); err != nil {
		return fmt.Errorf("eos_token: %w", err)
	}
	if t.bos < 0 && len(t.before) == 1 {
		t.bos = t.before[0]
	}
	if len(t.before) == 0 && t.bos >= 0 && s.AddBOS != nil && *s.AddBOS {
		t.before = []int32{t.bos}
	}
	if s.Template == "" {
		return nil
	}
	h.template, err = newTemplate(string(s.Template), string(s.BOS), string(s.EOS))
	return err
}

// named returns the id of a token; -1 for the empty name.
func (h *hub) named(name tokenName) (int32, error) {
	if name == "" {
		return -1, nil
	}
	if from, to, id := h.added.find(string(name), 0); id >= 0 && from == 0 && to == len(name) {
		return id, nil
	}
	if id, ok := h.bpe.ids[string(name)]; ok {
		return id, nil
	}
	return 0, fmt.Errorf("%q is not in the vocabulary", string(name))
}

func (h *hub) chat(messages []Message) ([]int32, error) {
	if h.template == nil {
		return nil, ErrNoTemplate
	}
	text, err := h.template.render(messages)
	if err != nil {
		return nil, err
	}
	return h.encode(make([]int32, 0, len(text)/3), text), nil
}

// readIfThere is ReadFile, but nil for a file that does not exist.
func readIfThere(path string, limit int64) ([]byte, error) {
	data, err := ReadFile(path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
