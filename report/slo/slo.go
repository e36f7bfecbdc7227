// Package slo reads the metric that a limit speaks of from the rungs of one
// load, repeats together, with a confidence interval. It is what the gate and
// the operating point have in common.
package slo

import (
	"fmt"
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/stat"
)

// State says whether a metric could be read.
type State int

// The states.
const (
	Measured   State = iota
	FewSamples       // known to be measured, but too few samples for this statistic
	Missing          // the result does not have it
)

// Reading is one metric at one load. Value is the mean over the repeats; Lo
// and Hi hold the true value with 95 % confidence, where that can be said.
type Reading struct {
	State   State
	Value   record.Value
	Lo, Hi  record.Value
	Repeats int
	Samples int64
	// Need is the number of samples that the statistic takes, where State is
	// FewSamples.
	Need int64
	// Basis says what the interval is taken over: "repeats", "samples" or "".
	Basis string
}

// Read reads a metric and its statistic, named as profiles.SLO names them, from the rungs
// of one load. In open loop ttft and e2e are the response times.
func Read(rungs []record.Rung, metric, statName string) Reading {
	r := Reading{Need: need(statName)}
	var values []float64
	missing := 0
	for i := range rungs {
		d, v, state := pick(&rungs[i], metric, statName)
		r.Samples += max(d.Count, 0)
		switch state {
		case Missing:
			missing++
		case Measured:
			values = append(values, v.Or(0))
		}
	}
	r.Repeats = len(values)
	switch {
	case missing == len(rungs):
		r.State = Missing
		return r
	case len(values) == 0:
		r.State = FewSamples
		return r
	}
	r.Value = record.Known(stat.Mean(values))
	r.bounds(rungs, values, metric, statName)
	return r
}

// Holds says whether a limit is kept by the value.
func Holds(s profiles.SLO, value float64) bool {
	if s.AtLeast {
		return value >= s.Value
	}
	return value <= s.Value
}

// Surely says whether a limit is kept by the bound of the interval on its
// side, or by the value where there is no interval.
func (r Reading) Surely(s profiles.SLO) bool {
	v, ok := r.Value.Float()
	if r.State != Measured || !ok {
		return false
	}
	if s.AtLeast {
		return Holds(s, r.Lo.Or(v))
	}
	return Holds(s, r.Hi.Or(v))
}

// Worst is the worst single sample of the metric that a limit speaks of, the
// highest or the lowest.
func Worst(r record.Rung, s profiles.SLO) record.Value {
	d, ok := distribution(&r, s.Metric)
	switch {
	case !ok:
		return record.Value{}
	case s.AtLeast:
		return d.Min
	}
	return d.Max
}

// need is the number of samples that a statistic takes.
func need(statName string) int64 {
	if p, percentile := probability(statName); percentile {
		return record.Need(p)
	}
	return 1
}

// pick returns the distribution behind a metric (empty for plain numbers), its
// value and whether it could be read. What stands beside a count that cannot
// carry it is no measurement, whoever wrote it.
func pick(r *record.Rung, metric, statName string) (record.Dist, record.Value, State) {
	if d, ok := distribution(r, metric); ok {
		v := statistic(d, statName)
		few := d.Count != record.Untold && d.Count < need(statName)
		switch {
		case v.OK() && !few:
			return d, v, Measured
		case v.OK(), few && (d.Count > 0 || r.Requests.Completed == 0):
			return d, v, FewSamples
		}
		return d, v, Missing
	}
	v := number(r, metric)
	switch {
	case v.OK() && !(countsRequests(metric) && r.Requests.Completed == 0 && v.Or(0) > 0):
		return record.Dist{}, v, Measured
	case v.OK(), metric == "error_rate":
		return record.Dist{}, v, FewSamples
	}
	return record.Dist{}, v, Missing
}

// countsRequests says that a metric counts completed requests, or their tokens.
func countsRequests(metric string) bool {
	return metric == "goodput" || metric == "request_throughput" || metric == "output_token_throughput"
}

func distribution(r *record.Rung, metric string) (record.Dist, bool) {
	response := r.Mode == record.Open
	switch metric {
	case "ttft":
		if response {
			return r.TTFTResponse, true
		}
		return r.TTFT, true
	case "e2e":
		if response {
			return r.E2EResponse, true
		}
		return r.E2E, true
	case "itl":
		return r.ITL, true
	case "icl":
		return r.ICL, true
	case "tpot":
		return r.TPOT, true
	case "ttfo":
		return r.TTFO, true
	case "tps":
		return r.PerUserTokensPerS, true
	}
	return record.Dist{}, false
}

// statistic reads one statistic; unknown where the name is none.
func statistic(d record.Dist, name string) record.Value {
	if v := d.Stat(name); v != nil {
		return *v
	}
	return record.Value{}
}

// number reads the metrics that are one number of a rung.
func number(r *record.Rung, metric string) record.Value {
	switch metric {
	case "goodput":
		return r.GoodputReqPerS
	case "request_throughput":
		return r.RequestThroughputPerS
	case "output_token_throughput":
		return r.OutputTokenThroughputPerS
	case "error_rate":
		return ErrorRate(r)
	}
	if r.Telemetry == nil {
		return record.Value{}
	}
	switch metric {
	case "kv_cache_usage":
		return r.Telemetry.KVCacheUsageMax
	case "preemptions":
		return r.Telemetry.Preemptions
	}
	return record.Value{}
}

// ErrorRate is failed requests over those that ended, 0 to 1; requests that
// this client cancelled or cut do not count.
func ErrorRate(r *record.Rung) record.Value {
	ended := r.Requests.Completed + r.Requests.Failed
	if ended == 0 || r.Requests.Completed == record.Untold {
		return record.Value{}
	}
	return record.Known(float64(r.Requests.Failed) / float64(ended))
}

// Unit is the unit in which a metric is shown.
func Unit(metric string) string {
	switch metric {
	case "tps", "output_token_throughput":
		return "tok/s"
	case "goodput", "request_throughput":
		return "req/s"
	case "error_rate", "kv_cache_usage":
		return "%"
	case "preemptions":
		return ""
	}
	return "ms"
}

// Format writes a value of a metric with its unit.
func Format(metric string, v record.Value) string {
	x, ok := v.Float()
	if !ok {
		return "-"
	}
	switch unit := Unit(metric); unit {
	case "%":
		return fmt.Sprintf("%.3g %%", 100*x)
	case "":
		return fmt.Sprintf("%.4g", x)
	default:
		return fmt.Sprintf("%s %s", plain(x), unit)
	}
}

// plain writes four significant digits without an exponent.
func plain(x float64) string {
	if math.Abs(x) >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}
