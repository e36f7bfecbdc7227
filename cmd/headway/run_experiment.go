package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/backends/sched"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/render"
)

// experiment is one ladder against a target, and beside it against a second
// one when there is one.
type experiment struct {
	profile  *profiles.Profile
	slos     []profiles.SLO
	plan     *loadgen.Plan
	legs     []*leg
	server   *bundledServer // nil when the target was named
	progress progress
	started  time.Time
	threads  *sched.Keeper // nil before the ladder, and where no latency counts
}

// experiment runs one ladder. It writes a bundle for each target and returns
// them, also with an error when something was measured.
func (f *runFlags) experiment(cmd *cobra.Command, stop *stopper, p *profiles.Profile, out string) ([]*bundle.Bundle, error) {
	e, err := f.prepare(cmd, p, out)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if err := e.open(stop.orderly, f); err != nil {
		if stop.orderly.Err() != nil {
			err = errNothing
		}
		return nil, joined(err, e.discard())
	}
	return e.finish(e.climb(stop))
}

// prepare does all that can be done without a server: nothing is sent before
// the plan is known to fit this machine and the bundles have their place.
func (f *runFlags) prepare(cmd *cobra.Command, p *profiles.Profile, out string) (*experiment, error) {
	slos, err := p.SLO.List()
	if err != nil {
		return nil, err
	}
	if err := waitsFor(p, slos); err != nil {
		return nil, err
	}
	plan, err := loadgen.NewPlan(p, p.Workload.Seed)
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	if err := loadgen.CheckCapacity(plan.Connections()); err != nil {
		return nil, exitWith(exitNoResult, err)
	}
	e := &experiment{profile: p, slos: slos, plan: plan, started: time.Now()}
	if f.against == "" {
		e.legs = []*leg{{url: p.Target.URL, dir: out}}
	} else {
		e.legs = []*leg{{label: "target ", url: p.Target.URL, dir: filepath.Join(out, "a")},
			{label: "against ", url: f.against, dir: filepath.Join(out, "b")}}
	}
	for _, l := range e.legs {
		if l.writer, err = bundle.Create(l.dir); err != nil {
			return nil, joined(createError(err), e.discard())
		}
	}
	e.progress = f.progress(cmd, p, len(plan.Rungs)*len(e.legs))
	e.repeated(f.repeats)
	if n := plan.Skipped; n > 0 {
		e.tell("trace_skipped", fmt.Sprintf("left out are requests of the trace that generated nothing: %d", n))
	}
	return e, nil
}

// tell shows a text and adds it to the warnings of every result.
func (e *experiment) tell(code, text string) {
	e.progress.note(text)
	for _, l := range e.legs {
		l.warn(code, "%s", text)
	}
}

// repeated tells what of an earlier run is not repeated; nil is no such run.
func (e *experiment) repeated(b *bundle.Bundle) {
	if b == nil {
		return
	}
	if found := bundle.Verify(b.Dir); len(found) > 0 {
		e.tell("bundle_changed", fmt.Sprintf("the bundle %s was changed after its run: %v", b.Path, found[0]))
	}
	if was := b.Result.ScheduleSHA256; was != e.plan.ScheduleHash {
		e.tell("schedule_changed", fmt.Sprintf("not the schedule of %s: %.12s there, %.12s here", b.Path, was, e.plan.ScheduleHash))
	}
}

// open starts the bundled server where one is wanted, and opens the targets.
func (e *experiment) open(ctx context.Context, f *runFlags) error {
	if e.profile.Target.URL == "" {
		server, err := startServer(ctx, e.profile.Target.Serve)
		if err != nil {
			return exitWith(exitNoResult, err)
		}
		e.server, e.legs[0].url = server, server.url
	}
	for _, l := range e.legs {
		if err := l.open(ctx, f, e); err != nil {
			return err
		}
	}
	return nil
}

// close ends what the experiment holds, the terminal first.
func (e *experiment) close() {
	e.progress.close()
	for _, l := range e.legs {
		l.close()
	}
	if e.server != nil {
		e.server.close()
	}
}

// climb runs the ladder and passes the signals on. Where latencies are
// measured the threads are kept prompt.
func (e *experiment) climb(stop *stopper) error {
	if e.profile.Load.Offline == nil {
		e.threads = sched.Keep()
		defer e.threads.Close()
	}
	ladder := e.ladder(stop.orderly)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-stop.orderly.Done():
			e.progress.ending("ending the rung and waiting for what is in flight; interrupt again to end at once")
			ladder.Stop()
		case <-over:
		}
	}()
	return ladder.Run(stop.ctx)
}

// finish writes the bundles of a ladder that ended with an error or without.
func (e *experiment) finish(runErr error) ([]*bundle.Bundle, error) {
	status := bundle.Complete
	switch {
	case errors.Is(runErr, loadgen.ErrInterrupted):
		status, runErr = bundle.Interrupted, errInterrupted
	case runErr != nil:
		status, runErr = bundle.Failed, exitWith(exitNoResult, runErr)
	}
	if len(e.legs[0].rungs) == 0 {
		if status == bundle.Interrupted {
			runErr = errNothing
		}
		return nil, joined(runErr, e.discard())
	}
	if told, died := e.server.died(); died {
		e.progress.note(told)
		e.legs[0].warn("server_ended", "%s", told)
	}
	var all []*bundle.Bundle
	for _, l := range e.legs {
		r := l.result(status, e)
		if err := l.writer.Finish(r, render.Pages()...); err != nil {
			runErr = joined(without(runErr, l.writer.Path()), exitWith(exitNoResult, err))
		} else {
			e.progress.note("bundle " + l.dir)
		}
		all = append(all, &bundle.Bundle{Path: l.dir, Dir: l.dir, Result: r})
	}
	return all, runErr
}

// What is said of a run that a signal ended.
var (
	errInterrupted = exitWith(exitInterrupted, errors.New("interrupted; what was measured is kept"))
	errNothing     = exitWith(exitInterrupted, errors.New("interrupted before anything was measured; nothing is kept"))
)

// without drops an error of a file below dir, which the error of finishing the
// bundle there tells with more.
func without(err error, dir string) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok && filepath.Dir(file.Path) == filepath.Clean(dir) {
		return nil
	}
	return err
}

// createError gives the errors of starting a bundle their exit codes.
func createError(err error) error {
	if errors.Is(err, bundle.ErrExists) {
		return exitWith(exitUsage, err)
	}
	return exitWith(exitNoResult, err)
}

// discard removes bundles in which nothing was measured.
func (e *experiment) discard() error {
	var errs []error
	for _, l := range e.legs {
		if l.writer != nil {
			errs = append(errs, l.writer.Discard())
		}
	}
	return errors.Join(errs...)
}

// ladder joins plan, targets, budget and refinement. What runs between rungs
// ends with the context.
func (e *experiment) ladder(ctx context.Context) *loadgen.Ladder {
	l := &loadgen.Ladder{Plan: e.plan, Budget: loadgen.BudgetOf(e.profile.Cost)}
	for _, leg := range e.legs {
		l.Generators = append(l.Generators, leg.generator)
	}
	l.OnRung = func(target int, r record.Rung, h record.Histograms) error {
		leg := e.legs[target]
		leg.rungs = append(leg.rungs, r)
		e.progress.done(leg.label, r)
		start := time.Unix(0, r.StartUnixNS)
		return leg.writer.Histograms(r.Index, h,
			start.Add(time.Duration(r.Window.StartS*1e9)), start.Add(time.Duration(r.Window.EndS*1e9)))
	}
	l.OnNote = func(n loadgen.Note) {
		e.progress.note(n.Message)
		for _, leg := range e.legs {
			leg.warnings = append(leg.warnings, bundle.Warning(n))
		}
	}
	if next := refinement(e.plan, e.slos, e.profile.Load.Refine.Rungs); next != nil && len(e.legs) == 1 {
		l.Next = func(done [][]record.Rung) (loadgen.Rung, bool) { return next(done[0]) }
	}
	if what := e.profile.Load.Between; what != "" {
		l.Between = func(_ context.Context, target int, _ loadgen.Rung) error {
			err := betweenRungs(ctx, what, e.legs[target].client, &noteWriter{note: e.progress.note})
			if ctx.Err() != nil {
				return loadgen.ErrInterrupted
			}
			return err
		}
	}
	return l
}

// refinement places up to so many further rungs around the knee and the limits;
// nil places none, as where the load is not one number.
func refinement(plan *loadgen.Plan, slos []profiles.SLO, left int) func(done []record.Rung) (loadgen.Rung, bool) {
	if left <= 0 || !plan.Rungs[0].HasLoad() {
		return nil
	}
	return func(done []record.Rung) (loadgen.Rung, bool) {
		next, ok := knee.Refine(done, slos, knee.Budget{Rungs: left})
		if !ok {
			return loadgen.Rung{}, false
		}
		left--
		load := next.RatePerS
		if next.Mode == record.Closed {
			load = float64(next.Concurrency)
		}
		rung := plan.Rungs[0]
		rung.Repeat = next.Repeat // repeats of a load have prompts of their own
		return rung.At(load, plan.Seed), true
	}
}
