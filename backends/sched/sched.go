// Package sched asks the system to let this process's threads run soon after
// they wake up, so that on a busy machine a load generator reads in time and a
// simulated server writes in time. It is a leaf that both sides may import.
//
// Threads inherit what they are granted from the thread that makes them, and so
// do child processes; Apart starts those that must not.
package sched

import (
	"fmt"
	"strings"
	"time"
)

// Grant is what the system gave to the threads of this process.
type Grant struct {
	// Slice is the time slice asked for and granted, 0 when the system takes no
	// such wish. A thread with a short slice is run sooner when it wakes up,
	// and for no more time in all.
	Slice time.Duration
	// Nice is the threads' nice level; below 0 they go before others.
	Nice int
	// Realtime says that the threads go before all ordinary ones, whatever the
	// load (SCHED_RR at the lowest of its priorities).
	Realtime bool
}

// String says it in a few words.
func (g Grant) String() string {
	var parts []string
	if g.Realtime {
		parts = append(parts, "real-time priority")
	}
	if g.Slice > 0 {
		parts = append(parts, fmt.Sprintf("time slices of %v", g.Slice))
	}
	if g.Nice < 0 {
		parts = append(parts, fmt.Sprintf("nice %d", g.Nice))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
