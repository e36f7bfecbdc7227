package knee

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/slo"
)

// Load is one rung to be run.
type Load struct {
	Mode        record.Mode
	Concurrency int     // closed loop
	RatePerS    float64 // open loop
	// Why says what the rung is for: "slo" or "knee".
	Why string
}

// Budget bounds a refinement. Zero maxima are no bound.
type Budget struct {
	Rungs          int // that may still be run
	MaxConcurrency int
	MaxRatePerS    float64
	// Open searches rates when nothing was run yet.
	Open bool
}

const (
	tight    = 1.05 // a bracket within this ratio is not refined further
	stride   = 16   // first steps of a search that has no upper end yet
	sureRuns = 3    // measurements of one load that settle a contradiction
)

// Refine places the next rung: first between the highest load that keeps every
// limit and the lowest that does not, until they are within 5 % or neighbours,
// then around the knee. It is a pure function of the rungs that were run, in
// any order; without any it starts a search. ok is false when nothing is left
// to refine or to spend.
//
// Between the two ends it goes where the law fitted so far says the limit is
// met, and to the geometric middle where that does not close in. A load whose
// verdict contradicts its neighbours' is measured again, up to three times,
// and the majority counts: one noisy rung does not mislead the search.
func Refine(done []record.Rung, slos []profiles.SLO, b Budget) (next Load, ok bool) {
	if b.Rungs <= 0 {
		return Load{}, false
	}
	s := newSearch(done, slos, b)
	if len(slos) > 0 {
		if at, ok := s.boundary(); ok {
			return s.load(at, "slo"), true
		}
	}
	if at, ok := s.knee(); ok {
		return s.load(at, "knee"), true
	}
	return Load{}, false
}

// trial is one load with its repeats.
type trial struct {
	at    float64 // concurrency or rate asked for
	rungs []record.Rung
	pass  bool
}

type search struct {
	mode   record.Mode
	slos   []profiles.SLO
	budget Budget
	done   []record.Rung
	trials []trial // ascending load
}

func newSearch(done []record.Rung, slos []profiles.SLO, b Budget) *search {
	s := &search{mode: record.Closed, slos: slos, budget: b}
	if b.Open || len(done) > 0 && done[0].Mode == record.Open {
		s.mode = record.Open
	}
	for _, load := range ByLoad(done) {
		if load[0].Mode != s.mode || !trusted(load) {
			continue
		}
		t := trial{at: float64(load[0].Concurrency), rungs: load}
		if s.mode == record.Open {
			t.at = load[0].RatePerS.Or(0)
		}
		if t.at > 0 {
			t.pass = s.keeps(load)
			s.trials = append(s.trials, t)
			s.done = append(s.done, load...)
		}
	}
	return s
}

// keeps says whether most repeats keep every limit, each by its own bound.
func (s *search) keeps(load []record.Rung) bool {
	kept := 0
	for _, r := range load {
		if firstBroken([]record.Rung{r}, s.slos) == "" {
			kept++
		}
	}
	return 2*kept > len(load)
}

// load makes a rung of a position on the axis.
func (s *search) load(at float64, why string) Load {
	if s.mode == record.Open {
		return Load{Mode: s.mode, RatePerS: at, Why: why}
	}
	return Load{Mode: s.mode, Concurrency: int(math.Round(at)), Why: why}
}

// snap moves a position onto what can be run, within the budget.
func (s *search) snap(at float64) float64 {
	if s.mode == record.Open {
		if s.budget.MaxRatePerS > 0 {
			at = min(at, s.budget.MaxRatePerS)
		}
		// Three significant digits are enough for a rate.
		scale := math.Pow(10, math.Floor(math.Log10(at))-2)
		return math.Round(at/scale) * scale
	}
	if s.budget.MaxConcurrency > 0 {
		at = min(at, float64(s.budget.MaxConcurrency))
	}
	return max(math.Round(at), 1)
}

func (s *search) measured(at float64) bool {
	for _, t := range s.trials {
		if math.Abs(t.at-at) < 1e-9*at {
			return true
		}
	}
	return false
}

// boundary places a rung at the edge of what the limits allow.
func (s *search) boundary() (float64, bool) {
	if len(s.trials) == 0 {
		return 1, true
	}
	if at, odd := s.contradiction(); odd {
		return at, true
	}
	pass, fail := s.bracket()
	switch {
	case pass < 0:
		if first := s.snap(s.trials[0].at / stride); !s.measured(first) && first < s.trials[0].at {
			return first, true
		}
		return 0, false
	case fail < 0:
		top := s.trials[len(s.trials)-1].at
		if next := s.snap(top * stride); next > top*tight {
			return next, true
		}
		return 0, false
	}
	lo, hi := s.trials[pass].at, s.trials[fail].at
	if s.closed(lo, hi) {
		return 0, false
	}
	return s.between(pass, fail), true
}

// closed says that nothing worth measuring lies between two loads.
func (s *search) closed(lo, hi float64) bool {
	return hi/lo <= tight || s.mode == record.Closed && hi-lo < 1.5
}

// bracket returns the index of the highest passing load with no failing one
// below it, and of the failing one above; -1 where there is none. Speeds that
// must be at least so much may fail at the bottom: leading failures count only
// when nothing passes above them.
func (s *search) bracket() (pass, fail int) {
	pass, fail = -1, -1
	for i, t := range s.trials {
		if t.pass {
			pass = i
		}
	}
	if pass+1 < len(s.trials) {
		fail = pass + 1
	}
	return pass, fail
}

// contradiction finds a load that fails below one that passes, or the passing
// one above it, and has not been measured often enough to be believed.
func (s *search) contradiction() (float64, bool) {
	seenPass := false
	for i := len(s.trials) - 1; i >= 0; i-- {
		t := s.trials[i]
		if t.pass {
			seenPass = true
			continue
		}
		if !seenPass {
			continue
		}
		above := s.trials[i+1]
		if len(t.rungs) < sureRuns {
			return t.at, true
		}
		if len(above.rungs) < sureRuns {
			return above.at, true
		}
	}
	return 0, false
}

// between picks the load to try inside a bracket.
func (s *search) between(pass, fail int) float64 {
	lo, hi := s.trials[pass].at, s.trials[fail].at
	middle := s.inside(math.Sqrt(lo*hi), lo, hi)
	refined := 0
	for _, r := range s.done {
		if r.Refined {
			refined++
		}
	}
	if refined%3 == 2 && hi/lo > 1.2 {
		return middle
	}
	at, ok := s.predict(s.trials[pass], s.trials[fail])
	if !ok {
		return middle
	}
	// Just above a load that is known to pass and below one that is known to
	// fail the bracket closes in one step if the prediction is right.
	return s.inside(min(max(at, lo*tight), hi/tight), lo, hi)
}

// inside snaps a position strictly between two loads.
func (s *search) inside(at, lo, hi float64) float64 {
	if s.mode == record.Open {
		return min(max(s.snap(at), lo*1.01), hi/1.01)
	}
	return min(max(math.Floor(at+1e-9), lo+1), hi-1)
}

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
		x := average(t.rungs, func(r record.Rung) record.Value { return r.RequestThroughputPerS })
		if v := x.Or(0); v > 0 {
			samples = append(samples, newSample(t.at, math.Log(v), float64(len(t.rungs))))
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
		rate := a.cap()
		return max(a.kink, lo) + max(limit.Value-u, 0)/1000*rate, true
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

// narrow says that the interval of a knee is within 5 % of it on each side.
func narrow(k Knee, mode record.Mode) bool {
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
