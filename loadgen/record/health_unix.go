//go:build unix

package record

import (
	"time"

	"golang.org/x/sys/unix"
)

// processCPU returns the processor time that this process has used.
func processCPU() (time.Duration, bool) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
