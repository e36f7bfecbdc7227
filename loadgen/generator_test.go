package loadgen

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// fake is a target that answers after TTFT with Tokens tokens, ITL apart. With
// slots it serves so many at once, first come first served. Requests reach it
// late, and after the time that a connection takes to open.
type fake struct {
	ttft, itl time.Duration
	late      time.Duration
	connect   time.Duration
	tokens    int
	slots     chan struct{}
	fail      func(n int64) backends.Class // OK answers
	hang      bool                         // answers never, but minds its context
	onRequest func(*backends.Request)      // is shown each request

	mu       sync.Mutex
	requests []seen
	inFlight int
	most     int
}

// seen is one request as the target saw it, in times of package clock.
type seen struct {
	id         string
	start, end int64
	cut        bool
}

func (f *fake) Stream(ctx context.Context, r *backends.Request, sink backends.Sink) backends.Outcome {
	if !sleep(ctx, f.late+f.connect) {
		return ended(ctx)
	}
	start := clock.Now()
	sink.Sent(start)
	f.mu.Lock()
	n := int64(len(f.requests))
	f.requests = append(f.requests, seen{id: r.ID, start: start})
	if f.onRequest != nil {
		f.onRequest(r)
	}
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	f.mu.Unlock()
	out := f.answer(ctx, r, sink, n)
	out.End, out.Connect = clock.Now(), f.connect
	f.mu.Lock()
	f.inFlight--
	f.requests[n].end, f.requests[n].cut = out.End, out.Class == backends.Cancelled
	f.mu.Unlock()
	return out
}

func (f *fake) answer(ctx context.Context, r *backends.Request, sink backends.Sink, n int64) backends.Outcome {
	if f.fail != nil {
		if c := f.fail(n); c != backends.OK {
			return backends.Outcome{Class: c, Err: "made to fail", Usage: backends.NoUsage}
		}
	}
	if f.hang {
		<-ctx.Done()
		return ended(ctx)
	}
	if f.slots != nil {
		select {
		case f.slots <- struct{}{}:
			defer func() { <-f.slots }()
		case <-ctx.Done():
			return ended(ctx)
		}
	}
	tokens := f.tokens
	if tokens == 0 {
		tokens = r.MaxTokens
	}
	wait := f.ttft
	for i := range tokens {
		if !sleep(ctx, wait) {
			return ended(ctx)
		}
		wait = f.itl
		at := clock.Now()
		if i == 0 {
			sink.FirstByte(at)
		}
		sink.Event(backends.Event{At: at, Returned: at, Read: uint64(i), Kind: backends.KindText, Text: []byte("a"), Completion: i + 1})
	}
	return backends.Outcome{Class: backends.OK, Finish: "length", Stamps: "user",
		Usage: backends.Usage{Prompt: len(r.Prompt.IDs), Completion: tokens, Cached: -1, Reasoning: -1}}
}

func ended(ctx context.Context) backends.Outcome {
	class := backends.Cancelled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		class = backends.Timeout
	}
	return backends.Outcome{Class: class, Err: ctx.Err().Error(), Usage: backends.NoUsage}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *fake) Server() backends.Server { return backends.Server{} }
func (f *fake) Can() backends.Capabilities {
	return backends.Capabilities{TokenIDs: true, ForceLength: true, RunningUsage: true}
}
func (f *fake) Tokenize(context.Context, backends.Prompt) ([]int32, error) {
	return nil, backends.ErrNoTokenizer
}
func (f *fake) Close() {}

// profile is a small closed-loop experiment, changed by edit.
func profile(edit func(*profiles.Profile)) *profiles.Profile {
	p := &profiles.Profile{
		Workload: profiles.Workload{InputTokens: fixed(16), OutputTokens: fixed(4), Prompt: "token-ids",
			Sampling: profiles.Sampling{ForceLength: true}},
		Load: profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: []int{1}}},
		Stage: profiles.Stage{Warmup: profiles.Warmup{Fixed: dur(time.Second)}, Measure: dur(10 * time.Second),
			MaxDuration: dur(time.Minute), Drain: dur(5 * time.Second), Repeats: 1, Timeout: dur(time.Minute)},
	}
	edit(p)
	return p
}

func fixed(n int) profiles.Length           { return profiles.Length{Kind: "fixed", Value: n} }
func dur(d time.Duration) profiles.Duration { return profiles.Duration(d) }
func closed(users ...int) profiles.Load {
	return profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: users}}
}
func open(o profiles.OpenLoad) profiles.Load { return profiles.Load{Open: &o} }

// generator returns a generator for use in a bubble, where timers are exact.
func generator(t *testing.T, c backends.Client, p *profiles.Profile) *Generator {
	t.Helper()
	source, err := prompt.New(t.Context(), prompt.Config{Workload: &p.Workload, Client: c, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return &Generator{Client: c, Source: source, RunID: "test", newPacer: func() pacer { return newTimerPacer() }}
}

// bubble runs f in a bubble of fake time. A bubble begins in the year 2000,
// before the origin of package clock: it is first moved past that.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)))
		f(t)
	})
}

// climb runs a ladder in a bubble and returns its rungs.
func climb(t *testing.T, f *fake, p *profiles.Profile, before func(*Ladder)) (rungs []record.Rung, err error) {
	t.Helper()
	plan, err := NewPlan(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := &Ladder{Plan: plan, Generators: []*Generator{generator(t, f, p)},
		OnRung: func(_ int, r record.Rung, _ record.Histograms) error { rungs = append(rungs, r); return nil }}
	if before != nil {
		before(l)
	}
	err = l.Run(t.Context())
	return rungs, err
}

func TestClosedLoopKeepsExactlyItsConcurrency(t *testing.T) {
	for _, users := range []int{1, 2, 10, 16, 100} { // guidellm#120 C=10
		bubble(t, func(t *testing.T) {
			f := &fake{ttft: 50 * time.Millisecond, itl: 10 * time.Millisecond}
			rungs, err := climb(t, f, profile(func(p *profiles.Profile) { p.Load = closed(users) }), nil)
			if err != nil {
				t.Fatal(err)
			}
			r := rungs[0]
			if f.most != users {
				t.Errorf("%d users: %d requests in flight at most", users, f.most)
			}
			if mean, ok := r.InFlightMean.Float(); !ok || mean > float64(users) || mean < 0.99*float64(users) {
				t.Errorf("%d users: in flight %v on average", users, r.InFlightMean)
			}
			if want := float64(users) / 0.080; !near(r.RequestThroughputPerS.Or(0), want, 0.02) {
				t.Errorf("%d users: %v requests/s, want %v", users, r.RequestThroughputPerS, want)
			}
			if got := r.Totals; got.Completed != int64(len(f.requests)) || got.OutputTokens != 4*got.Completed {
				t.Errorf("%d users: totals %+v, the target saw %d requests", users, got, len(f.requests))
			}
		})
	}
}

func near(got, want, tolerance float64) bool {
	return got >= want*(1-tolerance) && got <= want*(1+tolerance)
}
