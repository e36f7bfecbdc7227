package importer

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/headway-bench/headway/loadgen/record"
)

// digest is a distribution of seconds with exact mean and bounds, and
// percentiles to three digits.
type digest struct {
	hdr      *hdrhistogram.Histogram // microseconds
	sum      float64
	min, max float64
	n        int64
}

// add counts v seconds; what is no number or below 0 is no data.
func (d *digest) add(v float64) {
	if math.IsNaN(v) || v < 0 || v > 3600 {
		return
	}
	if d.hdr == nil {
		d.hdr = hdrhistogram.New(1, 3_600_000_000, 3)
		d.min = v
	}
	_ = d.hdr.RecordValue(int64(math.Round(v * 1e6))) // cannot fail within the range
	d.sum += v
	d.min, d.max = min(d.min, v), max(d.max, v)
	d.n++
}

// dist is the distribution in milliseconds; samples is the number of
// independent ones, which percentiles need.
func (d *digest) dist(samples int64) record.Dist {
	out := record.Dist{Count: samples}
	if d.n == 0 {
		return record.Dist{}
	}
	out.Mean, out.Min, out.Max = record.Known(d.sum/float64(d.n)*1e3), record.Known(d.min*1e3), record.Known(d.max*1e3)
	for _, p := range percentiles {
		if samples >= record.Need(p.q) {
			*p.of(&out) = record.Known(float64(d.hdr.ValueAtQuantile(p.q*100)) / 1e3)
		}
	}
	return out
}

// addCount counts a number of tokens.
func (d *digest) addCount(v record.Value) {
	n, ok := v.Float()
	if !ok || n < 0 || n > 1<<40 {
		return
	}
	if d.n == 0 {
		d.min = n
	}
	d.sum += n
	d.min, d.max = min(d.min, n), max(d.max, n)
	d.n++
}

// counts is the distribution of what addCount was given: mean and bounds.
func (d *digest) counts() record.Dist {
	if d.n == 0 {
		return record.Dist{}
	}
	return record.Dist{Count: d.n, Mean: record.Known(d.sum / float64(d.n)), Min: record.Known(d.min), Max: record.Known(d.max)}
}

// percentile is one percentile of a record.Dist.
type percentile struct {
	q  float64
	of func(*record.Dist) *record.Value
}

var percentiles = []percentile{
	{0.05, func(d *record.Dist) *record.Value { return &d.P05 }},
	{0.50, func(d *record.Dist) *record.Value { return &d.P50 }},
	{0.90, func(d *record.Dist) *record.Value { return &d.P90 }},
	{0.95, func(d *record.Dist) *record.Value { return &d.P95 }},
	{0.99, func(d *record.Dist) *record.Value { return &d.P99 }},
	{0.999, func(d *record.Dist) *record.Value { return &d.P999 }},
}

// stats are what a tool says of one distribution, in its own unit.
type stats struct {
	mean, min, max record.Value
	// at holds percentiles by their quantile, 0.95 for p95.
	at map[float64]record.Value
}

// dist scales the statistics. A tool that measured nothing often writes zeros:
// with no samples, or a mean of 0, nothing is known. Percentiles that samples
// can't carry are dropped.
func (s stats) dist(samples int64, scale float64) record.Dist {
	if samples <= 0 || s.empty() {
		return record.Dist{}
	}
	d := record.Dist{Count: samples, Mean: s.mean.Scale(scale), Min: s.min.Scale(scale), Max: s.max.Scale(scale)}
	for _, p := range percentiles {
		if samples >= record.Need(p.q) {
			*p.of(&d) = s.at[p.q].Scale(scale)
		}
	}
	return d
}

// empty says that the statistics hold no positive number.
func (s stats) empty() bool {
	if s.mean.Or(0) > 0 || s.max.Or(0) > 0 {
		return false
	}
	for _, v := range s.at {
		if v.Or(0) > 0 {
			return false
		}
	}
	return true
}
