// Package sim pretends to be a model: it takes the time that a law or a
// roofline predicts and makes up the tokens. Nothing it reports is a
// measurement of a model; the server labels it as simulated.
package sim

import (
	"context"
	"math/rand/v2"

	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/tokenizer"
)

// LawExecutor follows a Law. Every sequence keeps a schedule of its own, on
// absolute times, so that errors do not add up.
type LawExecutor struct {
	law  Law
	info reference.ModelInfo
}

// NewLaw returns an executor of a law for a model of the given shape.
func NewLaw(law Law, info reference.ModelInfo) *LawExecutor {
	info.Executor, info.Device = "sim", "law "+law.String()
	info.Simulated, info.Independent = true, true
	return &LawExecutor{law: law, info: info}
}

// Info describes the model that is pretended.
func (e *LawExecutor) Info() reference.ModelInfo { return e.info }

// Step sets each result and when it will be there.
func (e *LawExecutor) Step(_ context.Context, b *reference.Batch) error {
	for _, sl := range b.Slices {
		switch {
		case !sl.Want:
			sl.Done = sl.At
			continue
		case sl.Prefill:
			sl.Done = sl.At + e.law.TTFT.At(b.Running)
		default:
			sl.Done = sl.At + e.law.ITL.At(b.Running)
		}
		pretend(sl, &e.info)
	}
	return nil
}

// Close does nothing.
func (e *LawExecutor) Close() error { return nil }

// firstWord is the first id that the byte tokenizer of package tokenizer
// decodes to a made-up word; its answers are made of its two-syllable ones.
const (
	firstWord = tokenizer.ByteFirstWord
	words     = 8100
)

// pretend makes up the token of a slice, the same for the same seed and
// position.
func pretend(sl *reference.Slice, info *reference.ModelInfo) {
	n := len(info.Words)
	if n == 0 {
		n = max(1, min(words, info.VocabSize-firstWord))
	}
	at := int(rand.NewPCG(sl.Sampling.Seed, uint64(sl.Output)).Uint64() % uint64(n))
	sl.Next = word(info, at)
	sl.Logprob = -1
	sl.Top = sl.Top[:0]
	for i := range max(0, sl.Sampling.Logprobs) {
		sl.Top = append(sl.Top, reference.TokenLogprob{ID: word(info, (at+i)%n), Logprob: float32(-1 - i)})
	}
}

// word is the id of a word by its place.
func word(info *reference.ModelInfo, at int) int32 {
	if len(info.Words) > 0 {
		return info.Words[at]
	}
	return firstWord + int32(at)
}
