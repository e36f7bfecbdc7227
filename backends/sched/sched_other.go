//go:build !linux

package sched

// ShortenSlices has no counterpart outside Linux.
func ShortenSlices() Grant { return Grant{} }

// Raise has no counterpart outside Linux.
func Raise() Grant { return Grant{} }

// Apart runs f.
func Apart(f func() error) error { return f() }
