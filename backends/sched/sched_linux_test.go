package sched

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func attributes(t *testing.T) *unix.SchedAttr {
	t.Helper()
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Skip("no scheduling attributes here:", err)
	}
	return attr
}

func TestRaiseSaysWhatThreadsHave(t *testing.T) {
	runtime.LockOSThread()
	before := attributes(t)
	g := Raise()
	attr := attributes(t)
	if g.Realtime != (attr.Policy == unix.SCHED_RR) {
		t.Errorf("policy %d, and real time is said to be %v", attr.Policy, g.Realtime)
	}
	if !g.Realtime && g.Slice > 0 && attr.Runtime != uint64(g.Slice) {
		t.Errorf("the slice is %d ns, and %v is said", attr.Runtime, g.Slice)
	}
	if int(attr.Nice) != g.Nice {
		t.Errorf("nice is %d, and %d is said", attr.Nice, g.Nice)
	}
	if before.Nice != 0 && (attr.Nice != before.Nice || g.Realtime) {
		t.Errorf("the user's nice %d became %d, real time %v", before.Nice, attr.Nice, g.Realtime)
	}
}

func TestApartIsOrdinary(t *testing.T) {
	runtime.LockOSThread()
	chosen := Raise()
	if err := Apart(func() error {
		attr := attributes(t)
		if attr.Policy != unix.SCHED_NORMAL || attr.Runtime == uint64(slice) || chosen.Nice == raised && attr.Nice != 0 {
			t.Errorf("the thread apart has %+v", *attr)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestGrantInWords(t *testing.T) {
	for want, g := range map[string]Grant{
		"nothing":                        {},
		"real-time priority":             {Realtime: true},
		"time slices of 100µs":           {Slice: slice, Nice: 5},
		"time slices of 100µs, nice -15": {Slice: slice, Nice: raised},
	} {
		if got := g.String(); got != want {
			t.Errorf("%+v is %q, want %q", g, got, want)
		}
	}
}
