package loadgen

import (
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// WakeUps sleeps n times by the pacer of the issue loop, each until one period
// after the time before, and returns how late each wake-up was. It keeps the
// calling goroutine for n periods.
func WakeUps(n int, period time.Duration) []time.Duration {
	p := newPacer()
	p.open()
	defer p.close()
	late := make([]time.Duration, n)
	due := clock.Now()
	for i := range late {
		due = max(due, clock.Now()) + int64(period)
		p.wait(due)
		late[i] = time.Duration(clock.Now() - due)
	}
	return late
}
