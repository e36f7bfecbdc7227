package knee

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/headway-bench/headway/report/stat"
)

// spreadWithin is what the ladder tells of noise besides the residuals around
// the curve.
type spreadWithin struct {
	repeats []float64 // deviations of log signal of repeats from their load's mean
	dof     float64   // of the repeats
	block   float64   // variance of a rung's mean, from its blocks; 0 where unknown
}

func withinX(loads []load) spreadWithin {
	var s spreadWithin
	blocks := 0.0
	for _, d := range loads {
		s.add(d.repeatX)
		if n := len(d.blockX); n > 0 {
			s.block += stat.Variance(d.blockX) / float64(n)
			blocks++
		}
	}
	s.block /= math.Max(blocks, 1)
	return s
}

func withinRun(loads []load) spreadWithin {
	var s spreadWithin
	for _, d := range loads {
		s.add(d.repeatR)
	}
	return s
}

func (s *spreadWithin) add(deviations []float64) {
	if n := len(deviations); n > 1 {
		s.repeats = append(s.repeats, deviations...)
		s.dof += float64(n - 1)
	}
}

// noise is the error of one measurement, ready to be drawn from.
type noise struct {
	sd, dof float64
	pool    []float64 // observed deviations, scaled to variance 1
}

// noiseOf takes the larger of what the residuals say and what the repeats say,
// as a curve that does not fit is an error too, and no less than the blocks
// say.
func noiseOf(samples []sample, c curve, params int, within spreadWithin) noise {
	rs := residuals(samples, c)
	n := noise{dof: math.Max(float64(len(samples)-params), 1)}
	variance := c.rss / n.dof
	if within.dof > 0 {
		ss := 0.0
		for _, r := range within.repeats {
			ss += r * r
		}
		if pooled := (c.rss + ss) / (n.dof + within.dof); pooled > variance || n.dof < 3 {
			variance, n.dof = math.Max(variance, pooled), n.dof+within.dof
		}
	}
	n.sd = math.Sqrt(math.Max(variance, math.Max(within.block, noiseFloor*noiseFloor/16)))
	n.pool = standard(slices.Concat(rs, within.repeats))
	return n
}

// standard scales deviations to variance 1; nil where there are none.
func standard(xs []float64) []float64 {
	sd := math.Sqrt(stat.Variance(xs))
	if !(sd > 0) {
		return nil
	}
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = x / sd
	}
	return out
}

// draw returns one error: half of the observed kind, half normal, as a few
// residuals alone take too few values.
func (n noise) draw(rng *rand.Rand) float64 {
	e := rng.NormFloat64()
	if len(n.pool) > 0 {
		e = (e + n.pool[rng.IntN(len(n.pool))]) / math.Sqrt2
	}
	return e * n.sd
}

// resample draws the kink of a signal as it would come out on ladders like
// this one: every load gets a new error around the curve, scaled by what the
// few observed ones leave open of their size.
func resample(samples []sample, c curve, fit signal, n noise, resamples int, rng *rand.Rand) []float64 {
	kinks := make([]float64, resamples)
	again := make([]sample, len(samples))
	for i := range kinks {
		scale := stat.ScaleDraw(n.dof, rng)
		for j, s := range samples {
			again[j] = newSample(s.n, c.log(s.n)+scale*n.draw(rng)/math.Sqrt(s.w), s.w)
		}
		kinks[i] = bestKink(again, fit).kink
	}
	return kinks
}
