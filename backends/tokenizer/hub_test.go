package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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

func TestTemplateObjects(t *testing.T) {
	tok, _ := open(t, "llama-2")
	_, err := tok.Chat([]Message{{"assistant", "Hi"}})
	if err == nil || !strings.Contains(err.Error(), "turns of user and assistant must alternate") {
		t.Errorf("error %v, want the template's own", err)
	}
	tok, _ = open(t, "llama-2-metaspace")
	if _, err := tok.Chat([]Message{{"user", "Hi"}}); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("error %v, want ErrNoTemplate", err)
	}
}

func TestTemplateFunctions(t *testing.T) {
	at := time.Date(2026, time.March, 5, 7, 8, 9, 0, time.UTC)
	for _, c := range []struct{ name, source, want string }{
		{"date", `{{ strftime_now("%d %b %Y, %H:%M:%S %j 100%% %q") }}`, "05 Mar 2026, 07:08:09 064 100% %q"},
		{"tojson", `{{ messages | tojson }}`, `[{"content": "a <b> \"c\", d: é", "role": "user"}]`},
		{"tojson with indent", `{{ {"k": [1, true]} | tojson(indent=2) }}`, "{\n  \"k\": [\n    1,\n    true\n  ]\n}"},
		{"loop variables", `{% for m in messages %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{% endfor %}`, "1TrueTrue"},
		{"namespace", `{% set n = namespace(x=0) %}{% for m in messages %}{% set n.x = n.x + 2 %}{% endfor %}{{ n.x }}`, "2"},
		{"blocks leave no lines", "{% if true %}\n  a\n  {% endif %}\nb", "  a\nb"},
		{"break", `{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}`, "01"},
	} {
		tmpl, err := newTemplate(c.source, "<s>", "</s>")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		tmpl.now = func() time.Time { return at }
		got, err := tmpl.render([]Message{{"user", `a <b> "c", d: é`}})
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestTemplateReadsNoFiles(t *testing.T) {
	if tmpl, err := newTemplate(`{% include "/etc/hostname" %}`, "", ""); err == nil {
		if text, err := tmpl.render(nil); err == nil {
			t.Errorf("a file was read: %q", text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const model = `"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`
	for _, c := range []struct{ name, data, want string }{
		{"no JSON", `{`, "unexpected end"},
		{"another model", `{"model":{"type":"WordPiece","vocab":{"a":0}}}`, `"WordPiece", only BPE`},
		{"empty vocabulary", `{"model":{"type":"BPE","vocab":{}}}`, "vocab is empty"},
		{"merge outside the vocabulary", `{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[["a","b"]]}}`, `merge 0: "a" + "b"`},
		{"merge of three", `{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","a","a"]]}}`, "a merge of 3 pieces"},
		{"merge without a blank", `{"model":{"type":"BPE","vocab":{"a":0},"merges":["aa"]}}`, "no blank"},
		{"dropout", `{"model":{"type":"BPE","vocab":{"a":0},"dropout":0.1}}`, "dropout"},
		{"huge id", `{"model":{"type":"BPE","vocab":{"a":99999999}}}`, "outside 0 to"},
		{"negative id", `{"model":{"type":"BPE","vocab":{"a":-1}}}`, "outside 0 to"},
		{"unknown unk_token", `{"model":{"type":"BPE","vocab":{"a":0},"unk_token":"?"}}`, `unk_token "?"`},
		{"normalizer", `{"normalizer":{"type":"NFKC"},` + model + `}`, "normalizer: NFKC"},
		{"pattern", `{"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"x+"}},` + model + `}`, "none of those known here: x+"},
		{"byte-level without bytes", `{"decoder":{"type":"ByteLevel"},` + model + `}`, "the byte 0x00 has no piece"},
		{"added token without content", `{"added_tokens":[{"id":3,"content":""}],` + model + `}`, "has no content"},
		{"post-processor", `{"post_processor":{"type":"BertProcessing"},` + model + `}`, "BertProcessing"},
	} {
		if _, _, err := parse([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// Blanks that an added token takes with it are part of no other token.
func TestAddedTokensTakeBlanks(t *testing.T) {
	tok, _, err := parse([]byte(`{"added_tokens":[{"id":3,"content":"<x>","lstrip":true,"rstrip":true,"special":true}],
		"model":{"type":"BPE","vocab":{"a":0," ":1,"b":2}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{
		"a <x> b": {0, 3, 2}, "<x>  <x>": {3, 3}, "  a": {1, 1, 0}, " <x": {1}, "": {},
	} {
		if got := tok.Encode(text, false); !slices.Equal(got, want) {
			t.Errorf("Encode(%q) = %v, want %v", text, got, want)
		}
	}
}

func FuzzTokenizers(f *testing.F) {
	var toks []*Tokenizer
	for _, name := range models {
		tok, v := open(f, name)
		toks = append(toks, tok)
		for _, c := range v.Vectors[:60] {
			f.Add(c.Text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range toks {
			ids := tok.Encode(text, false)
			for _, id := range ids {
				if id < 0 || int(id) >= tok.VocabSize() {
					t.Fatalf("%s: id %d of %q is outside the vocabulary", models[i], id, text)
				}
			}
			s, streamed := tok.NewStream(), ""
			for _, id := range ids {
				streamed += s.Push(id)
			}
			streamed += s.End()
			if want := replaceInvalid(tok.Decode(ids)); streamed != want {
				t.Fatalf("%s: %q streams as %q, want %q", models[i], text, streamed, want)
			}
			// Without specials in the text nothing is lost.
			if models[i] == "llama-3" && !strings.Contains(text, "<|") && string(tok.Decode(ids)) != text {
				t.Fatalf("%q came back as %q", text, tok.Decode(ids))
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"added_tokens":[{"id":3,"content":"<x>","rstrip":true}],"normalizer":{"type":"Prepend","prepend":"▁"},
		"decoder":{"type":"Strip","content":" ","start":1},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`))
	f.Add([]byte(`{"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},"model":{"vocab":{"a":5},"unk_token":"a"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, _, err := parse(data)
		if err != nil {
			return
		}
		ids := tok.Encode("a ab <x> é", true)
		tok.Text(ids)
		tok.Decode([]int32{-1, 0, 1 << 30})
	})
}

// prompt is plain text of about 4,000 tokens of the tiny tokenizers.
func prompt() string {
	const text = "The gap between two cars on a road is called headway; when 1234 more join, it's short. "
	return strings.Repeat(text, 100)
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range models {
		tok, _ := open(b, name)
		text := prompt()
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text, true)
			}
			b.ReportMetric(float64(tok.Count(text, true)), "tokens")
		})
	}
}

func ExampleLoad() {
	tok, err := Load(filepath.Join("..", "..", "testdata", "tokenizers", "llama-3"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := tok.Encode("It's a road", true)
	fmt.Println(len(ids), tok.Text(ids))
	// Output: 5 It's a road
}
