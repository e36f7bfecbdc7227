package stat

import (
	"math"
	"testing"
)

// Exact distributions from the tables of Mann and Whitney.
func TestRankCounts(t *testing.T) {
	got := mannWhitneyCounts(3, 2)
	want := []float64{1, 1, 2, 2, 2, 1, 1}
	for u := range want {
		if got[u] != want[u] {
			t.Fatalf("Mann-Whitney 3, 2: %v, want %v", got, want)
		}
	}
	total := 0.0
	for _, c := range mannWhitneyCounts(10, 10) {
		total += c
	}
	if total != 184756 {
		t.Errorf("10 and 10 have %v arrangements, want 184756", total)
	}
	// Critical value of U at 5 % two-sided for 6 and 6 is 5, for 10 and 10 23.
	if k := rankOf(mannWhitneyCounts(6, 6), 0.025); k != 6 {
		t.Errorf("rank %d, want 6", k)
	}
	if k := rankOf(mannWhitneyCounts(10, 10), 0.025); k != 24 {
		t.Errorf("rank %d, want 24", k)
	}
}

// The bounds keep their error rates whatever the distribution.
func TestBoundsKeepTheirErrorRate(t *testing.T) {
	const trials, alpha = 2000, 0.05
	skewed := func(r interface{ NormFloat64() float64 }) float64 { return math.Exp(r.NormFloat64()) }
	tests := []struct {
		name string
		draw func(seed uint64) Shift
	}{
		{"two samples of 10, skewed", func(seed uint64) Shift {
			r := Rand(seed, 1)
			var a, b []float64
			for range 10 {
				a, b = append(a, skewed(r)), append(b, skewed(r))
			}
			return Between(a, b, Errors{alpha, alpha})
		}},
		{"two samples of 4, normal", func(seed uint64) Shift {
			r := Rand(seed, 2)
			var a, b []float64
			for range 4 {
				a, b = append(a, r.NormFloat64()), append(b, r.NormFloat64())
			}
			return Between(a, b, Errors{alpha, alpha})
		}},
		{"12 pairs", func(seed uint64) Shift {
			r := Rand(seed, 3)
			var d []float64
			for range 12 {
				d = append(d, skewed(r)-skewed(r))
			}
			return OfPairs(d, Errors{alpha, alpha})
		}},
		{"5 pairs, normal", func(seed uint64) Shift {
			r := Rand(seed, 4)
			var d []float64
			for range 5 {
				d = append(d, r.NormFloat64())
			}
			return OfPairs(d, Errors{alpha, alpha})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			over, under := 0, 0
			for seed := range uint64(trials) {
				s := tt.draw(seed)
				if s.Lo > 0 {
					over++
				}
				if s.Hi < 0 {
					under++
				}
			}
			// Three standard errors of a rate of 5 % in 2000 trials are 1.5 %.
			for _, n := range []int{over, under} {
				if rate := float64(n) / trials; rate > alpha+0.015 {
					t.Errorf("a bound is wrong in %.3f, more than %v", rate, alpha)
				}
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	xs := make([]float64, 100)
	for i := range xs {
		xs[i] = float64(100 - i)
	}
	for p, want := range map[float64]float64{0: 1, 0.5: 50.5, 0.99: 99.01, 1: 100} {
		if got := Quantile(xs, p); math.Abs(got-want) > 1e-9 {
			t.Errorf("p%v of 1 to 100 is %v, want %v", 100*p, got, want)
		}
	}
	if !math.IsNaN(Quantile(nil, 0.5)) || !math.IsNaN(Mean(nil)) {
		t.Error("no values have no centre")
	}
}

func TestNeed(t *testing.T) {
	// The textbook: 2*(1.645+0.842)^2*(sd/d)^2 with sd/d = 1 is 12.4.
	if n := Need(1, 1, 0.05); n != 13 {
		t.Errorf("need %d, want 13", n)
	}
	if n := Need(1, 0, 0.05); n != 10000 {
		t.Errorf("need %d at the limit itself, want the most", n)
	}
}
