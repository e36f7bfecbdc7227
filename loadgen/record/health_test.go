package record

import (
	"math"
	"runtime"
	"testing"
)

func TestUpperQuantile(t *testing.T) {
	edges := []float64{0, 1, 2, 4, math.Inf(1)}
	for _, c := range []struct {
		name          string
		counts, since []uint64
		want          float64 // -1 unknown
	}{
		{"nothing happened", []uint64{5, 5, 0, 0}, []uint64{5, 5, 0, 0}, -1},
		{"only what is new counts", []uint64{100, 10, 0, 0}, []uint64{100, 0, 0, 0}, 2},
		{"99 of 100 in the first bucket", []uint64{99, 0, 1, 0}, []uint64{0, 0, 0, 0}, 1},
		{"98 of 100", []uint64{98, 0, 2, 0}, []uint64{0, 0, 0, 0}, 4},
		{"the endless bucket has a lower edge", []uint64{0, 0, 0, 3}, []uint64{0, 0, 0, 0}, 4},
		{"no first reading", []uint64{1, 1, 1, 1}, nil, -1},
	} {
		if got := upperQuantile(edges, c.counts, c.since, 0.99).Or(-1); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestHealthMeter(t *testing.T) {
	h := StartHealth()
	runtime.GC()
	got := h.Stop()
	if v, ok := got.GCPauseP99ms.Float(); !ok || v <= 0 {
		t.Errorf("GC pause p99 %v, known %v, after a collection", v, ok)
	}
	if v, ok := got.CPURatio.Float(); ok && (v < 0 || v > 2) {
		t.Errorf("CPU ratio %v", v)
	}
}
