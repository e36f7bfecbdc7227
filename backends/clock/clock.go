// Package clock is the one clock that every time in headway comes from: the
// system's monotonic clock in nanoseconds. On Linux it is CLOCK_MONOTONIC
// itself, so that stamps of two processes on one machine (a client and the
// bundled server's emission log) can be subtracted from each other.
package clock

import "time"

// base ties Go's monotonic reading to the system's monotonic clock.
var (
	base     = time.Now()
	baseMono = monotonic(base)
)

// Now returns the monotonic time in nanoseconds. It is safe for concurrent
// use and does not allocate.
func Now() int64 { return baseMono + int64(time.Since(base)) }

// Wall converts a monotonic stamp of this process to wall-clock time. Steps of
// the wall clock after the process started are not followed.
func Wall(mono int64) time.Time { return base.Add(time.Duration(mono - baseMono)).Round(0) }
