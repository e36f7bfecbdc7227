//go:build unix

package reference

import (
	"errors"
	"syscall"
)

// writeFD is one write that does not wait: the sockets of package net never
// block.
func writeFD(fd uintptr, b []byte) (int, error) { return syscall.Write(int(fd), b) }

func wouldBlock(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
}
