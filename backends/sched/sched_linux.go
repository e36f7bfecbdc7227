package sched

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headway-bench/headway/backends/clock"
)

// slice is the shortest time slice that there is (EEVDF, Linux 6.12 on).
const slice = 100 * time.Microsecond

// raised is the nice level that a load generator asks for: before everything
// ordinary, and behind what the system itself keeps at -20.
const raised = -15

// ShortenSlices asks for short time slices for all threads of the process. It
// takes no privilege.
func ShortenSlices() Grant {
	return apply(func(tid int, g *Grant) {
		attr, err := unix.SchedGetAttr(tid, 0)
		if err != nil || attr.Policy != unix.SCHED_NORMAL {
			return
		}
		g.Nice = int(attr.Nice)
		attr.Runtime = uint64(slice)
		if unix.SchedSetAttr(tid, attr, 0) != nil {
			return
		}
		// Older kernels take the call and forget the wish.
		if attr, err = unix.SchedGetAttr(tid, 0); err == nil && attr.Runtime == uint64(slice) {
			g.Slice = slice
		}
	})
}

// Raise asks for all threads of the process for the best of these that the
// system lets it have: real-time priority, which the kernel keeps from taking
// the last twentieth of a processor (root, CAP_SYS_NICE or RLIMIT_RTPRIO), a
// lower nice level (RLIMIT_NICE), short time slices. A nice level that the user
// has chosen stands.
func Raise() Grant {
	g := ShortenSlices()
	if g.Nice != 0 {
		return g
	}
	return apply(func(tid int, all *Grant) {
		*all = g
		rr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
		if unix.SchedSetAttr(tid, &rr, 0) == nil {
			*all = Grant{Realtime: true}
		} else if unix.Setpriority(unix.PRIO_PROCESS, tid, raised) == nil {
			all.Nice = raised
		}
	})
}

// untilLate returns true once this process runs too late, and false when it is
// stopped.
func (k *Keeper) untilLate() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The kernel may delay a wake-up by 50 microseconds without it.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
	for {
		select {
		case <-k.stop:
			return false
		default:
		}
		due := clock.Now() + int64(watchEvery)
		at := unix.NsecToTimespec(due)
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil); err != nil {
			continue // interrupted
		}
		if NoteLag(clock.Now() - due); lagged.Load() {
			return true
		}
	}
}

// apply calls f for each thread of the process, again as long as there are new
// ones: a thread that is not changed yet may make another.
func apply(f func(tid int, g *Grant)) Grant {
	var g Grant
	seen := map[int]bool{}
	for range 5 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return g
		}
		news := false
		for _, t := range threads {
			if tid, err := strconv.Atoi(t.Name()); err == nil && !seen[tid] {
				seen[tid], news = true, true
				f(tid, &g)
			}
		}
		if !news {
			break
		}
	}
	return g
}

// Apart runs f on a thread that has nothing of what Raise asked for, as the
// processes that f starts then have not, and returns its error.
func Apart(f func() error) error {
	done := make(chan error)
	go func() {
		// The thread is not unlocked and so ends with the goroutine: nothing
		// else is to run at its priority.
		runtime.LockOSThread()
		lower()
		done <- f()
	}()
	return <-done
}

// lower undoes for the calling thread what Raise did.
func lower() {
	attr, err := unix.SchedGetAttr(0, 0)
	switch {
	case err != nil:
		return
	case attr.Policy == unix.SCHED_RR:
		attr = &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	case attr.Nice == raised:
		attr.Nice = 0
	}
	attr.Runtime = 0
	// A thread whose priority can't be lowered keeps it.
	_ = unix.SchedSetAttr(0, attr, 0)
}
