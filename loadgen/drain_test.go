package loadgen

import (
	"testing"
	"time"

	"github.com/headway-bench/headway/profiles"
)

// A rung whose requests outlive the drain is done all the same, and the ladder
// goes on to the next.
func TestDrainLimitEndsTheRungAndNotTheLadder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 30 * time.Second, itl: time.Second}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Load = closed(2, 4)
			p.Stage.MaxDuration = dur(12 * time.Second)
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(rungs) != 2 {
			t.Fatalf("%d rungs, want 2", len(rungs))
		}
		for i, want := range []int64{2, 4} {
			if r := rungs[i]; r.Totals.Completed != 0 || r.Totals.Sent != want || r.Requests.Failed != 0 {
				t.Errorf("rung %d: totals %+v, failed %d", i, r.Totals, r.Requests.Failed)
			}
		}
	})
}
