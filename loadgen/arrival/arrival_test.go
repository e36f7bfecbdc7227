package arrival

import (
	"math"
	"slices"
	"testing"
	"testing/quick"
	"time"
)

// take returns the first n times of a schedule, fewer when it ends.
func take(t *testing.T, s Schedule, err error, n int) []time.Duration {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out []time.Duration
	for range n {
		at, ok := s.Next()
		if !ok {
			break
		}
		out = append(out, at)
	}
	return out
}

// gaps returns the gaps between times in seconds, the first from 0.
func gaps(times []time.Duration) []float64 {
	out := make([]float64, len(times))
	last := time.Duration(0)
	for i, at := range times {
		out[i] = (at - last).Seconds()
		last = at
	}
	return out
}

func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, variance
}

// ks is the Kolmogorov-Smirnov distance of a sample to a distribution.
func ks(x []float64, cdf func(float64) float64) float64 {
	x = slices.Sorted(slices.Values(x))
	d, n := 0.0, float64(len(x))
	for i, v := range x {
		f := cdf(v)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	return d
}

// lowerGamma is the regularised lower incomplete gamma function P(a, x), by
// its series (Abramowitz and Stegun 6.5.29): for the tests only.
func lowerGamma(a, x float64) float64 {
	term := 1 / a
	sum := term
	for n := 1; n < 2000 && term > sum*1e-16; n++ {
		term *= x / (a + float64(n))
		sum += term
	}
	lg, _ := math.Lgamma(a)
	return sum * math.Exp(-x+a*math.Log(x)-lg)
}

func TestGapsHaveTheirDistribution(t *testing.T) {
	const n = 50_000
	for _, shape := range []float64{0.25, 0.5, 1, 2, 10} {
		for _, rate := range []float64{MinRate, 8, MaxRate} {
			s, err := Gamma(rate, shape, 7)
			x := gaps(take(t, s, err, n))
			mean, variance := moments(x)
			if want := 1 / rate; math.Abs(mean-want) > 5*want/math.Sqrt(shape*n) {
				t.Errorf("shape %v rate %v: mean gap %v s, want %v", shape, rate, mean, want)
			}
			// The variance of a sample variance is (kurtosis - 1) / n of the
			// variance squared; a gamma's kurtosis is 3 + 6/shape.
			want := 1 / (shape * rate * rate)
			if math.Abs(variance/want-1) > 5*math.Sqrt((2+6/shape)/n) {
				t.Errorf("shape %v rate %v: variance %v, want %v", shape, rate, variance, want)
			}
			if rate == MaxRate {
				continue // there the whole nanoseconds of a time show
			}
			// 1.95 / sqrt(n) is passed by chance once in a thousand.
			d := ks(x, func(v float64) float64 { return lowerGamma(shape, v*rate*shape) })
			if limit := 1.95 / math.Sqrt(n); d > limit {
				t.Errorf("shape %v rate %v: KS distance %.5f over %.5f", shape, rate, d, limit)
			}
		}
	}
}

func TestPoissonCountsAreIndependent(t *testing.T) {
	s, err := Poisson(100, 3)
	counts := make([]float64, 1000)
	for at, ok := s.Next(); ok && at < 1000*time.Second; at, ok = s.Next() {
		counts[at/time.Second]++
	}
	if err != nil {
		t.Fatal(err)
	}
	mean, variance := moments(counts)
	if math.Abs(mean-100) > 1.5 || math.Abs(variance/mean-1) > 0.2 {
		t.Errorf("counts a second: mean %.2f variance %.2f, want 100 both", mean, variance)
	}
	lag := 0.0
	for i := range counts[1:] {
		lag += (counts[i] - mean) * (counts[i+1] - mean) / variance / float64(len(counts))
	}
	if math.Abs(lag) > 0.13 {
		t.Errorf("neighbouring counts correlate by %.3f", lag)
	}
}

func TestConstantDoesNotDrift(t *testing.T) { // evalscope#1367
	for _, rate := range []float64{MinRate, 1.0 / 3, 7, 100, 997, MaxRate} {
		s, err := Constant(rate)
		for i, at := range take(t, s, err, 100_000) {
			if want := float64(i) / rate * 1e9; math.Abs(float64(at)-want) > 1+want*1e-15 {
				t.Fatalf("rate %v: request %d at %d ns, want %.1f", rate, i, at, want)
			}
		}
	}
}

func TestRamps(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to float64
		steps    int
		// count is the integral of the rate to a time in seconds.
		count func(s float64) float64
	}{
		{"a line up", 10, 110, 0, func(s float64) float64 { return 10*s + s*s/2 }},
		{"a line down", 110, 10, 0, func(s float64) float64 { return 110*s - s*s/2 }},
		{"a line from nothing", 0, 120, 0, func(s float64) float64 { return 0.6 * s * s }},
		{"a line to nothing", 120, 0, 0, func(s float64) float64 { return 120*s - 0.6*s*s }},
		{"flat", 50, 50, 0, func(s float64) float64 { return 50 * s }},
		{"steps", 10, 40, 4, func(s float64) float64 {
			j := math.Min(3, math.Floor(s/25))
			return 25*(10*j+10*j*(j-1)/2) + (10+10*j)*(s-25*j)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Ramp(c.from, c.to, 100*time.Second, c.steps, Options{Arrivals: "constant"})
			times := take(t, s, err, 1<<20)
			if want := c.count(100); math.Abs(float64(len(times))-want) > 1 {
				t.Errorf("%d requests, want %.0f", len(times), want)
			}
			for i, at := range times {
				if got := c.count(at.Seconds()); math.Abs(got-float64(i)) > 1e-4 {
					t.Fatalf("request %d at %v, where %.4f are due", i, at, got)
				}
			}
			if last := times[len(times)-1]; last >= 100*time.Second {
				t.Errorf("the last request is at %v", last)
			}
			for _, shape := range []float64{1, 0.25, 4} {
				random, err := Ramp(c.from, c.to, 100*time.Second, c.steps, Options{Arrivals: "gamma", Burstiness: shape, Seed: 5})
				times := take(t, random, err, 1<<20)
				n, want := float64(len(times)), c.count(100)
				if math.Abs(n-want) > 4*math.Sqrt(want/shape) {
					t.Errorf("shape %v along it: %.0f requests, want %.0f", shape, n, want)
				}
				// Told in requests instead of seconds, the gaps have mean 1 and
				// variance 1/shape all along.
				gaps, last := make([]float64, len(times)), 0.0
				for i, at := range times {
					now := c.count(at.Seconds())
					gaps[i], last = now-last, now
				}
				mean, variance := moments(gaps)
				if math.Abs(mean-1) > 5/math.Sqrt(shape*n) || math.Abs(variance*shape-1) > 5*math.Sqrt((2+6/shape)/n) {
					t.Errorf("shape %v along it: gaps of mean %v and variance %v", shape, mean, variance)
				}
				if d := ks(gaps, func(v float64) float64 { return lowerGamma(shape, v*shape) }); d > 1.95/math.Sqrt(n) {
					t.Errorf("shape %v along it: KS distance %.5f", shape, d)
				}
			}
		})
	}
}

// The first times of each process at seed 42. They may never change: a plan's
// hash promises them on every platform.
func TestGoldenTimes(t *testing.T) {
	ramp, rampErr := Ramp(1, 100, 10*time.Second, 0, Options{Seed: 42})
	steps, stepsErr := Ramp(3, 997, 100*time.Second, 7, Options{Arrivals: "gamma", Burstiness: 0.3, Seed: 42})
	constant, constantErr := Constant(997)
	poisson, poissonErr := Poisson(10, 42)
	bursty, burstyErr := Gamma(10, 0.5, 42)
	even, evenErr := Gamma(10, 4, 42)
	for _, c := range []struct {
		name string
		s    Schedule
		err  error
		want []time.Duration
		hash string
	}{
		{"poisson", poisson, poissonErr, golden.poisson, golden.poissonHash},
		{"bursty", bursty, burstyErr, golden.bursty, golden.burstyHash},
		{"even", even, evenErr, golden.even, golden.evenHash},
		{"ramp", ramp, rampErr, golden.ramp, golden.rampHash},
		{"steps", steps, stepsErr, golden.steps, golden.stepsHash},
		{"constant", constant, constantErr, golden.constant, golden.constantHash},
	} {
		if got := take(t, c.s, c.err, len(golden.poisson)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d", c.name, got)
		}
		if got := Hash(c.s, 100_000); got != c.hash {
			t.Errorf("%s: hash of the next 100,000 is %s", c.name, got)
		}
	}
}

func TestStripesAreDisjointAndComplete(t *testing.T) {
	property := func(seed uint64, instances uint8, requests uint16) bool {
		n := int(instances%9) + 1
		make := func() Schedule {
			s, err := Poisson(50, seed)
			if err != nil {
				t.Fatal(err)
			}
			return Limit(s, int64(requests%700))
		}
		whole := take(t, make(), nil, 1<<20)
		union := []time.Duration{}
		for i := range n {
			s, err := Stripe(make(), i, n)
			share := take(t, s, err, 1<<20)
			if len(share) > len(whole)/n+1 {
				return false
			}
			union = append(union, share...)
		}
		slices.Sort(union)
		return slices.Equal(union, whole) // times are distinct, so each is in one stripe
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
	for _, bad := range [][2]int{{-1, 2}, {2, 2}, {0, 0}} {
		if _, err := Stripe(Burst(1), bad[0], bad[1]); err == nil {
			t.Errorf("stripe %d of %d is accepted", bad[0], bad[1])
		}
	}
}

func TestSchedulesAreOrderedAndSeeded(t *testing.T) {
	property := func(seed uint64, shape, rate float64) bool {
		shape = 0.01 + math.Mod(math.Abs(shape), 20)
		rate = MinRate + math.Mod(math.Abs(rate), MaxRate-MinRate)
		a, errA := Gamma(rate, shape, seed)
		b, errB := Gamma(rate, shape, seed)
		c, errC := Gamma(rate, shape, seed+1)
		times := take(t, a, errA, 500)
		return len(times) == 500 && slices.IsSorted(times) && times[0] >= 0 &&
			slices.Equal(times, take(t, b, errB, 500)) && !slices.Equal(times, take(t, c, errC, 500))
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	o := Options{Arrivals: "gamma", Burstiness: 0.5}
	ramp, err := Ramp(1, MaxRate, time.Hour, 5, o)
	if err != nil {
		t.Fatal(err)
	}
	striped, err := Stripe(ramp, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { striped.Next() }); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}

func TestImpossibleLoadsAreRefused(t *testing.T) {
	for name, try := range map[string]func() (Schedule, error){
		"rate 0":           func() (Schedule, error) { return Constant(0) },
		"rate NaN":         func() (Schedule, error) { return Poisson(math.NaN(), 1) },
		"rate too high":    func() (Schedule, error) { return New(20_001, Options{}) },
		"burstiness 0":     func() (Schedule, error) { return Gamma(1, 0, 1) },
		"unknown arrivals": func() (Schedule, error) { return New(1, Options{Arrivals: "pareto"}) },
		"ramp of no time":  func() (Schedule, error) { return Ramp(1, 2, 0, 0, Options{}) },
		"ramp of one step": func() (Schedule, error) { return Ramp(1, 2, time.Second, 1, Options{}) },
		"ramp at nothing":  func() (Schedule, error) { return Ramp(0, 0, time.Second, 0, Options{}) },
		"ramp below all":   func() (Schedule, error) { return Ramp(1, 0.001, time.Second, 0, Options{}) },
	} {
		if _, err := try(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for name, shape := range map[string]float64{"poisson": 1, "gamma": 0.5} {
		b.Run(name, func(b *testing.B) {
			s, err := Gamma(1000, shape, 1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Next()
			}
		})
	}
}
