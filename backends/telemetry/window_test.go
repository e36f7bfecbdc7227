package telemetry

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const s = int64(time.Second)

// series is a track with one reading a second of one quantity; NaN is a
// scrape that failed.
func series(q quantity, values ...float64) *track {
	t := &track{source: Source{Name: "a"}, whole: true}
	for i, v := range values {
		t.scrapes++
		if math.IsNaN(v) {
			t.failures++
			continue
		}
		r := newReading()
		r.at, r.values[q] = int64(i)*s, v
		t.readings = append(t.readings, r)
	}
	return t
}

var gap = math.NaN()

func same(a, b float64) bool {
	return cmp.Equal(a, b, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-9, 0))
}

// TestGrowth takes counters between the readings nearest the window's edges.
func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		name       string
		values     []float64
		start, end int64 // seconds, in tenths
		want       float64
	}{
		{"edges between readings", []float64{5, 6, 8, 11, 15}, 9, 31, 5},
		{"a gap within", []float64{5, 6, gap, 11, 15}, 10, 40, 9},
		{"a gap at the edge", []float64{5, 6, 8, gap, gap}, 10, 40, 2},
		{"no reading near", []float64{5, gap, gap, gap, gap, gap, 9}, 10, 30, gap},
		{"started again", []float64{90, 95, 2, 4}, 0, 30, 9},
		{"one reading", []float64{gap, 5, gap}, 0, 20, gap},
		{"none", []float64{gap, gap}, 0, 10, gap},
		{"nothing happened", []float64{7, 7, 7}, 0, 20, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := window{series(preemptions, c.values...).readings, c.start * s / 10, c.end * s / 10, time.Second}
			if got := w.growth(preemptions); !same(got, c.want) {
				t.Errorf("grew by %v, want %v", got, c.want)
			}
		})
	}
}

func TestMeanAndMax(t *testing.T) {
	for _, c := range []struct {
		name       string
		values     []float64
		start, end int64
		mean, max  float64
	}{
		{"a ramp", []float64{0, 2, 4, 6}, 0, 30, 3, 4},
		{"part of a ramp", []float64{0, 2, 4, 6}, 5, 15, 2, 2},
		{"before and after do not count", []float64{100, 1, 1, 1, 100}, 10, 30, 1, 1},
		{"a long gap is left out", []float64{2, 2, gap, gap, gap, gap, 9, 9}, 0, 70, (2 + 9) / 2., 9},
		{"a short gap is bridged", []float64{2, gap, 4}, 0, 20, 3, 2},
		{"one reading", []float64{gap, 3, gap}, 0, 20, 3, 3},
		{"between two readings", []float64{1, 3}, 2, 4, 1.6, gap},
		{"none", []float64{gap, gap}, 0, 20, gap, gap},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := window{series(running, c.values...).readings, c.start * s / 10, c.end * s / 10, time.Second}
			if got := w.mean(running); !same(got, c.mean) {
				t.Errorf("mean %v, want %v", got, c.mean)
			}
			if got := w.max(running); !same(got, c.max) {
				t.Errorf("max %v, want %v", got, c.max)
			}
		})
	}
}

// TestSources joins two replicas and a source that never answers.
func TestSources(t *testing.T) {
	replica := func(use float64) *track {
		tr := series(running, 4, 4, 4)
		for i := range tr.readings {
			v := &tr.readings[i].values
			v[kvUsage], v[waiting] = use, 1
			v[lookedUp], v[found] = float64(100*i), float64(10*i)
			v[ttftSum], v[ttftCount] = float64(i), float64(4*i)
			v[requests], v[outputTokens] = float64(4*i), float64(40*i)
			tr.readings[i].block = 32
		}
		return tr
	}
	silent := series(running, gap, gap)
	silent.source.Name = "b"
	f := figures([]*track{replica(0.5), replica(0.9), silent}, 0, 2*s, time.Second)
	want := Figures{Sources: []string{"a", "a"}, Silent: []string{"b"}, Scrapes: 8, Failures: 2, BlockSize: 32,
		KVUsageMax: 0.9, RunningMean: 8, RunningMax: 8, WaitingMean: 2, Preemptions: 0, PrefixHitRatio: 0.1, PrefixLookups: 400,
		QueueTimeMean: gap, TTFTMean: 0.25, DraftAcceptance: gap, GPUPowerMean: gap, GPUUtilisation: gap, GPUMemoryMaxMiB: gap,
		Requests: 16, OutputTokens: 160, interval: time.Second}
	want.Preemptions = gap
	if d := cmp.Diff(want, f, cmp.AllowUnexported(Figures{}), cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-9, 0)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// TestUncoveredTotals leaves the counts over the whole watch unknown when its
// first or last scrape failed.
func TestUncoveredTotals(t *testing.T) {
	tr := series(requests, gap, 3, 9)
	tr.whole = false
	if f := figures([]*track{tr}, s, 2*s, time.Second); !math.IsNaN(f.Requests) {
		t.Errorf("%v requests of a watch that missed its start", f.Requests)
	}
}

// TestFirstUse takes a counter that is on no page at first as 0, as exporters
// make it at its first use.
func TestFirstUse(t *testing.T) {
	tr := series(running, 0, 0, 0)
	tr.readings[2].values[requests] = 5
	if f := figures([]*track{tr}, 0, 2*s, time.Second); f.Requests != 5 || !math.IsNaN(f.OutputTokens) {
		t.Errorf("%v requests, %v tokens", f.Requests, f.OutputTokens)
	}
}

// TestAccelerators counts a device once that two sources tell of.
func TestAccelerators(t *testing.T) {
	source := func(gpus ...gpu) *track {
		tr := series(running, 1, 1, 1)
		for i := range tr.readings {
			tr.readings[i].gpus = gpus
		}
		return tr
	}
	f := figures([]*track{
		source(gpu{"x", 300, 0.9, 7000}, gpu{"y", 100, gap, 500}),
		source(gpu{"x", 310, 0.8, 7100}, gpu{"z", 50, 0.1, 10}),
	}, 0, 2*s, time.Second)
	if !same(f.GPUPowerMean, 450) || !same(f.GPUUtilisation, 0.5) || !same(f.GPUMemoryMaxMiB, 7510) {
		t.Errorf("%v W, %v busy, %v MiB", f.GPUPowerMean, f.GPUUtilisation, f.GPUMemoryMaxMiB)
	}
}

// TestThin keeps the first reading and the last.
func TestThin(t *testing.T) {
	tr := series(requests, 0, 1, 2, 3, 4, 5)
	tr.thin()
	var got []float64
	for _, r := range tr.readings {
		got = append(got, r.values[requests])
	}
	if d := cmp.Diff([]float64{0, 2, 4, 5}, got); d != "" {
		t.Error(d)
	}
}
