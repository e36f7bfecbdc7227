package sched

import (
	"testing"
	"time"
)

func TestLatenessIsJudgedOverTheLastWakeUps(t *testing.T) {
	var l lateness
	late := func(n int, by time.Duration) bool {
		found := false
		for range n {
			found = l.add(by)
		}
		return found
	}
	if late(10*watched, tooLate) {
		t.Error("wake-ups at the limit are too late")
	}
	if late(1, 2*tooLate) {
		t.Error("one late wake-up is too much")
	}
	if late(watched-1, 0) || late(1, 2*tooLate) {
		t.Error("two late wake-ups far apart are too much")
	}
	if !late(1, 2*tooLate) {
		t.Error("two late wake-ups in a row are not too much")
	}
}

func TestKeeperEnds(t *testing.T) {
	k := Keep()
	k.Close()
	if got, raised := k.Grant().String(), Raise().String(); got == "" || raised == "" {
		t.Errorf("a grant without words: %q, %q", got, raised)
	}
}
