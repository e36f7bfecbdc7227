//go:build !linux

package sched

// ShortenSlices has no counterpart outside Linux.
func ShortenSlices() Grant { return Grant{} }

// Raise has no counterpart outside Linux.
func Raise() Grant { return Grant{} }

// untilLate waits to be stopped: nothing could be raised.
func (k *Keeper) untilLate() bool {
	<-k.stop
	return false
}

// Apart runs f.
func Apart(f func() error) error { return f() }
