package loadgen

import (
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// pacer sleeps to absolute times of package clock and can be woken. One
// goroutine waits; any may wake.
type pacer interface {
	// wait returns at the time until, or earlier when woken; with no
	// outstanding wake it never returns early by more than it takes to look at
	// the clock again.
	wait(until int64)
	// wake makes the present or the next wait return.
	wake()
	// open binds the pacer to the calling goroutine, close releases it.
	open()
	close()
}

// timerPacer waits on a runtime timer, to the granularity of the system's
// poller.
type timerPacer struct {
	woken chan struct{}
	timer *time.Timer
}

func newTimerPacer() *timerPacer {
	return &timerPacer{woken: make(chan struct{}, 1)}
}

func (p *timerPacer) open()  { p.timer = time.NewTimer(time.Hour) }
func (p *timerPacer) close() { p.timer.Stop() }

func (p *timerPacer) wait(until int64) {
	p.timer.Reset(time.Duration(until - clock.Now()))
	select {
	case <-p.timer.C:
	case <-p.woken:
	}
}

func (p *timerPacer) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}
