package cpu

import (
	"sync/atomic"
	"testing"
)

// Each part of each phase runs exactly once, and a phase is over when do
// returns, whatever the numbers of workers and parts.
func TestPoolRunsEveryPartOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := newPool(threads)
		for round := range 20 {
			p.begin()
			for phases := range 30 {
				n := (phases*7 + round) % 50
				ran := make([]atomic.Int32, n)
				p.do(n, func(worker, part int) {
					if worker < 0 || worker >= threads {
						t.Errorf("worker %d of %d", worker, threads)
					}
					ran[part].Add(1)
				})
				for part := range ran {
					if got := ran[part].Load(); got != 1 {
						t.Fatalf("%d threads: part %d of %d ran %d times", threads, part, n, got)
					}
				}
			}
			p.end()
		}
		p.close()
	}
}
