package render

import (
	"fmt"
	"math"
	"sort"

	"github.com/headway-bench/headway/report/bundle"
)

const (
	// timelineBins is the most bins that a rung's timeline has.
	timelineBins = 160
	// timelinePoints is the most requests a rung's timeline shows one by one.
	timelinePoints = 400
)

// timeline is one rung over time, bounded whatever the number of requests:
// bins double in width when they run out, and every k-th request is shown.
type timeline struct {
	origin int64   // ns, the rung's start
	width  float64 // ns a bin
	// inFlight holds request-nanoseconds, tokens the output tokens, a bin.
	inFlight, tokens [timelineBins]float64
	used             int // bins up to the last that holds anything
	ttft             sample
	failed           sample
}

// timelines reads the requests of a bundle once and returns a timeline for
// each rung that has any, by rung index. It is an error when they are none, or
// far more than the result counts.
func timelines(b *bundle.Bundle) (map[int]*timeline, error) {
	starts := map[int]int64{}
	var sent int64
	for i := range b.Result.Rungs {
		g := &b.Result.Rungs[i]
		sent += min(g.Totals.Sent, math.MaxInt32)
		starts[g.Index] = g.StartUnixNS - b.Result.EpochUnixNS
	}
	out := map[int]*timeline{}
	var read int64
	for r, err := range b.Requests() {
		if err != nil {
			return nil, err
		}
		if read++; read > 2*sent+1000 { // those not sent and probes are among them
			return nil, fmt.Errorf("%s has more than %d requests, the result counts %d", bundle.RequestsFile, read-1, sent)
		}
		t := out[r.Rung]
		if t == nil {
			start, known := starts[r.Rung]
			if !known {
				continue
			}
			t = &timeline{origin: start, width: 100e6}
			if first := min(r.IntendedNS, r.SentNS); first < start || first-start > 24*3600e9 {
				t.origin = first // stamps of another epoch
			}
			out[r.Rung] = t
		}
		t.add(&r)
	}
	if b.Dir != "" && sent > 0 && len(out) == 0 {
		return nil, fmt.Errorf("%s has no request of the result's rungs", bundle.RequestsFile)
	}
	return out, nil
}

// add counts one request. Its tokens are spread evenly from the first to the
// last.
func (t *timeline) add(r *bundle.Request) {
	if r.SentNS == 0 || r.EndNS < r.SentNS {
		return
	}
	t.spread(&t.inFlight, r.SentNS, r.EndNS, float64(r.EndNS-r.SentNS))
	if !r.OK() {
		t.failed.add(t.seconds(r.EndNS), 0)
		return
	}
	if r.FirstTokenNS >= r.SentNS && r.FirstTokenNS > 0 {
		t.ttft.add(t.seconds(r.SentNS), float64(r.FirstTokenNS-r.SentNS)/1e6)
		if r.OutputTokens > 0 {
			t.spread(&t.tokens, r.FirstTokenNS, max(r.LastTokenNS, r.FirstTokenNS+1), float64(r.OutputTokens))
		}
	}
}

func (t *timeline) seconds(ns int64) float64 { return float64(ns-t.origin) / 1e9 }

// spread adds amount to the bins between from and to, in proportion to time.
func (t *timeline) spread(bins *[timelineBins]float64, from, to int64, amount float64) {
	a, b := max(float64(from-t.origin), 0), max(float64(to-t.origin), 0)
	if b <= a {
		return
	}
	for b >= t.width*timelineBins {
		t.widen()
	}
	first, last := int(a/t.width), min(int(b/t.width), timelineBins-1)
	for i := first; i <= last; i++ {
		overlap := min(b, float64(i+1)*t.width) - max(a, float64(i)*t.width)
		bins[i] += amount * overlap / (b - a)
	}
	t.used = max(t.used, last+1)
}

// widen joins neighbouring bins.
func (t *timeline) widen() {
	for _, bins := range []*[timelineBins]float64{&t.inFlight, &t.tokens} {
		for i := range timelineBins / 2 {
			bins[i] = bins[2*i] + bins[2*i+1]
		}
		clear(bins[timelineBins/2:])
	}
	t.used = (t.used + 1) / 2
	t.width *= 2
}

// sample keeps at most timelinePoints of a sequence of points, evenly.
type sample struct {
	x, y   []float64
	stride int
	seen   int
}

func (s *sample) add(x, y float64) {
	if s.stride == 0 {
		s.stride = 1
	}
	s.seen++
	if (s.seen-1)%s.stride != 0 {
		return
	}
	if len(s.x) == timelinePoints {
		for i := range timelinePoints / 2 {
			s.x[i], s.y[i] = s.x[2*i], s.y[2*i]
		}
		s.x, s.y = s.x[:timelinePoints/2], s.y[:timelinePoints/2]
		s.stride *= 2
		if (s.seen-1)%s.stride != 0 {
			return
		}
	}
	s.x, s.y = append(s.x, x), append(s.y, y)
}

// sorted returns the sample by x.
func (s *sample) sorted() (x, y []float64) {
	order := make([]int, len(s.x))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return s.x[order[a]] < s.x[order[b]] })
	for _, i := range order {
		x, y = append(x, round3(s.x[i])), append(y, round3(s.y[i]))
	}
	return x, y
}

// round3 keeps three decimals: a page needs no more.
func round3(v float64) float64 { return math.Round(v*1000) / 1000 }
