package knee

import (
	"math"
	"slices"
)

// sample is one load as a fit sees it.
type sample struct {
	n, logN float64 // load
	y       float64 // log of the signal
	perUnit float64 // 1/signal: wall time a unit of work
	w       float64 // weight: the number of measurements
}

func newSample(n, y, w float64) sample {
	return sample{n: n, logN: math.Log(n), y: y, perUnit: math.Exp(-y), w: w}
}

// curve is X(N) = m/(a + b*m) with m = min(N, kink): growth by the batching
// law up to the kink, flat above it. It is min(N/(a+b*N), C) with
// C = kink/(a+b*kink), so the kink is N* = a*C/(1-b*C).
type curve struct {
	a, b float64 // seconds a unit, and more of them for each request in flight
	kink float64 // requests in flight; +Inf without a cap
	fall float64 // exponent by which X falls beyond the kink; 0 is flat
	rss  float64 // weighted sum of squared residuals of log X
}

// log returns log X(n).
func (c curve) log(n float64) float64 {
	m := min(n, c.kink)
	x := math.Log(m) - math.Log(c.a+c.b*m)
	if c.fall > 0 {
		x -= c.fall * math.Log(n/m)
	}
	return x
}

// cap returns C.
func (c curve) cap() float64 { return math.Exp(c.log(c.kink)) }

// signal is a family of curves that a kink can be looked for in.
type signal func(samples []sample, kink float64) curve

// lawAt fits a and b for a given kink. For m = min(N, kink) the time a unit of
// work takes, m/X = a + b*m, is linear; weights turn its least squares into
// those of log X (three steps of Gauss-Newton). b is kept at or above 0, and
// so is a.
func lawAt(samples []sample, kink float64) curve {
	c := curve{kink: kink}
	if fitted, ok := lawLine(samples, kink); ok {
		c.a, c.b = fitted.a, fitted.b
	} else {
		c.a, c.b = proportional(samples, kink)
	}
	c.rss = residualSquares(samples, c)
	return c
}

// hingeAt fits a alone: growth in proportion, then flat.
func hingeAt(samples []sample, kink float64) curve {
	c := curve{kink: kink}
	c.a, _ = proportional(samples, kink)
	c.rss = residualSquares(samples, c)
	return c
}

// falling adds to a family the decline of a retrograde ladder: beyond the kink
// X falls as a power of N. The exponent and the rest are fitted in turns.
func falling(family signal) signal {
	return func(samples []sample, kink float64) curve {
		const turns = 20
		level := slices.Clone(samples)
		var c curve
		fall := 0.0
		for range turns {
			before := fall
			c = family(level, kink)
			var uu, ur float64
			for _, s := range samples {
				u := max(s.logN-math.Log(kink), 0)
				uu += s.w * u * u
				ur += s.w * u * (c.log(s.n) - s.y)
			}
			if uu > 0 {
				fall = max(ur/uu, 0)
			}
			if math.Abs(fall-before) < 1e-4 {
				break
			}
			for i, s := range samples {
				level[i] = newSample(s.n, s.y+fall*max(s.logN-math.Log(kink), 0), s.w)
			}
		}
		c = family(level, kink)
		c.fall = fall
		c.rss = 0
		for _, s := range samples {
			r := s.y - c.log(s.n)
			c.rss += s.w * r * r
		}
		return c
	}
}

// lawLine solves for both coefficients; ok is false where one of them would
// leave its range.
func lawLine(samples []sample, kink float64) (c curve, ok bool) {
	const steps = 3
	for step := range steps {
		var sw, sm, smm, st, smt float64
		for i := range samples {
			s := &samples[i]
			m := min(s.n, kink)
			t := m * s.perUnit
			base := t
			if step > 0 {
				// In log X the residual of t is log(t/base); near base it is
				// (t-base)/base, so the target is moved onto that line.
				base = c.a + c.b*m
				t = base * (1 + math.Log(t/base))
			}
			w := s.w / (base * base)
			sw += w
			sm += w * m
			smm += w * m * m
			st += w * t
			smt += w * m * t
		}
		det := sw*smm - sm*sm
		if det <= 1e-12*sw*smm {
			return c, false
		}
		c.a = (smm*st - sm*smt) / det
		c.b = (sw*smt - sm*st) / det
		if c.b < 0 || c.a <= 0 {
			return c, false
		}
	}
	return c, true
}

// proportional fits X = m/a.
func proportional(samples []sample, kink float64) (a, b float64) {
	var sum, sw float64
	logKink := math.Log(kink)
	for i := range samples {
		s := &samples[i]
		sum += s.w * (min(s.logN, logKink) - s.y)
		sw += s.w
	}
	return math.Exp(sum / sw), 0
}

func residualSquares(samples []sample, c curve) float64 {
	var rss float64
	logKink := math.Log(c.kink)
	logA := math.Log(c.a)
	for i := range samples {
		s := &samples[i]
		work := logA
		if c.b > 0 {
			work = math.Log(c.a + c.b*min(s.n, c.kink))
		}
		r := s.y - min(s.logN, logKink) + work
		rss += s.w * r * r
	}
	return rss
}

// bestKink finds the kink with the least squares: a scan between every pair of
// neighbouring loads, then a golden-section search around the best.
func bestKink(samples []sample, fit signal) curve {
	const steps = 4
	first, last := samples[0].logN, samples[len(samples)-1].logN
	best, lo, hi := curve{rss: math.Inf(1)}, first, last
	for i := 0; i+1 < len(samples); i++ {
		gap := (samples[i+1].logN - samples[i].logN) / steps
		for step := 1; step <= steps; step++ {
			at := samples[i].logN + gap*float64(step)
			if c := fit(samples, math.Exp(at)); c.rss < best.rss {
				best, lo, hi = c, at-gap, at+gap
			}
		}
	}
	return golden(samples, fit, best, lo, min(hi, last))
}

// golden narrows the log of the kink between lo and hi to 0.1 % of them.
func golden(samples []sample, fit signal, best curve, lo, hi float64) curve {
	const phi = 0.6180339887498949
	x1, x2 := hi-phi*(hi-lo), lo+phi*(hi-lo)
	c1, c2 := fit(samples, math.Exp(x1)), fit(samples, math.Exp(x2))
	for range 14 {
		if c1.rss < c2.rss {
			hi, x2, c2 = x2, x1, c1
			x1 = hi - phi*(hi-lo)
			c1 = fit(samples, math.Exp(x1))
		} else {
			lo, x1, c1 = x1, x2, c2
			x2 = lo + phi*(hi-lo)
			c2 = fit(samples, math.Exp(x2))
		}
	}
	for _, c := range []curve{c1, c2} {
		if c.rss < best.rss {
			best = c
		}
	}
	return best
}

// flat fits a constant: the rungs are all on the cap.
func flat(samples []sample) curve { return hingeAt(samples, samples[0].n) }

// spread is the residual standard deviation of a fit with p parameters.
func spread(rss float64, n, p int) float64 {
	return math.Sqrt(rss / math.Max(float64(n-p), 1))
}

func residuals(samples []sample, c curve) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = s.y - c.log(s.n)
	}
	return out
}
