package reference

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the server's counts, under vLLM's names. All but lateness are
// kept under the engine's lock.
type metrics struct {
	server                        *Server
	promptTokens, generatedTokens uint64
	endings                       map[Finish]uint64
	ttft, itl, e2e, queue         *histogram
	promptSize, outputSize        *histogram
	faults                        map[Fault]uint64

	lateMu   sync.Mutex
	lateness *histogram
}

// The bucket bounds are vLLM's, in seconds and tokens.
var (
	ttftBounds  = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	itlBounds   = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	e2eBounds   = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	sizeBounds  = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}
	lateBounds  = []float64{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1}
	allFinishes = []Finish{FinishStop, FinishLength, FinishAbort, FinishError}
)

func newMetrics(s *Server) *metrics {
	return &metrics{server: s, endings: map[Finish]uint64{}, faults: map[Fault]uint64{},
		ttft: newHistogram(ttftBounds), itl: newHistogram(itlBounds), e2e: newHistogram(e2eBounds), queue: newHistogram(e2eBounds),
		promptSize: newHistogram(sizeBounds), outputSize: newHistogram(sizeBounds), lateness: newHistogram(lateBounds)}
}

// token counts a token of ch that was ready at the time at.
func (m *metrics) token(ch *choice, at int64) {
	m.generatedTokens++
	if ch.tokens == 1 {
		m.promptTokens += uint64(len(ch.seq.Prompt))
		m.ttft.observe(seconds(at - ch.seq.Arrival))
		m.queue.observe(seconds(ch.seq.FirstScheduled - ch.seq.Arrival))
		return
	}
	m.itl.observe(seconds(at - ch.last))
}

// ended counts a choice whose reason is set.
func (m *metrics) ended(ch *choice, now int64) {
	m.endings[ch.reason]++
	if ch.reason == FinishAbort {
		return
	}
	m.e2e.observe(seconds(now - ch.seq.Arrival))
	m.promptSize.observe(float64(len(ch.seq.Prompt)))
	m.outputSize.observe(float64(ch.tokens))
}

// late records how long after its time a chunk was written.
func (m *metrics) late(ns int64) {
	m.lateMu.Lock()
	m.lateness.observe(seconds(max(0, ns)))
	m.lateMu.Unlock()
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// histogram counts observations by upper bound.
type histogram struct {
	bounds []float64
	counts []uint64
	sum    float64
	n      uint64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += v
	h.n++
}

// metric is the histogram for Prometheus, with cumulative counts.
func (h *histogram) metric(d *prometheus.Desc, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(h.bounds))
	var total uint64
	for i, b := range h.bounds {
		total += h.counts[i]
		buckets[b] = total
	}
	return prometheus.MustNewConstHistogram(d, h.n, h.sum, buckets, labels...)
}

// descs are the metrics by name, with help and labels beyond those of vLLM
// that every one has.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"engine", "model_name"}, labels...), nil)
}

var (
	runningDesc    = desc("vllm:num_requests_running", "Sequences that are being computed.")
	waitingDesc    = desc("vllm:num_requests_waiting", "Sequences that wait for a slot or for KV cache.")
	kvUsageDesc    = desc("vllm:kv_cache_usage_perc", "Share of the KV cache's blocks in use, 0 to 1.")
	preemptDesc    = desc("vllm:num_preemptions_total", "Sequences that lost their KV cache and were computed again.")
	queriesDesc    = desc("vllm:prefix_cache_queries_total", "Prompt tokens looked up in a prefix cache; there is none.")
	hitsDesc       = desc("vllm:prefix_cache_hits_total", "Prompt tokens found in a prefix cache; there is none.")
	promptDesc     = desc("vllm:prompt_tokens_total", "Prompt tokens of sequences that got a first token.")
	generatedDesc  = desc("vllm:generation_tokens_total", "Output tokens.")
	successDesc    = desc("vllm:request_success_total", "Sequences that have ended, by reason.", "finished_reason")
	ttftDesc       = desc("vllm:time_to_first_token_seconds", "From arrival to the first token.")
	itlDesc        = desc("vllm:inter_token_latency_seconds", "Between successive tokens of a sequence.")
	e2eDesc        = desc("vllm:e2e_request_latency_seconds", "From arrival to the end of a sequence.")
	queueDesc      = desc("vllm:request_queue_time_seconds", "From arrival to the first step.")
	promptSizeDesc = desc("vllm:request_prompt_tokens", "Prompt tokens of a sequence.")
	outputSizeDesc = desc("vllm:request_generation_tokens", "Output tokens of a sequence.")
	cacheDesc      = desc("vllm:cache_config_info", "The KV cache's size.", "block_size", "num_gpu_blocks")
	faultDesc      = desc("headway_faults_total", "Requests that met a fault on demand, by fault.", "fault")
	lateDesc       = desc("headway_emission_lateness_seconds", "How long after its time each chunk with tokens was written.")
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{runningDesc, waitingDesc, kvUsageDesc, preemptDesc, queriesDesc, hitsDesc, promptDesc, generatedDesc,
		successDesc, ttftDesc, itlDesc, e2eDesc, queueDesc, promptSizeDesc, outputSizeDesc, cacheDesc, faultDesc, lateDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector: one consistent view of everything.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, metric := range m.view() {
		ch <- metric
	}
}

func (m *metrics) view() []prometheus.Metric {
	s := m.server
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	var out []prometheus.Metric
	labels := []string{"0", s.cfg.ServedModelName}
	value := func(d *prometheus.Desc, t prometheus.ValueType, v float64, more ...string) {
		out = append(out, prometheus.MustNewConstMetric(d, t, v, append(slices.Clip(labels), more...)...))
	}
	sched := s.engine.core.Sched
	value(runningDesc, prometheus.GaugeValue, float64(sched.Running()))
	value(waitingDesc, prometheus.GaugeValue, float64(sched.Waiting()))
	value(kvUsageDesc, prometheus.GaugeValue, sched.KV().Usage())
	value(preemptDesc, prometheus.CounterValue, float64(sched.Preemptions()))
	value(queriesDesc, prometheus.CounterValue, 0)
	value(hitsDesc, prometheus.CounterValue, 0)
	value(promptDesc, prometheus.CounterValue, float64(m.promptTokens))
	value(generatedDesc, prometheus.CounterValue, float64(m.generatedTokens))
	for _, f := range allFinishes {
		value(successDesc, prometheus.CounterValue, float64(m.endings[f]), string(f))
	}
	value(cacheDesc, prometheus.GaugeValue, 1, strconv.Itoa(s.cfg.KV.BlockSize), strconv.Itoa(s.cfg.KV.Blocks))
	for _, f := range slices.Sorted(maps.Keys(m.faults)) {
		value(faultDesc, prometheus.CounterValue, float64(m.faults[f]), string(f))
	}
	for _, h := range []struct {
		d *prometheus.Desc
		h *histogram
	}{{ttftDesc, m.ttft}, {itlDesc, m.itl}, {e2eDesc, m.e2e}, {queueDesc, m.queue}, {promptSizeDesc, m.promptSize}, {outputSizeDesc, m.outputSize}} {
		out = append(out, h.h.metric(h.d, labels...))
	}
	m.lateMu.Lock()
	defer m.lateMu.Unlock()
	return append(out, m.lateness.metric(lateDesc, labels...))
}
