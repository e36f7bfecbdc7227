package cpu

import (
	"context"
	"slices"
	"testing"

	"github.com/headway-bench/headway/backends/reference"
)

// generate prefills prompt and continues it greedily for n tokens.
func generate(t *testing.T, e *Executor, prompt []int32, n int) []int32 {
	t.Helper()
	blocks := make([]int32, e.cache.blocks)
	for i := range blocks {
		blocks[i] = int32(i)
	}
	s := &reference.Slice{Tokens: prompt, Blocks: blocks, Prefill: true, Want: true, Sampling: reference.SamplingParams{Logprobs: -1}}
	var out []int32
	for range n {
		if err := e.Step(context.Background(), &reference.Batch{Slices: []*reference.Slice{s}}); err != nil {
			t.Fatal(err)
		}
		out = append(out, s.Next)
		s.Start += len(s.Tokens)
		s.Tokens, s.Prefill = []int32{s.Next}, false
	}
	return out
}

func TestSeededModelIsRepeatable(t *testing.T) {
	m, err := Open("tiny-llama-3.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(m, reference.KVConfig{Blocks: 8, BlockSize: 16}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	tok, _ := m.Tokenizer()
	ids := generate(t, e, tok.Encode("Hello there", true), 16)
	if again := generate(t, e, tok.Encode("Hello there", true), 16); !slices.Equal(ids, again) {
		t.Errorf("first %v, then %v", ids, again)
	}
}
