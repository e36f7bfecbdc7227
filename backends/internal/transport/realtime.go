package transport

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/headway-bench/headway/backends/clock"
)

// The kernel stamps arrivals with the wall clock; the offset from it to the
// monotonic clock is constant but for steps of the wall clock, since both are
// slewed alike. It is sampled again every resample nanoseconds, and at once
// when a stamp is impossible.
const (
	resample = int64(100e6)
	samples  = 7
	// slack is how far a stamp may lie outside its bounds by the error of the
	// sampled offset, in nanoseconds.
	slack = int64(20e3)
)

// wallOffset is the sampled offset, monotonic minus wall clock.
type wallOffset struct {
	offset atomic.Int64
	taken  atomic.Int64 // when, 0 before the first sample
	mu     sync.Mutex
}

var offset wallOffset

// sample reads both clocks several times and keeps the reading that took the
// least time.
func (w *wallOffset) sample(mono, wall func() int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	best := int64(math.MaxInt64)
	for range samples {
		before := mono()
		now := wall()
		after := mono()
		if took := after - before; took < best {
			best = took
			w.offset.Store(before + took/2 - now)
		}
	}
	w.taken.Store(mono())
}

// arrival converts a wall-clock stamp to the monotonic clock. It must lie
// between the connection's previous arrival and the return of the read; a
// stamp that does not, even with a fresh offset, is replaced by the return.
func arrival(wall, previous, returned int64) int64 {
	if wall == 0 {
		return returned
	}
	if returned-offset.taken.Load() > resample {
		offset.sample(clock.Now, wallNow)
	}
	at, ok := between(wall+offset.offset.Load(), previous, returned)
	if !ok {
		offset.sample(clock.Now, wallNow)
		if at, ok = between(wall+offset.offset.Load(), previous, returned); !ok {
			return returned
		}
	}
	return at
}

// between bounds at to [from, to], and says whether it was inside but for
// slack.
func between(at, from, to int64) (int64, bool) {
	ok := at >= from-slack && at <= to+slack
	return max(from, min(at, to)), ok
}
