package sched

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRaise(t *testing.T) {
	runtime.LockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Skip("no scheduling attributes here:", err)
	}
	g := Raise()
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if g.Slice > 0 && attr.Runtime != uint64(g.Slice) {
		t.Errorf("the slice is %d ns, and %v is said", attr.Runtime, g.Slice)
	}
	if int(attr.Nice) != g.Nice {
		t.Errorf("nice is %d, and %d is said", attr.Nice, g.Nice)
	}
	if before.Nice != 0 && attr.Nice != before.Nice {
		t.Errorf("the user's nice %d became %d", before.Nice, attr.Nice)
	}
	if g.Slice > 0 && !strings.Contains(g.String(), "100µs") {
		t.Errorf("%q does not tell the slice", g)
	}
}

func TestApartLeavesChildrenOrdinary(t *testing.T) {
	runtime.LockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil || before.Nice == raised {
		before = &unix.SchedAttr{}
	}
	Raise()
	var out []byte
	if err := Apart(func() error {
		attr, err := unix.SchedGetAttr(0, 0)
		if err == nil && attr.Runtime == uint64(slice) {
			t.Error("the thread apart has short slices")
		}
		out, err = exec.Command("nice").Output()
		return err
	}); err != nil {
		t.Skip("no program nice:", err)
	}
	if got := strings.TrimSpace(string(out)); got != "0" && before.Nice == 0 {
		t.Errorf("a child has nice %s", got)
	}
}
