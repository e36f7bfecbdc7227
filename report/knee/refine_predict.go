package knee

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/slo"
)

// predict says at which load the limits stop to hold, by the law fitted so far
// and the metric that is broken at the failing load.
func (s *search) predict(pass, fail trial) (float64, bool) {
	law, ok := s.law()
	if !ok {
		return 0, false
	}
	best, found := math.Inf(1), false
	for _, limit := range s.slos {
		over := slo.Read(fail.rungs, limit.Metric, limit.Stat)
		under := slo.Read(pass.rungs, limit.Metric, limit.Stat)
		v, okOver := over.Value.Float()
		u, okUnder := under.Value.Float()
		if !okOver || !okUnder || over.Surely(limit) {
			continue
		}
		if at, ok := law.meets(limit, pass.at, u, fail.at, v); ok {
			best, found = min(best, at), true
		}
	}
	return best, found
}

// axis is the law on the axis that is searched: load asked for to requests/s.
type axis struct {
	curve
	open bool
}

// law fits what is known: the hinge of two loads, the batching law of more.
func (s *search) law() (axis, bool) {
	var samples []sample
	for _, t := range s.trials {
		if t.x > 0 {
			samples = append(samples, newSample(t.at, math.Log(t.x), float64(len(t.rungs))))
		}
	}
	switch {
	case len(samples) < 2:
		return axis{}, false
	case s.mode == record.Open:
		return axis{curve: bestKink(samples, followAt), open: true}, true
	case len(samples) == 2:
		return axis{curve: bestKink(samples, hingeAt)}, true
	}
	return axis{curve: bestKink(samples, lawAt)}, true
}

// meets solves for the load at which a metric of value u at load lo and v at
// load hi meets its limit. Waiting starts at the kink and grows by one service
// time for each request beyond it; the time of a step grows with the running
// requests; where the law says nothing of a metric it is taken as a line.
func (a axis) meets(limit profiles.SLO, lo, u, hi, v float64) (float64, bool) {
	line := func() (float64, bool) {
		if v == u {
			return 0, false
		}
		return lo + (hi-lo)*(limit.Value-u)/(v-u), true
	}
	if a.open {
		return a.kink, true
	}
	switch limit.Metric {
	case "ttft", "ttfo":
		return a.kink + max(limit.Value-u, 0)/1000*a.cap(), true
	case "e2e":
		// By Little's law E2E is N/X: on the cap it is a line through 0.
		onCap := hi * limit.Value / v
		if onCap >= a.kink {
			return onCap, true
		}
		return line()
	case "itl", "tpot", "icl", "tps":
		if a.b == 0 {
			return a.kink, true
		}
		top := min(hi, a.kink)
		if top <= lo {
			return a.kink, true
		}
		hi = top
		return line()
	}
	return line()
}
