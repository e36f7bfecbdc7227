package importer

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
)

// aiperfDefinitions hold for AIPerf and for genai-perf before it.
var aiperfDefinitions = map[string]string{
	"ttft_ms":                       "first response with content - request start",
	"ttft_response_ms":              "in open load as ttft_ms: the file has no scheduled times",
	"tpot_ms":                       "the tool calls it inter-token latency: (E2E - TTFT) / (output tokens - 1), a value a request",
	"itl_ms":                        "unknown: the tool's inter-token latency is a mean of each request and stands under tpot_ms",
	"icl_ms":                        "inter-chunk latency: the gap between successive responses",
	"e2e_ms":                        "last response - request start",
	"e2e_response_ms":               "as e2e_ms: the file has no scheduled times",
	"per_user_tokens_per_s":         "1 / inter-token latency of each request",
	"request_throughput_per_s":      "completed requests / duration of the run",
	"output_token_throughput_per_s": "output tokens of completed requests / duration of the run",
	"in_flight_mean":                "request throughput x mean E2E (Little's law); the concurrency of the configuration is only a cap",
}

// aiperf is the summary of an AIPerf run, profile_export_aiperf.json.
var aiperf = format{
	tool:        "aiperf",
	matches:     func(o object) bool { return o.has("aiperf_version") || o.has("schema_version", "request_throughput") },
	open:        perObject(readAIPerf),
	definitions: aiperfDefinitions,
}

// genaiPerf is the summary of a genai-perf run.
var genaiPerf = format{
	tool: "genai-perf",
	matches: func(o object) bool {
		return o.sub("request_throughput").has("unit") && o.sub("request_latency").has("unit")
	},
	open:        perObject(readAIPerf),
	definitions: aiperfDefinitions,
}

func readAIPerf(o object) (run, error) {
	config := o.sub("input_config")
	r := run{version: o.text("aiperf_version"), started: o.text("start_time"), settings: map[string]string{}, metadata: o.scalars(secret)}
	cancelled, _ := o["was_cancelled"].(bool)
	complete, told := o["is_complete"].(bool)
	r.cancelled = cancelled || told && !complete
	r.model = firstText(config.sub("endpoint"), "model_names", "models", "model")
	if r.model == "" {
		r.model = firstText(config, "model_names", "model", "models", "formatted_model_name")
	}
	if items := config.sub("models").list("items"); r.model == "" && len(items) > 0 {
		r.model = items[0].text("name")
	}
	r.engine = config.sub("endpoint").text("type")
	g := &r.rung
	completed := o.sub("request_count").count("avg")
	failed := o.sub("error_request_count").count("avg")
	g.Requests = record.Requests{Sent: completed + failed, Completed: completed, Failed: failed}
	g.Window.EndS = seconds(o.sub("benchmark_duration")).Or(0)
	aiperfLoad(g, config)
	if completed == 0 && o.sub("request_throughput").positive("avg").OK() {
		// older files have no count of requests
		completed = o.sub("request_latency").count("count")
		if d := g.Window.EndS; completed == 0 && d > 0 {
			completed = int64(math.Round(o.sub("request_throughput").num("avg").Or(0) * d))
		}
		g.Requests.Sent, g.Requests.Completed = completed+failed, completed
	}
	isl, osl := o.sub("input_sequence_length"), o.sub("output_sequence_length")
	g.InputTokens, g.OutputTokens = blockStats(isl).dist(completed, 1), blockStats(osl).dist(completed, 1)
	g.Tokens = record.Tokens{Input: whole(isl.num("avg"), completed), Output: whole(osl.num("avg"), completed)}
	g.Totals = record.Totals{Sent: g.Requests.Sent, Completed: completed, Failed: failed, InputTokens: g.Tokens.Input, OutputTokens: g.Tokens.Output}
	if completed == 0 {
		return r, nil
	}
	g.RequestThroughputPerS = o.sub("request_throughput").positive("avg")
	g.OutputTokenThroughputPerS = o.sub("output_token_throughput").positive("avg")
	g.TotalTokenThroughputPerS = o.sub("total_token_throughput").positive("avg")
	g.GoodputReqPerS = first(o.sub("goodput").num("avg"), o.sub("request_goodput").num("avg"))
	latency := func(name string) record.Dist {
		b := o.sub(name)
		return blockStats(b).dist(completed, toMS(b.text("unit")))
	}
	g.TTFT, g.E2E, g.TPOT, g.ICL = latency("time_to_first_token"), latency("request_latency"), latency("inter_token_latency"), latency("inter_chunk_latency")
	g.TTFO = latency("time_to_first_output_token")
	for _, name := range []string{"output_token_throughput_per_user", "output_token_throughput_per_request"} {
		if d := blockStats(o.sub(name)).dist(completed, 1); d.Mean.OK() && !g.PerUserTokensPerS.Mean.OK() {
			g.PerUserTokensPerS = d
		}
	}
	return r, nil
}

// aiperfLoad finds the load in the configuration, whose shape changes between
// versions.
func aiperfLoad(g *record.Rung, config object) {
	places := []object{config.sub("loadgen"), config.sub("perf_analyzer", "stimulus"), config.sub("stimulus"), config}
	for _, phase := range config.list("phases") {
		if !strings.EqualFold(phase.text("name"), "warmup") {
			places = append(places, phase)
		}
	}
	for _, o := range places {
		if g.Concurrency == 0 {
			g.Concurrency = int(min(o.count("concurrency"), 1<<30))
		}
		if !g.RatePerS.OK() {
			g.RatePerS = o.positive("request_rate", "rate")
		}
	}
}

// blockStats reads a metric block: unit, avg, min, max, pN.
func blockStats(o object) stats {
	return stats{mean: o.num("avg"), min: o.num("min"), max: o.num("max"), at: map[float64]record.Value{
		0.05: o.num("p5"), 0.5: o.num("p50"), 0.9: o.num("p90"), 0.95: o.num("p95"), 0.99: o.num("p99")}}
}

// toMS is the factor from a unit of time to milliseconds.
func toMS(unit string) float64 {
	switch strings.ToLower(unit) {
	case "s", "sec", "seconds":
		return 1e3
	case "us", "microseconds":
		return 1e-3
	case "ns", "nanoseconds":
		return 1e-6
	default:
		return 1
	}
}

// seconds is the mean of a block that is a time; without a unit it is in
// seconds.
func seconds(o object) record.Value {
	unit := o.text("unit")
	if unit == "" {
		unit = "s"
	}
	return o.positive("avg").Scale(toMS(unit) / 1e3)
}

// first is the first of the values that is known.
func first(values ...record.Value) record.Value {
	for _, v := range values {
		if v.OK() {
			return v
		}
	}
	return record.Value{}
}

// firstText is the first text of the keys; of a list its first element.
func firstText(o object, keys ...string) string {
	for _, k := range keys {
		if list, ok := o[k].([]any); ok && len(list) > 0 {
			if s, ok := list[0].(string); ok {
				return s
			}
		}
		if s := o.text(k); s != "" {
			return s
		}
	}
	return ""
}

// aiperfRecords is AIPerf's line a request, profile_export.jsonl: one file is
// one run, and its figures are computed here.
var aiperfRecords = format{
	tool: "aiperf-records",
	matches: func(o object) bool {
		return o.sub("metadata").has("request_start_ns", "request_end_ns") && o.has("metrics")
	},
	open:        func() reader { return &recordsReader{} },
	definitions: aiperfDefinitions,
}

// recordsReader sums up the lines of one run.
type recordsReader struct {
	ttft, e2e, itl, icl, in, out digest
	from, to                     float64
	failures                     map[string]int64
	completed, failed, cancelled int64
	silent                       int64
}

func (r *recordsReader) add(o object) error {
	meta, metrics := o.sub("metadata"), o.sub("metrics")
	if strings.EqualFold(meta.text("benchmark_phase"), "warmup") {
		return nil
	}
	start, end := meta.num("request_start_ns"), meta.num("request_end_ns")
	if !start.OK() || !end.OK() {
		return errors.New("a record without request_start_ns and request_end_ns")
	}
	if r.from == 0 || start.Or(0) < r.from {
		r.from = start.Or(0)
	}
	r.to = max(r.to, end.Or(0))
	if cancelled, _ := meta["was_cancelled"].(bool); cancelled {
		r.cancelled++
		return nil
	}
	if e := o.sub("error"); e != nil {
		r.fail(classOf(e))
		return nil
	}
	tokens := metrics.sub("output_sequence_length").num("value")
	if tokens.Or(0) <= 0 {
		r.silent++
		r.fail("no_output")
		return nil
	}
	r.completed++
	time := func(name string) float64 {
		b := metrics.sub(name)
		if v, ok := b.positive("value").Float(); ok {
			return v * toMS(b.text("unit")) / 1e3
		}
		return math.NaN()
	}
	r.ttft.add(time("time_to_first_token"))
	r.e2e.add(time("request_latency"))
	r.itl.add(time("inter_token_latency"))
	chunks := metrics.sub("inter_chunk_latency")
	for _, gap := range chunks.numbers("value") {
		r.icl.add(gap * toMS(chunks.text("unit")) / 1e3)
	}
	r.out.addCount(tokens)
	r.in.addCount(metrics.sub("input_sequence_length").num("value"))
	return nil
}

func (r *recordsReader) fail(class string) {
	if r.failures == nil {
		r.failures = map[string]int64{}
	}
	r.failures[class]++
	r.failed++
}

// classOf takes the failure class from AIPerf's error.
func classOf(e object) string {
	code, kind := e.count("code"), strings.ToLower(e.text("type"))
	switch {
	case code == 429:
		return "http_429"
	case code >= 400 && code < 500 && code != 499:
		return "http_4xx"
	case code >= 500 && code < 600:
		return "http_5xx"
	case strings.Contains(kind, "timeout"):
		return "timeout"
	case strings.Contains(kind, "cancel") || code == 499:
		return "cancelled"
	case strings.Contains(kind, "ssl") || strings.Contains(kind, "certificate"):
		return "tls"
	case strings.Contains(kind, "connect"):
		return "connect"
	default:
		return "stream_error"
	}
}

func (r *recordsReader) runs() ([]run, error) {
	n := r.completed
	out := run{cancelled: r.cancelled > 0 && n == 0}
	g := &out.rung
	g.Requests = record.Requests{Sent: n + r.failed + r.cancelled, Completed: n, Failed: r.failed, Cancelled: r.cancelled, Failures: r.failures}
	g.Totals = record.Totals{Sent: g.Requests.Sent, Completed: n, Failed: r.failed, InputTokens: int64(r.in.sum), OutputTokens: int64(r.out.sum)}
	g.Tokens = record.Tokens{Input: int64(r.in.sum), Output: int64(r.out.sum)}
	g.Window.EndS = max(r.to-r.from, 0) / 1e9
	if span := g.Window.EndS; span > 0 && n > 0 {
		g.RequestThroughputPerS = record.Known(float64(n) / span)
		g.OutputTokenThroughputPerS = record.Known(r.out.sum / span)
		g.InputTokenThroughputPerS = record.Known(r.in.sum / span)
		// No file of records names its load: it is placed at what was reached.
		g.InFlightMean = record.Known(r.e2e.sum / span)
		g.Concurrency = max(int(math.Round(r.e2e.sum/span)), 1)
	}
	g.TTFT, g.E2E, g.TPOT, g.ICL = r.ttft.dist(r.ttft.n), r.e2e.dist(r.e2e.n), r.itl.dist(r.itl.n), r.icl.dist(n)
	g.InputTokens, g.OutputTokens = r.in.counts(), r.out.counts()
	if r.silent > 0 {
		out.notes = append(out.notes, bundle.Warning{Code: "no_output",
			Message: fmt.Sprintf("%d requests claim success without a token: they count as failed", r.silent)})
	}
	return []run{out}, nil
}
