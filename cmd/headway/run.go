package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
)

func newRunCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [PROFILE.yaml|NAME|BUNDLE]",
		Short: "Load a server rung by rung, measure it, and find its knee",
		Long: `run climbs the ladder of a profile: a file, a built-in profile, or the bundle of
an earlier run, which it repeats. With --target alone it runs a default ladder.
Flags override fields of the profile.

stdout gets the result, stderr the progress, and a new directory the bundle:
result.json, every request, histograms, the profile as run, and reports.
An interrupt (SIGINT or SIGTERM) ends the rung, waits for what is in flight and
keeps what was measured; a second one ends at once.`,
		Example: `  headway run quickstart
  headway run chat --target http://localhost:8000 --concurrency 1,2,4,8,16,32
  headway run --target http://localhost:8000 --rate 1,2,4,8 --slo ttft_p95=500ms,itl_p95=50ms
  headway run chat --target http://localhost:8000 --concurrency 32 --slo ttft_p95=500ms --gate`,
		Args: takes(0, 1, "at most one profile"),
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := f.profile(cmd, args)
		if err != nil {
			return err
		}
		return f.run(cmd, p)
	}
	return cmd
}

// run runs the profile, or each combination of its matrix.
func (f *runFlags) run(cmd *cobra.Command, p *profiles.Profile) error {
	combinations, err := profiles.Expand(p)
	if err != nil {
		return err
	}
	if f.dryRun {
		return printEstimates(cmd, combinations, f.format.value, f.against != "")
	}
	out, err := f.outDir(p)
	if err != nil {
		return err
	}
	defer os.Remove(out) // of a matrix or two targets that left no bundle: it is empty then
	stop := newStopper(cmd.Context())
	defer stop.release()
	bundles, err := each(combinations, out, func(p *profiles.Profile, dir string) ([]*bundle.Bundle, error) {
		return f.experiment(cmd, stop, p, dir)
	})
	return f.conclude(cmd, bundles, err)
}

// each runs the combinations of a matrix, a bundle each below out, or the only
// one in out itself. It ends at the first error and returns what there is.
func each(combinations []profiles.Combination, out string,
	run func(p *profiles.Profile, dir string) ([]*bundle.Bundle, error)) ([]*bundle.Bundle, error) {
	if len(combinations) == 1 && combinations[0].Label == "" {
		return run(combinations[0].Profile, out)
	}
	var all []*bundle.Bundle
	index := bundle.Index{Name: combinations[0].Profile.Name}
	for _, c := range combinations {
		bundles, err := run(c.Profile, filepath.Join(out, c.Label))
		for _, b := range bundles {
			index.Bundles = append(index.Bundles, bundle.IndexEntry{Dir: c.Label, Combination: c.Values, Status: b.Result.Status})
		}
		all = append(all, bundles...)
		if err != nil {
			return all, joined(err, writeIndex(out, index))
		}
	}
	return all, writeIndex(out, index)
}

// writeIndex lists the bundles of a matrix, when there are any.
func writeIndex(dir string, index bundle.Index) error {
	if len(index.Bundles) == 0 {
		return nil
	}
	return bundle.WriteIndex(dir, index)
}

// outDir is where the bundle goes; it must not exist.
func (f *runFlags) outDir(p *profiles.Profile) (string, error) {
	dir := f.out
	if dir == "" {
		dir = filepath.Join("headway-runs", p.Name+"-"+time.Now().UTC().Format("20060102T150405Z"))
	}
	return dir, vacant(dir)
}

// vacant makes sure that nothing is at --out.
func vacant(dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return usagef("--out %s exists already; name another directory or move it away", dir)
	}
	return nil
}

// stopper turns the first signal into an orderly end and the second into an
// end at once.
type stopper struct {
	orderly context.Context // ends at the first signal
	ctx     context.Context // ends at the second
	release func()
}

func newStopper(parent context.Context) *stopper {
	ctx, cancel := context.WithCancel(parent)
	orderly, end := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Who reads stdout or stderr may have seen enough: a write to it then fails,
	// and ends neither the run nor, at its end, the program before its exit code.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		for _, stop := range []func(){end, cancel} {
			select {
			case <-signals:
				stop()
			case <-ctx.Done():
				return
			}
		}
	}()
	return &stopper{orderly: orderly, ctx: ctx, release: func() {
		signal.Stop(signals)
		cancel()
	}}
}

// printEstimates says what would be sent, to each of two targets where there
// are two.
func printEstimates(cmd *cobra.Command, combinations []profiles.Combination, format string, two bool) error {
	type estimate struct {
		Label string `json:"label"`
		loadgen.Estimate
		Schedule string `json:"schedule_sha256"`
	}
	var all []estimate
	for _, c := range combinations {
		plan, err := loadgen.NewPlan(c.Profile, c.Profile.Workload.Seed)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		all = append(all, estimate{c.Label, plan.Estimate(), plan.ScheduleHash})
	}
	if format == "json" {
		return printJSON(cmd, all)
	}
	for _, e := range all {
		var b strings.Builder
		if e.Label != "" {
			fmt.Fprintf(&b, "%s: ", e.Label)
		}
		rungs := "rungs"
		if e.Rungs == 1 {
			rungs = "rung"
		}
		each := ""
		if two {
			each = " for each of two servers"
		}
		fmt.Fprintf(&b, "%d %s, at most %s%s\n", e.Rungs, rungs, e.Time.Round(time.Second), each)
		fmt.Fprintf(&b, "  requests       at least %d, %s\n", e.RequestsLeast, atMost(e.Requests, "the server's speed decides"))
		fmt.Fprintf(&b, "  input tokens   %s\n", atMost(e.InputTokens, "the server's speed decides"))
		fmt.Fprintf(&b, "  output tokens  %s\n", atMost(e.OutputTokens, "the server's speed decides"))
		cost := "unknown; set cost.usd_per_hour"
		if e.USD.OK() {
			cost = atMost(e.USD, "") + " USD"
		}
		fmt.Fprintf(&b, "  cost           %s\n", cost)
		fmt.Fprintf(&b, "  schedule       %s\nnothing was sent\n", e.Schedule)
		if _, err := cmd.OutOrStdout().Write([]byte(b.String())); err != nil {
			return err
		}
	}
	return nil
}
