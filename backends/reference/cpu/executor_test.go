package cpu

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"slices"
	"strings"
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

// The weights of a seed are the same on every platform.
func TestSeededWeights(t *testing.T) {
	m, err := Open("tiny-llama-2", 7)
	if err != nil {
		t.Fatal(err)
	}
	hash := fnv.New64a()
	var word [4]byte
	for _, w := range []*matrix{m.embed, m.head, m.layers[0].qkv, m.layers[7].down} {
		for _, v := range w.f32 {
			binary.LittleEndian.PutUint32(word[:], math.Float32bits(v))
			hash.Write(word[:])
		}
	}
	if got, want := hash.Sum64(), uint64(0x87a60724bfd7f11a); got != want {
		t.Errorf("hash of the weights is %#x, want %#x", got, want)
	}
	var sum, squares float64
	for _, v := range m.layers[3].gateUp.f32 {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(m.layers[3].gateUp.f32))
	if mean, deviation := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 1e-4 || math.Abs(deviation-0.02) > 1e-4 {
		t.Errorf("mean %g, deviation %g, want 0 and 0.02", mean, deviation)
	}
	other, err := Open("tiny-llama-2", 8)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(m.layers[0].out.f32, other.layers[0].out.f32) {
		t.Error("two seeds give the same weights")
	}
}

func TestStepRefuses(t *testing.T) {
	m, _ := openGolden(t, "tiny-llama-2")
	e := executor(t, m, reference.KVConfig{Blocks: 4, BlockSize: 8}, 1)
	for _, c := range []struct {
		name, want string
		slice      reference.Slice
	}{
		{"no tokens", "0 tokens", reference.Slice{}},
		{"negative start", "from position -1", reference.Slice{Start: -1, Tokens: []int32{1}}},
		{"past the model", "past the model's 256", reference.Slice{Start: 256, Tokens: []int32{1}}},
		{"too few blocks", "fewer than its 9 positions", reference.Slice{Start: 8, Tokens: []int32{1}, Blocks: []int32{0}}},
		{"token id", "token id 320 is outside", reference.Slice{Tokens: []int32{320}, Blocks: []int32{0}}},
		{"negative token id", "token id -1 is outside", reference.Slice{Tokens: []int32{-1}, Blocks: []int32{0}}},
		{"block number", "block 4 is outside", reference.Slice{Tokens: []int32{1}, Blocks: []int32{4}}},
	} {
		err := e.Step(context.Background(), &reference.Batch{Slices: []*reference.Slice{&c.slice}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := &reference.Slice{Tokens: []int32{1, 2, 3}, Blocks: []int32{0}}
	if err := e.Step(ctx, &reference.Batch{Slices: []*reference.Slice{s}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled step gives %v", err)
	}
	if got := generate(t, e, []int32{5}, 2); len(got) != 2 {
		t.Errorf("after the refusals: %v", got)
	}
}

func TestNewRefuses(t *testing.T) {
	m, _ := openGolden(t, "tiny-llama-2")
	for _, kv := range []reference.KVConfig{{}, {Blocks: 1}, {BlockSize: 1}, {Blocks: 1 << 40, BlockSize: 1 << 20}} {
		if e, err := New(m, kv, 1); err == nil {
			e.Close()
			t.Errorf("%+v was accepted", kv)
		}
	}
}

func TestInfo(t *testing.T) {
	m, _ := openGolden(t, "tiny-llama-3.1")
	info := executor(t, m, reference.KVConfig{Blocks: 1, BlockSize: 16}, 2).Info()
	if info.Name != "tiny-llama-3.1" || info.Executor != "cpu" || info.VocabSize != 307 || info.MaxModelLen != 512 ||
		info.KVHeads != 2 || info.HeadDim != 20 || info.BOS != 1 || !slices.Equal(info.EOS, []int32{2}) ||
		info.KVBytesPerToken != 2*4*3*2*32 || info.Simulated || info.Independent {
		t.Errorf("got %+v", info)
	}
}

// What a step allocates does not grow with its tokens or their positions.
func TestStepAllocations(t *testing.T) {
	m, _ := openGolden(t, "tiny-llama-2")
	e := executor(t, m, reference.KVConfig{Blocks: 64, BlockSize: 8}, 1)
	measure := func(n, position int) float64 {
		batch := decoding(n, 8, position)
		for _, s := range batch.Slices {
			s.Tokens[0] = 3
		}
		step(t, e, batch)
		return testing.AllocsPerRun(20, func() { step(t, e, batch) })
	}
	if small, large := measure(1, 0), measure(lanes, 60); large > small {
		t.Errorf("%g allocations for one token, %g for %d late ones", small, large, lanes)
	}
}
