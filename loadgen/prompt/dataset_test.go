package prompt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/profiles"
)

const shareGPTText = `[{"id": "a", "conversations": [{"from": "human", "value": "Name a river."}, {"from": "gpt", "value": "The Rhine."}]},
 {"id": "b", "conversations": [{"from": "gpt", "value": "Hello."}, {"from": "human", "value": "And a lake?"}]},
 {"id": "c", "conversations": []}]`

func TestDatasets(t *testing.T) {
	for _, c := range []struct {
		name, text, format, field string
		want                      []string
	}{
		{"sharegpt", shareGPTText, "", "", []string{"Name a river.", "And a lake?"}},
		{"jsonl, field found", "{\"id\": 1, \"question\": \"Who?\"}\n\n{\"id\": 2, \"question\": \"Where?\"}\n", "", "", []string{"Who?", "Where?"}},
		{"jsonl, field named", `{"prompt": "no", "body": "yes"}`, "jsonl", "body", []string{"yes"}},
		{"text", "\ufeffone\n\n  two \r\nthree", "", "", []string{"one", "two", "three"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, err := parseDataset(strings.NewReader(c.text), "d", c.format, c.field)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range rows {
				got = append(got, r.text)
			}
			if strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("rows %q, want %q", got, c.want)
			}
		})
	}
}

func TestUselessDatasetsAreErrorsAtOnce(t *testing.T) { // guidellm#787
	for _, c := range []struct{ name, text, format, field, want string }{
		{"empty", "", "", "", "d: holds no prompt"},
		{"no usable column", "{\"a\": 1}\n", "", "", "d:1: no field (prompt, text"},
		{"named column missing", "{\"prompt\": \"x\"}\n{\"text\": \"y\"}\n", "", "prompt", `d:2: no field "prompt" of text; its fields are text`},
		{"column of numbers", `{"prompt": 4}`, "", "prompt", `d:1: no field "prompt" of text`},
		{"no JSON", "{\"prompt\": \"x\"}\n{oops\n", "", "", "d:2: "},
		{"no human", `[{"conversations": [{"from": "gpt", "value": "x"}]}]`, "", "", "d: no entry"},
		{"array of numbers", `[1, 2]`, "", "", "d: no ShareGPT array"},
		{"unknown format", "x", "parquet", "", `format "parquet" is unknown`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseDataset(strings.NewReader(c.text), "d", c.format, c.field)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %q, want %q...", err, c.want)
			}
		})
	}
}

func TestEachPassOverADatasetTakesEachPromptOnce(t *testing.T) {
	property := func(key uint64, size uint16) bool {
		n := int64(size%300) + 1
		seen := make([]bool, n)
		for i := range n {
			at := permute(key, i, n)
			if at < 0 || at >= n || seen[at] {
				return false
			}
			seen[at] = true
		}
		return true
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
}

func TestDatasetItems(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.txt")
	if err := os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &profiles.Workload{OutputTokens: fixed(5), Dataset: &profiles.Dataset{File: file}}
	s, err := New(t.Context(), Config{Workload: w, Client: &target{can: backends.Capabilities{Chat: true, TokenIDs: true}}})
	if err != nil {
		t.Fatal(err)
	}
	salts, first := map[string]bool{}, map[string]bool{}
	for k, it := range items(t, s, 1, 9) {
		salts[it.CacheSalt] = true
		if k < 3 {
			first[spoken(it.Prompt)] = true
		}
	}
	if len(salts) != 9 || len(first) != 3 {
		t.Errorf("%d salts of 9, %d prompts of 3 in the first pass", len(salts), len(first))
	}
	w.Dataset.File = file + ".missing"
	if _, err := New(t.Context(), Config{Workload: w, Client: &target{}}); err == nil || !strings.Contains(err.Error(), "workload.dataset.file") {
		t.Errorf("error %v", err)
	}
}

// TestDatasetGivesTheLengthsOfAnswers asks for the length that stands beside
// each prompt, and never for an answer of 0 tokens.
func TestDatasetGivesTheLengthsOfAnswers(t *testing.T) {
	open := func(text string) (*Source, error) {
		file := filepath.Join(t.TempDir(), "d.jsonl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w := &profiles.Workload{OutputTokens: profiles.Length{Kind: profiles.LengthDataset}, Dataset: &profiles.Dataset{File: file}}
		return New(t.Context(), Config{Workload: w, Client: &target{can: backends.Capabilities{Chat: true}}})
	}
	s, err := open("{\"prompt\": \"one\", \"output_tokens\": 3}\n{\"prompt\": \"two\", \"output_tokens\": 5}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"one": 3, "two": 5}
	for _, it := range items(t, s, 1, 4) {
		if text := spoken(it.Prompt); it.Output != want[text] {
			t.Errorf("%q: %d tokens asked for, want %d", text, it.Output, want[text])
		}
	}
	for name, second := range map[string]string{"none": `{"prompt": "two"}`, "text": `{"prompt": "two", "output_tokens": "5"}`, "zero": `{"prompt": "two", "output_tokens": 0}`} {
		if _, err := open(`{"prompt": "one", "output_tokens": 3}` + "\n" + second); err == nil || !strings.Contains(err.Error(), "workload.output_tokens: prompt 2 of the data set has no length") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestTalksCarryTheirHistory(t *testing.T) {
	w := &profiles.Workload{InputTokens: fixed(40), OutputTokens: fixed(5), Prompt: "conversation",
		Conversation: &profiles.Conversation{Turns: fixed(3), ThinkTime: profiles.Duration(time.Second)}}
	c := &target{tokenizer: tokenizers(t)["llama-3"], can: backends.Capabilities{Chat: true, Tokenize: true}}
	s, err := New(t.Context(), Config{Workload: w, Client: c})
	if err != nil {
		t.Fatal(err)
	}
	talk := s.Talk(1, 0)
	openings := map[string]bool{}
	for range 4 {
		var before []backends.Message
		for turn := range 3 {
			it, err := talk.Turn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m := it.Prompt.Messages
			if len(m) != 2*turn+1 || m[len(m)-1].Role != "user" {
				t.Fatalf("turn %d has %d messages", turn, len(m))
			}
			for i, old := range before {
				if m[i] != old {
					t.Errorf("turn %d: message %d changed", turn, i)
				}
			}
			if turn == 0 {
				openings[m[0].Content] = true
				if n := c.count(t, it.Prompt); n != 40 {
					t.Errorf("the first turn has %d tokens, want 40", n)
				}
			} else if m[len(m)-2].Content != "fine" {
				t.Errorf("turn %d: the answer before it is %q", turn, m[len(m)-2].Content)
			}
			before = m
			more, delay := talk.Reply("fine", backends.NoUsage, true)
			if more != (turn < 2) || more && delay != time.Second {
				t.Errorf("turn %d: more %v after %v", turn, more, delay)
			}
		}
	}
	if len(openings) != 4 {
		t.Errorf("%d openings in 4 conversations", len(openings))
	}
}

func TestTalksEnd(t *testing.T) {
	w := &profiles.Workload{InputTokens: fixed(40), OutputTokens: fixed(5), Conversation: &profiles.Conversation{Turns: fixed(9)}}
	c := &target{tokenizer: tokenizers(t)["llama-3"], can: backends.Capabilities{Chat: true, Tokenize: true}, limit: 200}
	s, err := New(t.Context(), Config{Workload: w, Client: c})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		name  string
		usage backends.Usage
		ok    bool
		more  bool
	}{
		{"an answer", backends.Usage{Prompt: 40, Completion: 5}, true, true},
		{"no answer", backends.NoUsage, false, false},
		{"the context is full", backends.Usage{Prompt: 160, Completion: 5}, true, false},
	} {
		talk := s.Talk(2, 0)
		if _, err := talk.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if more, _ := talk.Reply("x", e.usage, e.ok); more != e.more {
			t.Errorf("%s: goes on %v, want %v", e.name, more, e.more)
		}
		it, err := talk.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if fresh := len(it.Prompt.Messages) == 1; fresh == e.more {
			t.Errorf("%s: the next turn has %d messages", e.name, len(it.Prompt.Messages))
		}
	}
}

func TestScripts(t *testing.T) {
	s, err := parseScript(`{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi", "delay_ms": 250},
		{"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}]}`, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if s.system != "Be brief." || len(s.turns) != 2 || s.turns[0] != (turn{"Hi", 250 * time.Millisecond}) || s.turns[1] != (turn{"Bye", 2 * time.Second}) {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{`{}`, `[]`, `{"messages": [{"role": "robot", "content": "x"}]}`, `{"messages": [{"role": "user", "content": "x", "delay_ms": -1}]}`} {
		if _, err := parseScript(bad, 0); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func FuzzDataset(f *testing.F) {
	for _, seed := range []string{shareGPTText, "{\"text\": \"x\"}\n", "plain\n", "[", "{", "\ufeff"} {
		f.Add(seed, "", "")
	}
	f.Fuzz(func(t *testing.T, text, format, field string) {
		rows, err := parseDataset(strings.NewReader(text), "d", format, field)
		if err == nil && len(rows) == 0 {
			t.Fatal("no rows and no error")
		}
		for _, r := range rows {
			if r.text == "" {
				t.Fatal("an empty prompt")
			}
		}
	})
}

func FuzzScript(f *testing.F) {
	f.Add(`{"messages": [{"role": "user", "content": "Hi"}]}`)
	f.Add(`{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "x"}]}`)
	f.Fuzz(func(t *testing.T, line string) {
		s, err := parseScript(line, time.Second)
		if err != nil {
			return
		}
		for _, u := range s.turns {
			if u.text == "" || u.delay < 0 {
				t.Fatalf("turn %+v", u)
			}
		}
		if len(s.turns) == 0 {
			t.Fatal("no turns and no error")
		}
	})
}
