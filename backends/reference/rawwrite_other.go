//go:build !unix

package reference

import (
	"errors"
)

// writeFD takes nothing: every write waits, in a goroutine of its own.
func writeFD(uintptr, []byte) (int, error) { return 0, errWait }

var errWait = errors.New("write waits")

func wouldBlock(err error) bool { return errors.Is(err, errWait) }
