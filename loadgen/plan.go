package loadgen

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/headway-bench/headway/loadgen/arrival"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

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
	// Skipped counts the requests of a trace that are left out, as they
	// generated nothing.
	Skipped int

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
	if len(levels) > 0 && levels[0].trace != nil {
		plan.Skipped = levels[0].trace.Skipped
	}
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
			warmup := r.Stage.Warmup.Fixed.Std()
			if _, ok := r.finite(); ok && warmup > 0 && r.span() <= warmup {
				return nil, fmt.Errorf("load.open: it lasts %v, all of it within stage.warmup of %v; shorten that", r.span(), warmup)
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

// hashed is the number of requests a rung puts into the hash, so that hashing
// stays quick for rungs of any length.
const hashed = 10_000

// hash names the load of rungs.
func hash(rungs []Rung) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, r := range rungs {
		think := r.Closed.ThinkTime
		// Encoding plain numbers and strings into a hash cannot fail.
		_ = enc.Encode([]any{r.Mode, r.Users, r.MaxInFlight, r.Limit, r.Repeat, r.Seed,
			r.Stage.Warmup.Auto, int64(r.Stage.Warmup.Fixed), int64(r.Stage.Measure),
			think.Kind, int64(think.Mean), int64(think.StdDev), int64(r.Closed.Ramp)})
		if s, err := r.Schedule(); err == nil && s != nil {
			_ = enc.Encode(arrival.Hash(s, hashed))
		}
		for k := range int64(hashed / 10) {
			l := r.Lengths(k)
			_ = enc.Encode([]int{l.Input, l.Output})
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
	return int64(r.minRequests())
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
