package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/compare"
	"github.com/headway-bench/headway/report/gate"
)

func newGateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gate RESULT...",
		Short: "Judge limits and regressions, for CI: the exit code is the verdict",
		Long: `gate holds results to limits on one load. RESULT is a bundle directory, a
result.json, or "-" for stdin; several are judged together, as repeats. Without
--slo the limits are those of the results' profile. With several loads --at
chooses one. A missing metric or an invalid measurement is never a pass.

With --baseline the results are held against earlier ones, at every load that
both have: TTFT p50 and p95, ITL mean and p95, E2E p50 and p95, request and
output-token throughput, with intervals over repeats and runs and one error rate
for the whole set. Three runs on each side show the spread between runs.
A baseline of another model, precision, lengths or sampling is refused, unless
--allow names each difference.

Exit codes: 0 pass, 1 fail, 2 usage or a metric that the result does not have,
3 an invalid measurement, 4 inconclusive.`,
		Example: `  headway gate RUN --slo ttft_p95=500ms,error_rate=0.5% --at concurrency=32
  headway gate RUN --slo tps_p05>=20 --at operating-point --format junit
  headway gate RUN --slo ttft_p99=1s --inconclusive fail
  headway gate RUN --baseline BEFORE --max-regression 5% --format markdown`,
		Args: takes(1, -1, "at least one result"),
	}
	format := addFormat(cmd, gate.Formats...)
	judge := gateFlags{slo: addSLO(cmd), inconclusive: &choice{allowed: []string{"pass", "fail"}}}
	fl := cmd.Flags()
	fl.StringVar(&judge.at, "at", "", "load to judge: concurrency=N, rate=N or operating-point")
	fl.StringSliceVar(&judge.baseline, "baseline", nil, "earlier results to compare with; may stand several times")
	fl.StringSliceVar(&judge.allow, "allow", nil, "with --baseline: differences that are wanted, as precision.weights")
	fl.Var(&judge.maxRegression, "max-regression", "with --baseline: the regression that is accepted (default 5%)")
	fl.Var(judge.inconclusive, "inconclusive", "what an inconclusive verdict counts as, instead of exit code 4")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		verdict, err := judge.verdict(args, cmd.InOrStdin())
		if err != nil {
			return err
		}
		return conclude(cmd.OutOrStdout(), verdict, format.value)
	}
	return cmd
}

// gateFlags say what is judged and how.
type gateFlags struct {
	slo           *sloFlag
	at            string
	baseline      []string
	allow         []string
	maxRegression percent
	inconclusive  *choice
}

// verdict judges the results: their limits, the regression, or both where both
// are asked for.
func (f *gateFlags) verdict(paths []string, stdin io.Reader) (gate.Verdict, error) {
	load, err := gate.ParseAt(f.at)
	if err != nil {
		return gate.Verdict{}, exitWith(exitUsage, err)
	}
	if f.slo.flags.Changed("baseline") && strings.Join(f.baseline, "") == "" {
		return gate.Verdict{}, usagef("--baseline is empty; name an earlier result")
	}
	if f.maxRegression.ratio > 0 && len(f.baseline) == 0 {
		return gate.Verdict{}, usagef("--max-regression needs a --baseline to hold the results against")
	}
	slos, err := f.slo.parse()
	if err != nil {
		return gate.Verdict{}, err
	}
	if err := stdinOnce(append(paths, f.baseline...)); err != nil {
		return gate.Verdict{}, err
	}
	results, err := openResults(paths, stdin)
	if err != nil {
		return gate.Verdict{}, err
	}
	if err := measured(results); err != nil {
		return gate.Verdict{}, err
	}
	base, err := openResults(f.baseline, stdin)
	if err != nil {
		return gate.Verdict{}, err
	}
	if slos == nil && base == nil {
		if slos, err = profileLimits(results); err != nil {
			return gate.Verdict{}, err
		}
	}
	var verdicts []gate.Verdict
	if slos != nil || base == nil {
		verdicts = append(verdicts, gate.JudgeSLO(gateRuns(results), slos, load))
	}
	if base != nil {
		if err := f.alike(results, base); err != nil {
			return gate.Verdict{}, err
		}
		options := gate.Options{MaxRegression: f.maxRegression.ratio, At: load}
		verdicts = append(verdicts, gate.JudgeBaseline(gateRuns(results), gateRuns(base), options))
	}
	return gate.Join(verdicts...).Resolve(gate.Status(f.inconclusive.value)), nil
}

// measured refuses a result of a run that failed.
func measured(results []*bundle.Bundle) error {
	for _, r := range results {
		if r.Result.Status == bundle.Failed {
			return exitWith(exitNoResult, fmt.Errorf("%s: the run failed: there is no measurement to judge; run again", r.Path))
		}
	}
	return nil
}

// alike refuses a baseline of another model, precision, lengths or sampling.
func (f *gateFlags) alike(results, base []*bundle.Bundle) error {
	c := compare.Comparison{Differences: compare.Differences(comparisonInputs(append(base, results...)), f.allow)}
	for _, d := range c.Differences {
		if !d.Allowed {
			return refusal(c)
		}
	}
	return nil
}

// stdinOnce refuses to read stdin as two results.
func stdinOnce(paths []string) error {
	first := slices.Index(paths, "-")
	if first >= 0 && slices.Contains(paths[first+1:], "-") {
		return usagef("stdin, -, can be read once; name files for the other results")
	}
	return nil
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
	for _, c := range v.Checks {
		if v.Status == gate.Usage && c.Status == gate.Usage {
			err = fmt.Errorf("the gate can't judge: %s", c.Message)
			break
		}
	}
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
