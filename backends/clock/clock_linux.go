package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic reads CLOCK_MONOTONIC at the instant now, to within the time that
// two clock reads take (tens of nanoseconds).
func monotonic(now time.Time) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano() - int64(time.Since(now))
}
