package record

import (
	"slices"
	"time"
)

const (
	// SteadyBins is the least number of bins that a steady state is judged on.
	SteadyBins = 100
	mserBatch  = 5
)

// MSER5 returns the index from which the series is in steady state: the
// observation before which the warm-up is cut. ok is false when the best cut
// lies in the second half, which means that the series is too short or still
// drifts, and when it has fewer than SteadyBins observations.
//
// First, Conway's rule against the second half: leading observations outside
// the range of the second half are warm-up. Then MSER on means of five: the cut
// d minimises the squared standard error of what is left,
// sum (x_i - mean)^2 / (n-d)^2 over i >= d (White, Cobb and Spratt, "A
// comparison of five steady-state truncation heuristics for simulation", 2000).
func MSER5(x []float64) (cut int, ok bool) {
	if len(x) < SteadyBins {
		return 0, false
	}
	from := conway(x)
	if from > len(x)/2 {
		return from, false
	}
	batches := make([]float64, 0, (len(x)-from)/mserBatch)
	for i := from; i+mserBatch <= len(x); i += mserBatch {
		sum := 0.0
		for _, v := range x[i : i+mserBatch] {
			sum += v
		}
		batches = append(batches, sum/mserBatch)
	}
	cut = from + mserBatch*mser(batches)
	return cut, cut <= len(x)/2
}

// conway returns the first observation within the range of the second half.
func conway(x []float64) int {
	half := x[len(x)/2:]
	lo, hi := slices.Min(half), slices.Max(half)
	for i, v := range x {
		if v >= lo && v <= hi {
			return i
		}
	}
	return len(x)
}

// mser returns the cut with the least squared standard error. The last five
// values are never cut: a mean of fewer is luck.
func mser(x []float64) int {
	best, at := 0.0, 0
	var n, mean, squares float64 // of the values from i on, by Welford's method
	for i := len(x) - 1; i >= 0; i-- {
		n++
		d := x[i] - mean
		mean += d / n
		squares += d * (x[i] - mean)
		if n < mserBatch {
			continue
		}
		// ties go to the earlier cut
		if s := squares / (n * n); n == mserBatch || s <= best {
			best, at = s, i
		}
	}
	return at
}

// Steady finds online where a rung becomes steady, from the arrivals of tokens
// and the TTFT of requests in equal bins of time. It knows no clock: times come
// with the requests.
type Steady struct {
	start, width int64
	bins         []bin
	longest      int64 // the longest good request so far: bins younger than it lack tokens
	judged       int   // bins at the last judgement
	any, good    bool  // a request has ended, has ended well
}

type bin struct{ tokens, ttftSum, ttftNo float64 }

// NewSteady looks for the steady state of a rung that started at start, in
// bins of the given width.
func NewSteady(start int64, width time.Duration) *Steady {
	return &Steady{start: start, width: max(int64(width), int64(time.Millisecond))}
}

// Add notes a request that ended.
func (s *Steady) Add(t *Timeline) {
	s.any = true
	if !t.Good() {
		return
	}
	s.good = true
	s.longest = max(s.longest, t.end-t.sent)
	t.Arrivals(func(at int64, tokens int) {
		if b := s.bin(at); b != nil {
			b.tokens += float64(tokens)
		}
	})
	if d, ok := t.TTFT(); ok {
		if b := s.bin(t.FirstTokenAt()); b != nil {
			b.ttftSum += float64(d)
			b.ttftNo++
		}
	}
}

// bin returns the bin of a time, nil for one before the start.
func (s *Steady) bin(at int64) *bin {
	if at < s.start {
		return nil
	}
	i := int((at - s.start) / s.width)
	if i >= len(s.bins) {
		s.bins = append(s.bins, make([]bin, i+1-len(s.bins))...)
	}
	return &s.bins[i]
}

// Found says whether the rung was steady by now, and since when. Only bins
// older than the longest request so far are judged: younger ones still lack
// the tokens of requests in flight.
func (s *Steady) Found(now int64) (since int64, ok bool) {
	n := int((now - s.longest - s.start) / s.width)
	need := SteadyBins
	if !s.good { // the first good request may still be under way
		need *= 2
	}
	if !s.any || n < need || n < s.judged+mserBatch {
		return 0, false
	}
	s.judged = n
	if n > len(s.bins) { // nothing arrived lately
		s.bins = append(s.bins, make([]bin, n-len(s.bins))...)
	}
	tokens, ttft := make([]float64, n), make([]float64, n)
	for i, b := range s.bins[:n] {
		tokens[i] = b.tokens
		if b.ttftNo > 0 {
			ttft[i] = b.ttftSum / b.ttftNo
		} else if i > 0 {
			ttft[i] = ttft[i-1] // no request began to be answered: nothing new is known
		}
	}
	a, okA := MSER5(tokens)
	b, okB := MSER5(ttft)
	return s.start + int64(max(a, b))*s.width, okA && okB
}
