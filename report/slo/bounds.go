package slo

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

// fewestRepeats is the number of repeats from which their spread is taken as
// the uncertainty; fewer say too little about it.
const fewestRepeats = 3

// confidence of the two-sided interval.
const confidence = 0.95

// bounds sets the interval. Over three or more repeats it is Student's t on
// the logs, or on the values where one is 0. For percentiles of fewer repeats
// it is that of order statistics: the true p-quantile lies between the samples
// of rank n*p -+ z*sqrt(n*p*(1-p)), read between the percentiles that are
// known; requests count as independent. For means and throughputs of fewer
// repeats it is over the blocks of the window. For an error rate it is Wilson's.
func (r *Reading) bounds(rungs []record.Rung, values []float64, metric, statName string) {
	if metric == "error_rate" {
		r.wilson(rungs)
		return
	}
	if len(values) >= fewestRepeats {
		r.Basis = "repeats"
		r.Lo, r.Hi = tInterval(values)
		return
	}
	p, percentile := probability(statName)
	if !percentile {
		r.overBlocks(rungs, values, metric)
		return
	}
	var lo, hi []float64
	for i := range rungs {
		d, _ := distribution(&rungs[i], metric)
		if l, h, ok := orderBounds(d, p, len(values)); ok {
			lo, hi = append(lo, l), append(hi, h)
		}
	}
	if len(lo) == len(values) {
		r.Basis = "samples"
		r.Lo, r.Hi = record.Known(stat.Mean(lo)), record.Known(stat.Mean(hi))
	}
}

// overBlocks sets the interval from the blocks of each window: the standard
// error of their logs, larger by the correlation of neighbours.
func (r *Reading) overBlocks(rungs []record.Rung, values []float64, metric string) {
	var variance, fewest float64
	for i := range rungs {
		logs := blockLogs(&rungs[i], metric)
		if len(logs) < 4 {
			return
		}
		n := float64(len(logs))
		rho := min(max(lagOne(logs), 0), 0.9)
		variance += stat.Variance(logs) / n * (1 + rho) / (1 - rho)
		fewest += n - 1
	}
	se := math.Sqrt(variance) / float64(len(rungs))
	half := stat.StudentT(1-(1-confidence)/2, fewest) * se
	m := stat.Mean(values)
	r.Basis = "blocks"
	r.Lo, r.Hi = record.Known(m*math.Exp(-half)), record.Known(m*math.Exp(half))
}

func blockLogs(r *record.Rung, metric string) []float64 {
	var logs []float64
	for _, b := range r.Blocks {
		var v record.Value
		switch metric {
		case "request_throughput":
			v = b.RequestThroughputPerS
		case "output_token_throughput":
			v = b.OutputTokenThroughputPerS
		case "ttft":
			v = b.TTFTMeanMS
		case "itl":
			v = b.ITLMeanMS
		case "tpot":
			v = b.TPOTMeanMS
		case "e2e":
			v = b.E2EMeanMS
		}
		if x := v.Or(0); x > 0 {
			logs = append(logs, math.Log(x))
		}
	}
	return logs
}

// lagOne is the correlation of successive values.
func lagOne(xs []float64) float64 {
	m := stat.Mean(xs)
	var around, next float64
	for i, x := range xs {
		around += (x - m) * (x - m)
		if i > 0 {
			next += (x - m) * (xs[i-1] - m)
		}
	}
	if around == 0 {
		return 0
	}
	return next / around
}

func tInterval(values []float64) (lo, hi record.Value) {
	logged := make([]float64, len(values))
	for i, v := range values {
		if !(v > 0) {
			return tAround(values)
		}
		logged[i] = math.Log(v)
	}
	l, h := tAround(logged)
	return record.Known(math.Exp(l.Or(math.NaN()))), record.Known(math.Exp(h.Or(math.NaN())))
}

func tAround(values []float64) (lo, hi record.Value) {
	n := float64(len(values))
	half := stat.StudentT(1-(1-confidence)/2, n-1) * math.Sqrt(stat.Variance(values)/n)
	m := stat.Mean(values)
	return record.Known(m - half), record.Known(m + half)
}

// wilson sets the interval of a share of failed requests (Wilson 1927).
func (r *Reading) wilson(rungs []record.Rung) {
	var failed, ended float64
	for i := range rungs {
		if requests := rungs[i].Requests; requests.Completed != record.Untold {
			failed += float64(requests.Failed)
			ended += float64(requests.Failed + requests.Completed)
		}
	}
	const z = 1.959964
	p := failed / ended
	mid := (p + z*z/(2*ended)) / (1 + z*z/ended)
	half := z / (1 + z*z/ended) * math.Sqrt(p*(1-p)/ended+z*z/(4*ended*ended))
	r.Basis, r.Samples = "samples", int64(ended)
	r.Value = record.Known(p)
	r.Lo, r.Hi = record.Known(math.Max(mid-half, 0)), record.Known(mid+half)
}

func probability(statName string) (float64, bool) {
	switch statName {
	case "p05":
		return 0.05, true
	case "p50":
		return 0.50, true
	case "p90":
		return 0.90, true
	case "p95":
		return 0.95, true
	case "p99":
		return 0.99, true
	}
	return 0, false
}

// orderBounds reads the two order statistics that hold the p-quantile, with
// as many samples as all repeats together have.
func orderBounds(d record.Dist, p float64, repeats int) (lo, hi float64, ok bool) {
	n := float64(d.Count) * float64(repeats)
	if n < 1 {
		return 0, 0, false
	}
	half := 1.959964 * math.Sqrt(p*(1-p)/n)
	lo, okLo := quantileOf(d, p-half)
	hi, okHi := quantileOf(d, p+half)
	return lo, hi, okLo && okHi
}

// quantileOf reads between the known percentiles of a distribution.
func quantileOf(d record.Dist, p float64) (float64, bool) {
	known := []struct {
		p float64
		v record.Value
	}{{0, d.Min}, {0.05, d.P05}, {0.5, d.P50}, {0.9, d.P90}, {0.95, d.P95}, {0.99, d.P99}, {0.999, d.P999}, {1, d.Max}}
	p = min(max(p, 0), 1)
	below, above := -1, -1
	for i, k := range known {
		if !k.v.OK() {
			continue
		}
		if k.p <= p {
			below = i
		}
		if k.p >= p && above < 0 {
			above = i
		}
	}
	if below < 0 || above < 0 {
		return 0, false
	}
	a, b := known[below], known[above]
	if a.p == b.p {
		return a.v.Or(0), true
	}
	share := (p - a.p) / (b.p - a.p)
	return a.v.Or(0) + share*(b.v.Or(0)-a.v.Or(0)), true
}
