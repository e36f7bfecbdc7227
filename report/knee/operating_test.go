package knee

import (
	"math"
	"strings"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
)

// loaded makes a rung with a TTFT of so many ms at every percentile.
func loaded(index, users int, tokens, ttft float64, changes ...func(*record.Rung)) record.Rung {
	v := record.Known(ttft)
	r := record.Rung{
		Index: index, Mode: record.Closed, Concurrency: users, Verdict: record.Valid,
		Requests: record.Requests{Sent: 1000, Completed: 1000}, InFlightMean: record.Known(float64(users)),
		OutputTokenThroughputPerS: record.Known(tokens), InputTokenThroughputPerS: record.Known(8 * tokens), RequestThroughputPerS: record.Known(tokens / 100),
		TTFT:              record.Dist{Count: 1000, Mean: v, Min: v, P05: v, P50: v, P90: v, P95: v, P99: v, Max: v},
		PerUserTokensPerS: record.Dist{Count: 1000, Mean: record.Known(tokens / float64(users))},
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func TestOperatingPoint(t *testing.T) {
	full := func(r *record.Rung) { r.Telemetry = &record.Telemetry{KVCacheUsageMax: record.Known(0.99)} }
	half := func(r *record.Rung) { r.Telemetry = &record.Telemetry{KVCacheUsageMax: record.Known(0.5)} }
	invalid := func(r *record.Rung) {
		r.Verdict, r.Reasons = record.Invalid, []record.Reason{{Code: "send_lag"}}
	}
	unsure := func(r *record.Rung) { r.TTFT.P99, r.TTFT.Max = record.Known(900), record.Known(5000) }
	tests := []struct {
		name    string
		rungs   []record.Rung
		slo     string
		status  OperatingStatus
		users   float64
		binding string
	}{
		{"the last that holds", []record.Rung{loaded(0, 1, 50, 20), loaded(1, 8, 350, 100), loaded(2, 16, 600, 400), loaded(3, 32, 800, 900)}, "ttft_p95=500ms", PointFound, 16, "ttft_p95<=500ms (900 ms)"},
		{"a failing rung is never the maximum", []record.Rung{loaded(0, 1, 50, 600)}, "ttft_p95=500ms", PointNone, 0, "ttft_p95<=500ms (600 ms)"},
		{"no limit", []record.Rung{loaded(0, 1, 50, 20)}, "", PointNoSLO, 0, ""},
		{"equal throughput takes the lower load", []record.Rung{loaded(0, 1, 50, 20), loaded(1, 16, 800, 30), loaded(2, 32, 802, 300), loaded(3, 64, 801, 450)}, "ttft_p95=500ms", PointFound, 16, "throughput no longer grows"},
		{"memory binds", []record.Rung{loaded(0, 1, 50, 20, half), loaded(1, 16, 800, 30, half), loaded(2, 32, 1200, 50, full)}, "ttft_p95=500ms,kv_cache_usage=95%", PointFound, 16, "kv_cache_usage<=95% (99 %)"},
		{"an invalid rung is not taken", []record.Rung{loaded(0, 1, 50, 20), loaded(1, 16, 800, 30, invalid)}, "ttft_p95=500ms", PointFound, 1, "measurement: send_lag"},
		{"within its error of the limit", []record.Rung{loaded(0, 1, 50, 20), loaded(1, 16, 800, 490, unsure)}, "ttft_p95=500ms", PointFound, 1, "within its error"},
		{"too few samples do not hold", []record.Rung{loaded(0, 1, 50, 20), loaded(1, 16, 800, 30, func(r *record.Rung) { r.TTFT.Count, r.TTFT.P99 = 300, record.Value{} })}, "ttft_p99=500ms", PointFound, 1, "needs 459"},
		{"demanded throughput fails at the bottom only", []record.Rung{loaded(0, 1, 50, 20), loaded(1, 8, 350, 100), loaded(2, 16, 600, 900)}, "ttft_p95=500ms,output_token_throughput>=200", PointFound, 8, "ttft_p95<=500ms (900 ms)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			slos := limitsOf(t, tt.slo)
			p := OperatingPoint(tt.rungs, slos, Economics{})
			if p.Status != tt.status || p.Concurrency.Or(0) != tt.users || !strings.Contains(p.Binding, tt.binding) || tt.binding == "" && p.Binding != "" {
				t.Errorf("%s at %v, binding %q", p.Status, p.Concurrency.Or(0), p.Binding)
			}
		})
	}
}

func TestPeakAndSingleUser(t *testing.T) {
	rungs := []record.Rung{loaded(0, 1, 50, 20), loaded(1, 16, 700, 300), loaded(2, 64, 650, 4000)}
	if p := Peak(rungs, Economics{}); p.Concurrency.Or(0) != 16 {
		t.Errorf("peak at %v", p.Concurrency)
	}
	if p := SingleUser(rungs, Economics{}); p.Concurrency.Or(0) != 1 {
		t.Errorf("best speed at %v", p.Concurrency)
	}
}

// What one user gets is seen where requests are alone, not on the lowest load of
// a ladder that starts higher.
func TestSingleUserIsAlone(t *testing.T) {
	rate := func(perS, inFlight float64) func(*record.Rung) {
		return func(r *record.Rung) {
			r.Mode, r.Concurrency, r.RatePerS, r.InFlightMean = record.Open, 0, record.Known(perS), record.Known(inFlight)
			r.PerUserTokensPerS.Mean = record.Known(50)
		}
	}
	untold := func(r *record.Rung) { r.InFlightMean = record.Value{} }
	for _, tt := range []struct {
		name    string
		rungs   []record.Rung
		status  OperatingStatus
		index   int
		binding string
	}{
		{"starts at 8", []record.Rung{loaded(0, 8, 380, 20), loaded(1, 16, 700, 300)}, PointNone, 0, "the lowest load has 8 requests in flight"},
		{"starts at 2", []record.Rung{loaded(0, 2, 100, 20), loaded(1, 4, 201, 20)}, PointNone, 0, "the lowest load has 2 requests in flight"},
		{"a faster load with company", []record.Rung{loaded(0, 1, 50, 20), loaded(1, 2, 120, 20)}, PointFound, 0, ""},
		{"only a cap of 1 is known", []record.Rung{loaded(0, 1, 50, 20, untold), loaded(1, 8, 380, 20, untold)}, PointFound, 0, ""},
		{"only a cap of 8 is known", []record.Rung{loaded(0, 8, 380, 20, untold)}, PointNone, 0, "8 requests"},
		{"open loop, of equal speeds the lower load", []record.Rung{loaded(0, 0, 10, 20, rate(0.1, 0.2)), loaded(1, 0, 50, 20, rate(0.5, 1.1))}, PointFound, 0, ""},
		{"open loop, all crowded", []record.Rung{loaded(0, 0, 380, 20, rate(4, 9))}, PointNone, 0, "9 requests"},
		{"nothing is known of the load", []record.Rung{loaded(0, 0, 380, 20, untold)}, PointNone, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := SingleUser(tt.rungs, Economics{})
			if p.Status != tt.status || !strings.Contains(p.Binding, tt.binding) || p.Status == PointFound && p.Rungs[0] != tt.index {
				t.Errorf("%s on rungs %v, %q", p.Status, p.Rungs, p.Binding)
			}
		})
	}
}

// A point says so when no valid rung is behind it.
func TestPointsOfInconclusiveRungs(t *testing.T) {
	inconclusive := func(r *record.Rung) { r.Verdict = record.Inconclusive }
	for _, tt := range []struct {
		name  string
		rungs []record.Rung
		want  record.Verdict
	}{
		{"valid", []record.Rung{loaded(0, 1, 50, 20)}, record.Valid},
		{"one repeat of two", []record.Rung{loaded(0, 1, 50, 20), loaded(1, 1, 50, 20, inconclusive)}, record.Valid},
		{"all repeats", []record.Rung{loaded(0, 1, 50, 20, inconclusive), loaded(1, 1, 50, 20, inconclusive)}, record.Inconclusive},
		{"none", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, p := range map[string]Operating{
				"operating point": OperatingPoint(tt.rungs, limitsOf(t, "ttft_p95=500ms"), Economics{}),
				"peak":            Peak(tt.rungs, Economics{}), "single user": SingleUser(tt.rungs, Economics{}),
			} {
				if p.Verdict != tt.want {
					t.Errorf("%s is %q, want %q", name, p.Verdict, tt.want)
				}
			}
		})
	}
}

func TestAHandfulOfCompletionsIsNoPeak(t *testing.T) {
	cut := func(completed int64, codes ...string) func(*record.Rung) {
		return func(r *record.Rung) {
			r.Verdict, r.Requests.Completed = record.Inconclusive, completed
			for _, code := range codes {
				r.Reasons = append(r.Reasons, record.Reason{Code: code})
			}
		}
	}
	for _, tt := range []struct {
		name  string
		rungs []record.Rung
		users float64
	}{
		{"interrupted", []record.Rung{loaded(0, 8, 350, 20), loaded(1, 16, 900, 20, cut(6, "too_few_requests"))}, 8},
		{"few completions a user", []record.Rung{loaded(0, 8, 350, 20), loaded(1, 64, 900, 20, cut(90, "too_few_requests", "little_law"))}, 8},
		{"its other repeat counts", []record.Rung{loaded(0, 8, 350, 20), loaded(1, 16, 600, 20), loaded(2, 16, 100, 20, cut(6, "too_few_requests"))}, 16},
		{"too few for a percentile only", []record.Rung{loaded(0, 8, 350, 20), loaded(1, 16, 600, 20, cut(300, "too_few_requests"))}, 16},
		{"nothing else", []record.Rung{loaded(0, 16, 900, 20, cut(6, "too_few_requests"))}, 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if p := Peak(tt.rungs, Economics{}); p.Concurrency.Or(0) != tt.users {
				t.Errorf("peak at %v, want %v", p.Concurrency.Or(0), tt.users)
			}
		})
	}
}

func TestLoadsWithoutCompletionAreNoPoint(t *testing.T) {
	dead := loaded(0, 1, 0, 20)
	dead.RequestThroughputPerS = record.Known(0)
	rungs := []record.Rung{dead}
	if p, s := Peak(rungs, Economics{}), SingleUser(rungs, Economics{}); p.Status != PointNone || s.Status != PointNone {
		t.Errorf("peak %s, single user %s of a ladder in which nothing completed", p.Status, s.Status)
	}
}

// 1000 tok/s at 3.6 USD an hour are 1 USD a million tokens.
func TestPrices(t *testing.T) {
	rungs := []record.Rung{loaded(0, 16, 1000, 30, func(r *record.Rung) { r.Telemetry = &record.Telemetry{GPUPowerWMean: record.Known(500)} })}
	p := Peak(rungs, Economics{USDPerHour: 3.6, Accelerators: 4})
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"USD a million output tokens", p.USDPerMillionOutputTokens.Or(0), 1},
		{"USD a million input tokens", p.USDPerMillionInputTokens.Or(0), 0.125},
		{"tokens a joule", p.TokensPerJoule.Or(0), 2},
		{"tok/s an accelerator", p.TokensPerSPerAccelerator.Or(0), 250},
	} {
		if math.Abs(tt.got-tt.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	shared := Peak(rungs, Economics{USDPerHour: 3.6, InputPriceRatio: 0.25})
	if out, in := shared.USDPerMillionOutputTokens.Or(0), shared.USDPerMillionInputTokens.Or(0); math.Abs(out*1000+in*8000-1000) > 1e-6 || math.Abs(in/out-0.25) > 1e-9 {
		t.Errorf("shared prices %v and %v do not add up to the hour", out, in)
	}
	if p := Peak(rungs, Economics{}); p.USDPerMillionOutputTokens.OK() {
		t.Error("an unknown price is a number")
	}
}
