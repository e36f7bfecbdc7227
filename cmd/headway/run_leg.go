package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"time"

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
)

// leg is one target of an experiment, with what it leaves behind.
type leg struct {
	label     string // in front of its rungs' names; "" for the only target
	url       string
	dir       string            // of its bundle
	profile   *profiles.Profile // as run, with what the server told
	client    backends.Client
	generator *loadgen.Generator
	observer  *observer
	writer    *bundle.Writer
	rungs     []record.Rung
	warnings  []bundle.Warning
}

// open opens the target and makes its generator ready.
func (l *leg) open(ctx context.Context, f *runFlags, e *experiment) error {
	options, err := f.options(e.profile, l.url)
	if err != nil {
		return err
	}
	if l.client, err = connect.Open(ctx, options); err != nil {
		return targetError(err)
	}
	server := l.client.Server()
	l.profile = identified(e.profile, server)
	if e.profile.Target.URL != "" {
		l.profile.Target.URL = l.url
	}
	e.progress.note(identity(redacted(l.url), server))
	if err := l.fits(&e.profile.Workload, server.MaxModelLen); err != nil {
		return err
	}
	config := prompt.Config{Workload: &e.profile.Workload, Client: l.client, Run: runID()}
	if from := e.profile.Target.Tokenizer; from != "" {
		if config.Tokenizer, err = tokenizer.Load(from); err != nil {
			return usagef("--tokenizer: %w", err)
		}
	}
	source, err := prompt.New(ctx, config)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	further := e.profile.Target.Metrics
	if l.url == f.against {
		further = nil // they are the first target's
	}
	if l.observer, err = newObserver(ctx, options, server, further); err != nil {
		return err
	}
	l.doubts(source.Form())
	l.generator = &loadgen.Generator{
		Client: l.client, Source: source, RunID: config.Run, Limits: limits(e.slos), Settle: settle(e.slos),
		OnStart: func(r loadgen.Rung, recorder *record.Recorder) { e.progress.rung(l.label, r, recorder) },
		Observe: l.observer.observe,
		Log:     record.NewRequestLog(l.writer.Requests(), true),
	}
	if t := config.Tokenizer; t != nil {
		l.generator.Count = func(text []byte) int { return t.Count(string(text), false) }
	}
	return nil
}

// close releases the connections of the target.
func (l *leg) close() {
	if l.observer != nil {
		l.observer.close()
	}
	if l.client != nil {
		l.client.Close()
	}
}

// warn adds a warning to the leg's result.
func (l *leg) warn(code, format string, args ...any) {
	l.warnings = append(l.warnings, bundle.Warning{Code: code, Message: fmt.Sprintf(format, args...)})
}

// doubts warns of what makes every figure of the leg another one than its
// reader may think.
func (l *leg) doubts(form prompt.Form) {
	if form == prompt.ByUsage {
		l.warn("estimated_lengths", "input lengths are estimated: the server has no tokenizer route, so prompts are sized by its own usage; "+
			"give --tokenizer DIR for exact ones")
	}
	if l.profile.Workload.Sampling.ForceLength && !l.client.Can().ForceLength {
		l.warn(bundle.LengthNotForced, "output lengths are upper limits: the %s dialect has no field that forces them, so the model may end answers early; "+
			"compare by the measured lengths", l.client.Server().Dialect)
	}
	if n := l.profile.Stage.Retries; n > 0 {
		l.warn("retries", "failed requests were sent again up to %d times: errors are fewer and latencies longer than a user without retries has", n)
	}
}

// refused says what may help when the server refused every prompt of ids that
// nobody could check.
func (l *leg) refused() {
	if l.generator.Source.Form() != prompt.ByIDs || l.generator.Source.Counted() {
		return
	}
	failed := record.Failures(l.rungs)
	said := failed.Failures[backends.HTTP4xx.String()] + failed.Failures[backends.HTTP5xx.String()] + failed.Failures[backends.StreamError.String()]
	if said == 0 || slices.ContainsFunc(l.rungs, func(r record.Rung) bool { return r.Totals.Completed > 0 }) {
		return
	}
	l.warn("token_ids_refused", "%s refused every prompt; they are token ids from %d to %d, chosen without knowing the model's vocabulary: "+
		"if it is smaller, use --prompt text, or --tokenizer DIR|FILE for ids that it has", redacted(l.url), prompt.FirstID, prompt.LastID)
}

// fits refuses a workload of which no request fits into the server, and warns
// when some do not. most is the server's limit on prompt and output together,
// 0 when it did not tell.
func (l *leg) fits(w *profiles.Workload, most int) error {
	if most == 0 {
		return nil
	}
	in, out := least(w.InputTokens), least(w.OutputTokens)
	if in+out > most {
		return usagef("workload: %d input and %d output tokens do not fit into the %d that the server holds for a request; "+
			"ask for fewer, or raise the server's limit (--max-model-len)", in, out, most)
	}
	if need := prompt.Most(w.InputTokens) + prompt.Most(w.OutputTokens); need > most {
		l.warn("too_long", "requests may have up to %d tokens and the server holds %d: the longest of them will fail", need, most)
	}
	return nil
}

// least is the smallest count of a distribution, 0 where a file sets it.
func least(l profiles.Length) int {
	switch {
	case l.Kind == "fixed":
		return l.Value
	case l.Kind == "empirical" && len(l.Values) > 0:
		return slices.Min(l.Values)
	}
	return l.Min
}

// runID names a run within request ids and salts its prompts.
func runID() string {
	var b [6]byte
	// Reading random bytes does not fail on the systems that Go runs on.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// result puts a leg's rungs together with what they mean.
func (l *leg) result(status bundle.Status, e *experiment) *bundle.Result {
	server := l.client.Server()
	r := newResult(l.profile, e.plan, e.started)
	r.Status, r.DurationS = status, record.Known(time.Since(e.started).Seconds())
	r.Server = bundle.Server{Engine: server.Engine, Version: server.Version, ModelID: server.ModelID,
		Settings: server.Settings, IdentitySource: server.Source}
	if e.threads != nil {
		r.Client.Scheduling = e.threads.Grant().String()
	}
	l.refused()
	r.Warnings = l.warnings
	interpret(r, l.rungs, e.slos)
	return r
}

// newResult is a result of which everything is known that this machine and the
// plan tell.
func newResult(p *profiles.Profile, plan *loadgen.Plan, started time.Time) *bundle.Result {
	b := thisBuild()
	return &bundle.Result{
		Status: bundle.Complete, Headway: bundle.Build{Version: b.Version, Commit: b.Commit},
		StartedAt: started.UTC().Format(time.RFC3339), EpochUnixNS: clock.Wall(0).UnixNano(),
		Seed: plan.Seed, ScheduleSHA256: plan.ScheduleHash, Profile: *p,
		Client: bundle.Client{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
			GoVersion: runtime.Version(), MemoryBytes: memoryBytes()},
	}
}

// interpret sets the rungs of a result and what they mean.
func interpret(r *bundle.Result, rungs []record.Rung, slos []profiles.SLO) {
	economics := knee.Economics{USDPerHour: r.Profile.Cost.USDPerHour, Accelerators: r.Profile.Hardware.Count}
	if in, out := r.Profile.Cost.USDPerMIn, r.Profile.Cost.USDPerMOut; in > 0 && out > 0 {
		economics.InputPriceRatio = in / out
	}
	knee.Elasticities(rungs)
	r.Rungs, r.Knee = rungs, knee.Fit(knee.FromRungs(rungs), knee.Options{})
	r.OperatingPoint = knee.OperatingPoint(rungs, slos, economics)
	r.Peak, r.SingleUser = knee.Peak(rungs, economics), knee.SingleUser(rungs, economics)
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

// waitsFor makes sure that rungs which last until their percentiles have settled
// have some to wait for.
func waitsFor(p *profiles.Profile, slos []profiles.SLO) error {
	if p.Stage.Until == "settled" && len(settle(slos)) == 0 {
		return usagef("stage.until: settled waits for the percentiles of the SLOs, and there are none; add one, as --slo ttft_p95=500ms, or remove it")
	}
	return nil
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
