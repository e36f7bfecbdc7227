package loadgen

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headway-bench/headway/backends/clock"
)

// spinNS is how long before the time asked for the thread stops sleeping and
// watches the clock instead: longer than a wake-up from a timer usually takes.
const spinNS = 40_000

// threadPacer owns an OS thread and sleeps on a futex with an absolute
// CLOCK_MONOTONIC time-out, which the kernel serves from the same
// high-resolution timers as clock_nanosleep(TIMER_ABSTIME) and which, unlike
// it, another thread can end.
type threadPacer struct{ woken atomic.Uint32 }

func newPacer() pacer { return &threadPacer{} }

// open locks the goroutine to its thread and asks the kernel not to round the
// thread's timers (50 us otherwise).
func (p *threadPacer) open() {
	runtime.LockOSThread()
	// Without the finer slack the pacer is late, which is measured.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
}

func (p *threadPacer) close() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
	runtime.UnlockOSThread()
}

func (p *threadPacer) wait(until int64) {
	// What was just made runnable on this processor must not wait for the
	// runtime to notice that the thread sleeps.
	runtime.Gosched()
	for p.woken.Load() == 0 {
		now := clock.Now()
		if now >= until {
			break
		}
		if until-now > spinNS {
			p.sleep(until - spinNS)
		}
	}
	p.woken.Store(0)
}

func (p *threadPacer) sleep(until int64) {
	const waitBitset, private, any = 9, 128, 0xffffffff
	ts := unix.NsecToTimespec(until)
	// Every outcome (woken, timed out, interrupted) is looked into by wait.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.woken)), waitBitset|private, 0,
		uintptr(unsafe.Pointer(&ts)), 0, any)
}

func (p *threadPacer) wake() {
	const wake, private = 1, 128
	if p.woken.Swap(1) == 0 {
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.woken)), wake|private, 1, 0, 0, 0)
	}
}
