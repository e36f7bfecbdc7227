//go:build !linux

package cpu

import "runtime"

// yieldCore lets other goroutines have this core; the system's own call is
// made on Linux only.
func yieldCore() { runtime.Gosched() }
