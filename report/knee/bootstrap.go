package knee

import (
	"math"
	"math/rand/v2"

	"github.com/headway-bench/headway/report/stat"
)

// resample draws the kink of the law, and of the running signal where there is
// one, as they would come out on ladders like this one: the residuals around
// the curve are drawn again, with those of repeats and blocks, and scaled by
// what the few of them leave open.
func (f ladderFit) resample(o Options) (law, running []float64) {
	rng := stat.Rand(o.Seed, 0x6b6e6565)
	for range o.resamples() {
		law = append(law, redraw(f.samples, f.law, f.family, f.params, rng))
		if f.run != nil {
			running = append(running, redraw(f.run, f.running, hingeAt, 2, rng))
		}
	}
	return law, running
}

// redraw fits one resampled ladder and returns its kink.
func redraw(samples []sample, c curve, family signal, params int, rng *rand.Rand) float64 {
	dof := math.Max(float64(len(samples)-params), 1)
	pool := residuals(samples, c)
	sd := math.Max(spread(c.rss, len(samples), params), noiseFloor/4)
	scale := sd * stat.ScaleDraw(dof, rng)
	size := math.Sqrt(stat.Variance(pool))
	again := make([]sample, len(samples))
	for i, s := range samples {
		e := rng.NormFloat64()
		if size > 0 {
			e = (e + pool[rng.IntN(len(pool))]/size) / math.Sqrt2
		}
		again[i] = newSample(s.n, c.log(s.n)+e*scale/math.Sqrt(s.w), s.w)
	}
	return bestKink(again, family).kink
}
