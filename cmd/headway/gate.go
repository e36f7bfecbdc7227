package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/gate"
)

func newGateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gate RESULT...",
		Short: "Judge limits, for CI: the exit code is the verdict",
		Long: `gate holds results to limits on one load. RESULT is a bundle directory, a
result.json, or "-" for stdin; several are judged together, as repeats. Without
--slo the limits are those of the results' profile. With several loads --at
chooses one. A missing metric or an invalid measurement is never a pass.

Exit codes: 0 pass, 1 fail, 2 usage or a metric that the result does not have,
3 an invalid measurement, 4 inconclusive.`,
		Example: `  headway gate RUN --slo ttft_p95=500ms,error_rate=0.5% --at concurrency=32
  headway gate RUN --slo tps_p05>=20 --at operating-point --format junit
  headway gate RUN --slo ttft_p99=1s --inconclusive fail`,
		Args: takes(1, -1, "at least one result"),
	}
	format := addFormat(cmd, gate.Formats...)
	limits := addSLO(cmd)
	at := cmd.Flags().String("at", "", "load to judge: concurrency=N, rate=N or operating-point")
	inconclusive := &choice{allowed: []string{"pass", "fail"}}
	cmd.Flags().Var(inconclusive, "inconclusive", "what an inconclusive verdict counts as, instead of exit code 4")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		load, err := gate.ParseAt(*at)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		slos, err := limits.parse()
		if err != nil {
			return err
		}
		results, err := openResults(args, cmd.InOrStdin())
		if err != nil {
			return err
		}
		if slos == nil {
			if slos, err = profileLimits(results); err != nil {
				return err
			}
		}
		verdict := gate.JudgeSLO(gateRuns(results), slos, load)
		if inconclusive.value != "" {
			verdict = verdict.Resolve(gate.Status(inconclusive.value))
		}
		return conclude(cmd.OutOrStdout(), verdict, format.value)
	}
	return cmd
}

// conclude writes a verdict and turns it into the exit code.
func conclude(stdout io.Writer, v gate.Verdict, format string) error {
	if err := gate.Render(stdout, v, format); err != nil {
		return err
	}
	if v.Status == gate.Pass {
		return nil
	}
	err := fmt.Errorf("the gate's verdict is %s", v.Status)
	if len(v.Checks) == 0 && len(v.Warnings) > 0 {
		err = errors.New(v.Warnings[0].Message)
	}
	return exitWith(v.ExitCode(), err)
}

// profileLimits returns the limits that the results were made with, which must
// be the same.
func profileLimits(results []*bundle.Bundle) ([]profiles.SLO, error) {
	for _, r := range results[1:] {
		if fmt.Sprint(r.Result.Profile.SLO) != fmt.Sprint(results[0].Result.Profile.SLO) {
			return nil, usagef("the profiles of %s and %s have different limits; name them with --slo", results[0].Path, r.Path)
		}
	}
	return results[0].Result.Profile.SLO.List()
}

func gateRuns(results []*bundle.Bundle) []gate.Run {
	runs := make([]gate.Run, len(results))
	for i, r := range results {
		runs[i] = gate.Run{Name: r.Path, Rungs: r.Result.Rungs}
	}
	return runs
}

// openResults opens one result at each path.
func openResults(paths []string, stdin io.Reader) ([]*bundle.Bundle, error) {
	var out []*bundle.Bundle
	for _, path := range paths {
		b, err := openResult(path, stdin)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// openResult opens a bundle, a result.json, or stdin for "-".
func openResult(path string, stdin io.Reader) (*bundle.Bundle, error) {
	if path != "-" {
		b, err := bundle.Open(path)
		return b, exitWith(exitUsage, err)
	}
	all, err := bundle.OpenAll(path, stdin)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("stdin holds %d results, one is needed", len(all))
	}
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	return all[0], nil
}
