// Package prompt makes what requests ask: prompts of exact token length, from
// random tokens, words, data sets or conversations, ahead of their sending.
package prompt

import (
	"math"

	"github.com/headway-bench/headway/loadgen/internal/draw"
	"github.com/headway-bench/headway/profiles"
)

// Draw draws a token count from a distribution, at least 1 where the
// distribution is not empty.
func Draw(l profiles.Length, s *draw.Source) int {
	switch l.Kind {
	case "fixed":
		return l.Value
	case "uniform":
		return l.Min + s.IntN(l.Max-l.Min+1)
	case "normal":
		return clip(l.Mean+float64(l.StdDev*s.Normal()), l.Min, l.Max)
	case "lognormal":
		return clip(s.LogNormal(l.Mean, l.StdDev), l.Min, l.Max)
	case "empirical":
		if len(l.Values) > 0 {
			return l.Values[s.IntN(len(l.Values))]
		}
	}
	return 0
}

// clip rounds to a whole count within lo..hi; hi 0 is no upper bound.
func clip(v float64, lo, hi int) int {
	n := int(math.Round(min(v, math.MaxInt32)))
	n = max(n, lo, 1)
	if hi > 0 {
		n = min(n, hi)
	}
	return n
}

// Most is the largest count a distribution can give, 0 when it has no bound.
func Most(l profiles.Length) int {
	switch l.Kind {
	case "fixed":
		return l.Value
	case "empirical":
		most := 0
		for _, v := range l.Values {
			most = max(most, v)
		}
		return most
	}
	return l.Max
}

// Lengths are the token counts of one request.
type Lengths struct {
	Input, Output int
	// Blocks names the blocks of 512 tokens that the prompt begins with, where a
	// trace does: equal names are equal tokens within a run.
	Blocks []int64
}

// DrawLengths draws the lengths of request k of a rung: a function of the rung's
// seed and k alone, so that they do not depend on the order of sending.
func DrawLengths(w *profiles.Workload, seed uint64, k int64) Lengths {
	s := draw.New(seed, streamLengths, uint64(k))
	return Lengths{Input: Draw(w.InputTokens, s), Output: Draw(w.OutputTokens, s)}
}

// Streams of random numbers that a rung's seed is split into.
const (
	streamLengths = 0xb1
	streamTokens  = 0xb2
	streamPrefix  = 0xb3
	streamCancel  = 0xb4
	streamTurns   = 0xb5
	streamBlocks  = 0xb6
)
