package reference

import (
	"cmp"
	"math"
	"slices"
)

// Sampler chooses ids from logits. It holds scratch memory, so that a step
// allocates nothing once warm; it is not safe for concurrent use.
type Sampler struct {
	ids  []int32
	prob []float64
}

// Sample chooses the next id for s from its logits (one a vocabulary entry,
// overwritten) and fills s.Next, s.Logprob and s.Top. eos are the ids that
// SamplingParams.BanEOS bans. The draw depends on Sampling.Seed and s.Output
// alone, so that a preempted sequence repeats itself.
func (m *Sampler) Sample(s *Slice, logits []float32, eos []int32) {
	p := s.Sampling
	if p.BanEOS {
		for _, id := range eos {
			if int(id) < len(logits) {
				logits[id] = float32(math.Inf(-1))
			}
		}
	}
	best := int32(0)
	for i, v := range logits {
		if v > logits[best] {
			best = int32(i)
		}
	}
	s.Next = best
	if p.Temperature > 0 {
		s.Next = m.draw(logits, p, float64(logits[best]), uniform(p.Seed, s.Output))
	}
	s.Top = s.Top[:0]
	if p.Logprobs < 0 {
		return
	}
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v) - float64(logits[best]))
	}
	norm := float64(logits[best]) + math.Log(sum)
	s.Logprob = float32(float64(logits[s.Next]) - norm)
	if p.Logprobs > 0 {
		for _, id := range m.ranked(logits)[:min(p.Logprobs, len(logits))] {
			s.Top = append(s.Top, TokenLogprob{ID: id, Logprob: float32(float64(logits[id]) - norm)})
		}
	}
}

// draw picks by temperature, top-k and top-p with u in [0, 1).
func (m *Sampler) draw(logits []float32, p SamplingParams, top, u float64) int32 {
	ids := m.ranked(logits)
	if p.TopK > 0 && p.TopK < len(ids) {
		ids = ids[:p.TopK]
	}
	m.prob = m.prob[:0]
	var sum float64
	for _, id := range ids {
		w := math.Exp((float64(logits[id]) - top) / float64(p.Temperature))
		m.prob = append(m.prob, w)
		sum += w
	}
	keep := sum
	if p.TopP > 0 && p.TopP < 1 {
		keep = 0
		for i, w := range m.prob {
			keep += w
			if keep >= float64(p.TopP)*sum {
				ids = ids[:i+1]
				break
			}
		}
	}
	at := u * keep
	for i, id := range ids {
		at -= m.prob[i]
		if at < 0 {
			return id
		}
	}
	return ids[len(ids)-1]
}

// ranked returns all ids by falling logit, the lower id first among equals.
func (m *Sampler) ranked(logits []float32) []int32 {
	m.ids = m.ids[:0]
	for i := range logits {
		m.ids = append(m.ids, int32(i))
	}
	slices.SortFunc(m.ids, func(a, b int32) int {
		if c := cmp.Compare(logits[b], logits[a]); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	return m.ids
}

// uniform is a random number in [0, 1) fixed by seed and index (splitmix64).
func uniform(seed uint64, index int) float64 {
	return float64(mix(seed+uint64(index)*0x9e3779b97f4a7c15)>>11) / (1 << 53)
}

// mix is the finalizer of splitmix64: a bijection whose bits all depend on
// all bits of x (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
