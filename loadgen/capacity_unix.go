//go:build unix

package loadgen

import (
	"fmt"
	"syscall"
)

// allowFiles makes sure that the process may have so many files open, raising
// the soft limit up to the hard one.
func allowFiles(need uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("the limit on open files cannot be read: %w", err)
	}
	if uint64(limit.Cur) >= need {
		return nil
	}
	if uint64(limit.Max) < need {
		return fmt.Errorf("they need %d open files and this process may have %d (hard limit %d): "+
			"raise it with ulimit -n %d, or ask for less concurrency", need, limit.Cur, limit.Max, need)
	}
	soft := limit.Cur
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("they need %d open files and this process may have %d; raising that: %w", need, soft, err)
	}
	return nil
}
