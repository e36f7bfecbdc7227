package loadgen

import (
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/profiles"
)

// A server that is down is asked ten times a second by each user after the
// first two, in 11 s of warm-up and window, and not as often as this machine can.
func TestRefusedUsersWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{fail: func(int64) backends.Class { return backends.Connect }}
		if _, err := climb(t, f, profile(func(p *profiles.Profile) { p.Load = closed(3) }), nil); err != nil {
			t.Fatal(err)
		}
		if n := len(f.requests); n < 300 || n > 336 {
			t.Errorf("%d requests of 3 users", n)
		}
	})
}
