//go:build !linux

package reference

import (
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// waiter lets one goroutine sleep to an absolute time, or until it is woken,
// as exactly as Go's timers do.
type waiter struct {
	woken chan struct{}
}

func newWaiter() (*waiter, error) { return &waiter{woken: make(chan struct{}, 1)}, nil }

func (w *waiter) enter() {}

func (w *waiter) wait(until int64) {
	if until < 0 {
		<-w.woken
		return
	}
	left := until - clock.Now()
	if left <= 0 {
		return
	}
	t := time.NewTimer(time.Duration(left))
	defer t.Stop()
	select {
	case <-w.woken:
	case <-t.C:
	}
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *waiter) close() {}

// RaiseFileLimit has nothing to lift: the Go runtime does so where it can.
func RaiseFileLimit() uint64 { return 0 }
