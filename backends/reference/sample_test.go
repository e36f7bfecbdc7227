package reference

import (
	"math"
	"slices"
	"testing"
)

func TestSample(t *testing.T) {
	logits := []float32{1, 3, 3, 2, -1}
	for _, tt := range []struct {
		name string
		p    SamplingParams
		eos  []int32
		want []int32 // ids that may come out
	}{
		{"greedy takes the lowest of equals", SamplingParams{}, nil, []int32{1}},
		{"greedy without a banned end", SamplingParams{BanEOS: true}, []int32{1}, []int32{2}},
		{"an end that is not banned", SamplingParams{}, []int32{1}, []int32{1}},
		{"top-k of one", SamplingParams{Temperature: 5, TopK: 1}, nil, []int32{1}},
		{"top-k of two", SamplingParams{Temperature: 5, TopK: 2}, nil, []int32{1, 2}},
		{"top-p within the first", SamplingParams{Temperature: 1, TopP: 0.3}, nil, []int32{1}},
		{"top-p of three", SamplingParams{Temperature: 1, TopP: 0.9}, nil, []int32{1, 2, 3}},
		{"everything", SamplingParams{Temperature: 100}, nil, []int32{0, 1, 2, 3, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m Sampler
			seen := map[int32]bool{}
			for seed := range uint64(500) {
				s := Slice{Sampling: tt.p}
				s.Sampling.Seed = seed
				m.Sample(&s, slices.Clone(logits), tt.eos)
				if !slices.Contains(tt.want, s.Next) {
					t.Fatalf("seed %d gave id %d, want one of %v", seed, s.Next, tt.want)
				}
				seen[s.Next] = true
			}
			if len(seen) != len(tt.want) {
				t.Errorf("500 seeds gave %v, want all of %v", seen, tt.want)
			}
		})
	}
}

// TestSampleFrequencies holds drawn ids to the softmax they are drawn from: at
// 20,000 draws a share of 0.5 has a standard error of 0.0035.
func TestSampleFrequencies(t *testing.T) {
	logits := []float32{0, 1, 2}
	sum := 1 + math.E + math.E*math.E
	want := []float64{1 / sum, math.E / sum, math.E * math.E / sum}
	var m Sampler
	var got [3]float64
	const n = 20000
	for i := range n {
		s := Slice{Output: i, Sampling: SamplingParams{Temperature: 1, Seed: 3, Logprobs: 3}}
		m.Sample(&s, slices.Clone(logits), nil)
		got[s.Next] += 1.0 / n
		if lp := math.Log(want[s.Next]); math.Abs(float64(s.Logprob)-lp) > 1e-6 {
			t.Fatalf("logprob of %d is %v, want %v", s.Next, s.Logprob, lp)
		}
		if len(s.Top) != 3 || s.Top[0].ID != 2 || s.Top[2].ID != 0 {
			t.Fatalf("top ids are %v, want 2, 1, 0", s.Top)
		}
	}
	for id, share := range got {
		if math.Abs(share-want[id]) > 0.014 {
			t.Errorf("id %d came in %.4f of draws, want %.4f", id, share, want[id])
		}
	}
}

func TestSampleRepeatsItself(t *testing.T) {
	logits := make([]float32, 100)
	draw := func(seed uint64) []int32 {
		var m Sampler
		out := make([]int32, 50)
		for i := range out {
			s := Slice{Output: i, Sampling: SamplingParams{Temperature: 1, Seed: seed, Logprobs: -1}}
			m.Sample(&s, slices.Clone(logits), nil)
			out[i] = s.Next
		}
		return out
	}
	if !slices.Equal(draw(7), draw(7)) {
		t.Error("the same seed gave different tokens")
	}
	if slices.Equal(draw(7), draw(8)) {
		t.Error("different seeds gave the same tokens")
	}
}
