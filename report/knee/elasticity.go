package knee

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
)

// Elasticities sets Rung.Elasticity, d log X / d log N from the next lower
// load: 1 is growth in proportion, 0 is waiting. It stays unknown on the
// lowest load, on offline rungs, and where load or throughput is unknown.
func Elasticities(rungs []record.Rung) {
	l := newLadder(FromRungs(rungs))
	for i := 1; i < len(l.loads); i++ {
		below, at := l.loads[i-1], l.loads[i]
		e := record.Known(math.Log(at.x/below.x) / math.Log(at.n/below.n))
		for _, p := range at.points {
			p.Rung.Elasticity = e
		}
	}
}
