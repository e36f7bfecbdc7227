package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/reference/sim"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/loadgen/virtual"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/render"
)

// simulateFlags are the flags of `headway simulate`.
type simulateFlags struct {
	overrides
	set             *[]string
	law, gpu, model string
	out             string
	format          *choice
}

func newSimulateCommand() *cobra.Command {
	f := &simulateFlags{}
	cmd := &cobra.Command{
		Use:   "simulate PROFILE.yaml|NAME",
		Short: "Climb a ladder against a simulated server on a virtual clock",
		Long: `simulate offers the ladder of a profile to a server that takes its times from a
law or from the roofline of a GPU, on a virtual clock: minutes of load take
milliseconds. Load, windows, knee and tables are those of run, the server's
scheduler and KV cache those of serve. Every result is labelled simulated:
nothing of it is a measurement.

Without --law and --gpu the profile's target.serve says what is simulated. The
model is that of --model, else of target.serve.model, else the one that the
profile names. Where both name one they must agree, exit code 2.`,
		Example: `  headway simulate chat --law slots=64,ttft=50ms,itl=10ms+0.1ms*n
  headway simulate chat --gpu H100-SXM-80GB --model llama-3.1-8b --slo ttft_p95=500ms,itl_p95=20ms
  headway simulate profile.yaml --gpu 4xH100-SXM-80GB --model llama-3.3-70b --rate 1,2,4,8`,
		Args: takes(1, 1, "one profile"),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.law, "law", "", "times of the server, as slots=16,ttft=50ms,itl=10ms+0.1ms*n")
	fl.StringVar(&f.gpu, "gpu", "", "GPU whose roofline gives the times, as H100-SXM-80GB or 4xH100-SXM-80GB")
	fl.StringVar(&f.model, "model", "", "shape of the model that is served, as llama-3.1-8b (default: the profile's)")
	f.workload(fl)
	f.set = addSet(cmd)
	fl.StringVar(&f.out, "out", "", "directory of a bundle (default: none is written)")
	f.format = addFormat(cmd, "table", "json", "markdown", "csv")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) }
	return cmd
}

// run simulates the profile, or each combination of its matrix.
func (f *simulateFlags) run(cmd *cobra.Command, name string) error {
	p, err := openProfile(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	if err := f.override(cmd, p); err != nil {
		return err
	}
	if err := applySet(p, *f.set); err != nil {
		return err
	}
	if err := f.simulated(p); err != nil {
		return err
	}
	if f.out != "" {
		if err := vacant(f.out); err != nil {
			return err
		}
	}
	combinations, err := profiles.Expand(p)
	if err != nil {
		return err
	}
	stop := newStopper(cmd.Context())
	defer stop.release()
	bundles, err := each(combinations, f.out, func(p *profiles.Profile, dir string) ([]*bundle.Bundle, error) {
		return f.ladder(stop.orderly, p, dir)
	})
	if err := show(cmd, bundles, f.format.value, err); err != nil {
		return err
	}
	return trusted(bundles...)
}

// simulated makes the target of a profile the server that the flags name.
func (f *simulateFlags) simulated(p *profiles.Profile) error {
	serve := maps.Clone(p.Target.Serve)
	if serve == nil {
		serve = map[string]string{}
	}
	if f.law != "" || f.gpu != "" {
		delete(serve, "law")
		delete(serve, "gpu")
	}
	for flag, value := range map[string]string{"executor": "sim", "law": f.law, "gpu": f.gpu, "model": f.model} {
		if value != "" {
			serve[flag] = value
		}
	}
	if serve["law"] == "" && serve["gpu"] == "" {
		return usagef("nothing says how fast the server is: give --law slots=16,ttft=50ms,itl=10ms, or --gpu H100-SXM-80GB --model llama-3.1-8b")
	}
	p.Target = profiles.Target{Serve: serve}
	return oneModel(&p.Model, serve)
}

// oneModel settles which model is simulated: the one that is served, else the
// one that the profile names. Where both name one they must agree: a result that
// bears one model's name and another's times misleads. What the profile leaves
// unknown is filled in.
func oneModel(named *profiles.Model, serve map[string]string) error {
	if serve["model"] == "" {
		shape := strings.ToLower(named.Family + "-" + named.Version + "-" + named.Size)
		if slices.Contains(sim.Models(), shape) {
			serve["model"] = shape
		}
	}
	if !slices.Contains(sim.Models(), strings.ToLower(serve["model"])) {
		return nil // none, or one that the server will refuse
	}
	served := modelOf(serve["model"])
	known := func(field string) bool { return field != "" && field != profiles.Unknown }
	stated, differ := 0, false
	for _, fact := range []struct {
		named  *string
		served string
	}{{&named.Family, served.Family}, {&named.Version, served.Version}, {&named.Size, served.Size}} {
		if known(*fact.named) {
			stated++
			differ = differ || !strings.EqualFold(*fact.named, fact.served)
			continue
		}
		*fact.named = fact.served
	}
	if known(named.ID) {
		differ = differ || stated < 3 && !strings.Contains(strings.ToLower(named.ID), served.ID)
	} else {
		named.ID = served.ID
	}
	if differ {
		return usagef("model %s is to be simulated, and the profile names another: id %s, family %s, version %s, size %s; "+
			"leave out --model or target.serve.model, or change the profile's with --set model.id=... and its like",
			served.ID, named.ID, named.Family, named.Version, named.Size)
	}
	return nil
}

// modelOf describes the model of a shape's name, llama-3.1-8b or tiny-llama-2.
func modelOf(shape string) profiles.Model {
	m := profiles.Model{ID: strings.ToLower(shape), Size: "tiny"}
	name, tiny := strings.CutPrefix(m.ID, "tiny-")
	m.Family, m.Version, _ = strings.Cut(name, "-")
	if !tiny {
		m.Version, m.Size, _ = strings.Cut(m.Version, "-")
		m.Size = strings.ToUpper(m.Size)
	}
	return m
}

// server makes the simulated server of target.serve.
func simulatedServer(serve map[string]string) (reference.Config, error) {
	flags := &serveFlags{}
	fl := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.add(fl)
	for _, name := range slices.Sorted(maps.Keys(serve)) {
		if err := fl.Set(name, serve[name]); err != nil {
			return reference.Config{}, usagef("target.serve.%s: %w", name, err)
		}
	}
	if flags.faults != "" {
		return reference.Config{}, usagef("target.serve.faults: faults cannot be simulated on a virtual clock; leave them out, or use `headway run`")
	}
	return flags.config()
}

// ladder simulates one ladder, and writes a bundle where dir names one.
func (f *simulateFlags) ladder(ctx context.Context, p *profiles.Profile, dir string) ([]*bundle.Bundle, error) {
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
	server, err := simulatedServer(p.Target.Serve)
	if err != nil {
		return nil, err
	}
	defer server.Executor.Close()
	s := &virtual.Simulator{Limits: limits(slos), Settle: settle(slos), Server: virtual.Server{Executor: server.Executor,
		Scheduler: reference.SchedulerConfig{MaxNumSeqs: server.MaxNumSeqs, KV: server.KV, Contiguous: server.Contiguous,
			MaxModelLen: server.MaxModelLen, ChunkedPrefill: server.ChunkedPrefill, Static: server.Static,
			BatchSize: server.BatchSize, BatchWindow: server.BatchWindow}}}
	var writer *bundle.Writer
	if dir != "" {
		if writer, err = bundle.Create(dir); err != nil {
			return nil, createError(err)
		}
		s.Log = record.NewRequestLog(writer.Requests(), false)
	}
	r := newResult(p, plan, time.Now())
	info := server.Executor.Info()
	r.Server = bundle.Server{Engine: "headway", Version: server.Version, ModelID: info.Name, IdentitySource: "the simulation",
		Settings: map[string]string{"executor": info.Executor, "device": info.Device, "simulated": "true"}}
	r.Warnings = []bundle.Warning{{Code: "simulated", Message: "nothing was measured: " + info.Device + " gave the times, on a virtual clock"}}
	rungs, histograms, err := s.Ladder(ctx, plan, refinement(plan, slos, p.Load.Refine.Rungs))
	if errors.Is(err, loadgen.ErrInterrupted) {
		r.Status, err = bundle.Interrupted, errInterrupted
	} else if err != nil {
		r.Status, err = bundle.Failed, exitWith(exitNoResult, err)
	}
	if len(rungs) == 0 {
		if writer != nil {
			err = joined(err, writer.Discard())
		}
		return nil, err
	}
	interpret(r, rungs, slos)
	b := &bundle.Bundle{Path: fmt.Sprintf("simulation of %s", p.Name), Result: r}
	if writer != nil {
		b.Path, b.Dir = dir, dir
		err = joined(err, writeSimulated(writer, b, histograms))
	}
	return []*bundle.Bundle{b}, err
}

// writeSimulated writes the bundle of a simulation.
func writeSimulated(w *bundle.Writer, b *bundle.Bundle, histograms []record.Histograms) error {
	for i, h := range histograms {
		window := b.Result.Rungs[i].Window
		begin := time.Unix(0, b.Result.EpochUnixNS)
		if err := w.Histograms(i, h, begin.Add(time.Duration(window.StartS*1e9)), begin.Add(time.Duration(window.EndS*1e9))); err != nil {
			break // Finish tells it
		}
	}
	return exitWith(exitNoResult, w.Finish(b.Result, render.Pages()...))
}
