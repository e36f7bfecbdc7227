package loadgen

import (
	"testing"
	"time"
)

// TestWakeUps wakes never before the time asked for.
func TestWakeUps(t *testing.T) {
	late := WakeUps(20, 100*time.Microsecond)
	if len(late) != 20 {
		t.Fatalf("%d wake-ups", len(late))
	}
	for i, d := range late {
		if d < 0 {
			t.Errorf("wake-up %d came %v early", i, -d)
		}
	}
}
