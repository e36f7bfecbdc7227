package knee

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
)

// locateRate sets the knee of an open loop as a rate: achieved follows offered
// up to it and stays below from there, so it is the kink of a hinge of slope 1
// in offered and achieved rate.
func (k *Knee) locateRate(l *ladder, f ladderFit, o Options) {
	samples := rateSamples(l)
	if len(samples) < minLoads {
		k.warn("rates_unknown", "too few rungs have both an offered and an achieved rate to place the knee as a rate")
		return
	}
	c := bestKink(samples, followAt)
	k.RatePerS = record.Known(c.kink)
	k.RequestThroughputPerS = record.Known(c.kink)
	fit := ladderFit{family: followAt, params: 1, samples: samples, law: c}
	draws, _ := fit.resample(o)
	k.RateCI95 = interval(draws)
}

// followAt is the curve achieved = min(offered, kink).
func followAt(samples []sample, kink float64) curve {
	c := curve{a: 1, kink: kink}
	c.rss = residualSquares(samples, c)
	return c
}

func rateSamples(l *ladder) []sample {
	var out []sample
	for _, d := range l.loads {
		if d.rate > 0 && d.req > 0 {
			out = append(out, newSample(d.rate, math.Log(d.req), d.weight()))
		}
	}
	return out
}
