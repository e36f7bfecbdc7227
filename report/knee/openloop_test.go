package knee

import (
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
)

// Rates of Poisson arrivals lie off their nominal ones by chance, the more so
// the fewer requests a rung has.
func TestOpenLoopAllowsForChance(t *testing.T) {
	tests := []struct {
		name      string
		offered   []float64
		achieved  []float64
		completed int64
		want      Status
	}{
		{"few requests, first rung low by chance", []float64{1, 2, 4, 8}, []float64{0.9, 1.95, 4.1, 7.8}, 200, NotReached},
		{"few requests, last rung low by chance", []float64{1, 2, 4, 8}, []float64{1, 2.05, 4, 7.3}, 200, NotReached},
		{"many requests, first rung truly low", []float64{10, 20, 40, 80}, []float64{7, 7.1, 7, 7.05}, 20000, NotLinear},
		{"knee", []float64{10, 20, 40, 80, 160}, []float64{10, 20.2, 39.5, 50, 50.5}, 2000, Found},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var rungs []record.Rung
			for i, rate := range tt.offered {
				rungs = append(rungs, record.Rung{Index: i, Mode: record.Open, Verdict: record.Valid,
					RatePerS: record.Known(rate), RequestThroughputPerS: record.Known(tt.achieved[i]),
					InFlightMean: record.Known(tt.achieved[i] * 0.2), Requests: record.Requests{Completed: tt.completed}})
			}
			if k := Fit(FromRungs(rungs), Options{}); k.Status != tt.want {
				t.Errorf("status %s, want %s", k.Status, tt.want)
			}
		})
	}
}
