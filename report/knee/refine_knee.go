package knee

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
)

// knee places a rung where it tells most about the knee.
func (s *search) knee() (float64, bool) {
	if len(s.trials) == 0 {
		return 1, true
	}
	first, top := s.trials[0].at, s.trials[len(s.trials)-1].at
	k := Fit(FromRungs(s.done), Options{})
	switch k.Status {
	case NotLinear:
		at := s.snap(first / 4)
		return at, at < first/tight
	case NotReached, Insufficient:
		if k.Status == Insufficient && len(s.trials) > 1 && s.budget.MaxConcurrency > 0 && top >= float64(s.budget.MaxConcurrency) {
			return s.widestGap()
		}
		at := s.snap(top * 2)
		return at, at > top*tight
	}
	center := k.InFlight.Or(0)
	if s.mode == record.Open {
		center = k.RatePerS.Or(0)
	}
	if narrow(k, s.mode) || center <= 0 {
		return 0, false
	}
	for _, ratio := range []float64{1, 0.75, 1.33, 0.87, 1.15} {
		if at := s.snap(center * ratio); !s.near(at) {
			return at, true
		}
	}
	return 0, false
}

// narrow says that the interval of a knee is within 5 % of it on each side, on
// more loads than a fit needs at least.
func narrow(k Knee, mode record.Mode) bool {
	if k.DistinctLoads <= minLawLoads {
		return false
	}
	ci := k.InFlightCI95
	if mode == record.Open {
		ci = k.RateCI95
	}
	return ci != nil && ci[1].Or(math.Inf(1))/ci[0].Or(1) <= tight*tight
}

// near says that a load within 5 % was measured, or the next whole one.
func (s *search) near(at float64) bool {
	for _, t := range s.trials {
		if s.closed(min(at, t.at), max(at, t.at)) && (t.at == at || max(at, t.at)/min(at, t.at) <= tight) {
			return true
		}
	}
	return false
}

// widestGap is the geometric middle of the two neighbouring loads that are
// furthest apart.
func (s *search) widestGap() (float64, bool) {
	best, at := tight, 0.0
	for i := 0; i+1 < len(s.trials); i++ {
		lo, hi := s.trials[i].at, s.trials[i+1].at
		if hi/lo > best && !s.closed(lo, hi) {
			best, at = hi/lo, s.inside(math.Sqrt(lo*hi), lo, hi)
		}
	}
	return at, at > 0
}
