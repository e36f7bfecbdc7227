package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/tokenizer"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/render"
)

// leg is one target of an experiment, with what it leaves behind.
type leg struct {
	label     string            // in front of its rungs' names; "" for the only target
	profile   *profiles.Profile // as run, with what the server told
	client    backends.Client
	generator *loadgen.Generator
	observer  *observer
	writer    *bundle.Writer
	rungs     []record.Rung
	warnings  []bundle.Warning
}

// experiment runs one ladder against the target, and beside it against the
// second one when there is one. It writes a bundle for each and returns their
// results, also with an error when something was measured.
func (f *runFlags) experiment(cmd *cobra.Command, stop *stopper, p *profiles.Profile, out string) ([]*bundle.Result, error) {
	slos, err := p.SLO.List()
	if err != nil {
		return nil, err
	}
	plan, err := loadgen.NewPlan(p, p.Workload.Seed)
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	urls := []string{p.Target.URL}
	if p.Target.URL == "" {
		server, err := startServer(stop.ctx, p.Target.Serve)
		if err != nil {
			return nil, exitWith(exitNoResult, err)
		}
		defer server.close()
		urls[0] = server.url
	}
	dirs, labels := []string{out}, []string{""}
	if f.against != "" {
		urls = append(urls, f.against)
		dirs, labels = []string{filepath.Join(out, "a"), filepath.Join(out, "b")}, []string{"target ", "against "}
	}
	progress := f.progress(cmd, p, len(plan.Rungs)*len(urls))
	defer progress.close()
	started := time.Now()
	var legs []*leg
	defer func() {
		for _, l := range legs {
			l.observer.close()
			l.client.Close()
		}
	}()
	for i, url := range urls {
		l, err := f.openLeg(stop.ctx, p, url, labels[i], slos, progress)
		if err != nil {
			return nil, errors.Join(err, discard(legs))
		}
		legs = append(legs, l)
		if l.writer, err = bundle.Create(dirs[i]); err != nil {
			return nil, errors.Join(createError(err), discard(legs))
		}
		l.generator.Log = record.NewRequestLog(l.writer.Requests(), true)
	}
	ladder := f.ladder(cmd.ErrOrStderr(), p, plan, legs, slos, progress)
	runErr := climb(ladder, stop, progress)
	status := bundle.Complete
	switch {
	case errors.Is(runErr, loadgen.ErrInterrupted):
		status, runErr = bundle.Interrupted, exitWith(exitInterrupted, errInterrupted)
	case runErr != nil:
		status, runErr = bundle.Failed, exitWith(exitNoResult, runErr)
	}
	if len(legs[0].rungs) == 0 {
		return nil, errors.Join(runErr, discard(legs))
	}
	var results []*bundle.Result
	for i, l := range legs {
		r := l.result(status, plan, slos, started)
		if err := l.writer.Finish(r, render.Pages()...); err != nil {
			runErr = errors.Join(runErr, exitWith(exitNoResult, err))
		} else {
			progress.note("bundle " + dirs[i])
		}
		results = append(results, r)
	}
	return results, runErr
}

// errInterrupted is what is said of a run that a signal ended.
var errInterrupted = errors.New("interrupted; what was measured is kept")

// createError gives the errors of starting a bundle their exit codes.
func createError(err error) error {
	if errors.Is(err, bundle.ErrExists) {
		return exitWith(exitUsage, err)
	}
	return exitWith(exitNoResult, err)
}

// discard removes bundles in which nothing was measured.
func discard(legs []*leg) error {
	var errs []error
	for _, l := range legs {
		if l.writer != nil {
			errs = append(errs, l.writer.Discard())
		}
	}
	return errors.Join(errs...)
}

// climb runs the ladder and passes the signals on.
func climb(ladder *loadgen.Ladder, stop *stopper, progress progress) error {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-stop.asked:
			progress.ending("ending the rung and waiting for what is in flight; interrupt again to end at once")
			ladder.Stop()
		case <-over:
		}
	}()
	return ladder.Run(stop.ctx)
}

// openLeg opens one target and makes its generator ready.
func (f *runFlags) openLeg(ctx context.Context, p *profiles.Profile, url, label string, slos []profiles.SLO, progress progress) (*leg, error) {
	options, err := f.options(p, url)
	if err != nil {
		return nil, err
	}
	client, err := connect.Open(ctx, options)
	if err != nil {
		return nil, targetError(err)
	}
	l := &leg{label: label, client: client, profile: identified(p, client.Server())}
	progress.note(identity(url, client.Server()))
	run := runID()
	config := prompt.Config{Workload: &p.Workload, Client: client, Run: run}
	if p.Target.Tokenizer != "" {
		t, err := tokenizer.Load(p.Target.Tokenizer)
		if err != nil {
			client.Close()
			return nil, usagef("--tokenizer: %w", err)
		}
		config.Tokenizer = t
	}
	source, err := prompt.New(ctx, config)
	if err != nil {
		client.Close()
		return nil, exitWith(exitUsage, err)
	}
	further := p.Target.Metrics
	if url == f.against {
		further = nil // they are the first target's
	}
	if l.observer, err = newObserver(ctx, options, client.Server(), further); err != nil {
		client.Close()
		return nil, err
	}
	l.generator = &loadgen.Generator{
		Client: client, Source: source, RunID: run, Limits: limits(slos), Settle: settle(slos),
		OnStart: func(r loadgen.Rung, recorder *record.Recorder) { progress.rung(label, r, recorder) },
		Observe: l.observer.observe,
	}
	return l, nil
}

// runID names a run within request ids and salts its prompts.
func runID() string {
	var b [6]byte
	// Reading random bytes does not fail on the systems that Go runs on.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// ladder joins plan, targets, budget and refinement.
func (f *runFlags) ladder(stderr io.Writer, p *profiles.Profile, plan *loadgen.Plan, legs []*leg, slos []profiles.SLO, progress progress) *loadgen.Ladder {
	l := &loadgen.Ladder{Plan: plan, Budget: loadgen.BudgetOf(p.Cost)}
	for _, leg := range legs {
		l.Generators = append(l.Generators, leg.generator)
	}
	l.OnRung = func(target int, r record.Rung, h record.Histograms) error {
		leg := legs[target]
		leg.rungs = append(leg.rungs, r)
		progress.done(leg.label, r)
		start := time.Unix(0, r.StartUnixNS)
		return leg.writer.Histograms(r.Index, h,
			start.Add(time.Duration(r.Window.StartS*1e9)), start.Add(time.Duration(r.Window.EndS*1e9)))
	}
	l.OnNote = func(n loadgen.Note) {
		progress.note(n.Message)
		for _, leg := range legs {
			leg.warnings = append(leg.warnings, bundle.Warning(n))
		}
	}
	if p.Load.Refine.Rungs > 0 && len(legs) == 1 {
		left := p.Load.Refine.Rungs
		l.Next = func(done [][]record.Rung) (loadgen.Rung, bool) {
			next, ok := knee.Refine(done[0], slos, knee.Budget{Rungs: left})
			if !ok {
				return loadgen.Rung{}, false
			}
			left--
			load := next.RatePerS
			if next.Mode == record.Closed {
				load = float64(next.Concurrency)
			}
			return plan.Rungs[0].At(load, plan.Seed), true
		}
	}
	if between := p.Load.Between; between != "" {
		l.Between = func(ctx context.Context, target int, _ loadgen.Rung) error {
			return betweenRungs(ctx, between, legs[target].client, stderr)
		}
	}
	return l
}

// result puts a leg's rungs together with what they mean.
func (l *leg) result(status bundle.Status, plan *loadgen.Plan, slos []profiles.SLO, started time.Time) *bundle.Result {
	b := thisBuild()
	server := l.client.Server()
	knee.Elasticities(l.rungs)
	economics := knee.Economics{USDPerHour: l.profile.Cost.USDPerHour, Accelerators: l.profile.Hardware.Count}
	if in, out := l.profile.Cost.USDPerMIn, l.profile.Cost.USDPerMOut; in > 0 && out > 0 {
		economics.InputPriceRatio = in / out
	}
	return &bundle.Result{
		Status: status, Headway: bundle.Build{Version: b.Version, Commit: b.Commit},
		StartedAt: started.UTC().Format(time.RFC3339), EpochUnixNS: clock.Wall(0).UnixNano(),
		DurationS: record.Known(time.Since(started).Seconds()), Seed: plan.Seed, ScheduleSHA256: plan.ScheduleHash,
		Profile: *l.profile,
		Server: bundle.Server{Engine: server.Engine, Version: server.Version, ModelID: server.ModelID,
			Settings: server.Settings, IdentitySource: server.Source},
		Client: bundle.Client{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
			GoVersion: runtime.Version(), MemoryBytes: memoryBytes()},
		Rungs: l.rungs, Knee: knee.Fit(knee.FromRungs(l.rungs), knee.Options{}),
		OperatingPoint: knee.OperatingPoint(l.rungs, slos, economics),
		Peak:           knee.Peak(l.rungs, economics), SingleUser: knee.SingleUser(l.rungs, economics),
		Warnings: l.warnings,
	}
}

// identified fills what the profile leaves unknown with what the server told.
func identified(p *profiles.Profile, s backends.Server) *profiles.Profile {
	filled := *p
	fill := func(field *string, told string) {
		if told != "" && (*field == "" || *field == profiles.Unknown || *field == "auto") {
			*field = told
		}
	}
	fill(&filled.Model.ID, s.ModelID)
	fill(&filled.Serving.Engine, s.Engine)
	fill(&filled.Serving.Version, s.Version)
	return &filled
}

// identity is one line about a target.
func identity(url string, s backends.Server) string {
	name := s.Engine
	if name == "" {
		name = "a server of unknown engine"
	}
	if s.Version != "" {
		name += " " + s.Version
	}
	return fmt.Sprintf("target %s is %s, model %s (%s: %s)", url, name, s.ModelID, s.Dialect, s.Why)
}

// limits are the SLOs that one request can be held to.
func limits(slos []profiles.SLO) record.Limits {
	var out record.Limits
	for _, s := range slos {
		limit := time.Duration(s.Value * float64(time.Millisecond))
		field, ok := map[string]*time.Duration{"ttft": &out.TTFT, "tpot": &out.TPOT, "itl": &out.ITL, "e2e": &out.E2E}[s.Metric]
		if ok && (*field == 0 || limit < *field) {
			*field = limit
		}
	}
	return out
}

// quantiles are the statistics of an SLO that settle with samples.
var quantiles = map[string]float64{"p05": 0.05, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}

// settle lists the percentiles that the SLOs ask for.
func settle(slos []profiles.SLO) []record.Asked {
	var out []record.Asked
	for _, s := range slos {
		if q, ok := quantiles[s.Stat]; ok {
			out = append(out, record.Asked{Metric: s.Metric, Quantile: q})
		}
	}
	return out
}
