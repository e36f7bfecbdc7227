package record

import (
	"math"
	"testing"
	"time"
)

// TestNeed holds the minimum to its derivation: n samples of which none is over
// show the quantile at 99 % confidence when q^n <= 1 %, and n-1 do not.
func TestNeed(t *testing.T) {
	for _, c := range []struct {
		q    float64
		want int64
	}{{0.05, 90}, {0.5, 7}, {0.9, 44}, {0.95, 90}, {0.99, 459}, {0.999, 4603}} {
		n := Need(c.q)
		if n != c.want {
			t.Errorf("Need(%v) = %d, want %d", c.q, n, c.want)
		}
		tail := max(c.q, 1-c.q)
		if math.Pow(tail, float64(n)) > 0.01 || math.Pow(tail, float64(n-1)) <= 0.01 {
			t.Errorf("Need(%v) = %d is not the least n with %v^n <= 0.01", c.q, n, tail)
		}
	}
	for _, q := range []float64{0, 1, -0.1, 1.5, math.NaN()} { // D113 fortio#606
		if Need(q) != math.MaxInt64 {
			t.Errorf("Need(%v) = %d: no number of samples shows it", q, Need(q))
		}
	}
}

func TestDistHidesWhatLacksSamples(t *testing.T) {
	filled := func(n int) Dist {
		d := newLatency()
		for range n {
			d.record(5 * ms)
		}
		return d.dist()
	}
	known := func(d Dist) [6]bool {
		return [6]bool{d.P05.OK(), d.P50.OK(), d.P90.OK(), d.P95.OK(), d.P99.OK(), d.P999.OK()}
	}
	for _, c := range []struct {
		n    int
		want [6]bool
	}{
		{0, [6]bool{}}, {6, [6]bool{}}, {7, [6]bool{false, true}}, {43, [6]bool{false, true}},
		{44, [6]bool{false, true, true}}, {89, [6]bool{false, true, true}}, {90, [6]bool{true, true, true, true}},
		{458, [6]bool{true, true, true, true}}, {459, [6]bool{true, true, true, true, true}},
		{4603, [6]bool{true, true, true, true, true, true}},
	} {
		if got := known(filled(c.n)); got != c.want {
			t.Errorf("%d samples: known %v, want %v (p05 p50 p90 p95 p99 p99.9)", c.n, got, c.want)
		}
	}
}

// TestNearestRank is D115 huggingface/inference-benchmarker: 1..100 by nearest
// rank.
func TestNearestRank(t *testing.T) {
	d := newCount()
	for i := int64(100); i >= 1; i-- {
		d.record(i)
	}
	for q, want := range map[float64]float64{0.01: 1, 0.05: 5, 0.5: 50, 0.501: 51, 0.9: 90, 0.95: 95, 0.99: 99, 0.999: 100, 1: 100} {
		wantValue(t, "quantile", d.quantile(q), want)
	}
	wantValue(t, "mean", d.mean(), 50.5)
	if d.settled(0.5) {
		t.Error("the median of 1..100 has settled within a tenth")
	}
}

func TestDistributionRange(t *testing.T) {
	d := newLatency()
	for _, v := range []time.Duration{0, 1, 999, time.Microsecond} { // D114 fortio#746: below the first bound
		d.duration(v, true)
	}
	d.duration(time.Minute, false)
	if n := d.hdr.TotalCount(); n != 4 || d.overflow != 0 {
		t.Errorf("%d values, overflow %d; want 4 and 0", n, d.overflow)
	}
	d.duration(2*time.Hour, true)
	out := d.dist()
	if d.overflow != 1 || d.hdr.TotalCount() != 5 {
		t.Errorf("overflow %d of %d, want 1 of 5", d.overflow, d.hdr.TotalCount())
	}
	wantValue(t, "max", out.Max, 7.2e6)
	wantValue(t, "min", out.Min, 0)
}

func TestDistributionPrecision(t *testing.T) {
	for v := time.Millisecond; v < time.Hour; v = v * 13 / 7 {
		d := newLatency()
		d.record(int64(v))
		d.record(0)
		d.record(int64(time.Hour))
		if got := d.quantile(0.5).Or(0); math.Abs(got-v.Seconds()*1e3) > 1e-3*v.Seconds()*1e3 {
			t.Errorf("%v is kept as %v ms", v, got)
		}
	}
}

func TestSettled(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		v    func(i int) int64
		want bool
	}{
		{"89 equal values are too few for p95", 89, func(int) int64 { return 100 * ms }, false},
		{"90 equal values", 90, func(int) int64 { return 100 * ms }, true},
		{"a wide spread, few", 200, func(i int) int64 { return int64(i+1) * ms }, true},
		{"a heavy tail, few", 200, func(i int) int64 { return 200 * ms * 100 / int64(200-i) }, false},
		{"a heavy tail, many", 40000, func(i int) int64 { return 200 * ms * 100 / int64(40000-i) }, true},
	} {
		d := newLatency()
		for i := range c.n {
			d.record(c.v(i))
		}
		if got := d.settled(0.95); got != c.want {
			t.Errorf("%s: settled %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTail(t *testing.T) {
	d := newCount()
	for n, want := range []string{6: "", 7: "p50", 43: "p50", 44: "p90", 89: "p90", 90: "p95", 458: "p95", 459: "p99", 500: "p99"} {
		for d.samples < int64(n) {
			d.record(d.samples + 1)
		}
		if n < 6 || want == "" && n != 6 {
			continue
		}
		if _, name := d.tail(); name != want {
			t.Errorf("%d samples bear %q, want %q", n, name, want)
		}
	}
}
