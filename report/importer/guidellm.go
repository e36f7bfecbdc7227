package importer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
)

var guidellmDefinitions = map[string]string{
	"ttft_ms":                       "first token - request start",
	"ttft_response_ms":              "as ttft_ms: the file has no TTFT from the scheduled time",
	"tpot_ms":                       "the tool calls it inter-token latency: (last token - first token) / (output tokens - 1), a value a request",
	"itl_ms":                        "unknown: the tool's inter-token latency is a mean of each request and stands under tpot_ms",
	"e2e_ms":                        "request end - request start, in seconds in the file",
	"e2e_response_ms":               "scheduled latency where the file has it, else as e2e_ms",
	"send_lag_ms":                   "dispatch delay, where the file has it",
	"ttfo_ms":                       "first output token - request start",
	"request_throughput_per_s":      "mean of the rate of successful requests over the measured time",
	"output_token_throughput_per_s": "mean of the rate of output tokens of successful requests over the measured time",
	"in_flight_mean":                "request_concurrency: time average of requests being processed",
	"time_per_output_token":         "not taken: the tool's time per output token has the first token in it (E2E / output tokens)",
}

// guidellm is its benchmarks.json: a run a benchmark.
var guidellm = format{
	tool: "guidellm",
	matches: func(o object) bool {
		list, ok := o["benchmarks"].([]any)
		if !ok || len(list) == 0 {
			return false
		}
		first, _ := list[0].(map[string]any)
		return object(first).has("metrics")
	},
	open:        func() reader { return &guidellmReader{} },
	definitions: guidellmDefinitions,
}

type guidellmReader struct{ all []run }

func (g *guidellmReader) runs() ([]run, error) { return g.all, nil }

func (g *guidellmReader) add(o object) error {
	list, _ := o["benchmarks"].([]any)
	for i, item := range list {
		b, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("benchmarks[%d] is no object", i)
		}
		r, err := readGuidellm(object(b))
		if err != nil {
			return fmt.Errorf("benchmarks[%d]: %w", i, err)
		}
		r.version = o.sub("metadata").text("guidellm_version", "version")
		if r.model == "" {
			r.model = firstText(o.sub("config"), "model")
		}
		if r.model == "" {
			r.model = o.sub("config", "backend").text("model")
		}
		g.all = append(g.all, r)
	}
	return nil
}

func readGuidellm(b object) (run, error) {
	metrics := b.sub("metrics")
	if metrics.sub("requests_per_second") == nil {
		return run{}, errors.New("metrics.requests_per_second is missing")
	}
	config := b.sub("config")
	if config == nil {
		config = b.sub("args")
	}
	r := run{engine: "", settings: map[string]string{}, metadata: map[string]string{}}
	for _, o := range []object{config.sub("backend"), b.sub("worker"), config} {
		if r.model == "" {
			r.model = o.text("model", "backend_model")
		}
	}
	made := metrics.sub("request_totals")
	if made == nil {
		made = b.sub("request_totals")
	}
	if made == nil {
		made = b.sub("scheduler_metrics", "requests_made")
	}
	counts(&r.rung, made.count("successful"), made.count("errored"), made.count("incomplete"))
	strategy := config.sub("strategy")
	guidellmLoad(&r, strategy.text("type_", "type"), int(min(strategy.count("streams", "max_concurrency"), 1<<30)), strategy.positive("rate"))
	r.rung.Window.EndS = b.positive("duration").Or(0)
	if b.has("start_time", "end_time") && r.rung.Window.EndS == 0 {
		r.rung.Window.EndS = max(b.num("end_time").Or(0)-b.num("start_time").Or(0), 0)
	}
	for k, v := range config.scalars(secret) {
		r.metadata[k] = v
	}
	guidellmFigures(&r.rung, func(name string) stats { return guidellmStats(metrics.sub(name, "successful")) })
	return r, nil
}

// counts fills in the requests of a rung. Incomplete ones were cut by the
// tool's own limits.
func counts(g *record.Rung, successful, errored, incomplete int64) {
	g.Requests = record.Requests{Sent: successful + errored + incomplete, Completed: successful, Failed: errored, Censored: incomplete}
	g.Totals = record.Totals{Sent: g.Requests.Sent, Completed: successful, Failed: errored}
}

// guidellmLoad places a run by its strategy.
func guidellmLoad(r *run, strategy string, streams int, rate record.Value) {
	switch strategy {
	case "synchronous":
		r.rung.Concurrency = 1
	case "constant", "poisson", "async":
		r.rung.RatePerS, r.arrivals = rate, strategy
		if strategy == "async" {
			r.arrivals = "constant"
		}
	case "concurrent":
		r.rung.Concurrency = streams
	}
	// throughput sends all it may at once: it has no load to be placed at.
}

// guidellmFigures reads the metrics by name, from JSON or CSV.
func guidellmFigures(g *record.Rung, of func(string) stats) {
	n := g.Requests.Completed
	if n == 0 {
		return
	}
	g.RequestThroughputPerS = above(of("requests_per_second").mean)
	g.OutputTokenThroughputPerS = above(of("output_tokens_per_second").mean)
	g.InputTokenThroughputPerS = above(of("prompt_tokens_per_second").mean)
	g.TotalTokenThroughputPerS = above(of("tokens_per_second").mean)
	g.InFlightMean = above(of("request_concurrency").mean)
	g.GoodputReqPerS = of("request_goodput").mean
	g.E2E = of("request_latency").dist(n, 1e3)
	g.E2EResponse = of("request_scheduled_latency").dist(n, 1e3)
	g.SendLag = of("request_dispatch_delay").dist(n, 1e3)
	g.TTFT = of("time_to_first_token_ms").dist(n, 1)
	g.TTFO = of("time_to_first_output_token_ms").dist(n, 1)
	g.TPOT = of("inter_token_latency_ms").dist(n, 1)
	g.InputTokens, g.OutputTokens = of("prompt_token_count").dist(n, 1), of("output_token_count").dist(n, 1)
	g.Tokens = record.Tokens{Input: whole(g.InputTokens.Mean, n), Output: whole(g.OutputTokens.Mean, n)}
	g.Totals.InputTokens, g.Totals.OutputTokens = g.Tokens.Input, g.Tokens.Output
}

// above is v where it is over 0: the tool writes 0 for what it has not.
func above(v record.Value) record.Value {
	if v.Or(0) > 0 {
		return v
	}
	return record.Value{}
}

func guidellmStats(o object) stats {
	p := o.sub("percentiles")
	return stats{mean: o.num("mean"), min: o.num("min"), max: o.num("max"), at: map[float64]record.Value{
		0.05: p.num("p05"), 0.5: first(p.num("p50"), o.num("median")), 0.9: p.num("p90"), 0.95: p.num("p95"), 0.99: p.num("p99"), 0.999: p.num("p999")}}
}

// strategyText reads a strategy as the CSV has it: "concurrent@8",
// "constant@2.00", "synchronous".
func strategyText(s string) (kind string, at record.Value) {
	kind, number, _ := strings.Cut(strings.TrimSpace(s), "@")
	return strings.ToLower(strings.TrimSpace(kind)), parsed(number)
}
