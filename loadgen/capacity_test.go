package loadgen

import (
	"runtime"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends/clock"
)

func TestCapacity(t *testing.T) { // sglang#647
	if err := CheckCapacity(10); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("windows sets no limit a process")
	}
	err := CheckCapacity(1 << 30)
	if err == nil || !strings.Contains(err.Error(), "open files") && !strings.Contains(err.Error(), "local ports") {
		t.Errorf("error %v", err)
	}
}

func TestPortRange(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		ok   bool
	}{{"32768\t60999\n", 28232, true}, {"1024 65535", 64512, true}, {"9 8", 0, false}, {"", 0, false}, {"a b", 0, false}} {
		if n, ok := portRange(c.text); n != c.n || ok != c.ok {
			t.Errorf("%q: %d %v", c.text, n, ok)
		}
	}
}

func TestPacers(t *testing.T) {
	for name, p := range map[string]pacer{"the system's": newPacer(), "timer": newTimerPacer()} {
		t.Run(name, func(t *testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.open()
				defer p.close()
				p.wait(clock.Now() - 1) // has passed
				at := clock.Now() + 2e6
				p.wait(at)
				if now := clock.Now(); now < at {
					t.Errorf("%d ns early", at-now)
				}
				p.wake()
				p.wait(at + 3600e9) // a wake-up before the wait ends it
			}()
			<-done

			woken := make(chan struct{})
			go func() {
				defer close(woken)
				p.open()
				defer p.close()
				p.wait(clock.Now() + 3600e9)
			}()
			p.wake() // before the wait or within it
			<-woken
		})
	}
}
