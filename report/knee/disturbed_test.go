package knee

import (
	"slices"
	"strings"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
)

// TestDisturbedLadders holds the fit to ladders measured against a server on
// two shared processors that is full at 6 to 12 requests in flight, while other
// work slowed single rungs. Rounded.
func TestDisturbedLadders(t *testing.T) {
	type rung struct{ n, tokens, itl float64 }
	tests := []struct {
		name   string
		rungs  []rung
		warns  []string
		lo, hi float64 // of the knee, and inside its interval
	}{
		{
			"noise at every rung", []rung{{1, 403, 2.27}, {2, 439, 3.97}, {4, 892, 4.12}, {6, 1555, 3.45}, {8, 1755, 4.23}, {12, 1498, 6.94}, {16, 1558, 8.75}},
			[]string{"wide_interval"}, 6, 12,
		}, {
			"two slow rungs below the best one at the end", []rung{{1, 456, 2.006}, {2, 755, 2.358}, {4, 919, 3.897}, {6, 1492, 3.758}, {8, 956, 7.452}, {12, 1285, 8.152}, {16, 1757, 7.801}},
			[]string{"wide_interval"}, 6, 13,
		}, {
			"one slow rung", []rung{{1, 456, 2.006}, {2, 780, 2.358}, {4, 1180, 3.05}, {6, 1450, 3.758}, {8, 1000, 7.1}, {12, 1700, 6.3}, {16, 1757, 7.801}},
			[]string{"odd_rung"}, 8, 12,
		}, {
			"slow at the end", []rung{{1, 805, 1.113}, {2, 1028, 1.737}, {4, 1253, 2.834}, {6, 1450, 3.686}, {12, 1184, 9.066}, {16, 970, 14.81}},
			[]string{"wide_interval"}, 3, 8,
		}, {
			"flat from 6 on", []rung{{1, 805, 1.113}, {2, 1028, 1.737}, {4, 1253, 2.834}, {6, 1490, 3.6}, {12, 1450, 7.3}, {16, 1450, 9.8}},
			[]string{"wide_interval"}, 5, 8,
		}, {
			"a knee that one rung decides", []rung{{2, 588, 3.006}, {4, 1207, 3.037}, {8, 1339, 5.157}, {16, 1463, 9.083}, {24, 1436, 15.16}},
			[]string{"one_rung", "wide_interval"}, 4, 10,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var points []Point
			for _, r := range tt.rungs {
				points = append(points, Point{
					Mode: record.Closed, InFlight: record.Known(r.n), TokensS: record.Known(r.tokens), ITLMeanMS: record.Known(r.itl),
				})
			}
			k := Fit(points, Options{})
			if k.Status != Found {
				t.Fatalf("status %s, want %s", k.Status, Found)
			}
			at, ci := k.InFlight.Or(0), k.InFlightCI95
			if at < tt.lo || at > tt.hi || ci[0].Or(0) > at || ci[1].Or(0) < at {
				t.Errorf("knee at %.4g in %.4g to %.4g, want it between %g and %g", at, ci[0].Or(0), ci[1].Or(0), tt.lo, tt.hi)
			}
			for _, code := range tt.warns {
				if !slices.Contains(strings.Fields(codes(k)), code) {
					t.Errorf("warnings %q lack %s", codes(k), code)
				}
			}
		})
	}
}
