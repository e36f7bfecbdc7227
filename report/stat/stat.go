// Package stat has the few statistics that the rooms of report share: robust
// centres, quantiles, intervals that carry their warnings, and seeded random
// sources. Everything here is a pure function; the same input gives the same
// output.
package stat

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Mean returns the arithmetic mean, NaN of no values.
func Mean(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// Variance returns the unbiased sample variance, NaN of fewer than two values.
func Variance(xs []float64) float64 {
	if len(xs) < 2 {
		return math.NaN()
	}
	m, ss := Mean(xs), 0.0
	for _, x := range xs {
		ss += (x - m) * (x - m)
	}
	return ss / float64(len(xs)-1)
}

// Median returns the middle value, NaN of no values.
func Median(xs []float64) float64 { return Quantile(xs, 0.5) }

// Quantile returns the p-quantile, 0 <= p <= 1, by linear interpolation
// between order statistics (Hyndman and Fan's type 7), NaN of no values. It
// leaves xs as it is.
func Quantile(xs []float64, p float64) float64 {
	if len(xs) == 0 || math.IsNaN(p) {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	at := min(max(p, 0), 1) * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// StudentT returns the p-quantile of Student's t with nu degrees of freedom.
func StudentT(p, nu float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: nu}.Quantile(p)
}

// Rand returns a source that depends on the seeds alone.
func Rand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// ScaleDraw draws the factor by which a standard deviation that was estimated
// with nu degrees of freedom may be too small: sqrt(nu/chi2(nu)). Multiplying
// resampled residuals by it gives them the tails of Student's t.
func ScaleDraw(nu float64, src *rand.Rand) float64 {
	chi2 := distuv.ChiSquared{K: nu, Src: src}.Rand()
	if chi2 <= 0 {
		return 1
	}
	return math.Sqrt(nu / chi2)
}
