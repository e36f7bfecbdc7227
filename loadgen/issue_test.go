package loadgen

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"
	"time"

	"github.com/headway-bench/headway/loadgen/arrival"
	"github.com/headway-bench/headway/profiles"
)

// play runs an issue rule to its end against a server that takes the given time
// for each request, on a clock of its own, and returns what was sent when.
func play(s *Issuer, service func(Send) time.Duration, end time.Duration) (sends []Send, at []time.Duration, most int) {
	type flight struct {
		ends time.Duration
		user int
	}
	var flights []flight
	now := time.Duration(0)
	for {
		for {
			c, ok := s.Due(now)
			if !ok {
				break
			}
			sends, at = append(sends, c), append(at, now)
			flights = append(flights, flight{now + service(c), c.User})
		}
		most = max(most, s.InFlight())
		slices.SortFunc(flights, func(a, b flight) int { return int(a.ends - b.ends) })
		next, ok := s.Next()
		if len(flights) > 0 && (!ok || flights[0].ends < next) {
			now = flights[0].ends
			s.Done(flights[0].user, now, false, 0)
			flights = flights[1:]
		} else if ok {
			now = max(now, next)
		} else {
			return sends, at, most
		}
		if now >= end {
			s.Stop(end)
		}
	}
}

func TestIssueRuleHoldsForAnyLoad(t *testing.T) {
	property := func(seed uint64, users, limit uint8, mode uint8) bool {
		d := rand.New(rand.NewPCG(seed, 1))
		c := IssueConfig{Seed: seed, Limit: int64(limit)}
		n := int(users%40) + 1
		switch mode % 3 {
		case 0:
			c.Users, c.Spread, c.Learn = n, time.Second, seed%2 == 0
			c.Think = profiles.ThinkTime{Kind: "exponential", Mean: profiles.Duration(seed % 3 * 1e8)}
		default:
			c.Schedule, _ = arrival.Poisson(float64(n)*3, seed)
			c.MaxInFlight = int(mode%3-1) * n
		}
		issuer := NewIssuer(c)
		sends, at, most := play(issuer, func(Send) time.Duration { return time.Duration(d.ExpFloat64() * 3e8) }, 20*time.Second)
		if limit > 0 && len(sends) > int(limit) || limit == 0 && len(sends) == 0 || !issuer.Exhausted() {
			return false
		}
		if bound := max(c.Users, c.MaxInFlight); bound > 0 && most > bound {
			return false
		}
		for i, s := range sends {
			late := at[i] - s.Intended
			if s.Seq != int64(i) || late < 0 || i > 0 && s.Intended < sends[i-1].Intended {
				return false
			}
			if c.MaxInFlight == 0 && late > 0 || s.Intended >= 20*time.Second {
				return false // only a cap makes a request late
			}
		}
		return true
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 500}); err != nil {
		t.Error(err)
	}
}

func TestStartsAreStaggered(t *testing.T) {
	second := func(Send) time.Duration { return time.Second }
	for _, c := range []struct {
		name string
		cfg  IssueConfig
		want []time.Duration // of the users' first requests
	}{
		{"over a ramp", IssueConfig{Users: 4, Spread: 2 * time.Second},
			[]time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond}},
		{"all at once", IssueConfig{Users: 4}, []time.Duration{0, 0, 0, 0}},
		{"over the first request", IssueConfig{Users: 4, Spread: 10 * time.Second, Learn: true},
			[]time.Duration{0, 1250 * time.Millisecond, 1500 * time.Millisecond, 1750 * time.Millisecond}},
		{"over a first request that lasts too long", IssueConfig{Users: 4, Spread: 400 * time.Millisecond, Learn: true},
			[]time.Duration{0, 500 * time.Millisecond, 600 * time.Millisecond, 700 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sends, _, _ := play(NewIssuer(c.cfg), second, 5*time.Second)
			first := make([]time.Duration, c.cfg.Users)
			for i := len(sends) - 1; i >= 0; i-- {
				first[sends[i].User] = sends[i].Intended
			}
			if !slices.Equal(first, c.want) {
				t.Errorf("starts at %v, want %v", first, c.want)
			}
		})
	}
}

func TestStopSendsTheQueueAndHaltDoesNot(t *testing.T) {
	for _, c := range []struct {
		name    string
		stop    time.Duration
		sent    int
		backlog int
	}{
		{"at the end of the window", time.Second, 10, 0},
		{"at once", 0, 1, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			schedule, err := arrival.Constant(10)
			if err != nil {
				t.Fatal(err)
			}
			s := NewIssuer(IssueConfig{Schedule: schedule, MaxInFlight: 1})
			if _, ok := s.Due(0); !ok {
				t.Fatal("nothing is due at the start")
			}
			s.Stop(c.stop)
			now := time.Second
			s.Done(0, now, false, 0)
			sent := 1
			for {
				if _, ok := s.Due(now); !ok {
					break
				}
				sent++
				now += time.Second
				s.Done(0, now, false, 0)
			}
			backlog := 0
			s.Backlog(time.Second, func(Send) { backlog++ })
			if sent != c.sent || backlog != c.backlog || !s.Exhausted() {
				t.Errorf("%d sent and %d left, want %d and %d", sent, backlog, c.sent, c.backlog)
			}
		})
	}
}

func TestIssueRuleDoesNotAllocate(t *testing.T) {
	schedule, err := arrival.Poisson(1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Issuer{
		"closed": NewIssuer(IssueConfig{Users: 100, Think: profiles.ThinkTime{Kind: "lognormal", Mean: 1e6, StdDev: 1e6}}),
		"open":   NewIssuer(IssueConfig{Schedule: schedule, MaxInFlight: 100}),
	} {
		now := time.Duration(0)
		turn := func() {
			now += time.Millisecond
			for c, ok := s.Due(now); ok; c, ok = s.Due(now) {
				s.Done(c.User, now+1, false, 0)
			}
		}
		for range 1000 {
			turn()
		}
		if n := testing.AllocsPerRun(1000, turn); n != 0 {
			t.Errorf("%s: %v allocations a turn", name, n)
		}
	}
}
