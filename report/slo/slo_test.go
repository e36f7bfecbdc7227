package slo

import (
	"math"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

func known(v float64) record.Value { return record.Known(v) }

// uniform is the distribution of n samples spread evenly from 0 to 1000 ms.
func uniform(n int64) record.Dist {
	return record.Dist{Count: n, Mean: known(500), Min: known(0), P05: known(50), P50: known(500), P90: known(900), P95: known(950), P99: known(990), P999: known(999), Max: known(1000)}
}

func withCount(d record.Dist, n int64) record.Dist {
	d.Count = n
	return d
}

func closed(d record.Dist) record.Rung {
	return record.Rung{Mode: record.Closed, TTFT: d, TTFTResponse: record.Dist{Count: 1000, P95: known(7000)}, Requests: record.Requests{Completed: d.Count}}
}

func TestRead(t *testing.T) {
	open := closed(uniform(1000))
	open.Mode = record.Open
	few := closed(record.Dist{Count: 30, Mean: known(500)})
	tests := []struct {
		name         string
		rungs        []record.Rung
		metric, stat string
		state        State
		value        record.Value
		need         int64
	}{
		{"a percentile", []record.Rung{closed(uniform(1000))}, "ttft", "p95", Measured, known(950), 90},
		{"response time in open loop", []record.Rung{open}, "ttft", "p95", Measured, known(7000), 90},
		{"too few samples", []record.Rung{few}, "ttft", "p95", FewSamples, record.Value{}, 90},
		{"not measured", []record.Rung{closed(uniform(1000))}, "itl", "p95", Missing, record.Value{}, 90},
		{"no telemetry", []record.Rung{closed(uniform(1000))}, "kv_cache_usage", "", Missing, record.Value{}, 1},
		{"error rate", []record.Rung{{Requests: record.Requests{Completed: 95, Failed: 5, Cancelled: 50}}}, "error_rate", "", Measured, known(0.05), 1},
		{"error rate of nothing", []record.Rung{{}}, "error_rate", "", FewSamples, record.Value{}, 1},
		{"a value without samples", []record.Rung{closed(withCount(uniform(1000), 0))}, "ttft", "p95", FewSamples, record.Value{}, 90},
		{"a mean without samples", []record.Rung{closed(withCount(uniform(1000), 0))}, "ttft", "mean", FewSamples, record.Value{}, 1},
		{"a percentile that its samples can't carry", []record.Rung{closed(withCount(uniform(1000), 89))}, "ttft", "p95", FewSamples, record.Value{}, 90},
		{"samples that nobody told", []record.Rung{closed(withCount(uniform(1000), record.Untold))}, "ttft", "p95", Measured, known(950), 90},
		{"a rate of nothing completed", []record.Rung{{RequestThroughputPerS: known(10)}}, "request_throughput", "", FewSamples, record.Value{}, 1},
		{"a rate of 0", []record.Rung{{RequestThroughputPerS: known(0)}}, "request_throughput", "", Measured, known(0), 1},
		{"a rate of an untold number", []record.Rung{{RequestThroughputPerS: known(10), Requests: record.Requests{Completed: record.Untold}}}, "request_throughput", "", Measured, known(10), 1},
		{"an error rate of an untold number", []record.Rung{{Requests: record.Requests{Completed: record.Untold, Failed: 5}}}, "error_rate", "", FewSamples, record.Value{}, 1},
		{"a metric that does not exist", []record.Rung{closed(uniform(1000))}, "speed", "", Missing, record.Value{}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Read(tt.rungs, tt.metric, tt.stat)
			if r.State != tt.state || r.Value != tt.value || r.Need != tt.need {
				t.Errorf("read %+v", r)
			}
		})
	}
}

// For evenly spread samples the order-statistic bounds of p90 are
// 900 -+ 1.96*1000*sqrt(0.9*0.1/n).
func TestOrderBounds(t *testing.T) {
	r := Read([]record.Rung{closed(uniform(2500))}, "ttft", "p90")
	half := 1.96 * 1000 * math.Sqrt(0.09/2500)
	if lo, hi := r.Lo.Or(0), r.Hi.Or(0); math.Abs(lo-900+half) > 0.1 || math.Abs(hi-900-half) > 0.1 || r.Basis != "samples" {
		t.Errorf("bounds %v to %v by %q, want 900 -+ %v", lo, hi, r.Basis, half)
	}
}

func TestIntervalOverRepeats(t *testing.T) {
	var rungs []record.Rung
	for _, f := range []float64{0.9, 1, 1 / 0.9} {
		d := uniform(1000)
		d.P50 = d.P50.Scale(f)
		rungs = append(rungs, closed(d))
	}
	r := Read(rungs, "ttft", "p50")
	// t(2 df) is 4.3027, the standard error of the logs log(1/0.9)/sqrt(3).
	want := 500 * math.Exp(4.3027*math.Log(1/0.9)/math.Sqrt(3))
	if math.Abs(r.Hi.Or(0)-want) > 0.1 || r.Basis != "repeats" {
		t.Errorf("upper bound %v by %q, want %v", r.Hi.Or(0), r.Basis, want)
	}
}

func TestSurely(t *testing.T) {
	upper := profiles.SLO{Metric: "ttft", Stat: "p90", Value: 905}
	r := Read([]record.Rung{closed(uniform(2500))}, "ttft", "p90")
	if !Holds(upper, r.Value.Or(0)) || r.Surely(upper) {
		t.Error("900 holds 905, but not with its bound of 912")
	}
	if upper.Value = 913; !r.Surely(upper) {
		t.Error("913 is beyond the bound of 912")
	}
	if (Reading{State: Missing}).Surely(upper) {
		t.Error("what was not measured holds")
	}
}

// Blocks that drift slowly say less than as many independent ones.
func TestCorrelatedBlocksWidenTheInterval(t *testing.T) {
	width := func(xs []float64) float64 {
		r := record.Rung{RequestThroughputPerS: known(10), Requests: record.Requests{Completed: 100}}
		for _, x := range xs {
			r.Blocks = append(r.Blocks, record.Block{RequestThroughputPerS: known(x)})
		}
		got := Read([]record.Rung{r}, "request_throughput", "")
		return got.Hi.Or(0) - got.Lo.Or(0)
	}
	drifting := width([]float64{9, 9.3, 9.6, 9.9, 10.1, 10.4, 10.7, 11})
	mixed := width([]float64{9, 11, 9.3, 10.7, 9.6, 10.4, 9.9, 10.1})
	if drifting < 1.5*mixed {
		t.Errorf("width %v when drifting, %v when mixed", drifting, mixed)
	}
}

func TestFormat(t *testing.T) {
	for _, tt := range []struct {
		metric string
		v      record.Value
		want   string
	}{
		{"ttft", known(412.345), "412.3 ms"}, {"output_token_throughput", known(12345.6), "12346 tok/s"},
		{"error_rate", known(0.005), "0.5 %"}, {"preemptions", known(3), "3"}, {"ttft", record.Value{}, "-"},
	} {
		if got := Format(tt.metric, tt.v); got != tt.want {
			t.Errorf("%s %v is written %q, want %q", tt.metric, tt.v, got, tt.want)
		}
	}
}
