package gate

import (
	"math"
	"testing"

	"github.com/headway-bench/headway/report/stat"
)

// Hommel's procedure on p-values of which Hochberg's and Bonferroni's reject
// none: 0.02/4 and the like are below all of them.
func TestFamilyLevel(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    []float64
		want float64
	}{
		{"metrics that regress together", []float64{0.008, 0.009, 0.012, 0.03}, familyError / 2},
		{"all at once", []float64{0.015, 0.016, 0.017, 0.018}, familyError},
		{"one of four, surely", []float64{0.001, 0.5, 0.5, 0.5}, familyError / 3},
		{"one of four, by chance", []float64{0.006, 0.5, 0.5, 0.5}, familyError / 4},
		{"a lone metric", []float64{0.019}, familyError},
		{"none", nil, familyError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cs := []candidate{{settled: true}}
			for _, p := range tt.p {
				cs = append(cs, candidate{shift: func(e stat.Errors) stat.Shift {
					if e.Lo >= p {
						return stat.Shift{Lo: 1}
					}
					return stat.Shift{Lo: -1}
				}})
			}
			if got := familyLevel(cs, 0); math.Abs(got/tt.want-1) > 1e-9 {
				t.Errorf("level %v, want %v", got, tt.want)
			}
		})
	}
}
