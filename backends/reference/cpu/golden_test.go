package cpu

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headway-bench/headway/backends/reference"
)

// golden is what transformers computes; see make.py in testdata/models.
type golden struct {
	Stride int          `json:"logit_stride"`
	Cases  []goldenCase `json:"cases"`
}

type goldenCase struct {
	Prompt []int32     `json:"prompt"`
	Tokens []int32     `json:"tokens"`
	Logits [][]float64 `json:"logits"`
	Norms  []float64   `json:"norms"`
}

var goldenModels = []string{"tiny-llama-2", "tiny-llama-3.1"}

func openGolden(t testing.TB, name string) (*Model, golden) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "testdata", "models", name)
	m, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return m, g
}

func executor(t testing.TB, m *Model, kv reference.KVConfig, threads int) *Executor {
	t.Helper()
	e, err := New(m, kv, threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// sequence drives one golden case through an executor.
type sequence struct {
	goldenCase
	slice reference.Slice
	chunk int // prompt tokens a step
	got   []int32
	worst float64 // largest difference of a logit
}

func newSequence(id uint64, c goldenCase, blocks []int32, chunk, vocab int) *sequence {
	return &sequence{
		goldenCase: c, chunk: chunk,
		slice: reference.Slice{Seq: id, Blocks: blocks, Sampling: reference.SamplingParams{Logprobs: vocab}},
	}
}

// next prepares the sequence's part of a step; false when it has ended.
func (s *sequence) next() bool {
	if len(s.got) == len(s.Tokens) {
		return false
	}
	s.slice.Start += len(s.slice.Tokens)
	if at := s.slice.Start; at < len(s.Prompt) {
		end := min(at+s.chunk, len(s.Prompt))
		s.slice.Tokens, s.slice.Prefill, s.slice.Want = s.Prompt[at:end], true, end == len(s.Prompt)
		return true
	}
	s.slice.Tokens, s.slice.Prefill, s.slice.Want = s.got[len(s.got)-1:], false, true
	s.slice.Output = len(s.got)
	return true
}

// take compares what a step made of the sequence.
func (s *sequence) take(stride int) {
	if !s.slice.Want {
		return
	}
	n := len(s.got)
	for _, top := range s.slice.Top {
		if int(top.ID)%stride == 0 {
			want := s.Logits[n][int(top.ID)/stride]
			s.worst = max(s.worst, math.Abs(float64(top.Logprob)+s.Norms[n]-want))
		}
	}
	s.got = append(s.got, s.slice.Next)
}

// runAll steps all sequences together until each has its tokens.
func runAll(t *testing.T, e *Executor, stride int, sequences ...*sequence) {
	t.Helper()
	for {
		var b reference.Batch
		var in []*sequence
		for _, s := range sequences {
			if s.next() {
				b.Slices, in = append(b.Slices, &s.slice), append(in, s)
			}
		}
		if len(in) == 0 {
			return
		}
		if err := e.Step(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		for _, s := range in {
			s.take(stride)
		}
	}
}

func (s *sequence) check(t *testing.T) {
	t.Helper()
	if !slices.Equal(s.got, s.Tokens) {
		t.Errorf("prompt of %d: tokens %v, want %v", len(s.Prompt), s.got, s.Tokens)
	}
	const tolerance = 1e-3
	if s.worst > tolerance {
		t.Errorf("prompt of %d: a logit differs by %g, limit %g", len(s.Prompt), s.worst, tolerance)
	}
}

func TestGoldenAlone(t *testing.T) {
	for _, name := range goldenModels {
		m, g := openGolden(t, name)
		for _, blockSize := range []int{1, 5, 16} {
			for _, chunk := range []int{1, 3, 8, 1000} {
				t.Run(fmt.Sprintf("%s/block=%d/chunk=%d", name, blockSize, chunk), func(t *testing.T) {
					e := executor(t, m, reference.KVConfig{Blocks: 140, BlockSize: blockSize}, 2)
					for i, c := range g.Cases {
						blocks := shuffled(140, uint64(i))
						s := newSequence(1, c, blocks, chunk, m.Config.Vocab)
						runAll(t, e, g.Stride, s)
						s.check(t)
					}
				})
			}
		}
	}
}

func TestGoldenInMixedBatch(t *testing.T) {
	for _, name := range goldenModels {
		t.Run(name, func(t *testing.T) {
			m, g := openGolden(t, name)
			const blockSize, each = 8, 17
			e := executor(t, m, reference.KVConfig{Blocks: 3 * each * len(g.Cases), BlockSize: blockSize}, 3)
			table := shuffled(e.cache.blocks, 5)
			var all []*sequence
			for i := range 3 * len(g.Cases) {
				c := g.Cases[i%len(g.Cases)]
				all = append(all, newSequence(uint64(i), c, table[i*each:(i+1)*each], 1+7*(i%4), m.Config.Vocab))
			}
			runAll(t, e, g.Stride, all...)
			for _, s := range all {
				s.check(t)
			}
		})
	}
}

// A token's logits do not depend on what is computed beside it: they are the
// same to the last bit.
func TestBatchDoesNotChangeResults(t *testing.T) {
	m, g := openGolden(t, "tiny-llama-3.1")
	e := executor(t, m, reference.KVConfig{Blocks: 100, BlockSize: 4}, 2)
	c := g.Cases[2]
	alone := newSequence(1, c, shuffled(100, 1)[:20], 1000, m.Config.Vocab)
	runAll(t, e, g.Stride, alone)
	table := shuffled(100, 2)
	beside := newSequence(1, c, table[:20], 4, m.Config.Vocab)
	others := []*sequence{
		newSequence(2, g.Cases[1], table[20:40], 1, m.Config.Vocab),
		newSequence(3, g.Cases[3], table[40:60], 5, m.Config.Vocab),
		beside,
	}
	runAll(t, e, g.Stride, others...)
	if beside.worst != alone.worst || !slices.Equal(beside.got, alone.got) {
		t.Errorf("alone %v, %g; in a batch %v, %g", alone.got, alone.worst, beside.got, beside.worst)
	}
}

// shuffled is the numbers below n in an order fixed by seed.
func shuffled(n int, seed uint64) []int32 {
	var out []int32
	for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(n) {
		out = append(out, int32(i))
	}
	return out
}
