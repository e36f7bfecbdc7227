package sched

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
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

// Raise asks for short time slices and, where the system lets it (root,
// CAP_SYS_NICE or RLIMIT_NICE), a higher priority for all threads of the
// process. A priority that its user has chosen stands.
func Raise() Grant {
	g := ShortenSlices()
	if g.Nice != 0 {
		return g
	}
	return apply(func(tid int, all *Grant) {
		*all = g
		if unix.Setpriority(unix.PRIO_PROCESS, tid, raised) == nil {
			all.Nice = raised
		}
	})
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
		if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
			attr.Runtime = 0
			if attr.Nice == raised {
				attr.Nice = 0
			}
			_ = unix.SchedSetAttr(0, attr, 0)
		}
		done <- f()
	}()
	return <-done
}
