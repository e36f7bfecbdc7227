package record

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-bench/headway/backends"
)

// Limits are the SLOs that one request is held to for goodput; 0 is none. In
// open loop TTFT and E2E are held to the response times.
type Limits struct{ TTFT, TPOT, ITL, E2E time.Duration }

// Asked names a percentile that an SLO asks for: a metric ("ttft", "itl",
// "tpot", "e2e", "ttfo", "icl", "tps") and its quantile, 0 to 1.
type Asked struct {
	Metric   string
	Quantile float64
}

// Config says what rung is recorded and how its window is chosen.
type Config struct {
	Index, Repeat int
	Refined       bool
	Mode          Mode
	Concurrency   int     // asked for, 0 none
	RatePerS      float64 // asked for, 0 none
	ThinkTime     bool    // users pause, so in flight stays below Concurrency

	// Start is the rung's start on the clock of package clock.
	Start int64
	// AutoWarmup finds the warm-up while running; else it is Warmup long.
	AutoWarmup bool
	Warmup     time.Duration
	// Measure is the least length of the window, MaxDuration the most of the
	// whole rung, 0 none. In offline mode the window is the whole rung, and
	// Close ends it.
	Measure, MaxDuration time.Duration
	// MinRequests must complete, of those intended in the window.
	MinRequests int
	// Until ends the window, before Measure or after it, when each of these
	// percentiles has settled.
	Until []Asked
	// Longest is the most that one request can take, its timeout and drain; it
	// bounds memory. 0 is not known.
	Longest time.Duration
	// Limits are what a request must meet to count as goodput.
	Limits Limits
}

// Recorder turns the timelines of one rung into its figures. Add is called as
// each request ends; Over, Live, Began and Close may be called from other
// goroutines.
//
// The window is [start, end). Its start is known from the beginning with a
// fixed warm-up. With AutoWarmup timelines are kept aside until the steady
// state is found, and are then counted as if it had been known; at most 32 MiB
// of them are kept, and when older ones must go, the window starts after them.
// Its end moves on in steps of a tenth of Measure until the rung has what it
// needs.
type Recorder struct {
	cfg      Config
	inFlight atomic.Int64
	live     live

	mu     sync.Mutex
	steady *Steady // nil once the window is open
	kept   waiting
	latest int64 // the latest end of a request
	open   bool  // the window's start is known
	closed bool  // its end is final
	found  bool  // the steady state was found
	// settled says that the window ended since what was to settle had, which
	// what the drain still adds does not undo.
	settled bool
	start   int64
	end     int64
	step    int64
	tally   *tally
	totals  Totals
}

// NewRecorder records a rung.
func NewRecorder(c Config) *Recorder {
	r := &Recorder{cfg: c, tally: newTally(c)}
	r.step = max(int64(c.Measure)/10, int64(10*time.Millisecond))
	switch {
	case c.Mode == Offline:
		r.step = int64(time.Second)
		r.begin(c.Start, never)
	case c.AutoWarmup:
		r.steady = NewSteady(c.Start, c.Measure/(2*SteadyBins))
	default:
		start := c.Start + int64(c.Warmup)
		r.found = true
		r.begin(start, r.firstEnd(start))
	}
	return r
}

// never is a time after all others.
const never = int64(1) << 62

// firstEnd is where a window from start ends at the earliest.
func (r *Recorder) firstEnd(start int64) int64 {
	if len(r.cfg.Until) > 0 {
		return start + r.step
	}
	return start + int64(r.cfg.Measure)
}

// limit is the time at which the rung ends whatever it lacks.
func (r *Recorder) limit() int64 {
	limit := never
	if r.cfg.MaxDuration > 0 {
		limit = r.cfg.Start + int64(r.cfg.MaxDuration)
	}
	if r.steady != nil {
		limit = min(limit, r.cfg.Start+3*int64(r.cfg.Measure))
	}
	return limit
}

// begin opens the window and counts what was kept aside.
func (r *Recorder) begin(start, end int64) {
	r.start, r.end, r.open = start, end, true
	r.steady = nil
	r.tally.open(start, r.step)
	r.kept.empty(func(t *Timeline) {
		r.advance(t.end)
		r.tally.add(t, r.start, r.end)
	})
}

// Began notes that a request is about to be sent. Add undoes it.
func (r *Recorder) Began() { r.inFlight.Add(1) }

// Add counts a finished timeline, which stays the caller's.
func (r *Recorder) Add(t *Timeline) {
	r.inFlight.Add(-1)
	r.live.add(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(t)
	r.latest = max(r.latest, t.end)
	if !r.open {
		r.steady.Add(t)
		r.kept.add(t)
		r.seek(t.end)
		return
	}
	r.advance(t.end)
	r.tally.add(t, r.start, r.end)
}

// count adds to the totals.
func (r *Recorder) count(t *Timeline) {
	if t.sent > 0 {
		r.totals.Sent++
	}
	switch {
	case t.Good():
		r.totals.Completed++
	case !t.Censored && t.class != backends.Cancelled:
		r.totals.Failed++
	}
	if n, ok := t.InputTokens(); ok && t.firstByte > 0 {
		r.totals.InputTokens += int64(n)
	}
	if n, ok := t.OutputTokens(); ok {
		r.totals.OutputTokens += int64(n)
	}
}

// seek opens the window when the steady state is found, or gives it up at the
// limit.
func (r *Recorder) seek(now int64) {
	if since, ok := r.steady.Found(now); ok {
		r.found = true
		since = max(since, r.kept.floor)
		r.begin(since, r.firstEnd(since))
		return
	}
	if limit := r.limit(); now >= limit {
		r.giveUp(limit)
	}
}

// giveUp takes the last part of a rung that never became steady as its window.
func (r *Recorder) giveUp(end int64) {
	start := max(end-int64(r.cfg.Measure), r.cfg.Start, min(r.kept.floor, end-1))
	r.closed = true
	r.begin(start, end)
}

// advance moves the end of the window past the time, or fixes it: requests that
// were counted before have ended before the end as it then was, so that no
// token is on the wrong side of it.
func (r *Recorder) advance(now int64) {
	limit := r.limit()
	for !r.closed && now >= r.end {
		switch {
		case r.end >= limit:
			r.end, r.closed = limit, true
		case r.enough():
			r.closed = true
		default:
			r.end = min(r.end+r.step, limit)
		}
	}
}

// enough says whether the window holds what was asked of it.
func (r *Recorder) enough() bool {
	done := &r.tally.requests
	if n := int64(r.cfg.MinRequests); done.Completed < n && done.Failed < n {
		return false
	}
	if done.Completed == 0 && done.Failed > 0 && r.end >= r.start+int64(r.cfg.Measure) {
		return true // where all fail no percentile settles
	}
	_, unsettled := r.tally.unsettled(r.cfg.Until, r.cfg.Mode)
	r.settled = !unsettled
	return r.settled
}

// Over says whether the window has ended by now, so that nothing more is to be
// sent.
func (r *Recorder) Over(now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		r.seek(now)
	}
	if r.open {
		r.advance(now)
	}
	return r.closed && now >= r.end
}

// Close ends the window at now, when it has not ended before: at an
// interruption, or when an offline rung is done.
func (r *Recorder) Close(now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg.Mode == Offline {
		now = r.latest + 1
	}
	now = max(now, r.latest)
	if !r.open {
		r.seek(now)
	}
	if !r.open {
		r.giveUp(now)
	}
	r.advance(now)
	if !r.closed {
		r.end, r.closed = max(min(r.end, now), r.start), true
	}
}

// Window returns the window so far; ok is false while its start is not known.
// final says that its end is.
func (r *Recorder) Window() (start, end int64, final, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.start, r.end, r.closed, r.open
}

// Live reports how the rung is doing at now.
func (r *Recorder) Live(now int64) LiveStats {
	out := r.live.stats(now)
	out.InFlight = r.inFlight.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Measuring = r.open && now >= r.start
	if r.open && r.end < never {
		out.Left = time.Duration(max(r.end-now, 0))
	} else if !r.open {
		out.Left = r.cfg.Measure
	}
	if r.open && !r.closed && r.end > r.firstEnd(r.start) {
		out.Missing = max(int64(r.cfg.MinRequests)-r.tally.requests.Completed, 0)
		out.Settling = out.Missing == 0 && len(r.cfg.Until) > 0
	}
	return out
}
