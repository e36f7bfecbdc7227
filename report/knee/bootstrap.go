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

// draw returns one error of variance 1: half of the observed kind, half normal,
// as a few residuals alone take too few values. index picks the observed one.
func (n noise) draw(index int, normal float64) float64 {
	if len(n.pool) == 0 {
		return normal
	}
	return (normal + n.pool[index%len(n.pool)]) / math.Sqrt2
}

// source is a signal to be resampled.
type source struct {
	samples []sample
	curve   curve
	family  signal
	noise   noise
	// tie is the correlation of its errors with those of the first source,
	// which has part in it: running is throughput times ITL.
	tie float64
}

// tieOf is the correlation of the residuals of two signals over the loads that
// both have.
func tieOf(a, b source) float64 {
	var x, y []float64
	for _, s := range a.samples {
		for _, t := range b.samples {
			if s.n == t.n {
				x, y = append(x, s.y-a.curve.log(s.n)), append(y, t.y-b.curve.log(t.n))
			}
		}
	}
	var xx, yy, xy float64
	for i := range x {
		xx, yy, xy = xx+x[i]*x[i], yy+y[i]*y[i], xy+x[i]*y[i]
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// resample draws the kinks of signals as they would come out on ladders like
// this one: every load gets a new error around the curve, scaled by what the
// few observed ones leave open of their size. Errors of one load are tied as
// the observed ones are.
func resample(sources []source, resamples int, rng *rand.Rand) [][]float64 {
	kinks := make([][]float64, len(sources))
	first := make([]float64, len(sources[0].samples)) // errors of the first source
	for range resamples {
		for i, src := range sources {
			scale := stat.ScaleDraw(src.noise.dof, rng) * src.noise.sd
			again := make([]sample, len(src.samples))
			for j, s := range src.samples {
				e := src.noise.draw(rng.IntN(1<<30), rng.NormFloat64())
				if i == 0 {
					first[j] = e
				} else if at := indexOf(sources[0].samples, s.n); at >= 0 {
					e = src.tie*first[at] + math.Sqrt(1-src.tie*src.tie)*e
				}
				again[j] = newSample(s.n, src.curve.log(s.n)+scale*e/math.Sqrt(s.w), s.w)
			}
			kinks[i] = append(kinks[i], bestKink(again, src.family).kink)
		}
	}
	return kinks
}

func indexOf(samples []sample, n float64) int {
	return slices.IndexFunc(samples, func(s sample) bool { return s.n == n })
}
