package loadgen

import (
	"math"
	"time"

	"github.com/headway-bench/headway/loadgen/arrival"
	"github.com/headway-bench/headway/loadgen/internal/draw"
	"github.com/headway-bench/headway/profiles"
)

// Send is the command to send one request.
type Send struct {
	// User is the user that sends, a small number that is used by one request
	// at a time.
	User int
	// Seq numbers the requests of a rung from 0 in the order of their sending.
	Seq int64
	// Intended is when the load wanted it sent, as offset from the rung's start.
	Intended time.Duration
	// Due is from when only its sender holds it back: Intended, or when the cap
	// on requests in flight let it go.
	Due time.Duration
}

// IssueConfig is what the issue rule needs to know of a rung. Exactly one of
// Users and Schedule is set.
type IssueConfig struct {
	// Users keeps this many users busy: a closed loop.
	Users int
	// Spread is the time over which the users' starts are spread.
	Spread time.Duration
	// Learn spreads the starts over the duration of the first user's first
	// request instead, waiting for it for Spread at most.
	Learn bool
	// Think is the pause between an answer and the same user's next request.
	Think profiles.ThinkTime
	// Schedule holds the intended times of an open loop.
	Schedule arrival.Schedule
	// Talks says that users of an open loop may come back for another turn.
	Talks bool
	// MaxInFlight caps requests in flight, 0 is no cap. What waits behind it
	// keeps its intended time.
	MaxInFlight int
	// Limit ends the load after so many requests, 0 is no limit.
	Limit int64
	// Seed of the think times.
	Seed uint64
}

// Issuer is the rule for when to send, as a state machine without clock and
// goroutines: its caller brings the time. It allocates only to grow. It is not
// safe for concurrent use.
//
// The caller asks Due until nothing is due, sleeps until Next or the next
// completion, tells Done of each completion, and so on until Exhausted.
type Issuer struct {
	cfg      IssueConfig
	think    *draw.Source
	ready    dueHeap // users with a known time to send
	held     int     // users from held on have not been given a start
	free     []int   // users of the open loop at rest
	users    int     // users named so far in an open loop
	head     time.Duration
	hasHead  bool
	inFlight int
	freed    time.Duration // when the cap last let one more go
	issued   int64
	until    time.Duration // nothing intended from here on is sent
}

// NewIssuer returns the rule at a rung's start.
func NewIssuer(c IssueConfig) *Issuer {
	s := &Issuer{cfg: c, think: draw.New(c.Seed, streamThink), held: c.Users, until: math.MaxInt64}
	if c.Schedule != nil {
		s.head, s.hasHead = c.Schedule.Next()
		return s
	}
	s.ready.grow(c.Users)
	switch {
	case c.Users == 0:
	case c.Learn && c.Spread > 0:
		s.ready.push(due{0, 0})
		s.held = 1
	default:
		s.start(0, 0, c.Spread)
	}
	return s
}

// start gives the users from first on their starts, the users' starts being
// spread evenly over a time from at on.
func (s *Issuer) start(first int, at, spread time.Duration) {
	for user := first; user < s.cfg.Users; user++ {
		share := float64(user) / float64(s.cfg.Users)
		s.ready.push(due{at + time.Duration(share*float64(spread)), user})
	}
	s.held = s.cfg.Users
}

// Due returns the next request to send when one is due at now. Requests come
// out in the order of their intended times.
func (s *Issuer) Due(now time.Duration) (Send, bool) {
	at, ok := s.Next()
	if !ok || at > now {
		return Send{}, false
	}
	if s.holding() && at == s.cfg.Spread {
		s.start(s.held, at, s.cfg.Spread)
		return s.Due(now)
	}
	cmd := Send{Seq: s.issued}
	if top, ok := s.ready.peek(); ok && (!s.hasHead || top.at <= s.head) {
		s.ready.pop()
		cmd.User, cmd.Intended = top.user, top.at
	} else {
		cmd.User, cmd.Intended = s.rested(), s.head
		s.head, s.hasHead = s.cfg.Schedule.Next()
	}
	cmd.Due = max(cmd.Intended, s.freed)
	s.issued++
	s.inFlight++
	return cmd, true
}

// Next returns the time at which a request falls due, which may have passed.
// It is false when that waits for a completion, or when nothing will come.
func (s *Issuer) Next() (time.Duration, bool) {
	if s.cfg.MaxInFlight > 0 && s.inFlight >= s.cfg.MaxInFlight {
		return 0, false
	}
	return s.pending()
}

// pending is Next without the cap on requests in flight.
func (s *Issuer) pending() (time.Duration, bool) {
	if s.cfg.Limit > 0 && s.issued >= s.cfg.Limit {
		return 0, false
	}
	at, ok := s.head, s.hasHead
	if top, some := s.ready.peek(); some && (!ok || top.at < at) {
		at, ok = top.at, true
	}
	if s.holding() && (!ok || s.cfg.Spread < at) {
		at, ok = s.cfg.Spread, true
	}
	return at, ok && at < s.until
}

// Done tells that the request of a user ended at now. In an open loop more
// says that the user's conversation goes on; users of a closed loop always do.
// delay is added to the think time.
func (s *Issuer) Done(user int, now time.Duration, more bool, delay time.Duration) {
	if s.inFlight == s.cfg.MaxInFlight {
		s.freed = now
	}
	s.inFlight--
	if s.holding() {
		s.start(s.held, now, min(now, s.cfg.Spread))
	}
	if s.cfg.Schedule != nil && !more {
		s.free = append(s.free, user)
		return
	}
	s.ready.push(due{now + delay + s.pause(), user})
}

// Stop ends the load at a time: requests intended before it are still sent,
// those queued behind the cap included, and none from it on. Stopping at 0
// ends everything.
func (s *Issuer) Stop(at time.Duration) { s.until = min(s.until, at) }

// Exhausted says that nothing will fall due any more, whatever completes.
func (s *Issuer) Exhausted() bool {
	if _, ok := s.pending(); ok {
		return false
	}
	if s.inFlight == 0 || s.until < math.MaxInt64 || s.cfg.Limit > 0 && s.issued >= s.cfg.Limit {
		return true
	}
	// Only a user in flight can fall due again, where users come back.
	return s.cfg.Schedule != nil && !s.cfg.Talks
}

// Backlog calls f with each request of an open loop that was intended before a
// time and has not been sent. It uses the schedule up.
func (s *Issuer) Backlog(before time.Duration, f func(Send)) {
	for s.hasHead && s.head < before && (s.cfg.Limit == 0 || s.issued < s.cfg.Limit) {
		f(Send{Seq: s.issued, Intended: s.head})
		s.issued++
		s.head, s.hasHead = s.cfg.Schedule.Next()
	}
}

// InFlight is the number of requests sent and not done.
func (s *Issuer) InFlight() int { return s.inFlight }

// Issued is the number of requests sent so far.
func (s *Issuer) Issued() int64 { return s.issued }

// holding says that some users wait for the first request's duration.
func (s *Issuer) holding() bool { return s.held < s.cfg.Users }

// rested returns a user at rest, or a new one.
func (s *Issuer) rested() int {
	if n := len(s.free); n > 0 {
		user := s.free[n-1]
		s.free = s.free[:n-1]
		return user
	}
	s.users++
	return s.users - 1
}

// pause draws a think time.
func (s *Issuer) pause() time.Duration {
	t := s.cfg.Think
	switch {
	case t.Mean <= 0:
		return 0
	case t.Kind == "exponential":
		return time.Duration(s.think.Exp() * float64(t.Mean))
	case t.Kind == "lognormal":
		return time.Duration(s.think.LogNormal(float64(t.Mean), float64(t.StdDev)))
	}
	return t.Mean.Std()
}

// due is a user and when it sends.
type due struct {
	at   time.Duration
	user int
}

func (a due) before(b due) bool { return a.at < b.at || a.at == b.at && a.user < b.user }

// dueHeap is a binary heap, the earliest first.
type dueHeap []due

func (h *dueHeap) grow(n int) { *h = make(dueHeap, 0, n) }

func (h dueHeap) peek() (due, bool) {
	if len(h) == 0 {
		return due{}, false
	}
	return h[0], true
}

func (h *dueHeap) push(d due) {
	*h = append(*h, d)
	a := *h
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if !a[i].before(a[up]) {
			break
		}
		a[i], a[up] = a[up], a[i]
		i = up
	}
}

func (h *dueHeap) pop() {
	a := *h
	n := len(a) - 1
	a[0] = a[n]
	*h = a[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if a[c].before(a[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
}
