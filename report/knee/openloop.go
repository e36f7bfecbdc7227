package knee

import (
	"cmp"
	"math"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

// keptUp is the share of the offered rate from which a rung keeps up with it.
const keptUp = 0.95

// chance is by how many standard deviations of a Poisson count an achieved rate
// may lie below what it follows: that many requests happened to be offered less.
const chance = 2

// fitOpen finds the knee of an open loop, a rate: achieved follows offered up
// to it and stays below from there, so it is the kink of a hinge of slope 1.
// The in-flight beside it is that of the law on the same rungs, where they
// show it.
func (k *Knee) fitOpen(l *ladder, points []Point, o Options) {
	samples, falls := rateSamples(points)
	k.DistinctLoads = len(samples)
	if len(samples) < minLoads {
		k.warn("few_loads", "%d distinct rates with an offered and an achieved one (within 5 %% counts as one); a knee takes at least %d", len(samples), minLoads)
		return
	}
	c := bestKink(samples, followAt)
	k.Status = openStatus(samples, falls, c)
	if len(l.loads) < minLoads {
		k.others(l.loads)
		k.locateRate(samples, c, o)
		return
	}
	f := fitLadder(l)
	rate := k.Status
	k.describe(l, f)
	k.others(l.loads)
	onLaw := k.Status == Found
	k.Status = rate
	if rate != Found {
		return
	}
	if onLaw {
		k.locate(l, f, o)
	}
	k.Cause, k.Evidence = findCause(l, f)
	k.locateRate(samples, c, o)
}

// openStatus says what the rates show.
func openStatus(samples []sample, falls []float64, c curve) Status {
	first, last := samples[0], samples[len(samples)-1]
	follows := followAt(samples, math.Inf(1))
	switch {
	case math.Exp(first.y) < (keptUp-falls[0])*first.n:
		return NotLinear
	case math.Exp(last.y) >= (keptUp-falls[len(falls)-1])*last.n, c.kink >= last.n,
		criterion(follows.rss, len(samples), 0) <= criterion(c.rss, len(samples), 1):
		return NotReached
	}
	return Found
}

// locateRate sets the rate of a knee that was found, with its interval.
func (k *Knee) locateRate(samples []sample, c curve, o Options) {
	if k.Status != Found {
		return
	}
	k.RatePerS, k.RequestThroughputPerS = record.Known(c.kink), record.Known(c.kink)
	src := source{samples: samples, curve: c, family: followAt, noise: noiseOf(samples, c, 1, spreadWithin{})}
	k.RateCI95 = interval(resample([]source{src}, o.resamples(), stat.Rand(o.Seed, 0x72617465))[0])
}

// followAt is the curve achieved = min(offered, kink).
func followAt(samples []sample, kink float64) curve {
	c := curve{a: 1, kink: kink}
	c.rss = residualSquares(samples, c)
	return c
}

// rateSamples are offered and achieved rates, those within 5 % as one, and the
// share by which each may fall short by chance.
func rateSamples(points []Point) (out []sample, falls []float64) {
	type row struct{ offered, achieved, completed float64 }
	var rows []row
	for _, p := range points {
		r := row{p.RatePerS.Or(0), p.RequestS.Or(0), 0}
		if p.Rung != nil {
			r.completed = max(float64(p.Rung.Requests.Completed), 0)
		}
		if !p.Invalid && r.offered > 0 && r.achieved > 0 {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.offered, b.offered) })
	for first := 0; first < len(rows); {
		var x, y []float64
		var completed, fall float64
		last := first
		for ; last < len(rows) && rows[last].offered <= rows[first].offered*sameLoad; last++ {
			x, y = append(x, math.Log(rows[last].offered)), append(y, math.Log(rows[last].achieved))
			completed += rows[last].completed
		}
		if completed > 0 {
			fall = chance / math.Sqrt(completed)
		}
		out, falls = append(out, newSample(math.Exp(stat.Mean(x)), centre(y), float64(len(y)))), append(falls, fall)
		first = last
	}
	return out, falls
}
