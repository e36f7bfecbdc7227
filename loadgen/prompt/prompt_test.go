package prompt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/tokenizer"
	"github.com/headway-bench/headway/loadgen/internal/draw"
	"github.com/headway-bench/headway/profiles"
)

// target counts prompts by a tokenizer of its own, as a server would.
type target struct {
	can       backends.Capabilities
	tokenizer *tokenizer.Tokenizer
	asked     atomic.Int64 // calls of its tokenizer route
	limit     int
}

func (c *target) Stream(context.Context, *backends.Request, backends.Sink) backends.Outcome {
	return backends.Outcome{}
}
func (c *target) Server() backends.Server    { return backends.Server{MaxModelLen: c.limit} }
func (c *target) Can() backends.Capabilities { return c.can }
func (c *target) Close()                     {}
func (c *target) Tokenize(_ context.Context, p backends.Prompt) ([]int32, error) {
	if !c.can.Tokenize {
		return nil, backends.ErrNoTokenizer
	}
	c.asked.Add(1)
	return encode(c.tokenizer, p)
}

// count is the length of a prompt on the wire.
func (c *target) count(t *testing.T, p backends.Prompt) int {
	t.Helper()
	if p.IDs != nil {
		return len(p.IDs)
	}
	ids, err := encode(c.tokenizer, p)
	if err != nil {
		t.Fatal(err)
	}
	return len(ids)
}

func fixed(n int) profiles.Length { return profiles.Length{Kind: "fixed", Value: n} }

func tokenizers(t *testing.T) map[string]*tokenizer.Tokenizer {
	t.Helper()
	out := map[string]*tokenizer.Tokenizer{"bytes": tokenizer.Bytes(512)}
	for _, name := range []string{"llama-2", "llama-3"} {
		tok, err := tokenizer.Load("../../testdata/tokenizers/" + name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = tok
	}
	return out
}

// items opens a stream of n items.
func items(t *testing.T, s *Source, seed uint64, n int) []*Item {
	t.Helper()
	st := s.Open(t.Context(), seed, func(k int64) Lengths { return DrawLengths(s.cfg.Workload, seed, k) }, 0)
	defer st.Close()
	var out []*Item
	for k := range int64(n) {
		it, err := st.Take(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, it)
	}
	return out
}

func TestPromptsHaveTheirExactLength(t *testing.T) { // vllm#10847, sglang#15732, genai-bench#174, gpustack#4560
	lengths := profiles.Length{Kind: "uniform", Min: 1, Max: 4000}
	for name, tok := range tokenizers(t) {
		for _, chat := range []bool{false, true} {
			for _, how := range []string{"ids", "tokenizer", "server"} {
				if chat && how == "ids" {
					continue // a chat route takes messages
				}
				t.Run(fmt.Sprintf("%s/chat=%v/%s", name, chat, how), func(t *testing.T) {
					c := &target{tokenizer: tok, can: backends.Capabilities{Chat: chat, TokenIDs: how == "ids", Tokenize: how != "tokenizer"}}
					w := &profiles.Workload{InputTokens: lengths, OutputTokens: fixed(8), Prompt: "auto", Seed: 3}
					cfg := Config{Workload: w, Client: c, Run: "r"}
					if how == "tokenizer" {
						cfg.Tokenizer = tok
					}
					s, err := New(t.Context(), cfg)
					if err != nil && strings.Contains(err.Error(), "cannot hold") {
						w.InputTokens.Min = 64 // room for the template
						c.asked.Store(0)
						s, err = New(t.Context(), cfg)
					}
					if err != nil {
						t.Fatal(err)
					}
					for k, it := range items(t, s, 5, 40) {
						if got := c.count(t, it.Prompt); got != it.Input || !it.Exact {
							t.Errorf("item %d has %d tokens on the wire, want %d", k, got, it.Input)
						}
					}
					if how == "server" && c.asked.Load() > int64(len(words)+serverChecks+20) {
						t.Errorf("the server counted %d prompts", c.asked.Load())
					}
				})
			}
		}
	}
}

func TestPromptOfOneToken(t *testing.T) { // vllm#24591
	tok := tokenizers(t)["llama-3"]
	w := &profiles.Workload{InputTokens: fixed(1), OutputTokens: fixed(1), Prompt: "auto"}
	c := &target{tokenizer: tok, can: backends.Capabilities{TokenIDs: true, Tokenize: true}}
	s, err := New(t.Context(), Config{Workload: w, Client: c})
	if err != nil {
		t.Fatal(err)
	}
	if p := items(t, s, 1, 1)[0].Prompt; len(p.IDs) != 1 {
		t.Errorf("prompt %v", p)
	}
	c.can.TokenIDs = false // BOS is a token: text of one token more is needed
	if _, err := New(t.Context(), Config{Workload: w, Client: c}); err == nil || !strings.Contains(err.Error(), "ask for 2 or more") {
		t.Errorf("error %v", err)
	}
}

func TestBOSStandsOnce(t *testing.T) { // inference-perf#693
	tok := tokenizers(t)["llama-3"]
	bos, ok := tok.BOS()
	if !ok {
		t.Fatal("the tokenizer has no BOS")
	}
	for _, chat := range []bool{false, true} {
		c := &target{tokenizer: tok, can: backends.Capabilities{Chat: chat, Tokenize: true}}
		s, err := New(t.Context(), Config{Client: c,
			Workload: &profiles.Workload{InputTokens: fixed(100), OutputTokens: fixed(1), Prompt: "text"}})
		if err != nil {
			t.Fatal(err)
		}
		ids, err := encode(tok, items(t, s, 1, 1)[0].Prompt)
		if err != nil {
			t.Fatal(err)
		}
		if ids[0] != bos || slices.Contains(ids[1:], bos) {
			t.Errorf("chat %v: ids begin %v", chat, ids[:8])
		}
	}
}

func TestPromptsAreUnique(t *testing.T) {
	c := &target{tokenizer: tokenizers(t)["llama-3"], can: backends.Capabilities{TokenIDs: true, Tokenize: true}}
	seen := map[string]string{}
	for _, mode := range []string{"token-ids", "text"} {
		for _, run := range []string{"a", "b"} {
			for seed := range uint64(3) {
				w := &profiles.Workload{InputTokens: fixed(24), OutputTokens: fixed(1), Prompt: mode}
				s, err := New(t.Context(), Config{Workload: w, Client: c, Run: run})
				if err != nil {
					t.Fatal(err)
				}
				for k, it := range items(t, s, seed, 200) {
					text, here := fmt.Sprint(it.Prompt), fmt.Sprint(mode, run, seed, k)
					if other, ok := seen[text]; ok {
						t.Errorf("%s equals %s", here, other)
					}
					seen[text] = here
				}
			}
		}
	}
}

func TestSharedPrefix(t *testing.T) {
	c := &target{tokenizer: tokenizers(t)["llama-3"], can: backends.Capabilities{TokenIDs: true, Tokenize: true}}
	w := &profiles.Workload{InputTokens: fixed(100), OutputTokens: fixed(1), Prompt: "auto",
		Prefix: profiles.Prefix{SharedTokens: 60, Groups: 3}}
	s, err := New(t.Context(), Config{Workload: w, Client: c})
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]int{}
	tails := map[string]bool{}
	for _, it := range items(t, s, 1, 300) {
		groups[fmt.Sprint(it.Prompt.IDs[:60])]++
		tails[fmt.Sprint(it.Prompt.IDs[60:])] = true
	}
	if len(groups) != 3 || len(tails) != 300 {
		t.Errorf("%d prefixes of 60 tokens, want 3; %d tails, want 300", len(groups), len(tails))
	}
	for _, n := range groups {
		if n < 60 {
			t.Errorf("a group has %d of 300 requests", n)
		}
	}
}

func TestNamedBlocksAreShared(t *testing.T) {
	c := &target{can: backends.Capabilities{TokenIDs: true}}
	s, err := New(t.Context(), Config{Workload: &profiles.Workload{}, Client: c})
	if err != nil {
		t.Fatal(err)
	}
	blocks := [][]int64{{7, 8}, {7, 9}, {7, 8}}
	st := s.Open(t.Context(), 1, func(k int64) Lengths { return Lengths{Input: 1200, Output: 1, Blocks: blocks[k%3]} }, 0)
	defer st.Close()
	var ids [3][]int32
	for k := range ids {
		it, err := st.Take(t.Context(), int64(k))
		if err != nil {
			t.Fatal(err)
		}
		ids[k] = it.Prompt.IDs
	}
	if !slices.Equal(ids[0][:512], ids[1][:512]) || slices.Equal(ids[0][512:1024], ids[1][512:1024]) ||
		!slices.Equal(ids[0][:1024], ids[2][:1024]) || slices.Equal(ids[0][1024:], ids[2][1024:]) {
		t.Error("prompts do not share exactly the blocks that they name")
	}
}

func TestWithoutATokenizerUsageSizesPrompts(t *testing.T) {
	tok := tokenizers(t)["bytes"]
	c := &target{tokenizer: tok, can: backends.Capabilities{Chat: true}}
	w := &profiles.Workload{InputTokens: fixed(500), OutputTokens: fixed(1), Prompt: "auto"}
	s, err := New(t.Context(), Config{Workload: w, Client: c})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(3) {
		it := items(t, s, seed, 1)[0]
		if it.Exact {
			t.Error("a length that nobody counted is called exact")
		}
		s.Learn(it, it.units+17) // a template of 17 tokens
	}
	if it := items(t, s, 9, 1)[0]; it.units != 500-17 || s.Form() != ByUsage {
		t.Errorf("%d words after learning, want 483; %s", it.units, s.Form())
	}
}

func TestUsageSizesWordsOfSeveralTokens(t *testing.T) {
	tok := tokenizers(t)["bytes"] // a token is a byte, a word several
	for _, wanted := range []int{64, 500, 4000} {
		c := &target{tokenizer: tok, can: backends.Capabilities{Chat: true}}
		w := &profiles.Workload{InputTokens: fixed(wanted), OutputTokens: fixed(1), Prompt: "auto"}
		s, err := New(t.Context(), Config{Workload: w, Client: c})
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(8) {
			for _, it := range items(t, s, seed, 4) {
				s.Learn(it, c.count(t, it.Prompt))
			}
		}
		if got := c.count(t, items(t, s, 9, 1)[0].Prompt); distance(got, wanted) > 8+wanted/20 {
			t.Errorf("%d tokens after learning, want about %d", got, wanted)
		}
		template := c.count(t, s.prompt(""))
		if got := s.Overhead(); distance(got, template) > 10+wanted/100 {
			t.Errorf("a template of %d tokens is taken for %d", template, got)
		}
	}
}

func TestItemsDoNotDependOnTheOrderOfTaking(t *testing.T) {
	c := &target{can: backends.Capabilities{TokenIDs: true}}
	w := &profiles.Workload{InputTokens: profiles.Length{Kind: "uniform", Min: 4, Max: 40}, OutputTokens: fixed(3)}
	s, err := New(t.Context(), Config{Workload: w, Client: c})
	if err != nil {
		t.Fatal(err)
	}
	forward := items(t, s, 7, 60)
	st := s.Open(t.Context(), 7, func(k int64) Lengths { return DrawLengths(w, 7, k) }, 60)
	defer st.Close()
	for k := int64(59); k >= 0; k-- {
		it, err := st.Take(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(it.Prompt.IDs, forward[k].Prompt.IDs) {
			t.Errorf("item %d differs", k)
		}
	}
}

func TestLengthDistributions(t *testing.T) { // guidellm#170
	for _, c := range []struct {
		name             string
		l                profiles.Length
		lo, hi           int
		meanLo, meanHi   float64
		mustReachTheEnds bool
	}{
		{"fixed", fixed(7), 7, 7, 7, 7, true},
		{"uniform", profiles.Length{Kind: "uniform", Min: 3, Max: 9}, 3, 9, 5.9, 6.1, true},
		{"normal", profiles.Length{Kind: "normal", Mean: 100, StdDev: 10, Min: 80, Max: 120}, 80, 120, 99.5, 100.5, true},
		{"normal without bounds", profiles.Length{Kind: "normal", Mean: 2, StdDev: 50}, 1, 1 << 20, 15, 25, false},
		{"lognormal", profiles.Length{Kind: "lognormal", Mean: 200, StdDev: 100}, 1, 1 << 20, 197, 203, false},
		{"empirical", profiles.Length{Kind: "empirical", Values: []int{5, 50}}, 5, 50, 26.5, 28.5, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := draw.New(11)
			lo, hi, sum := 1<<30, 0, 0
			const n = 20_000
			for range n {
				v := Draw(c.l, s)
				lo, hi, sum = min(lo, v), max(hi, v), sum+v
			}
			if lo < c.lo || hi > c.hi || c.mustReachTheEnds && (lo != c.lo || hi != c.hi) {
				t.Errorf("from %d to %d, want %d to %d", lo, hi, c.lo, c.hi)
			}
			if mean := float64(sum) / n; mean < c.meanLo || mean > c.meanHi {
				t.Errorf("mean %.2f, want %v to %v", mean, c.meanLo, c.meanHi)
			}
		})
	}
}

// TestIDsOfAnUnknownVocabulary holds the ids that nobody can check to those
// that every vocabulary in use has, and to prompts that still differ.
func TestIDsOfAnUnknownVocabulary(t *testing.T) {
	w := &profiles.Workload{InputTokens: fixed(16), OutputTokens: fixed(4), Seed: 3}
	s, err := New(t.Context(), Config{Workload: w, Client: &target{can: backends.Capabilities{TokenIDs: true}}, Run: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Form() != ByIDs || s.Counted() {
		t.Fatalf("prompts are %s, counted %t; want ids that nobody counted", s.Form(), s.Counted())
	}
	seen := map[string]bool{}
	for k := range int64(1000) {
		var it Item
		if err := s.fill(t.Context(), &it, 1, k, Lengths{Input: 16, Output: 4}); err != nil {
			t.Fatal(err)
		}
		for _, id := range it.Prompt.IDs {
			if id < FirstID || id > LastID {
				t.Fatalf("id %d, want %d to %d", id, FirstID, LastID)
			}
		}
		seen[fmt.Sprint(it.Prompt.IDs)] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d different prompts of 1000", len(seen))
	}
}
