package knee

import (
	"fmt"
	"math"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

const (
	minLoads     = 4    // fewer say nothing about a knee
	minLawLoads  = 5    // fewer cannot tell b from 0
	sameLoad     = 1.05 // loads within this ratio are one
	requestsUnit = "requests_per_s"
	tokensUnit   = "output_tokens_per_s"
)

// load is one distinct load: the centre of its points.
type load struct {
	n       float64 // requests in flight
	x       float64 // throughput in the ladder's unit
	run     float64 // output tok/s times mean ITL; NaN where unknown
	req     float64 // achieved, requests/s; NaN where unknown
	points  []Point
	repeatX []float64 // log x of each point around their centre
	repeatR []float64 // log run of each point around their centre
	blockX  []float64 // log x of the blocks around their rung's centre
}

// weight is the number of measurements behind a load.
func (l load) weight() float64 { return float64(len(l.points)) }

// ladder is the points of one fit, by load.
type ladder struct {
	mode     record.Mode
	unit     string
	loads    []load // ascending n
	invalid  []Point
	warnings []record.Reason
}

func (l *ladder) warn(code, format string, args ...any) {
	l.warnings = append(l.warnings, record.Reason{Code: code, Message: fmt.Sprintf(format, args...)})
}

func (k *Knee) warn(code, format string, args ...any) {
	k.Warnings = append(k.Warnings, record.Reason{Code: code, Message: fmt.Sprintf(format, args...)})
}

// newLadder sorts the usable points into distinct loads.
func newLadder(points []Point) *ladder {
	l := &ladder{mode: modeOf(points), unit: unitOf(points), warnings: []record.Reason{}}
	var rows []load
	assumed := 0
	for _, p := range points {
		if p.Invalid {
			l.invalid = append(l.invalid, p)
			continue
		}
		row, measured := l.row(p)
		if !(row.n > 0) || !(row.x > 0) {
			continue
		}
		if !measured {
			assumed++
		}
		rows = append(rows, row)
	}
	if n := len(l.invalid); n > 0 {
		l.warn("invalid_rungs", "%d invalid rungs are passed over", n)
	}
	if assumed > 0 && l.mode != record.Open {
		l.warn("in_flight_assumed", "in-flight is unknown on %d rungs: the concurrency asked for stands in, which is wrong where it was never reached", assumed)
	}
	l.capsNeverReached(rows)
	slices.SortStableFunc(rows, func(a, b load) int {
		switch {
		case a.n < b.n:
			return -1
		case a.n > b.n:
			return 1
		}
		return 0
	})
	for first := 0; first < len(rows); {
		last := first
		for last+1 < len(rows) && rows[last+1].n <= rows[first].n*sameLoad {
			last++
		}
		l.loads = append(l.loads, merge(rows[first:last+1]))
		first = last + 1
	}
	return l
}

// row reads one point; measured says that its load is not just asked for.
func (l *ladder) row(p Point) (row load, measured bool) {
	row = load{run: math.NaN(), req: p.RequestS.Or(math.NaN()), points: []Point{p}}
	n, measured := p.InFlight.Float()
	if !measured {
		n = p.Concurrency.Or(0)
	}
	row.n = n
	if l.unit == tokensUnit {
		row.x = p.TokensS.Or(0)
	} else {
		row.x = p.RequestS.Or(0)
	}
	tokens, ok := p.TokensS.Float()
	if itl, known := p.ITLMeanMS.Float(); ok && known && tokens*itl > 0 {
		row.run = tokens * itl / 1000
	}
	return row, measured
}

// merge makes one load of rows that count as one.
func merge(rows []load) load {
	if len(rows) == 1 {
		rows[0].blockX = blockSpread(rows[0].points[0])
		return rows[0]
	}
	var m load
	var n, x, run, req []float64
	for _, r := range rows {
		n, x = append(n, math.Log(r.n)), append(x, math.Log(r.x))
		if !math.IsNaN(r.run) {
			run = append(run, math.Log(r.run))
		}
		if r.req > 0 {
			req = append(req, math.Log(r.req))
		}
		m.points = append(m.points, r.points...)
		m.blockX = append(m.blockX, blockSpread(r.points[0])...)
	}
	m.n, m.x = math.Exp(centre(n)), math.Exp(centre(x))
	m.run, m.req = math.Exp(centre(run)), math.Exp(centre(req))
	m.repeatX, m.repeatR = around(x), around(run)
	return m
}

// centre is the mean of two values and the median of more, so that one bad
// repeat of three or more does no harm.
func centre(xs []float64) float64 {
	if len(xs) <= 2 {
		return stat.Mean(xs)
	}
	return stat.Median(xs)
}

func around(xs []float64) []float64 {
	m := stat.Mean(xs)
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = x - m
	}
	return out
}

// blockSpread returns the log throughput of a rung's blocks around their mean.
func blockSpread(p Point) []float64 {
	var xs []float64
	for _, b := range p.Blocks {
		if x := b.OutputTokenThroughputPerS.Or(b.RequestThroughputPerS.Or(0)); x > 0 {
			xs = append(xs, math.Log(x))
		}
	}
	if len(xs) < 4 {
		return nil
	}
	return around(xs)
}

// unitOf is tokens where every usable point has them, else requests.
func unitOf(points []Point) string {
	tokens, requests := 0, 0
	for _, p := range points {
		if p.TokensS.Or(0) > 0 {
			tokens++
		}
		if p.RequestS.Or(0) > 0 {
			requests++
		}
	}
	if tokens > 0 && tokens >= requests {
		return tokensUnit
	}
	return requestsUnit
}

// modeOf is open where the points say so, or where rates are all that varies.
func modeOf(points []Point) record.Mode {
	rates, caps := map[float64]bool{}, map[float64]bool{}
	open, closed := 0, 0
	for _, p := range points {
		switch p.Mode {
		case record.Open:
			open++
		case record.Closed:
			closed++
		}
		if r, ok := p.RatePerS.Float(); ok {
			rates[r] = true
		}
		if c, ok := p.Concurrency.Float(); ok {
			caps[c] = true
		}
	}
	switch {
	case open+closed > 0 && open >= closed:
		return record.Open
	case open+closed > 0:
		return record.Closed
	case len(rates) > 1 && len(caps) <= 1:
		return record.Open
	}
	return record.Closed
}

// capsNeverReached warns where higher caps brought no more load.
func (l *ladder) capsNeverReached(rows []load) {
	var over int
	var top, asked float64
	for _, r := range rows {
		p := r.points[0]
		n, measured := p.InFlight.Float()
		c, capped := p.Concurrency.Float()
		if measured && capped && n < 0.9*c {
			over++
			top, asked = max(top, n), max(asked, c)
		}
	}
	if over > 0 {
		l.warn("cap_never_reached", "on %d rungs the concurrency asked for was never reached (%.4g in flight of %.4g asked): the measured in-flight is the load", over, top, asked)
	}
}
