package reference

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/headway-bench/headway/backends/clock"
)

// spin is how long before its time a waiter stops sleeping, in nanoseconds.
const spin = 10_000

// waiter lets one thread sleep to an absolute time, or until it is woken. The
// sleep is ppoll's, whose timer the kernel keeps to a microsecond; Go's own
// timers are served by whichever thread polls the network next.
type waiter struct {
	fd int
}

func newWaiter() (*waiter, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &waiter{fd: fd}, nil
}

// enter prepares the calling thread, which must be locked to its goroutine:
// without it the kernel may delay each wake-up by 50 microseconds.
func (w *waiter) enter() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
}

// wait returns at the time until (never, when it is negative) or once wake has
// been called.
func (w *waiter) wait(until int64) {
	fds := [1]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
	for {
		var timeout *unix.Timespec
		if until >= 0 {
			left := until - clock.Now()
			if left <= 0 {
				return
			}
			if left <= spin {
				continue
			}
			ts := unix.NsecToTimespec(left - spin)
			timeout = &ts
		}
		if n, _ := unix.Ppoll(fds[:], timeout, nil); n > 0 {
			var b [8]byte
			_, _ = unix.Read(w.fd, b[:])
			return
		}
	}
}

// wake ends the wait that is going on, or the next one.
func (w *waiter) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(w.fd, one[:])
}

func (w *waiter) close() { _ = unix.Close(w.fd) }

// RaiseFileLimit lifts the limit of open files to the hard one and returns it.
func RaiseFileLimit() uint64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	l.Cur = l.Max
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
	return l.Max
}
