package main

import (
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/bundle/bundletest"
)

// What a run did not measure passes none of its limits, on one load and on a
// ladder.
func TestRunGateNeverPassesWhatWasNotMeasured(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits profiles.SLOs
		change func(*record.Rung)
		exit   int
	}{
		{"measured", profiles.SLOs{"ttft_p95": "5m"}, func(*record.Rung) {}, 0},
		{"beside a count of 0", profiles.SLOs{"ttft_p95": "5m"}, func(g *record.Rung) { g.TTFT.Count = 0 }, 4},
		{"a throughput of nothing completed", profiles.SLOs{"request_throughput": ">=0.1"}, func(g *record.Rung) { g.Requests.Completed = 0 }, 4},
		{"a null percentile of too few samples", profiles.SLOs{"ttft_p95": "5m"}, func(g *record.Rung) { g.TTFT = few(g.TTFT) }, 4},
		{"a null percentile of enough samples", profiles.SLOs{"ttft_p95": "5m"}, func(g *record.Rung) { g.TTFT.P95 = record.Value{} }, 2},
		{"a metric that the server does not tell", profiles.SLOs{"kv_cache_usage": "95%"}, func(g *record.Rung) { g.Telemetry = nil }, 2},
	} {
		for load, rungs := range map[string][2]int{"one load": {3, 4}, "a ladder": {3, 8}} {
			t.Run(tt.name+", "+load, func(t *testing.T) {
				r := bundletest.Result()
				r.Profile.SLO, r.Rungs = tt.limits, r.Rungs[rungs[0]:rungs[1]]
				for i := range r.Rungs {
					tt.change(&r.Rungs[i])
				}
				v, err := (&runFlags{gate: true}).judge([]*bundle.Bundle{{Path: "run", Result: r}})
				if err != nil || v.ExitCode() != tt.exit {
					t.Errorf("%v, exit %d, want %d: %+v", err, v.ExitCode(), tt.exit, v)
				}
			})
		}
	}
	r := bundletest.Result()
	r.Rungs = nil
	if v, err := (&runFlags{gate: true}).judge([]*bundle.Bundle{{Path: "run", Result: r}}); err != nil || v.ExitCode() != 2 {
		t.Errorf("no rung: %v, %+v", err, v)
	}
}
