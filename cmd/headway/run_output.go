package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/gate"
)

// conclude prints the results, judges them when asked, and turns how it went
// into an error with an exit code.
func (f *runFlags) conclude(cmd *cobra.Command, bundles []*bundle.Bundle, runErr error) error {
	if err := show(cmd, bundles, f.format.value, runErr); err != nil {
		return err
	}
	if err := f.usable(bundles); err != nil {
		return err
	}
	if !f.gate && f.against == "" {
		return nil
	}
	verdict, err := f.judge(bundles)
	if err != nil {
		return err
	}
	err = conclude(cmd.ErrOrStderr(), verdict, "text")
	if !f.gate {
		// The verdict is shown; only a gate takes its exit code.
		return nil
	}
	return err
}

// show prints what a run left, also with an error, and returns that. A reader of
// stdout that has seen enough is no error.
func show(cmd *cobra.Command, bundles []*bundle.Bundle, format string, runErr error) error {
	if len(bundles) == 0 {
		return runErr
	}
	err := writeResults(cmd.OutOrStdout(), bundles, format)
	if errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	return joined(runErr, err)
}

// usable says whether a run measured anything that can be trusted: one rung is
// enough, and of two targets one of each.
func (f *runFlags) usable(bundles []*bundle.Bundle) error {
	if f.against == "" {
		return trusted(bundles...)
	}
	for _, b := range bundles {
		if err := trusted(b); err != nil {
			return err
		}
	}
	return nil
}

// trusted says whether any rung of the results can be trusted.
func trusted(bundles ...*bundle.Bundle) error {
	completed, trusted := false, false
	var rungs []record.Rung
	for _, b := range bundles {
		rungs = append(rungs, b.Result.Rungs...)
		for _, rung := range b.Result.Rungs {
			completed = completed || rung.Totals.Completed > 0
			trusted = trusted || rung.Verdict != record.Invalid
		}
	}
	switch {
	case !completed:
		return exitWith(exitNoResult, fmt.Errorf("no request completed: %s; requests.jsonl.zst of the bundle has every one", whyNone(rungs)))
	case !trusted:
		return exitWith(exitNoResult, errors.New("every rung is invalid; the reasons stand below the table"))
	}
	return nil
}

// whyNone says how the requests of rungs ended of which none completed.
func whyNone(rungs []record.Rung) string {
	failed := record.Failures(rungs)
	if text := failed.FailureText(); text != "" {
		return text
	}
	return "none ended before its rung did"
}

// judge holds the limits of the profile against each result, and the second
// target against the first. Of several results each check names its own.
func (f *runFlags) judge(bundles []*bundle.Bundle) (gate.Verdict, error) {
	var verdicts []gate.Verdict
	if f.against != "" {
		for i := 0; i+1 < len(bundles); i += 2 {
			a, b := bundles[i].Result, bundles[i+1].Result
			verdicts = append(verdicts, gate.JudgePair(gate.Run{Name: "target", Rungs: a.Rungs},
				gate.Run{Name: "against", Rungs: b.Rungs}, gate.Options{MaxRegression: f.maxRegression.ratio}))
		}
	}
	for _, b := range bundles {
		slos, err := b.Result.Profile.SLO.List()
		if err != nil {
			return gate.Verdict{}, err
		}
		if len(slos) == 0 {
			continue
		}
		v := gate.JudgeSLO([]gate.Run{{Name: b.Path, Rungs: b.Result.Rungs}}, slos, gateAt(b.Result))
		if len(bundles) > 1 {
			v = v.Of(b.Path)
		}
		verdicts = append(verdicts, v)
	}
	return gate.Join(verdicts...), nil
}

// gateAt is the load that a run is judged at: the only one, or the operating
// point of a ladder.
func gateAt(r *bundle.Result) gate.At {
	loads := map[profileLoad]bool{}
	for _, rung := range r.Rungs {
		loads[profileLoad{rung.Mode, rung.Concurrency, rung.RatePerS}] = true
	}
	return gate.At{OperatingPoint: len(loads) > 1}
}

// profileLoad tells loads apart.
type profileLoad struct {
	mode        record.Mode
	concurrency int
	rate        record.Value
}
