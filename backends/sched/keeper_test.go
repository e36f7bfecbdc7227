package sched

import "testing"

func TestKeeperEnds(t *testing.T) {
	k := Keep()
	k.Close()
	if got, raised := k.Grant().String(), Raise().String(); got == "" || raised == "" {
		t.Errorf("a grant without words: %q, %q", got, raised)
	}
}
