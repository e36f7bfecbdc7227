// Package virtual offers the rungs of a plan to the reference server's
// scheduler and an executor that predicts times, on a virtual clock: the same
// issue rule, recorder and result as against a real server, in milliseconds.
// Nothing it reports is a measurement.
package virtual

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
)

// Server is the simulated server. Every rung has one of its own, in which
// nothing runs at its start.
type Server struct {
	// Executor sets the result of each step in the future and never blocks,
	// such as those of package sim.
	Executor reference.Executor
	// Scheduler says how sequences share it; Independent and EOS are the
	// executor's.
	Scheduler reference.SchedulerConfig
}

// Simulator runs rungs against a simulated server. It is not safe for
// concurrent use.
type Simulator struct {
	Server Server
	// Limits, Settle and Log are those of loadgen.Generator.
	Limits record.Limits
	Settle []record.Asked
	Log    loadgen.Log
}

// epoch is where the virtual clock starts, in nanoseconds: times of 0 are
// unknown ones.
const epoch = int64(time.Second)

// Run runs one rung. Conversations and cancellation by the client depend on
// what a server answers: they are refused.
func (s *Simulator) Run(ctx context.Context, r loadgen.Rung) (record.Rung, record.Histograms, error) {
	if r.Workload.Conversation != nil || r.Workload.Cancel.Share > 0 {
		return record.Rung{}, record.Histograms{}, fmt.Errorf("rung %d: conversations and client cancellation cannot be simulated", r.Index)
	}
	issuer, err := r.Issuer()
	if err != nil {
		return record.Rung{}, record.Histograms{}, err
	}
	info := s.Server.Executor.Info()
	c := s.Server.Scheduler
	c.Independent, c.EOS = info.Independent, info.EOS
	if c.MaxModelLen == 0 {
		c.MaxModelLen = info.MaxModelLen
	}
	w := &world{rung: r, issuer: issuer, recorder: record.NewRecorder(r.Recording(epoch, s.Limits, s.Settle)),
		log: s.Log, executor: s.Server.Executor, scheduler: reference.NewScheduler(c), room: min(c.MaxModelLen, c.KV.Blocks*c.KV.BlockSize),
		now: epoch}
	w.core = reference.NewCore(w.scheduler, s.Server.Executor)
	if err := w.run(ctx); err != nil {
		return record.Rung{}, record.Histograms{}, err
	}
	w.recorder.Close(w.now)
	r.Unsent(issuer, w.recorder, epoch)
	start, end, _, _ := w.recorder.Window()
	rung, histograms := w.recorder.Result(record.Evidence{Asked: s.Settle, SharedTokens: r.Workload.Prefix.SharedTokens,
		Scheduled: r.Scheduled(time.Duration(start-epoch), time.Duration(end-epoch)), Telemetry: w.telemetry()})
	return rung, histograms, nil
}

// Ladder runs the rungs of a plan, and those that next places after them given
// what is done; next may be nil.
func (s *Simulator) Ladder(ctx context.Context, p *loadgen.Plan, next func(done []record.Rung) (loadgen.Rung, bool)) ([]record.Rung, []record.Histograms, error) {
	var done []record.Rung
	var histograms []record.Histograms
	one := func(r loadgen.Rung) error {
		r.Index = len(done)
		rung, h, err := s.Run(ctx, r)
		if err == nil {
			done, histograms = append(done, rung), append(histograms, h)
		}
		return err
	}
	for _, r := range p.Rungs {
		if err := one(r); err != nil {
			return done, histograms, err
		}
	}
	for next != nil {
		r, ok := next(done)
		if !ok {
			break
		}
		if err := one(r); err != nil {
			return done, histograms, err
		}
	}
	return done, histograms, nil
}

// world is one rung on its virtual clock.
type world struct {
	rung      loadgen.Rung
	issuer    *loadgen.Issuer
	recorder  *record.Recorder
	log       loadgen.Log
	unwritten error // the log's first
	executor  reference.Executor
	scheduler *reference.Scheduler
	core      *reference.Core
	room      int // positions that one sequence may have
	now       int64
	prompt    []int32    // the ids of every prompt: an executor that predicts looks at their number
	sent      []*request // in the order of sending, ended ones not yet dropped
	reads     uint64
	cut       bool // the drain is over

	// For the telemetry: when the integrals below were last brought up to date.
	seen             int64
	running, waiting float64 // sequences times nanoseconds
	most             int     // running at once
	kvMax            float64
}

// request is one request on its way.
type request struct {
	user     int
	timeline *record.Timeline
	seq      reference.Sequence
	deadline int64
	ended    bool
}

// run takes the world from event to event until the load has ended and nothing
// is in flight.
func (w *world) run(ctx context.Context) error {
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return loadgen.ErrInterrupted
		}
		if w.recorder.Over(w.now) {
			_, end, _, _ := w.recorder.Window()
			w.issuer.Stop(time.Duration(end - epoch))
			if w.now >= end+int64(w.rung.Stage.Drain) {
				w.cutAll()
			}
		}
		w.send()
		if err := w.step(ctx); err != nil {
			return err
		}
		if w.unwritten != nil || w.issuer.Exhausted() && w.issuer.InFlight() == 0 {
			return w.unwritten
		}
		w.observe()
		at, ok := w.next()
		if !ok {
			return fmt.Errorf("rung %d: the simulated server stands still with %d requests in flight at %v: "+
				"no sequence fits into its KV cache", w.rung.Index, w.issuer.InFlight(), time.Duration(w.now-epoch))
		}
		w.advance(max(at, w.now))
	}
}

// next is the time of the next event: a request falls due, a step is done, a
// request times out, or it is time to look whether the window is over.
func (w *world) next() (int64, bool) {
	at, ok := w.core.Wake()
	if due, some := w.issuer.Next(); some && (!ok || epoch+int64(due) < at) {
		at, ok = epoch+int64(due), true
	}
	if first := w.oldest(); first != nil && first.deadline > 0 && (!ok || first.deadline < at) {
		at, ok = first.deadline, true
	}
	if _, end, _, open := w.recorder.Window(); open && end > w.now && end < at {
		at = end
	} else if open && w.now >= end && !w.cut {
		at, ok = min(at, max(end+int64(w.rung.Stage.Drain), w.now+1)), true
	}
	return at, ok
}

// advance moves the clock and lets the server and the time-outs catch up.
func (w *world) advance(at int64) {
	w.account(at)
	w.now = at
	w.core.Advance(at, int(^uint(0)>>1), w.token)
	for {
		q := w.oldest()
		if q == nil || q.deadline == 0 || q.deadline > at {
			return
		}
		w.abort(q, backends.Timeout, "the request's time-out passed")
	}
}

// send sends what is due.
func (w *world) send() {
	for {
		s, ok := w.issuer.Due(time.Duration(w.now - epoch))
		if !ok {
			return
		}
		l := w.rung.Lengths(s.Seq)
		q := &request{user: s.User, timeline: record.NewTimeline()}
		q.timeline.Reset("", epoch+int64(s.Intended), l.Output)
		q.timeline.Rung, q.timeline.Index, q.timeline.InputAsked = w.rung.Index, int(s.Seq), l.Input
		q.timeline.Due = epoch + int64(s.Due)
		q.timeline.Sent(w.now)
		w.recorder.Began()
		if l.Input+l.Output > w.room {
			w.finish(q, backends.Outcome{Class: backends.HTTP4xx, Status: 400, Usage: backends.NoUsage, End: w.now,
				Err: fmt.Sprintf("%d tokens do not fit into the %d that the server holds for a request", l.Input+l.Output, w.room)})
			continue
		}
		if t := w.rung.Stage.Timeout; t > 0 {
			q.deadline = w.now + int64(t)
		}
		for len(w.prompt) < l.Input {
			w.prompt = append(w.prompt, make([]int32, 1024)...)
		}
		q.seq = reference.Sequence{ID: uint64(s.Seq), Prompt: w.prompt[:l.Input], MaxTokens: l.Output, MinTokens: l.Output,
			IgnoreEOS: true, StallAt: -1, Owner: q, Sampling: reference.SamplingParams{Logprobs: -1}}
		w.sent = append(w.sent, q)
		w.core.Add(&q.seq, w.now, w.token)
	}
}

// step begins what a batching executor can begin.
func (w *world) step(ctx context.Context) error {
	b := w.core.Begin(w.now)
	if b == nil {
		return nil
	}
	if err := w.executor.Step(ctx, b); err != nil {
		return fmt.Errorf("rung %d: the executor: %w", w.rung.Index, err)
	}
	w.core.Complete(b, nil, w.now, w.token)
	return nil
}

// token takes a token of the server.
func (w *world) token(t reference.Token) {
	q := t.Seq.Owner.(*request)
	if t.Err != nil {
		w.finish(q, backends.Outcome{Class: backends.StreamError, Err: t.Err.Error(), Usage: backends.NoUsage, End: t.At})
		return
	}
	n := len(t.Seq.Output())
	w.reads++
	if n == 1 {
		q.timeline.FirstByte(t.At)
	}
	q.timeline.Event(backends.Event{At: t.At, Returned: t.At, Read: w.reads, Kind: backends.KindText | backends.KindUsageStep, Completion: n})
	if t.Seq.Finish != reference.FinishNone {
		w.finish(q, backends.Outcome{Class: backends.OK, Status: 200, Finish: string(t.Seq.Finish), Stamps: "user", End: t.At,
			Usage: backends.Usage{Prompt: len(t.Seq.Prompt), Completion: n, Cached: -1, Reasoning: -1}})
	}
}

// finish records a request and tells the issue rule.
func (w *world) finish(q *request, o backends.Outcome) {
	q.ended = true
	q.timeline.Finish(o)
	w.recorder.Add(q.timeline)
	if w.log != nil && w.unwritten == nil {
		w.unwritten = w.log.Add(q.timeline)
	}
	q.timeline.Release()
	w.issuer.Done(q.user, time.Duration(o.End-epoch), false, 0)
}

// abort ends a request from the client's side.
func (w *world) abort(q *request, class backends.Class, why string) {
	w.core.Cancel(&q.seq, reference.FinishAbort, w.now, w.token)
	w.finish(q, backends.Outcome{Class: class, Err: why, Usage: backends.NoUsage, End: w.now})
}

// cutAll ends what the drain leaves in flight.
func (w *world) cutAll() {
	w.cut = true
	w.issuer.Stop(0)
	for q := w.oldest(); q != nil; q = w.oldest() {
		q.timeline.Censored = true
		w.abort(q, backends.Cancelled, "cut by the end of the drain")
	}
}

// oldest is the request in flight that was sent first.
func (w *world) oldest() *request {
	for len(w.sent) > 0 && w.sent[0].ended {
		w.sent[0] = nil
		w.sent = w.sent[1:]
	}
	if len(w.sent) == 0 {
		return nil
	}
	return w.sent[0]
}

// account brings the telemetry's integrals up to a time.
func (w *world) account(at int64) {
	d := float64(at - w.seen)
	if w.seen > 0 {
		w.running += d * float64(w.scheduler.Running())
		w.waiting += d * float64(w.scheduler.Waiting())
	}
	w.seen = at
}

// observe looks at the server after an event.
func (w *world) observe() {
	w.most = max(w.most, w.scheduler.Running())
	w.kvMax = max(w.kvMax, w.scheduler.KV().Usage())
}

// telemetry is what the simulated server tells of itself over the whole rung.
func (w *world) telemetry() *record.Telemetry {
	span := float64(w.now - epoch)
	return &record.Telemetry{Source: "simulation",
		KVCacheUsageMax: record.Known(w.kvMax), Preemptions: record.Known(float64(w.scheduler.Preemptions())),
		RequestsRunningMean: record.Known(w.running / span), RequestsRunningMax: record.Known(float64(w.most)),
		RequestsWaitingMean: record.Known(w.waiting / span)}
}
