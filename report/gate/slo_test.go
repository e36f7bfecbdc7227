package gate

import (
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// rung is a valid closed rung with 1000 requests, TTFT p95 400 ms, ITL p95 20
// ms, 40 tok/s a user.
func rung(concurrency, repeat int) record.Rung {
	dist := func(v float64) record.Dist {
		return record.Dist{Count: 1000, Mean: record.Known(v * 0.5), Min: record.Known(v * 0.1), P05: record.Known(v * 0.2), P50: record.Known(v * 0.45),
			P90: record.Known(v * 0.9), P95: record.Known(v), P99: record.Known(v * 1.4), Max: record.Known(v * 2)}
	}
	return record.Rung{
		Mode: record.Closed, Concurrency: concurrency, Repeat: repeat, Verdict: record.Valid,
		Requests:              record.Requests{Sent: 1000, Completed: 1000},
		InFlightMean:          record.Known(float64(concurrency)),
		RequestThroughputPerS: record.Known(10), OutputTokenThroughputPerS: record.Known(1000),
		TTFT: dist(400), TTFTResponse: dist(4000), ITL: dist(20), TPOT: dist(20), E2E: dist(3000), E2EResponse: dist(9000),
		PerUserTokensPerS: dist(200),
		Telemetry:         &record.Telemetry{KVCacheUsageMax: record.Known(0.5)},
	}
}

func with(r record.Rung, change func(*record.Rung)) record.Rung {
	change(&r)
	return r
}

func TestJudgeSLO(t *testing.T) {
	one := []record.Rung{rung(32, 0)}
	tests := []struct {
		name  string
		rungs []record.Rung
		slo   string
		at    string
		exit  int
	}{
		{"holds", one, "ttft_p95=500ms", "", 0},
		{"broken", one, "ttft_p95=300ms", "", 1},
		{"exactly at the limit holds", one, "ttft_p95=400ms", "", 0},
		{"lower limit holds", one, "tps_p05>=20", "", 0},
		{"lower limit broken", one, "tps_p05>=100", "", 1},
		{"one of two broken", one, "ttft_p95=500ms,itl_p95=10ms", "", 1},
		{"several loads and no choice", []record.Rung{rung(1, 0), rung(32, 0)}, "ttft_p95=500ms", "", 2},
		{"several loads and a choice", []record.Rung{rung(1, 0), rung(32, 0)}, "ttft_p95=500ms", "concurrency=32", 0},
		{"a load that was not run", one, "ttft_p95=500ms", "concurrency=64", 2},
		{"a rate in a closed result", one, "ttft_p95=500ms", "rate=32", 2},
		{"operating point", []record.Rung{rung(1, 0), rung(32, 0)}, "ttft_p95=500ms", "operating-point", 0},
		{"no operating point", []record.Rung{rung(1, 0), rung(32, 0)}, "ttft_p95=100ms", "operating-point", 1},
		{"metric not measured", one, "ttfo_p95=1s", "", 2},
		{"no telemetry", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.Telemetry = nil })}, "kv_cache_usage=95%", "", 2},
		{"telemetry without the counter", one, "preemptions=0", "", 2},
		{"kv cache below", one, "kv_cache_usage=95%", "", 0},
		{"kv cache above", one, "kv_cache_usage=40%", "", 1},
		{"too few samples", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.TTFT.Count, r.TTFT.P99 = 300, record.Value{} })}, "ttft_p99=5s", "", 4},
		{"invalid measurement", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.Verdict = record.Invalid })}, "ttft_p95=500ms", "", 3},
		{"invalid and broken", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.Verdict = record.Invalid })}, "ttft_p95=1ms", "", 3},
		{"inconclusive measurement", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.Verdict = record.Inconclusive })}, "ttft_p95=500ms", "", 4},
		{"inconclusive but broken", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.Verdict = record.Inconclusive })}, "ttft_p95=1ms", "", 1},
		{"errors over their limit", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.Requests.Failed = 20 })}, "error_rate=0.5%", "", 1},
		{"errors within their limit", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.Requests.Failed = 4 })}, "error_rate=0.5%", "", 0},
		{"no limit on errors but many", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.Requests.Failed = 300 })}, "ttft_p95=500ms", "", 1},
		{"every request failed", []record.Rung{with(rung(1, 0), func(r *record.Rung) {
			r.Requests.Completed, r.Requests.Failed, r.TTFT = 0, 1000, record.Dist{}
		})}, "ttft_p95=500ms", "", 1},
		{"nothing was sent", []record.Rung{with(rung(1, 0), func(r *record.Rung) { r.Requests, r.TTFT = record.Requests{}, record.Dist{} })}, "ttft_p95=500ms", "", 4},
		{"open loop takes response times", []record.Rung{with(rung(0, 0), func(r *record.Rung) { r.Mode, r.RatePerS = record.Open, record.Known(8) })}, "ttft_p95=500ms", "rate=8", 1},
		{"repeats are judged together", []record.Rung{
			rung(8, 0), with(rung(8, 1), func(r *record.Rung) { r.TTFT.P95 = record.Known(700) }),
		}, "ttft_p95=500ms", "", 1},
		{"no rung", nil, "ttft_p95=500ms", "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			slos, err := profiles.ParseSLOs(tt.slo)
			if err != nil {
				t.Fatal(err)
			}
			at, err := ParseAt(tt.at)
			if err != nil {
				t.Fatal(err)
			}
			v := JudgeSLO([]Run{{Name: "run", Rungs: tt.rungs}}, slos, at)
			if v.ExitCode() != tt.exit {
				t.Errorf("exit %d, want %d: %+v", v.ExitCode(), tt.exit, v)
			}
		})
	}
}

// No figure that is beside a count of 0, unknown or absent passes, alone or as
// one of several repeats, by its value or at the operating point.
func TestWhatWasNotMeasuredIsNeverAPass(t *testing.T) {
	one := func(change func(*record.Rung)) []record.Rung { return []record.Rung{with(rung(32, 0), change)} }
	tests := []struct {
		name  string
		rungs []record.Rung
		slo   string
		exit  int
	}{
		{"a percentile of 0 samples", one(func(r *record.Rung) { r.TTFT.Count = 0 }), "ttft_p95=500ms", 4},
		{"a mean of 0 samples", one(func(r *record.Rung) { r.ITL.Count = 0 }), "itl_mean=500ms", 4},
		{"speeds of 0 users", one(func(r *record.Rung) { r.PerUserTokensPerS.Count = 0 }), "tps_p05>=1", 4},
		{"0 samples and nothing completed", one(func(r *record.Rung) { r.TTFT.Count, r.Requests = 0, record.Requests{} }), "ttft_p95=500ms", 4},
		{"a percentile of fewer samples than it takes", one(func(r *record.Rung) { r.TTFT.Count = 89 }), "ttft_p95=500ms", 4},
		{"a throughput of nothing completed", one(func(r *record.Rung) { r.Requests = record.Requests{} }), "request_throughput>=1", 4},
		{"a goodput of nothing completed", one(func(r *record.Rung) { r.Requests, r.GoodputReqPerS = record.Requests{}, record.Known(9) }), "goodput>=1", 4},
		{"an error rate of nothing ended", one(func(r *record.Rung) { r.Requests = record.Requests{Sent: 9} }), "error_rate=1%", 4},
		{"a null percentile of enough samples", one(func(r *record.Rung) { r.TTFT.P95 = record.Value{} }), "ttft_p95=500ms", 2},
		{"a metric that nobody measured", one(func(r *record.Rung) { r.ITL = record.Dist{} }), "itl_p95=500ms", 2},
		{"a goodput that nobody measured", one(func(r *record.Rung) { r.GoodputReqPerS = record.Value{} }), "goodput>=1", 2},
		{"one repeat of two without samples", []record.Rung{rung(32, 0), with(rung(32, 1), func(r *record.Rung) { r.TTFT.Count = 0 })}, "ttft_p95=500ms", 4},
		{"one repeat of two without the metric", []record.Rung{rung(32, 0), with(rung(32, 1), func(r *record.Rung) { r.TTFT = record.Dist{} })}, "ttft_p95=500ms", 4},
		{"no rung", nil, "ttft_p95=500ms", 2},
	}
	for _, tt := range tests {
		slos, err := profiles.ParseSLOs(tt.slo)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []At{{}, {OperatingPoint: true}} {
			t.Run(tt.name+", "+at.String(), func(t *testing.T) {
				if v := JudgeSLO([]Run{{Name: "run", Rungs: tt.rungs}}, slos, at); v.ExitCode() != tt.exit {
					t.Errorf("exit %d, want %d: %+v", v.ExitCode(), tt.exit, v)
				}
			})
		}
	}
}

func TestParseAt(t *testing.T) {
	for in, want := range map[string]At{
		"": {}, "concurrency=32": {Concurrency: 32}, "rate=0.5": {RatePerS: 0.5}, "operating-point": {OperatingPoint: true},
	} {
		if got, err := ParseAt(in); err != nil || got != want {
			t.Errorf("ParseAt(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"concurrency", "concurrency=0", "concurrency=1.5", "rate=-1", "rate=NaN", "rate=Inf", "operating_point", "32"} {
		if _, err := ParseAt(in); err == nil {
			t.Errorf("ParseAt(%q) is accepted", in)
		}
	}
}

func TestResolve(t *testing.T) {
	v := Verdict{Status: Inconclusive}
	if got := v.Resolve(Pass); got.ExitCode() != 0 || !got.Resolved || len(got.Warnings) != 1 {
		t.Errorf("resolved to %+v", got)
	}
	if got := (Verdict{Status: Invalid}).Resolve(Pass); got.ExitCode() != 3 {
		t.Errorf("an invalid verdict was resolved: %+v", got)
	}
}
