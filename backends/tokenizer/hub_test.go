package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// vectors are what the Hugging Face library makes of texts and ids; see make.py
// in testdata/tokenizers.
type vectors struct {
	VocabSize int `json:"vocab_size"`
	Vectors   []struct {
		Text    string  `json:"text"`
		IDs     []int32 `json:"ids"`
		Special []int32 `json:"special"`
		Decoded string  `json:"decoded"`
	} `json:"vectors"`
	Decodes []struct {
		IDs     []int32 `json:"ids"`
		Decoded string  `json:"decoded"`
	} `json:"decodes"`
	Chats []struct {
		Messages []Message `json:"messages"`
		Text     string    `json:"text"`
		IDs      []int32   `json:"ids"`
	} `json:"chats"`
}

var models = []string{"llama-2", "llama-2-metaspace", "llama-3"}

func folder(name string) string {
	return filepath.Join("..", "..", "testdata", "tokenizers", name)
}

func open(t testing.TB, name string) (*Tokenizer, vectors) {
	t.Helper()
	tok, err := Load(folder(name))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder(name), "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return tok, v
}

func TestAgainstHuggingFace(t *testing.T) {
	for _, name := range models {
		t.Run(name, func(t *testing.T) {
			tok, v := open(t, name)
			if tok.VocabSize() != v.VocabSize {
				t.Errorf("vocabulary of %d, want %d", tok.VocabSize(), v.VocabSize)
			}
			for _, c := range v.Vectors {
				if got := tok.Encode(c.Text, false); !slices.Equal(got, c.IDs) {
					t.Errorf("Encode(%q) = %v, want %v", c.Text, got, c.IDs)
				}
				if got := tok.Encode(c.Text, true); !slices.Equal(got, c.Special) {
					t.Errorf("Encode(%q) with specials = %v, want %v", c.Text, got, c.Special)
				}
				if got := tok.Text(c.IDs); got != c.Decoded {
					t.Errorf("Text(%v) = %q, want %q", c.IDs, got, c.Decoded)
				}
			}
			for _, c := range v.Decodes {
				if got := tok.Text(c.IDs); got != c.Decoded {
					t.Errorf("Text(%v) = %q, want %q", c.IDs, got, c.Decoded)
				}
			}
		})
	}
}

func TestChatTemplates(t *testing.T) {
	for _, name := range []string{"llama-2", "llama-3"} {
		t.Run(name, func(t *testing.T) {
			tok, v := open(t, name)
			for _, c := range v.Chats {
				text, err := tok.model.(*hub).template.render(c.Messages)
				if err != nil {
					t.Fatal(err)
				}
				if text != c.Text {
					t.Errorf("rendered %q, want %q", text, c.Text)
				}
				if ids, err := tok.Chat(c.Messages); err != nil || !slices.Equal(ids, c.IDs) {
					t.Errorf("Chat = %v, %v, want %v", ids, err, c.IDs)
				}
			}
		})
	}
}
