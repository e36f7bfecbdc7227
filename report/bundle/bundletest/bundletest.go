// Package bundletest makes results of known content, for the tests of what
// reads them.
package bundletest

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/knee"
)

// Loads is the ladder of Result.
var Loads = []int{1, 2, 4, 8, 16, 32, 64, 128}

// Result is a closed-loop ladder over Loads, made from the batching law
// a = 10 ms, b = 0.2 ms with a cap at 24 in flight, 1024 tokens in and 128 out.
// Every figure of it follows from the law.
func Result() *bundle.Result {
	zero := 0.0
	r := &bundle.Result{
		Schema:    bundle.Schema,
		Status:    bundle.Complete,
		Headway:   bundle.Build{Version: "0.1.0", Commit: "0123abc"},
		StartedAt: "2026-01-02T03:04:05Z", EpochUnixNS: 1767323045000000000,
		DurationS: record.Known(512.5), Seed: 42,
		ScheduleSHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Profile: profiles.Profile{
			APIVersion: profiles.APIVersion, Name: "llama-3.1-8b-chat",
			Model:     profiles.Model{Family: "llama", Version: "3.1", Size: "8B", ID: "meta-llama/Llama-3.1-8B-Instruct"},
			Precision: profiles.Precision{Weights: "bf16", KVCache: "bf16"},
			Hardware:  profiles.Hardware{Accelerator: "H100-SXM-80GB", Count: 2},
			Serving:   profiles.Serving{Engine: "vllm", Version: "auto", Settings: map[string]string{"tensor_parallel": "2", "max_num_seqs": "24"}},
			Workload: profiles.Workload{
				InputTokens: profiles.Length{Kind: "fixed", Value: 1024}, OutputTokens: profiles.Length{Kind: "fixed", Value: 128},
				Prompt: "auto", Sampling: profiles.Sampling{Temperature: &zero, ForceLength: true}, Seed: 7,
			},
			Load: profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: Loads}},
			Stage: profiles.Stage{Warmup: profiles.Warmup{Auto: true}, Measure: profiles.Duration(60e9), MinRequests: 200,
				MaxDuration: profiles.Duration(300e9), Drain: profiles.Duration(30e9), Repeats: 1, Timeout: profiles.Duration(600e9)},
			SLO:    profiles.SLOs{"ttft_p95": "500ms", "itl_p95": "50ms"},
			Cost:   profiles.Cost{USDPerHour: 5.98},
			Target: profiles.Target{URL: "http://127.0.0.1:8000", Backend: "vllm", APIKeyEnv: "HEADWAY_API_KEY"},
		},
		Server: bundle.Server{Engine: "vllm", Version: "0.11.0", ModelID: "meta-llama/Llama-3.1-8B-Instruct",
			Settings: map[string]string{"max_model_len": "8192"}, IdentitySource: "/version, /v1/models"},
		Client: bundle.Client{OS: "linux", Arch: "amd64", CPUs: 16, GoVersion: "go1.26.0", MemoryBytes: 64 << 30},
		Knee: knee.Knee{
			Status: knee.Found, Method: knee.Batching, Mode: record.Closed,
			InFlight: record.Known(24.1), InFlightCI95: &[2]record.Value{record.Known(22.8), record.Known(25.6)},
			RequestThroughputPerS: record.Known(12.7), OutputTokenThroughputPerS: record.Known(1622),
			HalfSaturationInFlight: record.Known(50), HingeInFlight: record.Known(16.5),
			Law:      knee.Law{Unit: "output_tokens_per_s", A: record.Known(0.01), B: record.Known(0.0002), Cap: record.Known(1622)},
			Cause:    knee.CauseServer,
			Evidence: []record.Reason{{Code: "running_flat", Message: "24 requests run at most while more wait", Value: record.Known(24)}},
			Warnings: []record.Reason{}, DistinctLoads: len(Loads),
		},
		Warnings: []bundle.Warning{},
	}
	r.Knee.Running.InFlight, r.Knee.Running.Plateau = record.Known(24.3), record.Known(24)
	for i, n := range Loads {
		r.Rungs = append(r.Rungs, rung(i, n))
	}
	for i := 1; i < len(r.Rungs); i++ {
		r.Rungs[i].Elasticity = elasticity(&r.Rungs[i-1], &r.Rungs[i])
	}
	price := knee.Economics{USDPerHour: r.Profile.Cost.USDPerHour, Accelerators: r.Profile.Hardware.Count}
	limits, err := r.Profile.SLO.List()
	if err != nil {
		panic(err)
	}
	r.OperatingPoint = knee.OperatingPoint(r.Rungs, limits, price)
	r.Peak, r.SingleUser = knee.Peak(r.Rungs, price), knee.SingleUser(r.Rungs, price)
	return r
}

const (
	slots  = 24
	ttftMS = 60.0
	output = 128
)

// rung follows the law: min(n, slots) requests run, the rest wait.
func rung(index, n int) record.Rung {
	running := math.Min(float64(n), slots)
	itlMS := 10 + 0.2*running
	serviceMS := ttftMS + (output-1)*itlMS
	reqPerS := running / serviceMS * 1000
	e2eMS := float64(n) / reqPerS * 1000
	waitMS := e2eMS - serviceMS
	completed := int64(reqPerS * 60)
	tokPerS := reqPerS * output
	g := record.Rung{
		Index: index, Mode: record.Closed, Concurrency: n, Verdict: record.Valid,
		Reasons: []record.Reason{}, Warnings: []record.Reason{}, Blocks: []record.Block{},
		StartUnixNS: 1767323045000000000 + int64(index)*64e9,
		Window:      record.Window{StartS: 3, EndS: 63, Steady: true, Method: "mser5"},
		Requests:    record.Requests{Sent: completed + 2, Completed: completed, Failures: map[string]int64{}},
		Totals:      record.Totals{Sent: completed + 8, Completed: completed + 8, InputTokens: (completed + 8) * 1024, OutputTokens: (completed + 8) * output},
		Tokens:      record.Tokens{Input: completed * 1024, Output: completed * output, OutputRequested: completed * output, Source: "running_usage", MismatchRatio: record.Known(0), InputMismatchRatio: record.Known(0)},
		InputTokens: flat(completed, 1024), OutputTokens: flat(completed, output),
		InFlightMean: record.Known(float64(n) * 0.997), InFlightMax: record.Known(float64(n)),
		RequestThroughputPerS: record.Known(reqPerS), OutputTokenThroughputPerS: record.Known(tokPerS),
		InputTokenThroughputPerS: record.Known(reqPerS * 1024), TotalTokenThroughputPerS: record.Known(reqPerS * (1024 + output)),
		FailedTokenThroughputPerS: record.Known(0), GoodputReqPerS: record.Known(reqPerS), GoodputTokensPerS: record.Known(tokPerS),
		PerUserTokensPerS: around(completed, 1000/itlMS), E2ETokensPerS: around(completed, output/e2eMS*1000),
		TTFT: around(completed, ttftMS+waitMS), TTFTResponse: around(completed, ttftMS+waitMS),
		ITL: around(completed, itlMS), ICL: around(completed, itlMS), TPOT: around(completed, itlMS),
		E2E: around(completed, e2eMS), E2EResponse: around(completed, e2eMS),
		SendLag: around(completed, 0.02), ReceiveLag: around(completed, 0.03),
		Stamps: "kernel", MergedReadRatio: record.Known(0.001),
		Client: record.ClientHealth{CPURatio: record.Known(0.02 + 0.001*float64(n)), SchedulingLatencyP99ms: record.Known(0.1), GCPauseP99ms: record.Known(0.05), RemoteAddresses: 1, Connections: int64(n)},
		Telemetry: &record.Telemetry{Source: "metrics", Scrapes: 60, KVCacheUsageMax: record.Known(running / 30),
			RequestsRunningMean: record.Known(running), RequestsRunningMax: record.Known(running),
			RequestsWaitingMean: record.Known(float64(n) - running), Preemptions: record.Known(0)},
	}
	return g
}

// flat is a distribution of one value.
func flat(n int64, v float64) record.Dist {
	k := record.Known(v)
	return record.Dist{Count: n, Mean: k, Min: k, P05: k, P50: k, P90: k, P95: k, P99: k, Max: k}
}

// around is a distribution around v; percentiles that n samples can't carry
// are unknown.
func around(n int64, v float64) record.Dist {
	at := func(f float64, need int64) record.Value {
		if n < need {
			return record.Value{}
		}
		return record.Known(v * f)
	}
	return record.Dist{Count: n, Mean: record.Known(v), Min: record.Known(v * 0.8), P05: at(0.85, 90), P50: at(0.99, 7), P90: at(1.15, 44),
		P95: at(1.25, 90), P99: at(1.6, 459), P999: at(2, 4603), Max: record.Known(v * 2.1)}
}

// elasticity is d log X / d log N between two rungs.
func elasticity(a, b *record.Rung) record.Value {
	x := math.Log(b.OutputTokenThroughputPerS.Or(0) / a.OutputTokenThroughputPerS.Or(0))
	return record.Known(x / math.Log(b.InFlightMean.Or(0)/a.InFlightMean.Or(0)))
}
