package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
)

// ErrInterrupted is returned with the figures of a rung that was ended by Stop
// before it had what it was asked for.
var ErrInterrupted = errors.New("interrupted")

// Log takes every request as it ends. record.RequestLog is one.
type Log interface {
	// Add writes the request down; it does not keep the timeline.
	Add(*record.Timeline) error
}

// Generator offers the load of rungs to one target and measures it. One rung
// runs at a time; Stop may be called from any goroutine.
type Generator struct {
	Client backends.Client
	Source *prompt.Source
	// Log takes every request as it ends; nil keeps none.
	Log Log
	// RunID names the run within request ids.
	RunID string
	// Limits are the SLOs that goodput is counted by.
	Limits record.Limits
	// Settle lists the percentiles that end a rung early when its stage says
	// until: settled.
	Settle []record.Asked
	// Count counts the tokens of an answer's text; nil without a tokenizer.
	Count func(text []byte) int
	// OnStart is called with the recorder of each rung before it starts, for
	// a progress view; nil is none.
	OnStart func(Rung, *record.Recorder)
	// Observe begins to watch the server and its accelerator before the first
	// request of a rung, and may take its time. What it returns is called once,
	// after the drain, with the measured window on package clock. Nil watches
	// nothing.
	Observe func(Rung) func(start, end int64) record.Evidence

	purse    *purse // the ladder's budget, nil without
	newPacer func() pacer
	stopOnce sync.Once
	stopInit sync.Once
	stopped  chan struct{}
}

// Stop ends the rung that runs, and every later one: nothing more is sent, what
// is in flight is drained, and Run returns ErrInterrupted with what was
// measured. Cancelling Run's context ends it at once instead.
func (g *Generator) Stop() { g.stopOnce.Do(func() { close(g.stop()) }) }

func (g *Generator) isStopped() bool {
	select {
	case <-g.stop():
		return true
	default:
		return false
	}
}

func (g *Generator) stop() chan struct{} {
	g.stopInit.Do(func() { g.stopped = make(chan struct{}) })
	return g.stopped
}

// Run offers one rung and returns its figures and histograms once every
// request of it has ended: answered, failed, or cut by the drain's limit and
// counted as censored. An error that ended the rung early comes with the
// figures so far: ErrInterrupted after Stop or when ctx ended, or what failed
// on this machine, such as the log's disk. With one that kept the rung from
// starting the figures are zero.
func (g *Generator) Run(ctx context.Context, r Rung) (record.Rung, record.Histograms, error) {
	observed := func(start, end int64) record.Evidence { return record.Evidence{} }
	if g.Observe != nil {
		observed = g.Observe(r)
	}
	run, err := g.start(ctx, r)
	if err != nil {
		observed(0, 0)
		return record.Rung{}, record.Histograms{}, err
	}
	run.offer()
	run.drain()
	start, end, _, _ := run.recorder.Window()
	evidence := observed(start, end)
	evidence.Client = run.cost()
	evidence.Asked = g.Settle
	evidence.SharedTokens, evidence.TemplateTokens = r.Workload.Prefix.SharedTokens, g.Source.Overhead()
	evidence.ReuseWanted = r.Workload.Conversation != nil || r.trace != nil && r.trace.Request(0).Blocks != nil
	evidence.Scheduled = r.Scheduled(time.Duration(start-run.begin), time.Duration(end-run.begin))
	rung, histograms := run.recorder.Result(evidence)
	return rung, histograms, run.err()
}

// start makes everything ready that can be before the first request.
func (g *Generator) start(ctx context.Context, r Rung) (*run, error) {
	issuer, err := r.Issuer()
	if err != nil {
		return nil, err
	}
	u := &run{g: g, rung: r, issuer: issuer, pacer: newPacer(), idle: make(chan struct{}),
		prefix: fmt.Sprintf("%s-%d-", g.RunID, r.Index), forced: r.Workload.Sampling.ForceLength && g.Client.Can().ForceLength}
	if g.newPacer != nil {
		u.pacer = g.newPacer()
	}
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	ready := min(max(r.Users, r.MaxInFlight, 16), maxReady)
	if !g.Source.Talks() {
		u.items = g.Source.Open(u.ctx, r.Seed, r.Lengths, ready)
		if err := u.items.Fill(u.ctx, ready); err != nil {
			u.cancel(nil)
			u.items.Close()
			return nil, fmt.Errorf("rung %d: making prompts: %w", r.Index, err)
		}
	}
	for user := range ready {
		u.worker(user)
	}
	u.meter = record.StartHealth()
	u.begin = clock.Now() + int64(headStart)
	u.recorder = record.NewRecorder(r.Recording(u.begin, g.Limits, g.Settle))
	if g.OnStart != nil {
		g.OnStart(r, u.recorder)
	}
	return u, nil
}

const (
	// maxReady bounds the workers and prompts made ready before a rung.
	maxReady = 4096
	// headStart is the time from the last preparation to a rung's first
	// request, so that it is not late.
	headStart = 2 * time.Millisecond
	// endsBy is how often the issue loop looks whether the window is over,
	// when no request makes it look.
	endsBy = 20 * time.Millisecond
)
