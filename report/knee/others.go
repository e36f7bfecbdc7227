package knee

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
)

// others sets the estimates of other methods.
func (k *Knee) others(loads []load) {
	if len(loads) > 1 {
		k.Others = Others{USL: fitUSL(loads), Kneedle: kneedle(loads), Power: power(loads)}
	}
}

// kneedle is the load of greatest distance above the chord of the normalised
// curve: the offline method of Satopaa et al., "Finding a Kneedle in a
// Haystack" (2011), for a concave increasing curve, without smoothing.
func kneedle(loads []load) record.Value {
	first, last := loads[0], loads[len(loads)-1]
	lo, hi := first.x, first.x
	for _, d := range loads {
		lo, hi = min(lo, d.x), max(hi, d.x)
	}
	if hi == lo || last.n == first.n {
		return record.Value{}
	}
	best, at := 0.0, record.Value{}
	for _, d := range loads {
		if gap := (d.x-lo)/(hi-lo) - (d.n-first.n)/(last.n-first.n); gap > best {
			best, at = gap, record.Known(d.n)
		}
	}
	return at
}

// power is the load of the greatest throughput over response time (Kleinrock
// 1979); by Little's law the response time is N/X.
func power(loads []load) record.Value {
	best, at := 0.0, record.Value{}
	for _, d := range loads {
		if p := d.x * d.x / d.n; p > best {
			best, at = p, record.Known(d.n)
		}
	}
	return at
}

// USL is Gunther's Universal Scalability Law,
// X(N) = Lambda*N / (1 + Alpha*(N-1) + Beta*N*(N-1)).
type USL struct {
	Lambda record.Value `json:"lambda"` // throughput of one request, per second
	Alpha  record.Value `json:"alpha"`  // contention
	Beta   record.Value `json:"beta"`   // coherency; 0 has no peak
	// PeakInFlight is sqrt((1-Alpha)/Beta).
	PeakInFlight record.Value `json:"peak_in_flight"`
}

// fitUSL fits the law by least squares on N/X, which is linear in its terms
// 1, N-1 and N*(N-1), each coefficient at or above 0; nil where it cannot be
// fitted. Errors are relative, so each row is weighed by X/N.
func fitUSL(loads []load) *USL {
	var rows [][3]float64
	var ys []float64
	for _, d := range loads {
		w := d.x / d.n
		rows = append(rows, [3]float64{w, w * (d.n - 1), w * d.n * (d.n - 1)})
		ys = append(ys, 1)
	}
	c, ok := nonNegative3(rows, ys)
	if !ok || c[0] <= 0 {
		return nil
	}
	u := &USL{Lambda: record.Known(1 / c[0]), Alpha: record.Known(c[1] / c[0]), Beta: record.Known(c[2] / c[0])}
	if beta := c[2] / c[0]; beta > 0 {
		u.PeakInFlight = record.Known(math.Sqrt(math.Max(1-c[1]/c[0], 0) / beta))
	}
	return u
}
