//go:build unix

package loadgen

import "syscall"

// openFiles are the soft and the hard limit on open files, 0 unknown.
func openFiles() (soft, hard uint64) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0, 0
	}
	return uint64(limit.Cur), uint64(limit.Max)
}
