package importer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
)

// The family of vLLM's serving benchmark: one object a run, flat keys. Its
// relatives differ in units, in the names of percentiles and in a few keys.
var vllm = format{
	tool:        "vllm-bench",
	matches:     func(o object) bool { return o.has("request_throughput", "output_throughput", "completed") },
	open:        perObject(func(o object) (run, error) { return readServe(o, serveMS) }),
	definitions: serveDefinitions("vLLM bench", nil),
}

var trtllmServe = format{
	tool: "tensorrt-llm-serve",
	matches: func(o object) bool {
		return vllm.matches(o) && (o.has("user_throughput") || o.has("avg_decoded_tokens_per_iter"))
	},
	open: perObject(func(o object) (run, error) { return readServe(o, serveMS) }),
	definitions: serveDefinitions("TensorRT-LLM's serve benchmark", map[string]string{
		"e2e_tokens_per_s": "user_throughput: mean over requests of output tokens / E2E",
	}),
}

var inferenceX = format{
	tool: "inferencex",
	matches: func(o object) bool {
		return o.has("median_ttft") && !o.has("median_ttft_ms") && (o.has("request_throughput") || o.has("output_throughput"))
	},
	open:        perObject(func(o object) (run, error) { return readServe(o, serveS) }),
	definitions: serveDefinitions("InferenceX (vLLM bench in seconds)", nil),
}

var sglang = format{
	tool: "sglang-bench-serving",
	matches: func(o object) bool {
		return vllm.matches(o) && (o.has("mean_e2e_latency_ms") || o.has("total_output_tokens_retokenized"))
	},
	open: perObject(func(o object) (run, error) { return readServe(o, serveMS) }),
	definitions: serveDefinitions("SGLang bench_serving", map[string]string{
		"in_flight_mean": "concurrency: sum of all E2E / duration (Little's law)",
	}),
}

// serveDefinitions are the family's, with a tool's own on top.
func serveDefinitions(tool string, own map[string]string) map[string]string {
	d := map[string]string{
		"ttft_ms":                       "first chunk with a choice - request start in the client; waiting for a free slot of the client is not in it",
		"ttft_response_ms":              "in open load as ttft_ms: the file has no scheduled times",
		"icl_ms":                        tool + " calls it ITL: the gap between successive chunks, whatever number of tokens each has",
		"itl_ms":                        "unknown: the tool's ITL is a gap of chunks and stands under icl_ms",
		"tpot_ms":                       "(E2E - TTFT) / (output tokens - 1), a value a request",
		"e2e_ms":                        "last chunk - request start in the client",
		"e2e_response_ms":               "E2E with the client's own queue where the file has it, else as e2e_ms",
		"request_throughput_per_s":      "completed / duration of the whole run, ramp-up and drain in it",
		"output_token_throughput_per_s": "output tokens of completed requests / duration of the whole run",
		"in_flight_mean":                "request throughput x mean E2E (Little's law); max_concurrency is only a cap",
		"output_tokens":                 "server's usage where it sent one, else the tool's tokenizer on the text",
	}
	for k, v := range own {
		d[k] = v
	}
	return d
}

// serveUnit is how a relative writes its statistics: the ending of its keys
// and the factor to milliseconds.
type serveUnit struct {
	ending string
	toMS   float64
}

var serveMS, serveS = serveUnit{"_ms", 1}, serveUnit{"", 1000}

// readServe reads one run of the family.
func readServe(o object, unit serveUnit) (run, error) {
	completed := o.count("completed", "successful_requests")
	failed := o.count("failed")
	if !o.has("failed") {
		failed = max(o.count("num_prompts")-completed, 0)
	}
	duration := o.positive("duration", "benchmark_duration")
	r := run{
		model: o.text("model_id", "model"), engine: serveEngine(o),
		version: o.text("version"), metadata: o.scalars(serveKnown), arrivals: arrivalsOf(o),
	}
	r.settings = map[string]string{}
	g := &r.rung
	g.Requests = record.Requests{Sent: completed + failed, Completed: completed, Failed: failed}
	g.Totals = record.Totals{Sent: completed + failed, Completed: completed, Failed: failed,
		InputTokens: o.count("total_input_tokens"), OutputTokens: o.count("total_output_tokens")}
	g.Tokens = record.Tokens{Input: g.Totals.InputTokens, Output: g.Totals.OutputTokens}
	g.Window.EndS = duration.Or(0)
	g.Concurrency = int(o.count("max_concurrency", "conc"))
	if rate := o.positive("request_rate"); rate.OK() {
		g.RatePerS = rate
	}
	if completed == 0 {
		return r, nil
	}
	g.RequestThroughputPerS = o.positive("request_throughput")
	g.OutputTokenThroughputPerS = o.positive("output_throughput")
	g.TotalTokenThroughputPerS = o.positive("total_token_throughput", "total_throughput")
	g.InputTokenThroughputPerS = o.positive("input_throughput")
	if d, ok := duration.Float(); ok && !g.InputTokenThroughputPerS.OK() && g.Tokens.Input > 0 {
		g.InputTokenThroughputPerS = record.Known(float64(g.Tokens.Input) / d)
	}
	g.GoodputReqPerS = o.num("request_goodput", "request_goodput:")
	g.InFlightMean = o.positive("concurrency")
	g.TTFT = serveStats(o, unit, "ttft").dist(completed, unit.toMS)
	g.TPOT = serveStats(o, unit, "tpot").dist(completed, unit.toMS)
	g.ICL = serveStats(o, unit, "itl").dist(completed, unit.toMS)
	g.E2E = serveStats(o, unit, "e2el", "e2e_latency").dist(completed, unit.toMS)
	g.E2EResponse = serveStats(o, unit, "e2el_including_client_queue").dist(completed, unit.toMS)
	g.SendLag = serveStats(o, unit, "client_queue_time").dist(completed, unit.toMS)
	g.E2ETokensPerS.Mean = o.positive("user_throughput")
	if g.E2ETokensPerS.Mean.OK() {
		g.E2ETokensPerS.Count = completed
	}
	serveLengths(&r, o, completed)
	serveDetails(&r, o)
	return r, nil
}

// serveEngine is the engine that the file names. A protocol that many engines
// speak names none.
func serveEngine(o object) string {
	engine := o.text("backend", "endpoint_type", "framework")
	if strings.HasPrefix(engine, "openai") || strings.Contains(engine, "-oai") {
		return ""
	}
	return engine
}

func arrivalsOf(o object) string {
	if b, ok := o.num("burstiness").Float(); ok && b != 1 {
		return "gamma"
	}
	return "poisson"
}

// serveStats reads the statistics of one metric, under the first of its names
// that the file has.
func serveStats(o object, unit serveUnit, names ...string) stats {
	for _, name := range names {
		end := "_" + name + unit.ending
		s := stats{mean: o.num("mean" + end), min: o.num("min" + end), max: o.num("max" + end), at: map[float64]record.Value{}}
		s.at[0.5] = o.num("median"+end, "p50"+end)
		for _, p := range []struct {
			q    float64
			name string
		}{{0.05, "p5"}, {0.90, "p90"}, {0.95, "p95"}, {0.99, "p99"}, {0.999, "p99.9"}} {
			s.at[p.q] = o.num(p.name + end)
		}
		if !s.empty() {
			return s
		}
	}
	return stats{}
}

// serveLengths fills in the lengths that totals tell.
func serveLengths(r *run, o object, completed int64) {
	g := &r.rung
	for _, l := range []struct {
		total int64
		to    *record.Dist
	}{{g.Tokens.Input, &g.InputTokens}, {g.Tokens.Output, &g.OutputTokens}} {
		if l.total > 0 {
			*l.to = record.Dist{Count: completed, Mean: record.Known(float64(l.total) / float64(completed))}
		}
	}
	if ratio := o.num("random_range_ratio"); ratio.Or(0) == 1 || !ratio.OK() {
		for i, key := range []string{"random_input_len", "random_output_len"} {
			random := slices.Contains([]string{"random", "random-ids"}, o.text("dataset_name"))
			if n := o.count(key); n > 0 && n < 1<<31 && random {
				r.lengths[i] = profiles.Fixed(int(n))
			}
		}
	}
}

// serveDetails replaces what the totals say by what the lists of each request
// say, where the run was saved in detail: percentiles that the file lacks, and
// no TTFT for a request without a token.
func serveDetails(r *run, o object) {
	g := &r.rung
	ttfts, outs := o.numbers("ttfts"), o.numbers("output_lens")
	if len(ttfts) == 0 || len(ttfts) != len(outs) {
		return
	}
	gaps, _ := o["itls"].(*gaps)
	if gaps != nil && len(gaps.sums) != len(ttfts) {
		gaps = nil
	}
	var ttft, tpot, e2e digest
	var silent, untimed int64
	for i, first := range ttfts {
		switch {
		case !(outs[i] > 0):
			silent++
			continue
		case !(first > 0):
			untimed++
			continue
		}
		ttft.add(first)
		if gaps != nil && !math.IsNaN(gaps.sums[i]) {
			e2e.add(first + gaps.sums[i])
			if outs[i] > 1 {
				tpot.add(gaps.sums[i] / (outs[i] - 1))
			}
		}
	}
	if n := silent - g.Requests.Failed; n > 0 {
		g.Requests.Completed, g.Requests.Failed = g.Requests.Completed-n, g.Requests.Failed+n
		g.Requests.Failures = map[string]int64{"no_output": n}
		r.notes = append(r.notes, bundle.Warning{Code: "no_output",
			Message: fmt.Sprintf("%d requests claim success without a token: they count as failed, but the file's throughput has them", n)})
	}
	if untimed > 0 {
		r.notes = append(r.notes, bundle.Warning{Code: "no_ttft", Message: fmt.Sprintf("%d requests have tokens but no TTFT: they are in no latency", untimed)})
	}
	if ttft.n == 0 {
		return
	}
	g.TTFT = ttft.dist(ttft.n)
	if e2e.n > 0 {
		g.E2E = e2e.dist(e2e.n)
	}
	if tpot.n > 0 {
		g.TPOT = tpot.dist(tpot.n)
	}
	if gaps != nil && gaps.all.n > 0 {
		g.ICL = gaps.all.dist(e2e.n)
	}
	for _, l := range []struct {
		list []float64
		to   *record.Dist
	}{{o.numbers("input_lens"), &g.InputTokens}, {outs, &g.OutputTokens}} {
		if len(l.list) > 0 {
			l.to.Min, l.to.Max = record.Known(slices.Min(l.list)), record.Known(slices.Max(l.list))
		}
	}
}

// serveKnown says that a key is a figure that is read, and so no metadata.
func serveKnown(key string) bool {
	if secret(key) {
		return true
	}
	for _, part := range []string{"mean_", "median_", "std_", "p50_", "p90_", "p95_", "p99_", "p99.9_", "min_", "max_ttft", "max_e2e"} {
		if strings.HasPrefix(key, part) {
			return true
		}
	}
	return slices.Contains([]string{"duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput",
		"output_throughput", "total_token_throughput", "total_throughput", "input_throughput", "request_goodput", "request_goodput:", "model_id"}, key)
}
