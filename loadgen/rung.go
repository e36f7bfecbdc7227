package loadgen

import (
	"fmt"
	"math"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/loadgen/arrival"
	"github.com/headway-bench/headway/loadgen/internal/draw"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// Rung is one step of a ladder as planned: everything about its load is fixed
// before it starts. It is a value; what its pointers reach is not written to.
type Rung struct {
	Index   int
	Repeat  int
	Level   int // the place of its load in the profile's list, from 0
	Refined bool
	Mode    record.Mode
	// Users is the number of users of a closed loop.
	Users int
	// Rate is the mean rate of an open loop in requests per second, 0 where a
	// ramp or a trace sets it.
	Rate float64
	// MaxInFlight caps requests in flight in open loop and offline, 0 is no cap.
	MaxInFlight int
	// Limit is the number of requests after which the load ends, 0 when time
	// ends it.
	Limit    int64
	Closed   profiles.ClosedLoad
	Open     profiles.OpenLoad
	Stage    profiles.Stage
	Workload *profiles.Workload
	// Seed is the rung's own: repeats of one load differ, and the same rung
	// against another target is the same.
	Seed uint64

	trace *arrival.Trace
}

// HasLoad says whether one number is the rung's load, so that At can move it: a
// ramp, a trace and an offline run have none.
func (r Rung) HasLoad() bool {
	return r.Mode == record.Closed || r.Mode == record.Open && r.trace == nil && r.Open.Ramp == nil
}

// At returns the rung moved to another load, for refinement: so many users in
// a closed loop, so many requests per second in an open one.
func (r Rung) At(load float64, seed int64) Rung {
	if r.Mode == record.Closed {
		r.Users = max(1, int(math.Round(load)))
	} else {
		r.Rate = load
	}
	r.Refined, r.Level = true, -1
	r.Seed = rungSeed(seed, r.load(), r.Repeat)
	return r
}

// load is the number that tells rungs of one ladder apart.
func (r Rung) load() float64 {
	if r.Mode == record.Closed {
		return float64(r.Users)
	}
	return r.Rate
}

func rungSeed(seed int64, load float64, repeat int) uint64 {
	return draw.Mix(uint64(seed), streamRung, math.Float64bits(load), uint64(repeat))
}

// Schedule returns the intended times of an open or offline rung, nil for a
// closed one. Each call gives a new one from the start.
func (r Rung) Schedule() (arrival.Schedule, error) {
	switch {
	case r.Mode == record.Closed:
		return nil, nil
	case r.Mode == record.Offline:
		return arrival.Burst(r.Limit), nil
	case r.trace != nil:
		return r.trace.Schedule(), nil
	}
	o := arrival.Options{Arrivals: r.Open.Arrivals, Burstiness: r.Open.Burstiness, Seed: r.Seed}
	if ramp := r.Open.Ramp; ramp != nil {
		return arrival.Ramp(ramp.From, ramp.To, ramp.Over.Std(), ramp.Steps, o)
	}
	return arrival.New(r.Rate, o)
}

// Lengths returns the token counts asked for in request k.
func (r Rung) Lengths(k int64) prompt.Lengths {
	if r.trace != nil {
		t := r.trace.Request(int(k))
		return prompt.Lengths{Input: t.Input, Output: t.Output, Blocks: t.Blocks}
	}
	return prompt.DrawLengths(r.Workload, r.Seed, k)
}

// span is the longest time over which the rung sends.
func (r Rung) span() time.Duration {
	if r.trace != nil {
		return r.trace.Duration()
	}
	if r.Mode == record.Open && r.Open.Ramp != nil {
		return r.Open.Ramp.Over.Std()
	}
	return r.Stage.MaxDuration.Std()
}

// Issuer returns the issue rule of the rung at its start.
func (r Rung) Issuer() (*Issuer, error) {
	s, err := r.Schedule()
	if err != nil {
		return nil, fmt.Errorf("rung %d: %w", r.Index, err)
	}
	c := IssueConfig{Users: r.Users, Think: r.Closed.ThinkTime, Schedule: s, MaxInFlight: r.MaxInFlight,
		Limit: r.Limit, Seed: r.Seed, Spread: r.Closed.Ramp.Std(), Talks: r.Workload.Conversation != nil}
	if r.Users > 1 && c.Spread == 0 {
		c.Learn, c.Spread = true, r.spread()
	}
	return NewIssuer(c), nil
}

// spread bounds the time over which starts are staggered, so that all users
// are there before the window is.
func (r Rung) spread() time.Duration {
	const most = 10 * time.Second
	if w := r.Stage.Warmup; !w.Auto {
		return min(w.Fixed.Std()/2, most)
	}
	return min(r.Stage.Measure.Std()/4, most)
}

// Recording is how the rung is recorded when it starts at a time of package
// clock, or of a virtual one. limits are the SLOs of goodput, settle the
// percentiles that end the rung early when its stage says until: settled.
func (r Rung) Recording(start int64, limits record.Limits, settle []record.Asked) record.Config {
	c := record.Config{Index: r.Index, Repeat: r.Repeat, Refined: r.Refined, Mode: r.Mode,
		Concurrency: r.Users, RatePerS: r.Rate, ThinkTime: r.Closed.ThinkTime.Mean > 0,
		Start: start, AutoWarmup: r.Stage.Warmup.Auto, Warmup: r.Stage.Warmup.Fixed.Std(),
		Measure: r.Stage.Measure.Std(), MaxDuration: r.Stage.MaxDuration.Std(), MinRequests: r.minRequests(),
		Longest: r.Stage.Timeout.Std() + r.Stage.Drain.Std(), Limits: limits}
	if r.Mode != record.Closed {
		c.Concurrency = r.MaxInFlight
	}
	if r.Limit > 0 {
		c.MinRequests = 0 // the load has as many requests as it was planned to have
	}
	if length, ok := r.finite(); ok {
		c.AutoWarmup, c.MinRequests, c.MaxDuration = false, 0, 0
		c.Measure = max(length-c.Warmup, time.Millisecond)
	} else if r.Stage.Until == "settled" {
		c.Until = settle
	}
	return c
}

// minRequests is the number of requests that the window waits for.
func (r Rung) minRequests() int {
	if r.Mode != record.Closed {
		return r.Stage.MinRequests
	}
	return max(r.Stage.MinRequests, r.Users*r.Stage.MinRequestsPerUser)
}

// finite returns the length of a load that ends by itself, a ramp's or a
// trace's. All of it but the warm-up is the window: it has no steady state.
func (r Rung) finite() (time.Duration, bool) {
	if r.trace == nil && (r.Mode != record.Open || r.Open.Ramp == nil) {
		return 0, false
	}
	return r.span() + time.Millisecond, true // the last request belongs to it
}

// Scheduled counts the intended times from start to before end, as offsets
// from the rung's start; 0 for a closed loop.
func (r Rung) Scheduled(start, end time.Duration) int64 {
	s, err := r.Schedule()
	if s == nil || err != nil {
		return 0
	}
	var n int64
	for at, ok := s.Next(); ok && at < end; at, ok = s.Next() {
		if at >= start {
			n++
		}
	}
	return n
}

// Unsent records the requests of an open loop that were wanted before the end
// of the window and were never sent, so that no percentile is one of survivors.
// It is called once the window is final and uses the issue rule up.
func (r Rung) Unsent(issuer *Issuer, recorder *record.Recorder, begin int64) {
	_, end, _, ok := recorder.Window()
	if !ok || r.Mode == record.Closed {
		return
	}
	t := record.NewTimeline()
	defer t.Release()
	issuer.Backlog(time.Duration(end-begin), func(s Send) {
		t.Reset("", begin+int64(s.Intended), 0)
		t.Rung, t.Index, t.Censored = r.Index, int(s.Seq), true
		t.Finish(backends.Outcome{Class: backends.Cancelled, Err: "not sent before the rung ended",
			Usage: backends.NoUsage, End: end})
		recorder.Began()
		recorder.Add(t)
	})
}
