package connect_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends/internal/wiretest"
	"github.com/headway-bench/headway/backends/tokenizer"
	"github.com/headway-bench/headway/profiles"
)

// The public reports about prompts and limits, from the request that a server
// reads off its socket to the rung's result.

// wanted is what a request asks for, as a server reads it.
type wanted struct {
	Prompt   json.RawMessage
	Messages []tokenizer.Message
	fields   map[string]any
}

// read reads the body of a request.
func read(t *testing.T, body []byte) (w wanted) {
	t.Helper()
	if err := json.Unmarshal(body, &w); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	if err := json.Unmarshal(body, &w.fields); err != nil {
		t.Error(err)
	}
	return w
}

// ids are the prompt's tokens by a server's tokenizer, which puts BOS before
// texts and the chat template around messages, and takes ids as they are.
func (w wanted) ids(t *testing.T, tok *tokenizer.Tokenizer) []int32 {
	t.Helper()
	if len(w.Messages) > 0 {
		ids, err := tok.Chat(w.Messages)
		if err != nil {
			t.Error(err)
		}
		return ids
	}
	if text, ok := w.fields["prompt"].(string); ok {
		return tok.Encode(text, true)
	}
	var ids []int32
	if err := json.Unmarshal(w.Prompt, &ids); err != nil {
		t.Errorf("prompt %.80s: %v", w.Prompt, err)
	}
	return ids
}

// number is a field of a request, -1 where it has none.
func (w wanted) number(field string) int {
	if n, ok := w.fields[field].(float64); ok {
		return int(n)
	}
	return -1
}

// counting answers each request with one token and the prompt's length by the
// server's tokenizer.
func counting(t *testing.T, tok *tokenizer.Tokenizer) func(asked) script {
	return func(a asked) script {
		n := len(read(t, a.body).ids(t, tok))
		return atOnce(wiretest.Stream(data(word("a")), data(length,
			fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, n, n+1), done)), 0)
	}
}

// tokenizers are those of the tests, and Llama 3's without a BOS.
func tokenizers(t *testing.T) map[string]*tokenizer.Tokenizer {
	t.Helper()
	const folder = "../../testdata/tokenizers/"
	bare := t.TempDir()
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		var file map[string]any
		b, err := os.ReadFile(filepath.Join(folder, "llama-3", name))
		if err == nil {
			err = json.Unmarshal(b, &file)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"post_processor", "bos_token", "add_bos_token", "chat_template"} {
			delete(file, key)
		}
		if b, err = json.Marshal(file); err == nil {
			err = os.WriteFile(filepath.Join(bare, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]*tokenizer.Tokenizer{}
	for name, dir := range map[string]string{"llama-2": folder + "llama-2", "llama-3": folder + "llama-3", "no BOS": bare} {
		tok, err := tokenizer.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = tok
	}
	if _, ok := out["no BOS"].BOS(); ok {
		t.Fatal("the tokenizer without BOS has one")
	}
	return out
}

// uniform draws prompts of from to to tokens, and so many of them.
func uniform(prompt string, from, to, requests int) func(*profiles.Profile) {
	return func(p *profiles.Profile) {
		offline(requests, 1)(p)
		p.Workload.Prompt, p.Workload.InputTokens = prompt, profiles.Length{Kind: "uniform", Min: from, Max: to}
	}
}

// TestPromptsOnTheWire holds what the server's tokenizer makes of each request
// to the length that was drawn for it: vllm#10847, sglang#15732 (lengths after
// encoding again), inference-perf#693 (BOS twice), perf_analyzer#408 (no BOS),
// perf_analyzer#625 (two ways to count).
func TestPromptsOnTheWire(t *testing.T) {
	toks := tokenizers(t)
	for _, c := range []struct {
		name, tokenizer, endpoint, prompt string
		from                              int
		route                             bool // the server's route counts, not a tokenizer of ours
		bos                               int  // in each prompt
	}{
		{"vllm#10847 text of Llama 2", "llama-2", "completions", "text", 3, false, 1},
		{"sglang#15732 text of Llama 3", "llama-3", "completions", "text", 3, false, 1},
		{"inference-perf#693 a chat has BOS once", "llama-3", "chat", "text", 64, false, 1},
		{"ids are sent as they are", "llama-3", "completions", "token-ids", 1, false, 0},
		{"perf_analyzer#408 text without BOS", "no BOS", "completions", "text", 2, false, 0},
		{"perf_analyzer#408 ids without BOS", "no BOS", "completions", "token-ids", 1, false, 0},
		{"perf_analyzer#625 counted by the server's route", "llama-2", "completions", "text", 3, true, 1},
		{"perf_analyzer#625 a chat counted by the server's route", "llama-3", "chat", "text", 64, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tok := toks[c.tokenizer]
			x := trial{endpoint: c.endpoint, answer: counting(t, tok), edit: uniform(c.prompt, c.from, 400, 60), ours: tok}
			if c.route {
				x.ours, x.theirs = nil, tok
			}
			got := x.run(t)
			got.complete(t, 0)
			sum := int64(0)
			for _, a := range got.asked {
				w := read(t, a.body)
				ids, drawn := w.ids(t, tok), got.plan.Rungs[0].Lengths(int64(a.index)).Input
				sum += int64(len(ids))
				if line := got.of(0)[a.index]; len(ids) != drawn || *line.InputTokens != int64(drawn) {
					t.Errorf("request %d has %d tokens on the wire and %d in the result, want %d", a.index, len(ids), *line.InputTokens, drawn)
				}
				bos, ok := tok.BOS()
				if n := count(ids, bos); ok && n != c.bos || n == 1 && ids[0] != bos {
					t.Errorf("request %d has BOS %d times, want %d: %v", a.index, n, c.bos, ids[:min(4, len(ids))])
				}
				if strings.Contains(string(a.body), "None") || strings.Contains(string(a.body), "begin_of_text") || strings.Contains(string(a.body), "<s>") {
					t.Errorf("a special token is written out: %.200s", a.body)
				}
			}
			if got.Totals.InputTokens != sum || got.InputTokens.Count != 60 || strings.Contains(warned(got.Rung), "input_length") {
				t.Errorf("input tokens %d, %d on the wire; %s", got.Totals.InputTokens, sum, warned(got.Rung))
			}
		})
	}
}

func count(ids []int32, id int32) (n int) {
	for _, i := range ids {
		if i == id {
			n++
		}
	}
	return n
}

// TestWordsAreNoTokens: without a tokenizer, prompts are sized by the server's
// usage, in which a word has several tokens, and not by their words.
func TestWordsAreNoTokens(t *testing.T) {
	tok := tokenizer.Bytes(300) // every letter a token
	got := trial{dialect: "generic", endpoint: "completions", input: 500, answer: counting(t, tok), edit: offline(200, 1)}.run(t)
	got.complete(t, 0)
	lines := got.of(0)
	for _, a := range got.asked {
		n := len(read(t, a.body).ids(t, tok))
		if *lines[a.index].InputTokens != int64(n) {
			t.Errorf("request %d: input of %d tokens, the server counts %d", a.index, *lines[a.index].InputTokens, n)
		}
		if first := a.index == 0; first && n < 1000 || a.index >= 150 && (n < 450 || n > 550) {
			t.Errorf("request %d has %d tokens on the wire where 500 were asked for", a.index, n)
		}
	}
	if !strings.Contains(warned(got.Rung), "input_length") {
		t.Errorf("warnings %s", warned(got.Rung))
	}
}

// TestPromptOfOneToken is vllm#24591: one token is sent where the route takes
// ids; text that BOS leaves no room for is an error, and nothing is sent.
func TestPromptOfOneToken(t *testing.T) {
	tok := tokenizers(t)["llama-3"]
	one := func(prompt string, tokens int) trial {
		return trial{endpoint: "completions", input: tokens, answer: counting(t, tok), ours: tok,
			edit: func(p *profiles.Profile) { offline(3, 1)(p); p.Workload.Prompt = prompt }}
	}
	for prompt, tokens := range map[string]int{"token-ids": 1, "text": 2} {
		got := one(prompt, tokens).run(t)
		got.complete(t, 0)
		for _, a := range got.asked {
			if w := read(t, a.body); len(w.ids(t, tok)) != tokens || string(w.Prompt) == `""` || string(w.Prompt) == "[]" {
				t.Errorf("%s: prompt %s, want %d tokens", prompt, w.Prompt, tokens)
			}
		}
		if got.InputTokens.Min.Or(0) != float64(tokens) || got.InputTokens.Max.Or(0) != float64(tokens) {
			t.Errorf("%s: input tokens %+v", prompt, got.InputTokens)
		}
	}
	got, err := one("text", 1).try(t)
	if err == nil || !strings.Contains(err.Error(), "ask for 2 or more") || len(got.asked) != 0 {
		t.Errorf("error %v after %d requests", err, len(got.asked))
	}
}

// TestLengthsStayWithinTheirBounds is guidellm#170: of a length between two
// bounds both are reached and none is passed, on the wire and in the result.
func TestLengthsStayWithinTheirBounds(t *testing.T) {
	tok := tokenizers(t)["llama-3"]
	got := trial{endpoint: "completions", ours: tok, answer: func(a asked) script {
		w := read(t, a.body)
		n := w.number("max_tokens")
		ids := strings.Trim(strings.Repeat("7,", n), ",")
		return atOnce(wiretest.Stream(data(`{"choices":[{"text":"a","token_ids":[`+ids+`]}]}`), data(length,
			fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, len(w.ids(t, tok)), n), done)), 0)
	}, edit: func(p *profiles.Profile) {
		uniform("token-ids", 20, 30, 300)(p)
		p.Workload.OutputTokens = profiles.Length{Kind: "uniform", Min: 3, Max: 9}
	}}.run(t)
	asks := map[int]bool{}
	for _, a := range got.asked {
		asks[read(t, a.body).number("max_tokens")] = true
	}
	if want := []int{3, 4, 5, 6, 7, 8, 9}; !slices.Equal(slices.Sorted(maps.Keys(asks)), want) {
		t.Errorf("the server was asked for %v tokens, want %v", slices.Sorted(maps.Keys(asks)), want)
	}
	in, out := got.InputTokens, got.OutputTokens
	if in.Min.Or(0) != 20 || in.Max.Or(0) != 30 || out.Min.Or(0) != 3 || out.Max.Or(0) != 9 || got.Totals.Completed != 300 {
		t.Errorf("input %v to %v, output %v to %v", in.Min, in.Max, out.Min, out.Max)
	}
}

// TestLimitFields is guidellm#399: each route is told its output limit by the
// name that it knows, and no other.
func TestLimitFields(t *testing.T) {
	for _, c := range []struct{ dialect, endpoint, field string }{
		{"vllm", "chat", "max_tokens"},
		{"vllm", "completions", "max_tokens"},
		{"ollama", "chat", "max_tokens"},
		{"openai", "chat", "max_completion_tokens"},
		{"openai", "completions", "max_tokens"},
		{"groq", "chat", "max_completion_tokens"},
		{"azure", "chat", "max_completion_tokens"},
		{"generic", "chat", "max_tokens"},
		{"llamacpp", "native", "n_predict"},
		{"anthropic", "", "max_tokens"},
		{"triton", "", "max_tokens"},
	} {
		t.Run(c.dialect+" "+c.endpoint, func(t *testing.T) {
			answer := wiretest.Stream(data(word("a")), data(length, usage(1), done))
			switch {
			case c.endpoint == "native":
				answer = wiretest.Stream(data(`{"content":"a","stop":true,"tokens_predicted":1}`))
			case c.dialect == "anthropic":
				answer = wiretest.Stream("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\"}}\n\n",
					"event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":1}}\n\n", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
			case c.dialect == "triton":
				answer = wiretest.Stream(data(`{"text_output":"a","token_id":7,"sequence_end":true}`))
			}
			got := trial{dialect: c.dialect, endpoint: c.endpoint, asked: 17, answer: always(atOnce(answer, 0)), edit: offline(1, 1)}.run(t)
			w := read(t, got.asked[0].body)
			for _, field := range []string{"max_tokens", "max_completion_tokens", "n_predict", "max_new_tokens"} {
				want := -1
				if field == c.field {
					want = 17
				}
				if n := w.number(field); n != want {
					t.Errorf("%s is %d, want %d: %s", field, n, want, got.asked[0].body)
				}
			}
			if got.Totals.Completed != 1 || got.Totals.OutputTokens != 1 {
				t.Errorf("totals %+v: %s", got.Totals, got.lines[0].Error)
			}
		})
	}
}

// TestSurvivors is guidellm#982: a server that fails 63 of 100 requests for
// ignore_eos has 37 in its percentiles, and the rung says so; without
// force_length the field is not sent.
func TestSurvivors(t *testing.T) {
	good := oneToken(0)
	bad := atOnce(wiretest.Plain(500, "application/json", `{"error":{"message":"tokens are left over at the end"}}`), 0)
	for _, force := range []bool{true, false} {
		got := trial{answer: func(a asked) script {
			if w := read(t, a.body); w.fields["ignore_eos"] == true && a.index%100 < 63 {
				return bad
			}
			return good
		}, edit: func(p *profiles.Profile) { offline(100, 4)(p); p.Workload.Sampling.ForceLength = force }}.run(t)
		failed := int64(0)
		if force {
			failed = 63
		}
		if got.Totals.Failed != failed || got.Requests.Failures["http_5xx"] != failed || got.TTFT.Count != 100-failed || got.E2E.Count != 100-failed || got.Totals.OutputTokens != 100-failed {
			t.Errorf("force_length %v: totals %+v, failures %v, %d TTFT", force, got.Totals, got.Requests.Failures, got.TTFT.Count)
		}
		share := 0.0
		for _, w := range got.Warnings {
			if w.Code == "survivors" {
				share = w.Value.Or(0)
			}
		}
		if share != float64(failed)/100 {
			t.Errorf("force_length %v: the share of failures is told as %v", force, share)
		}
	}
}

// TestJoinedTextIsCounted is perf_analyzer#563: where only a tokenizer can tell
// the output tokens, it counts the answer and not each of its chunks.
func TestJoinedTextIsCounted(t *testing.T) {
	tok := tokenizers(t)["llama-3"]
	head, tail, apart := split(t, tok)
	got := trial{input: 64, asked: 16, ours: tok, edit: offline(1, 1),
		answer: always(framed(say(role), say(word(head)), say(word(tail)), say(stop, done)))}.run(t)
	line := got.lines[0]
	if line.OutputTokens == nil || *line.OutputTokens != 1 || line.TokenSource != "tokenizer" || got.Totals.OutputTokens != 1 {
		t.Errorf("%q and %q are %v tokens by %q, want 1 and not %d", head, tail, line.OutputTokens, line.TokenSource, apart)
	}
	if line.Class != "ok" || got.Tokens.Source != "tokenizer" || got.TPOT.Mean.OK() {
		t.Errorf("class %s, source %s, TPOT %v", line.Class, got.Tokens.Source, got.TPOT.Mean)
	}
	same(t, "ttft", got.TTFT, float64(line.Chunks[0].At-*line.SentNS))
	same(t, "e2e", got.E2E, float64(line.Chunks[1].At-*line.SentNS))
}

// split finds a word that is one token, and two or more when it is cut.
func split(t *testing.T, tok *tokenizer.Tokenizer) (head, tail string, apart int) {
	t.Helper()
	for id := range int32(tok.VocabSize()) {
		text := string(tok.Decode([]int32{id}))
		if len(text) < 4 || strings.Trim(text, " abcdefghijklmnopqrstuvwxyz") != "" || tok.Count(text, false) != 1 {
			continue
		}
		head, tail = text[:len(text)/2], text[len(text)/2:]
		if apart = tok.Count(head, false) + tok.Count(tail, false); apart > 1 {
			return head, tail, apart
		}
	}
	t.Fatal("no word is one token and several when cut")
	return "", "", 0
}
