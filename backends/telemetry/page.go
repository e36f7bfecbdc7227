package telemetry

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// reading is what one scrape told; NaN is what it did not.
type reading struct {
	at     int64 // on package clock
	values [quantities]float64
	gpus   []gpu
	// block is the number of tokens in a block of the KV cache, 0 unknown.
	block int
	// kvTokens is how many tokens the KV cache holds, 0 unknown.
	kvTokens int
	// kinds are the engines and exporters whose names the page has.
	kinds []string
	// ended is how many requests have ended since the last page, for a server
	// that forgets what it has told; NaN for one that counts.
	ended float64
}

// gpu is one accelerator at one time.
type gpu struct {
	id                         string
	power, utilisation, memory float64 // watts, 0 to 1, MiB
}

func newReading() reading {
	r := reading{ended: math.NaN()}
	for i := range r.values {
		r.values[i] = math.NaN()
	}
	return r
}

// parsePage reads a metrics page: Prometheus text, or the JSON list of
// TensorRT-LLM. A page that is neither is an error; one without a known name
// is not.
func parsePage(page []byte) (reading, error) {
	parse := parseText
	if bytes.HasPrefix(bytes.TrimSpace(page), []byte("[")) {
		parse = parseIterations
	}
	r, err := parse(page)
	for i := range r.values {
		r.values[i] = measured(r.values[i])
	}
	r.ended = measured(r.ended)
	return r, err
}

// measured is v, or NaN where no server can have measured it.
func measured(v float64) float64 {
	if v >= 0 && v < blank {
		return v
	}
	return math.NaN()
}

// parseText reads Prometheus text.
func parseText(page []byte) (reading, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return reading{}, fmt.Errorf("not a Prometheus page: %w", err)
	}
	r := newReading()
	for _, e := range engines {
		has := false
		taken := [quantities]bool{}
		for _, m := range e.metrics {
			family := families[m.name]
			if family == nil {
				family = families[m.name+"_total"]
			}
			if family == nil {
				continue
			}
			has = true
			r.take(m, family, &taken)
		}
		if has {
			r.kinds = append(r.kinds, e.name)
		}
	}
	r.block, r.kvTokens = cacheSize(families["vllm:cache_config_info"])
	for _, e := range exporters {
		r.devices(e, families)
	}
	return r, nil
}

// take reads one metric. taken are the quantities that an earlier row has
// found.
func (r *reading) take(m metric, family *dto.MetricFamily, taken *[quantities]bool) {
	if taken[m.is] && !m.adds {
		return
	}
	sum, count, ok := combine(m, family.GetMetric())
	if !ok {
		return
	}
	if m.scale != 0 {
		sum *= m.scale
	}
	if taken[m.is] {
		sum += r.values[m.is]
	}
	r.values[m.is], taken[m.is] = sum, true
	if m.count != 0 {
		r.values[m.count] = count
	}
}

// combine joins the series of a metric: their sum, or the largest of them.
// Values that are no number are passed over.
func combine(m metric, series []*dto.Metric) (sum, count float64, ok bool) {
	for _, s := range series {
		if m.label != "" && labelOf(s, m.label) != m.value {
			continue
		}
		v, n := valueOf(s)
		if math.IsNaN(v) || math.IsInf(v, 0) || math.IsNaN(n) || math.IsInf(n, 0) {
			continue
		}
		if m.largest && ok {
			sum = max(sum, v)
		} else {
			sum += v
		}
		count += n
		ok = true
	}
	return sum, count, ok
}

// valueOf is the value of a series, or the sum and count of a histogram.
func valueOf(s *dto.Metric) (v, count float64) {
	switch {
	case s.Gauge != nil:
		return s.Gauge.GetValue(), 0
	case s.Counter != nil:
		return s.Counter.GetValue(), 0
	case s.Untyped != nil:
		return s.Untyped.GetValue(), 0
	case s.Histogram != nil:
		h := s.Histogram
		if n := h.GetSampleCountFloat(); n > 0 {
			return h.GetSampleSum(), n
		}
		return h.GetSampleSum(), float64(h.GetSampleCount())
	case s.Summary != nil:
		return s.Summary.GetSampleSum(), float64(s.Summary.GetSampleCount())
	}
	return math.NaN(), math.NaN()
}

func labelOf(s *dto.Metric, name string) string {
	for _, l := range s.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// cacheSize is the KV block in tokens that vLLM's cache configuration names,
// and what all blocks of all engines hold; 0 is unknown.
func cacheSize(config *dto.MetricFamily) (block, all int) {
	for _, s := range config.GetMetric() {
		size, err := strconv.Atoi(labelOf(s, "block_size"))
		if err != nil || size <= 0 {
			continue
		}
		block = cmp.Or(block, size)
		if n, err := strconv.Atoi(labelOf(s, "num_gpu_blocks")); err == nil && n > 0 && n <= math.MaxInt32 && size <= math.MaxInt32 {
			all += n * size
		}
	}
	return block, all
}

// tells says in words what the reading has.
func (r *reading) tells() []string {
	var out []string
	say := func(word string, known bool) {
		if known && word != "" && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	for q, word := range words {
		say(word, !math.IsNaN(r.values[q]))
	}
	for _, g := range r.gpus {
		say("power", !math.IsNaN(g.power))
		say("utilisation", !math.IsNaN(g.utilisation))
		say("memory", !math.IsNaN(g.memory))
	}
	return out
}

// blank is where the marks begin that DCGM puts for a value that it lacks.
const blank = 1e15

// devices reads the accelerators of a page.
func (r *reading) devices(e exporter, families map[string]*dto.MetricFamily) {
	read := func(name string, scale float64, field func(*gpu) *float64) {
		for _, s := range families[name].GetMetric() {
			v, _ := valueOf(s)
			if math.IsNaN(measured(v)) {
				continue
			}
			id := labelOf(s, e.id)
			if id == "" {
				id = e.name + " " + labelOf(s, "gpu")
			}
			if g := r.device(id); g != nil {
				*field(g) = v * scale
			}
		}
	}
	before := len(r.gpus)
	read(e.power, 1, func(g *gpu) *float64 { return &g.power })
	read(e.utilisation, e.share, func(g *gpu) *float64 { return &g.utilisation })
	read(e.memory, e.mebibyte, func(g *gpu) *float64 { return &g.memory })
	if len(r.gpus) > before && !slices.Contains(r.kinds, e.name) {
		r.kinds = append(r.kinds, e.name)
	}
}

// maxDevices bounds the accelerators of one source.
const maxDevices = 1024

// device is the accelerator of that id, made when it is new; nil when there are
// too many.
func (r *reading) device(id string) *gpu {
	for i := range r.gpus {
		if r.gpus[i].id == id {
			return &r.gpus[i]
		}
	}
	if len(r.gpus) == maxDevices {
		return nil
	}
	r.gpus = append(r.gpus, gpu{id, math.NaN(), math.NaN(), math.NaN()})
	return &r.gpus[len(r.gpus)-1]
}

// parseSMI reads what nvidia-smi prints for smiQuery: a line a device, its
// parts parted by commas. A part that is no number is unknown.
func parseSMI(page []byte) (reading, error) {
	r := newReading()
	for line := range strings.Lines(string(page)) {
		parts := strings.Split(strings.TrimSpace(line), ",")
		if len(parts) == 1 && parts[0] == "" {
			continue
		}
		if len(parts) != 4 {
			return reading{}, fmt.Errorf("nvidia-smi printed %.80q, not four values", line)
		}
		number := func(i int) float64 {
			v, err := strconv.ParseFloat(strings.TrimSpace(parts[i]), 64)
			if err != nil || v < 0 || math.IsInf(v, 0) {
				return math.NaN()
			}
			return v
		}
		g := r.device(strings.TrimSpace(parts[0]))
		if g == nil {
			break
		}
		g.power, g.utilisation, g.memory = number(1), number(2)/100, number(3)
	}
	r.kinds = []string{"nvidia-smi"}
	return r, nil
}
