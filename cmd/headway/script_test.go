package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/bundle/bundletest"
	"github.com/headway-bench/headway/report/render"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"headway": main, "bareclient": bareClient})
}

// TestScripts runs the command line as a user does: exit code, stdout, stderr.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(env *testscript.Env) error { return writeSamples(env.WorkDir) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"interrupts": interrupts,
			"serverdies": serverdies,
		},
	})
}

// writeSamples leaves results of known content to the scripts: ladder, a
// bundle over 1 to 128 users; and of its rung at 8 users one.json, and
// variations of that in which the measurement is invalid or says too little.
func writeSamples(dir string) error {
	w, err := bundle.Create(filepath.Join(dir, "ladder"))
	if err != nil {
		return err
	}
	if err := w.Finish(bundletest.Result(), render.Pages()...); err != nil {
		return err
	}
	for name, change := range map[string]func(*bundle.Result){
		"one.json": func(*bundle.Result) {},
		"invalid.json": func(r *bundle.Result) {
			r.Rungs[0].Verdict = record.Invalid
			r.Rungs[0].Reasons = []record.Reason{{Code: "send_lag", Message: "sent late"}}
		},
		"few.json":        func(r *bundle.Result) { r.Rungs[0].TTFT = few(r.Rungs[0].TTFT) },
		"forged.json":     func(r *bundle.Result) { r.Rungs[0].TTFT.Count, r.Rungs[0].ITL.Count = 0, 0 },
		"null.json":       func(r *bundle.Result) { r.Rungs[0].TTFT.P95 = record.Value{} },
		"norungs.json":    func(r *bundle.Result) { r.Rungs = nil },
		"unmeasured.json": func(r *bundle.Result) { r.Rungs[0].Telemetry = nil },
		"fp8.json":        func(r *bundle.Result) { r.Profile.Precision.Weights = "fp8" },
		"slow.json":       func(r *bundle.Result) { slower(&r.Rungs[0], 1.5) },
		"failed.json":     func(r *bundle.Result) { r.Status = bundle.Failed },
		"escapes.json":    func(r *bundle.Result) { r.Profile.Model.ID = "\x1b[31m<b>|" },
		"unknown.json":    func(r *bundle.Result) { r.Profile.Hardware.Accelerator = "unknown" },
	} {
		r := bundletest.Result()
		r.Rungs = r.Rungs[3:4]
		change(r)
		text, err := bundle.Encode(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// slower stretches every latency and divides every throughput.
func slower(g *record.Rung, by float64) {
	for _, d := range []*record.Dist{&g.TTFT, &g.TTFTResponse, &g.ITL, &g.ICL, &g.TPOT, &g.E2E, &g.E2EResponse} {
		for _, v := range []*record.Value{&d.Mean, &d.Min, &d.P05, &d.P50, &d.P90, &d.P95, &d.P99, &d.P999, &d.Max} {
			*v = v.Scale(by)
		}
	}
	g.RequestThroughputPerS = g.RequestThroughputPerS.Scale(1 / by)
	g.OutputTokenThroughputPerS = g.OutputTokenThroughputPerS.Scale(1 / by)
}

// few is a distribution of too few samples for its percentiles.
func few(d record.Dist) record.Dist {
	return record.Dist{Count: 12, Mean: d.Mean, Min: d.Min, P50: d.P50, Max: d.Max}
}
