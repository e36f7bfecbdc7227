package loadgen

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
)

// errDrained is why requests that outlive the drain are cancelled.
var errDrained = errors.New("the drain's limit passed")

// run is one rung as it happens. The issue rule is asked by two: the issue loop
// on the pacer's thread, for requests that fall due by the clock, and each
// worker whose request has just ended, for those that fall due by that.
type run struct {
	g        *Generator
	rung     Rung
	ctx      context.Context
	cancel   context.CancelCauseFunc
	items    *prompt.Stream // nil where conversations are held
	recorder *record.Recorder
	pacer    pacer
	begin    int64 // the rung's start on package clock
	wg       sync.WaitGroup
	idle     chan struct{} // closed once the load has ended and nothing is in flight
	prefix   string        // of request ids
	forced   bool          // output lengths are asked for and the target can

	// The issue loop's own: what the window costs this process.
	meter              *record.HealthMeter
	meterOpen, metered bool
	health             record.ClientHealth

	mu      sync.Mutex // guards the rest
	issuer  *Issuer
	workers []*worker
	planned int64 // when the issue loop wakes up next
	halted  bool  // interrupted or cancelled
	settled bool  // idle is closed
	failed  error // the first error that is not the target's
}

// now is the time since the rung's start.
func (u *run) now() time.Duration { return time.Duration(clock.Now() - u.begin) }

// offer is the issue loop: it sends what falls due until the load ends, and
// returns when nothing more will be sent by the clock. What the cap on
// requests in flight holds back is sent by the workers as others end.
func (u *run) offer() {
	u.pacer.open()
	defer u.pacer.close()
	for {
		u.mu.Lock()
		now := u.now()
		u.end(now)
		u.dispatch(now)
		next, ok := u.issuer.Next()
		over := u.issuer.Exhausted() || u.issuer.until <= now && !ok
		wake := now + endsBy
		if ok {
			wake = min(wake, next)
		}
		u.planned = u.begin + int64(wake)
		u.mu.Unlock()
		u.watchHealth()
		if over {
			return
		}
		u.pacer.wait(u.begin + int64(wake))
	}
}

// watchHealth measures this process from the start of the window, as soon as
// that is known, to its end.
func (u *run) watchHealth() {
	start, _, final, open := u.recorder.Window()
	switch {
	case !u.meterOpen && open && clock.Now() >= start:
		u.meter, u.meterOpen = record.StartHealth(), true
	case u.meterOpen && final && !u.metered:
		u.health, u.metered = u.meter.Stop(), true
	}
}

// dispatch hands everything that is due to its worker. u.mu is held.
func (u *run) dispatch(now time.Duration) {
	for {
		s, ok := u.issuer.Due(now)
		if !ok {
			return
		}
		u.recorder.Began()
		u.worker(s.User).work <- s
	}
}

// end stops the issue rule when the window is over or the run is interrupted.
// u.mu is held.
func (u *run) end(now time.Duration) {
	select {
	case <-u.g.stop():
		u.halt(now)
	case <-u.ctx.Done():
		if !errors.Is(context.Cause(u.ctx), errDrained) {
			u.halt(now)
		}
	default:
		if u.recorder.Over(u.begin + int64(now)) {
			_, end, _, _ := u.recorder.Window()
			u.issuer.Stop(time.Duration(end - u.begin))
		}
	}
}

// halt ends the load at once, queued requests included. u.mu is held.
func (u *run) halt(now time.Duration) {
	if !u.halted {
		u.halted = true
		u.issuer.Stop(0)
		u.recorder.Close(u.begin + int64(now))
	}
}

// done tells the issue rule that a user's request has ended, hands out what
// falls due by that, and returns the user's own next request if it is among
// it. That one needs no other goroutine.
func (u *run) done(user int, more bool, delay time.Duration) (own Send, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	u.issuer.Done(user, now, more, delay)
	u.end(now)
	for {
		s, due := u.issuer.Due(now)
		if !due {
			break
		}
		u.recorder.Began()
		if s.User == user {
			own, ok = s, true
		} else {
			u.worker(s.User).work <- s
		}
	}
	u.settle()
	if next, some := u.issuer.Next(); u.issuer.Exhausted() || some && u.begin+int64(next) < u.planned {
		u.planned = 0
		u.pacer.wake()
	}
	return own, ok
}

// broke ends the rung because the budget holds no further request. What is in
// flight is drained.
func (u *run) broke() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	u.issuer.Stop(0)
	u.recorder.Close(u.begin + int64(now))
}

// fail ends the rung for an error of this machine, such as a full disk.
func (u *run) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed == nil {
		u.failed = err
	}
	u.halt(u.now())
}

// worker returns the worker of a user, started at need. u.mu is held, or the
// rung has not begun.
func (u *run) worker(user int) *worker {
	for len(u.workers) <= user {
		w := &worker{run: u, work: make(chan Send, 1), refused: rate.NewLimiter(refusedPerS, 1)}
		if u.g.Source.Talks() {
			w.talk = u.g.Source.Talk(u.rung.Seed, len(u.workers))
		}
		u.workers = append(u.workers, w)
		u.wg.Go(w.loop)
	}
	return u.workers[user]
}

// drain waits for every request to end, cuts those that outlive the drain's
// limit, and closes the rung.
func (u *run) drain() {
	u.mu.Lock()
	u.settle()
	u.mu.Unlock()
	limit := time.NewTimer(u.drainLimit())
	defer limit.Stop()
	select {
	case <-u.idle:
	case <-u.ctx.Done():
	case <-limit.C:
		u.mu.Lock()
		u.issuer.Stop(0)
		u.mu.Unlock()
		u.cancel(errDrained)
	}
	<-u.idle
	u.recorder.Close(clock.Now())
	for _, w := range u.workers {
		close(w.work)
	}
	u.wg.Wait()
	u.cancel(nil)
	if u.items != nil {
		u.items.Close()
	}
	u.rung.Unsent(u.issuer, u.recorder, u.begin)
}

// cost is what the window cost this process.
func (u *run) cost() record.ClientHealth {
	if !u.metered {
		u.health, u.metered = u.meter.Stop(), true
	}
	return u.health
}

// drainLimit is how long the drain may last. Offline, all of the load is one
// drain, which the longest duration of a rung ends.
func (u *run) drainLimit() time.Duration {
	stage := u.rung.Stage
	if u.rung.Mode != record.Offline {
		return stage.Drain.Std()
	}
	if stage.MaxDuration <= 0 {
		return math.MaxInt64
	}
	return max(0, stage.MaxDuration.Std()-u.now()) + stage.Drain.Std()
}

// settle says so when the load has ended and nothing is in flight. u.mu is
// held.
func (u *run) settle() {
	if !u.settled && u.issuer.InFlight() == 0 && (u.issuer.Exhausted() || u.ctx.Err() != nil) {
		u.settled = true
		close(u.idle)
	}
}

// err is why the rung did not end by itself, nil when it did.
func (u *run) err() error {
	switch {
	case u.failed != nil:
		return u.failed
	case u.halted:
		return ErrInterrupted
	}
	return nil
}
