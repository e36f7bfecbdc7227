package importer

import (
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// trtllmBench is the report of trtllm-bench, one object a run.
var trtllmBench = format{
	tool:    "trtllm-bench",
	matches: func(o object) bool { return o.has("performance", "request_info") },
	open:    perObject(readTRTLLM),
	definitions: map[string]string{
		"ttft_ms":                       "first token - request queued in the engine, in process: no network",
		"tpot_ms":                       "(E2E - TTFT) / (output tokens - 1), a value a request",
		"e2e_ms":                        "request latency in the engine, in process: no network",
		"itl_ms":                        "unknown: the tool has none",
		"per_user_tokens_per_s":         "gen_tps: generation speed of a request after its first token",
		"e2e_tokens_per_s":              "output_throughput_per_user: mean over requests of output tokens / E2E",
		"request_throughput_per_s":      "requests / total latency of the run",
		"output_token_throughput_per_s": "output tokens / total latency of the run",
		"in_flight_mean":                "avg_num_concurrent_requests, as the tool measured",
	},
}

func readTRTLLM(o object) (run, error) {
	engine, world, info, perf, streaming := o.sub("engine"), o.sub("world_info"), o.sub("request_info"), o.sub("performance"), o.sub("streaming_metrics")
	n := info.count("num_requests")
	r := run{model: engine.text("model"), engine: "tensorrt-llm", engineVer: engine.text("version"), version: engine.text("version")}
	r.precision = profiles.Precision{Weights: strings.ToLower(engine.text("quantization", "dtype")), KVCache: strings.ToLower(engine.text("kv_cache_dtype"))}
	if strings.EqualFold(r.precision.Weights, "none") {
		r.precision.Weights = strings.ToLower(engine.text("dtype"))
	}
	r.hardware = profiles.Hardware{Accelerator: o.sub("machine").text("name"), Count: int(min(world.count("world_size"), 1<<20))}
	r.settings = world.scalars(secret)
	g := &r.rung
	in, out := info.positive("avg_input_length"), info.positive("avg_output_length")
	g.Requests = record.Requests{Sent: n, Completed: n}
	g.Tokens = record.Tokens{Input: whole(in, n), Output: whole(out, n)}
	g.Totals = record.Totals{Sent: n, Completed: n, InputTokens: g.Tokens.Input, OutputTokens: g.Tokens.Output}
	g.InputTokens, g.OutputTokens = record.Dist{Count: n, Mean: in}, record.Dist{Count: n, Mean: out}
	g.Window.EndS = perf.positive("total_latency_ms").Scale(1e-3).Or(0)
	if rate := world.positive("issue_rate"); rate.Or(0) < 1e6 {
		g.RatePerS = rate
	}
	g.InFlightMean = info.positive("avg_num_concurrent_requests")
	g.RequestThroughputPerS = perf.positive("request_throughput_req_s")
	g.OutputTokenThroughputPerS = perf.positive("system_output_throughput_tok_s")
	g.TotalTokenThroughputPerS = perf.positive("system_total_throughput_tok_s")
	g.E2ETokensPerS = stats{mean: perf.positive("output_throughput_per_user_tok_s")}.dist(n, 1)
	g.E2E = trtllmStats(perf.sub("request_latency_percentiles_ms"), perf.positive("avg_request_latency_ms")).dist(n, 1)
	if streaming != nil {
		g.TTFT = trtllmStats(streaming.sub("ttft_percentiles"), streaming.positive("avg_ttft_ms")).dist(n, 1)
		g.TPOT = trtllmStats(streaming.sub("tpot_percentiles"), streaming.positive("avg_tpot_ms")).dist(n, 1)
		g.PerUserTokensPerS = trtllmStats(streaming.sub("gen_tps_percentiles"), streaming.positive("token_output_speed_tok_s")).dist(n, 1)
	}
	return r, nil
}

// whole is a mean times a count, rounded.
func whole(mean record.Value, n int64) int64 {
	return int64(min(mean.Or(0)*float64(n)+0.5, 1<<53))
}

func trtllmStats(o object, mean record.Value) stats {
	if !mean.OK() {
		mean = o.positive("average")
	}
	return stats{mean: mean, min: o.num("minimum"), max: o.num("maximum"),
		at: map[float64]record.Value{0.5: o.num("p50"), 0.9: o.num("p90"), 0.95: o.num("p95"), 0.99: o.num("p99")}}
}
