package knee

import (
	"math"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
)

// The doubts about a knee that are told.
const (
	bigMove      = 2.0 // factor by which one rung moves the knee
	wideInterval = 3.0 // ratio of the ends of the interval
)

// widen stretches the interval of a knee over every knee that the ladder shows
// with one of its loads left out. Of the loads that are off the curve more than
// most it names the one that moves the knee furthest, where that is beyond the
// interval or by a factor of 2: a figure that hangs on one rung is no surer than
// that rung.
func (k *Knee) widen(ci *[2]record.Value, at float64, sources []source, shares []float64) *[2]record.Value {
	lo, hi := ci[0].Or(at), ci[1].Or(at)
	from, to := lo, hi
	most, load, moved := 0.0, 0.0, at
	for _, s := range sources[0].samples {
		without, misfit, ok := kneeWithout(s.n, sources, shares)
		if !ok {
			continue
		}
		from, to = min(from, without), max(to, without)
		if move := math.Abs(math.Log(without / at)); move > most && misfit > 1/float64(len(sources[0].samples)) {
			most, load, moved = move, s.n, without
		}
	}
	if most > math.Log(bigMove) || moved < lo/sameLoad || moved > hi*sameLoad {
		k.warn("one_rung", "the knee hangs on the rung at %.4g in flight: without it the knee is at %.4g; measure that load again", load, moved)
	}
	if to/from > wideInterval {
		k.warn("wide_interval", "the knee lies between %.3g and %.3g in flight, not surer: rungs lie %.2g %% off the curve; repeat the ladder on a quiet machine", from, to, 100*k.Law.Rel.Or(0))
	}
	return &[2]record.Value{record.Known(from), record.Known(to)}
}

// kneeWithout joins the kinks of the signals, each fitted without the load at
// n, which accounts for the share misfit of the law's squares. It is not ok
// where the rest of the ladder ends before its cap or starts on it, as then it
// shows no knee.
func kneeWithout(n float64, sources []source, shares []float64) (at, misfit float64, ok bool) {
	sum := 0.0
	for i, src := range sources {
		rest := slices.DeleteFunc(slices.Clone(src.samples), func(s sample) bool { return s.n == n })
		if len(rest) < minLoads {
			return 0, 0, false
		}
		fitted := bestKink(rest, src.family)
		kink := fitted.kink
		if kink <= rest[0].n*sameLoad || kink >= rest[len(rest)-1].n/sameLoad {
			return 0, 0, false
		}
		sum += shares[i] * math.Log(kink)
		if i == 0 {
			misfit = 1 - fitted.rss/math.Max(src.curve.rss, noiseFloor*noiseFloor)
		}
	}
	return math.Exp(sum), misfit, true
}

// doubtVerdicts warns where the ladder, or one side of its knee, has no valid
// rung and rests on inconclusive ones.
func (k *Knee) doubtVerdicts(points []Point) {
	var valid, inconclusive struct{ below, beyond int }
	for _, p := range points {
		if p.Rung == nil || p.TokensS.Or(0) <= 0 && p.RequestS.Or(0) <= 0 {
			continue
		}
		count := &valid
		switch p.Rung.Verdict {
		case record.Valid:
		case record.Inconclusive:
			count = &inconclusive
		default:
			continue
		}
		if k.beyond(p) {
			count.beyond++
		} else {
			count.below++
		}
	}
	const cure = "they are taken, as a throughput needs fewer requests than a p95; measure them longer to be sure"
	switch {
	case inconclusive.below+inconclusive.beyond > 0 && valid.below+valid.beyond == 0:
		k.warn("inconclusive_rungs", "every rung is inconclusive: %s", cure)
	case k.Status != Found:
	case inconclusive.beyond > 0 && valid.beyond == 0:
		k.warn("inconclusive_rungs", "at and beyond the knee every rung is inconclusive: %s", cure)
	case inconclusive.below > 0 && valid.below == 0:
		k.warn("inconclusive_rungs", "below the knee every rung is inconclusive: %s", cure)
	}
}

// beyond says that a point is at or beyond a knee that was found.
func (k *Knee) beyond(p Point) bool {
	if rate, ok := k.RatePerS.Float(); ok {
		return p.RatePerS.Or(0) >= rate/sameLoad
	}
	at, ok := k.InFlight.Float()
	return ok && p.InFlight.Or(p.Concurrency.Or(0)) >= at/sameLoad
}
