package record

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	lowest = int64(time.Microsecond)
	// highest is the top of every latency histogram; a longer time is recorded
	// as this one and counted as overflow.
	highest = int64(time.Hour)
	digits  = 3
)

// distribution is an HDR histogram with its exact mean, minimum and maximum.
type distribution struct {
	hdr      *hdrhistogram.Histogram
	top      int64
	scale    float64 // of a recorded value to the unit of the result
	sum      float64
	min, max int64
	samples  int64 // independent ones, which percentiles need
	overflow int64
}

// newLatency holds times in nanoseconds and reports milliseconds.
func newLatency() *distribution { return newDistribution(lowest, highest, digits, 1e-6) }

// newBlockLatency is a coarser one, right within one percent.
func newBlockLatency() *distribution { return newDistribution(lowest, highest, 2, 1e-6) }

// newSpeed holds thousandths of tokens per second and reports tokens per
// second.
func newSpeed() *distribution { return newDistribution(1, 1e10, digits, 1e-3) }

// newCount holds whole numbers.
func newCount() *distribution { return newDistribution(1, maxTokens, digits, 1) }

func newDistribution(low, top int64, digits int, scale float64) *distribution {
	return &distribution{hdr: hdrhistogram.New(low, top, digits), top: top, scale: scale, min: math.MaxInt64}
}

// record adds one independent sample.
func (d *distribution) record(v int64) { d.weigh(v, 1); d.samples++ }

// duration adds one independent time, when it is known.
func (d *distribution) duration(v time.Duration, ok bool) {
	if ok {
		d.record(int64(v))
	}
}

// weigh adds v n times without adding a sample. Values above the top are
// recorded as the top and counted; values below the first bucket, and negative
// ones, are in the first.
func (d *distribution) weigh(v, n int64) {
	if n <= 0 {
		return
	}
	d.sum += float64(v) * float64(n)
	d.min, d.max = min(d.min, v), max(d.max, v)
	if v > d.top {
		d.overflow += n
		v = d.top
	}
	_ = d.hdr.RecordValues(max(v, 0), n) // cannot fail within the range
}

// quantile returns the nearest-rank quantile q (0 to 1): the smallest recorded
// value with at least q of all values at or below it, to three digits.
func (d *distribution) quantile(q float64) Value {
	n := d.hdr.TotalCount()
	if n == 0 {
		return Value{}
	}
	rank := math.Ceil(q*float64(n) - 1e-9)
	v := d.hdr.ValueAtPercentile(100 * max(rank, 1) / float64(n))
	return Known(float64(min(max(v, d.min), d.max)) * d.scale)
}

// Need is the least number of samples for the quantile q (0 to 1). With fewer,
// even a run of samples of which none is over a bound does not show, at 99 %
// confidence, that the quantile is below it: each sample is below the true
// quantile with probability q, all n of them with q^n, and q^n <= 0.01 asks for
// n >= ln 0.01 / ln q. That is MLPerf's early-stopping bound with no sample
// over (44 for p90, 90 for p95, 459 for p99); low quantiles mirror it. The ends
// are no quantiles: no number of samples shows them.
func Need(q float64) int64 {
	if !(q > 0 && q < 1) {
		return math.MaxInt64
	}
	return int64(math.Ceil(math.Log(0.01) / math.Log(max(q, 1-q))))
}

// dist reports the distribution. Percentiles are nearest-rank and null where
// the samples are fewer than Need.
func (d *distribution) dist() Dist {
	out := Dist{Count: d.samples}
	n := d.hdr.TotalCount()
	if n == 0 {
		return out
	}
	out.Mean = Known(d.sum / float64(n) * d.scale)
	out.Min, out.Max = Known(float64(d.min)*d.scale), Known(float64(d.max)*d.scale)
	for _, p := range []struct {
		q  float64
		to *Value
	}{{0.05, &out.P05}, {0.5, &out.P50}, {0.9, &out.P90}, {0.95, &out.P95}, {0.99, &out.P99}, {0.999, &out.P999}} {
		if d.samples >= Need(p.q) {
			*p.to = d.quantile(p.q)
		}
	}
	return out
}

// mean returns the exact mean, unknown without samples.
func (d *distribution) mean() Value {
	if d.hdr.TotalCount() == 0 {
		return Value{}
	}
	return Known(d.sum / float64(d.hdr.TotalCount()) * d.scale)
}

// p95 returns the 95th percentile, unknown with too few samples for one.
func (d *distribution) p95() Value {
	if d.samples < Need(0.95) {
		return Value{}
	}
	return d.quantile(0.95)
}

// tail returns the highest of p99, p95, p90 and p50 that the samples bear, and
// its name; both are empty with too few samples for any.
func (d *distribution) tail() (Value, string) {
	for _, p := range []struct {
		q    float64
		name string
	}{{0.99, "p99"}, {0.95, "p95"}, {0.9, "p90"}, {0.5, "p50"}} {
		if d.samples >= Need(p.q) {
			return d.quantile(p.q), p.name
		}
	}
	return Value{}, ""
}

// maxSpread is the spread of a quantile at which it has settled.
const maxSpread = 0.1

// settled says whether the quantile q is known well enough to stop: it has the
// samples it needs, and a small spread.
func (d *distribution) settled(q float64) bool {
	spread, ok := d.spread(q).Float()
	return ok && d.samples >= Need(q) && spread <= maxSpread
}

// spread is how much the 95 % interval of the quantile q spans (of its rank, by
// the normal approximation of the binomial), as a share of its value; unknown
// without samples.
func (d *distribution) spread(q float64) Value {
	if d.samples == 0 {
		return Value{}
	}
	half := 1.96 * math.Sqrt(q*(1-q)/float64(d.samples))
	at, lo, hi := d.quantile(q).Or(0), d.quantile(max(q-half, 0)).Or(0), d.quantile(min(q+half, 1)).Or(0)
	return Known((hi - lo) / max(at, math.SmallestNonzeroFloat64))
}

// merge adds the samples of o and returns how many values it could not take.
func (d *distribution) merge(o *distribution) (lost int64) {
	lost = d.hdr.Merge(o.hdr)
	d.sum += o.sum
	d.min, d.max = min(d.min, o.min), max(d.max, o.max)
	d.samples += o.samples
	d.overflow += o.overflow
	return lost
}

// reset empties the distribution.
func (d *distribution) reset() {
	d.hdr.Reset()
	d.sum, d.min, d.max, d.samples, d.overflow = 0, math.MaxInt64, 0, 0, 0
}
