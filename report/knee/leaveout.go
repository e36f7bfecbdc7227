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
