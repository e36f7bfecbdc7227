package bundle

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrExists says that the directory asked for is already there: bundles never
// overwrite.
var ErrExists = errors.New("already exists")

// ErrNewer says that a file was written by a newer headway than this one.
var ErrNewer = errors.New("written in a newer format than this headway reads")

// PartialError says that a bundle could not be completed. Nothing is under
// its final name; what was measured so far is kept in Dir.
type PartialError struct {
	Dir string
	Err error
}

func (e *PartialError) Error() string {
	hint := ""
	if errors.Is(e.Err, syscall.ENOSPC) {
		hint = "; free space on that disk and run again, or give --out on another"
	}
	return fmt.Sprintf("the bundle could not be completed: %v; what was measured is kept in %s%s", e.Err, e.Dir, hint)
}

func (e *PartialError) Unwrap() error { return e.Err }

// Finding is one thing that Verify holds against a bundle.
type Finding struct {
	File string
	Err  error
}

func (f *Finding) Error() string { return fmt.Sprintf("%s: %v", f.File, f.Err) }
func (f *Finding) Unwrap() error { return f.Err }
