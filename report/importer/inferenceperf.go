package importer

import (
	"errors"
	"fmt"

	"github.com/headway-bench/headway/loadgen/record"
)

// inferencePerf is inference-perf's lifecycle report of a stage or of a whole
// run, one object a file, in seconds.
var inferencePerf = format{
	tool:    "inference-perf",
	matches: func(o object) bool { return o.has("load_summary", "successes") },
	open:    perObject(readInferencePerf),
	definitions: map[string]string{
		"ttft_ms":                       "first token - request start",
		"ttft_response_ms":              "as ttft_ms: the file has no scheduled times",
		"itl_ms":                        "gap between successive output tokens by the tool's own tokenizer; tokens of one chunk have a gap of 0, so the mean is comparable and percentiles are lower",
		"tpot_ms":                       "time_per_output_token: (last token - first token) / (output tokens - 1), a value a request",
		"e2e_ms":                        "request_latency: request end - request start",
		"e2e_response_ms":               "as e2e_ms: the file has no scheduled times",
		"send_lag_ms":                   "schedule_delay: sent - scheduled",
		"request_throughput_per_s":      "successful requests / duration of the stage",
		"output_token_throughput_per_s": "output tokens of successful requests / duration of the stage",
		"in_flight_mean":                "request throughput x mean E2E (Little's law)",
	},
}

func readInferencePerf(o object) (run, error) {
	load, good, bad := o.sub("load_summary"), o.sub("successes"), o.sub("failures")
	if load == nil || good == nil {
		return run{}, errors.New("load_summary or successes is no object")
	}
	completed, failed := good.count("count"), bad.count("count")
	r := run{settings: map[string]string{}, metadata: load.scalars(secret)}
	g := &r.rung
	counts(g, completed, failed, max(load.count("count")-completed-failed, 0))
	if g.Concurrency = int(min(load.count("concurrency"), 1<<30)); g.Concurrency == 0 {
		g.RatePerS = load.positive("requested_rate")
	}
	g.SendLag = plainStats(load.sub("schedule_delay")).dist(completed, 1e3)
	if completed == 0 {
		return r, nil
	}
	rates := good.sub("throughput")
	g.RequestThroughputPerS = rates.positive("requests_per_sec")
	g.OutputTokenThroughputPerS = rates.positive("output_tokens_per_sec")
	g.InputTokenThroughputPerS = rates.positive("input_tokens_per_sec")
	g.TotalTokenThroughputPerS = rates.positive("total_tokens_per_sec")
	if v := g.RequestThroughputPerS.Or(0); v > 0 {
		g.Window.EndS = float64(completed) / v
	}
	latency := good.sub("latency")
	of := func(name string) record.Dist { return plainStats(latency.sub(name)).dist(completed, 1e3) }
	g.E2E, g.TTFT, g.TPOT, g.ITL = of("request_latency"), of("time_to_first_token"), of("time_per_output_token"), of("inter_token_latency")
	g.InputTokens = plainStats(firstSub(good, "prompt_len", "prompt_tokens")).dist(completed, 1)
	g.OutputTokens = plainStats(firstSub(good, "output_len", "output_tokens")).dist(completed, 1)
	g.Tokens = record.Tokens{Input: whole(g.InputTokens.Mean, completed), Output: whole(g.OutputTokens.Mean, completed)}
	g.Totals.InputTokens, g.Totals.OutputTokens = g.Tokens.Input, g.Tokens.Output
	if n := good.count("token_count_mismatches"); n > 0 {
		g.Warnings = append(g.Warnings, record.Reason{Code: "token_mismatch", Value: record.Known(float64(n)),
			Message: fmt.Sprintf("in %d requests the tool's own count of tokens differs from the server's; its throughput and ITL stand on its own", n)})
	}
	return r, nil
}

// firstSub is the first of the keys that holds an object.
func firstSub(o object, keys ...string) object {
	for _, k := range keys {
		if s := o.sub(k); s != nil {
			return s
		}
	}
	return nil
}

// plainStats reads mean, min, max, median and pN.
func plainStats(o object) stats {
	return stats{mean: o.num("mean"), min: o.num("min"), max: o.num("max"), at: map[float64]record.Value{
		0.05: o.num("p5"), 0.5: o.num("median", "p50"), 0.9: o.num("p90"), 0.95: o.num("p95"), 0.99: o.num("p99"), 0.999: o.num("p99.9")}}
}
