package knee

import (
	"github.com/headway-bench/headway/loadgen/record"
)

// Point is one measured load. Unknown figures stay unknown.
type Point struct {
	// InFlight is the mean number of requests in flight as measured; the x
	// axis of the knee. Where it is unknown Concurrency stands in, and the fit
	// says so.
	InFlight record.Value
	// Concurrency is the cap that was asked for.
	Concurrency record.Value
	// RatePerS is the offered rate, requests/s.
	RatePerS  record.Value
	RequestS  record.Value // achieved, requests/s
	TokensS   record.Value // output tokens/s
	ITLMeanMS record.Value
	E2EMeanMS record.Value
	Mode      record.Mode
	Repeat    int
	Blocks    []record.Block
	// Invalid points are passed over.
	Invalid bool
	// Rung is what the point was made of, nil for a table.
	Rung *record.Rung
}

// FromRungs takes the points of a ladder from its rungs. Offline rungs have no
// load to be placed at and are left out.
func FromRungs(rungs []record.Rung) []Point {
	points := make([]Point, 0, len(rungs))
	for i := range rungs {
		r := &rungs[i]
		if r.Mode == record.Offline {
			continue
		}
		p := Point{
			InFlight: r.InFlightMean, RatePerS: r.RatePerS,
			RequestS: r.RequestThroughputPerS, TokensS: r.OutputTokenThroughputPerS,
			ITLMeanMS: r.ITL.Mean, E2EMeanMS: r.E2E.Mean,
			Mode: r.Mode, Repeat: r.Repeat, Blocks: r.Blocks,
			Invalid: r.Verdict == record.Invalid, Rung: r,
		}
		if r.Concurrency > 0 {
			p.Concurrency = record.Known(float64(r.Concurrency))
		}
		if !p.ITLMeanMS.OK() {
			p.ITLMeanMS = r.TPOT.Mean
		}
		points = append(points, p)
	}
	return points
}
