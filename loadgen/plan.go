package loadgen

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"

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

// Plan is a ladder as planned. It is immutable.
//
// Repeats are interleaved: the whole ladder is climbed, then walked down, then
// climbed again, so that a drift of the server or of the machine spreads over
// all loads and the mean time at which a load was measured is about the same
// for each.
type Plan struct {
	Rungs []Rung
	Seed  int64
	// ScheduleHash is the SHA-256 of the rungs' loads, arrivals and lengths:
	// runs of equal hash offered the same load.
	ScheduleHash string

	price profiles.Cost
}

// NewPlan lays out the rungs of a profile. Every random choice follows from
// the seed. Trace files are read here, and their errors name file and line.
func NewPlan(p *profiles.Profile, seed int64) (*Plan, error) {
	levels, err := newLevels(p)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Seed: seed, price: p.Cost}
	for repeat := range max(1, p.Stage.Repeats) {
		for i := range levels {
			level := i
			if repeat%2 == 1 {
				level = len(levels) - 1 - i
			}
			r := levels[level]
			r.Index, r.Repeat, r.Level = len(plan.Rungs), repeat, level
			r.Seed = rungSeed(seed, r.load(), repeat)
			if _, err := r.Schedule(); err != nil {
				return nil, fmt.Errorf("load: %w", err)
			}
			plan.Rungs = append(plan.Rungs, r)
		}
	}
	plan.ScheduleHash = hash(plan.Rungs)
	return plan, nil
}

// newLevels lists one rung a load.
func newLevels(p *profiles.Profile) ([]Rung, error) {
	base := Rung{Stage: p.Stage, Workload: &p.Workload}
	var levels []Rung
	switch load := p.Load; {
	case load.Closed != nil:
		for _, users := range load.Closed.Concurrency {
			if users < 1 {
				return nil, fmt.Errorf("load.closed.concurrency: %d users cannot send; use 1 or more", users)
			}
			r := base
			r.Mode, r.Users, r.Closed = record.Closed, users, *load.Closed
			levels = append(levels, r)
		}
	case load.Open != nil:
		base.Mode, base.Open, base.MaxInFlight = record.Open, *load.Open, load.Open.MaxInFlight
		if t := load.Open.Trace; t != nil {
			trace, err := arrival.ReadTraceFile(t.File, arrival.TraceOptions{Format: t.Format, Speed: t.Speed, Limit: t.Limit})
			if err != nil {
				return nil, fmt.Errorf("load.open.trace: %w", err)
			}
			base.trace, base.Limit, base.Rate = trace, int64(trace.Len()), trace.Rate()
			levels = append(levels, base)
			break
		}
		if load.Open.Ramp != nil {
			levels = append(levels, base)
			break
		}
		for _, rate := range load.Open.Rate {
			r := base
			r.Rate = rate
			levels = append(levels, r)
		}
	case load.Offline != nil:
		base.Mode, base.MaxInFlight = record.Offline, load.Offline.MaxInFlight
		base.Limit = int64(load.Offline.Requests)
		if base.Limit < 1 {
			return nil, fmt.Errorf("load.offline.requests: %d requests are no load; use 1 or more", base.Limit)
		}
		levels = append(levels, base)
	}
	if len(levels) == 0 {
		return nil, fmt.Errorf("load: no rung: set closed.concurrency, open.rate, open.ramp, open.trace or offline.requests")
	}
	return levels, nil
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
		return prompt.Lengths{Input: t.Input, Output: t.Output}
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

// hashed is the number of requests a rung puts into the hash, so that hashing
// stays quick for rungs of any length.
const hashed = 10_000

// hash names the load of rungs.
func hash(rungs []Rung) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, r := range rungs {
		// Encoding plain numbers and strings into a hash cannot fail.
		_ = enc.Encode([]any{r.Mode, r.Users, r.MaxInFlight, r.Limit, r.Repeat, r.Seed, r.Stage.Warmup, r.Stage.Measure,
			r.Closed.ThinkTime, r.Closed.Ramp})
		if s, err := r.Schedule(); err == nil && s != nil {
			_ = enc.Encode(arrival.Hash(s, hashed))
		}
		for k := range int64(hashed / 10) {
			_ = enc.Encode(r.Lengths(k))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Estimate says what a plan would send, before it is sent. Unknown where only
// the server's speed can tell.
type Estimate struct {
	Rungs         int
	Requests      record.Value // at most
	RequestsLeast int64        // that the rungs need to be complete
	InputTokens   record.Value // at most
	OutputTokens  record.Value // at most
	USD           record.Value // at most, of tokens and of hardware time
	Time          time.Duration
}

// Estimate adds up the rungs, budgets not counted in.
func (p *Plan) Estimate() Estimate {
	e := Estimate{Rungs: len(p.Rungs)}
	var requests, in, out float64
	for _, r := range p.Rungs {
		n, known := r.most()
		if !known {
			n = math.NaN()
		}
		requests += n
		in += n * float64(r.mostTokens().Input)
		out += n * float64(r.mostTokens().Output)
		e.RequestsLeast += r.least()
		e.Time += r.longest()
	}
	e.Requests, e.InputTokens, e.OutputTokens = record.Known(requests), record.Known(in), record.Known(out)
	usd := p.price.USDPerHour * e.Time.Hours()
	if p.price.USDPerMIn > 0 || p.price.USDPerMOut > 0 {
		usd += (in*p.price.USDPerMIn + out*p.price.USDPerMOut) / 1e6
	}
	if usd != 0 {
		e.USD = record.Known(usd)
	}
	return e
}

// most bounds the requests of a rung; a closed loop has no bound.
func (r Rung) most() (float64, bool) {
	switch {
	case r.Limit > 0:
		return float64(r.Limit), true
	case r.Mode == record.Closed:
		return 0, false
	case r.Open.Ramp != nil:
		return math.Ceil((r.Open.Ramp.From + r.Open.Ramp.To) / 2 * r.span().Seconds()), true
	}
	return math.Ceil(r.Rate * r.span().Seconds()), true
}

// least is the number of requests that a rung waits for.
func (r Rung) least() int64 {
	if r.Limit > 0 {
		return r.Limit
	}
	return int64(r.Stage.MinRequests)
}

// longest is the longest time that a rung takes.
func (r Rung) longest() time.Duration {
	return r.span() + r.Stage.Drain.Std()
}

// mostTokens bounds the token counts of one request.
func (r Rung) mostTokens() prompt.Lengths {
	if r.trace != nil {
		var most prompt.Lengths
		for k := range r.trace.Len() {
			most.Input = max(most.Input, r.trace.Request(k).Input)
			most.Output = max(most.Output, r.trace.Request(k).Output)
		}
		return most
	}
	return prompt.Lengths{Input: prompt.Most(r.Workload.InputTokens), Output: prompt.Most(r.Workload.OutputTokens)}
}
