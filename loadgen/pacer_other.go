//go:build !linux

package loadgen

func newPacer() pacer { return newTimerPacer() }
