package knee

import (
	"math"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/slo"
)

// Load is one rung to be run.
type Load struct {
	Mode        record.Mode
	Concurrency int     // closed loop
	RatePerS    float64 // open loop
	// Repeat counts the rungs that were run at this load before.
	Repeat int
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
	tight      = 1.05 // a bracket within this ratio is not refined further
	nearlySame = 1.02 // more throughput than this is worth a rung
	wider      = 1.25 // a step that shows whether throughput still grows
	stride     = 16   // steps of a search from nothing that has no end yet
	extension  = 2    // the same beyond a ladder that a user chose
	sureRuns   = 3    // measurements of one load that settle a contradiction
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
	x     float64 // requests/s
	rungs []record.Rung
	pass  bool
	// low says that it fails for too little throughput alone, which more load
	// can mend.
	low bool
	// invalid says that no repeat can be trusted: such a load shows the way,
	// but it is no operating point.
	invalid bool
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
		if load[0].Mode != s.mode {
			continue
		}
		t := trial{at: float64(load[0].Concurrency), rungs: trusted(load)}
		if len(t.rungs) == 0 {
			t.rungs, t.invalid = load, true
		}
		if s.mode == record.Open {
			t.at = load[0].RatePerS.Or(0)
		}
		if t.at > 0 {
			t.x = requestsPerS(t.rungs)
			t.pass, t.low = s.keeps(t.rungs)
			s.trials = append(s.trials, t)
			s.done = append(s.done, load...)
		}
	}
	return s
}

// requestsPerS is the throughput of a load in requests, counted in tokens where
// they are known: a short rung cuts few tokens at its ends, but whole requests.
func requestsPerS(load []record.Rung) float64 {
	x := average(load, func(r record.Rung) record.Value { return r.RequestThroughputPerS }).Or(0)
	tokens := average(load, func(r record.Rung) record.Value { return r.OutputTokenThroughputPerS }).Or(0)
	length := average(load, func(r record.Rung) record.Value { return r.OutputTokens.Mean }).Or(0)
	if tokens > 0 && length > 0 {
		return tokens / length
	}
	return x
}

// keeps says whether most repeats keep every limit, each by its own bound, and
// whether all that is broken is a demand for throughput.
func (s *search) keeps(load []record.Rung) (pass, low bool) {
	kept := 0
	low = true
	for _, r := range load {
		broken := false
		for _, limit := range s.slos {
			if !likely(r, limit) {
				broken = true
				low = low && demandsThroughput(limit)
			}
		}
		if !broken {
			kept++
		}
	}
	pass = 2*kept > len(load)
	return pass, low && !pass
}

// likely says whether one rung keeps a limit for all that a search needs to
// know: where samples are too few for a percentile, by the worst of them.
func likely(r record.Rung, limit profiles.SLO) bool {
	one := []record.Rung{r}
	if read := slo.Read(one, limit.Metric, limit.Stat); read.State != slo.FewSamples {
		return read.Surely(limit)
	}
	worst := slo.Worst(r, limit)
	v, ok := worst.Float()
	return ok && slo.Holds(limit, v)
}

func demandsThroughput(s profiles.SLO) bool {
	return s.Metric == "goodput" || s.Metric == "request_throughput" || s.Metric == "output_token_throughput"
}

// load makes a rung of a position on the axis.
func (s *search) load(at float64, why string) Load {
	l := Load{Mode: s.mode, Why: why}
	if s.mode == record.Open {
		l.RatePerS = at
	} else {
		l.Concurrency = int(math.Round(at))
	}
	for _, r := range s.done {
		if s.mode == record.Open && r.RatePerS.Or(0) == l.RatePerS || s.mode == record.Closed && r.Concurrency == l.Concurrency {
			l.Repeat++
		}
	}
	return l
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

// boundary places a rung at the edge of what the limits allow and throughput
// rewards, and measures that edge again where it can't be trusted yet.
func (s *search) boundary() (float64, bool) {
	if len(s.trials) == 0 {
		return 1, true
	}
	if at, ok := s.edge(); ok {
		return at, true
	}
	decisive := max(s.best(), 0)
	if t := s.trials[decisive]; t.invalid && len(t.rungs) < sureRuns || !t.pass && len(t.rungs) < 2 {
		return t.at, true
	}
	return 0, false
}

// edge closes in on the operating point.
func (s *search) edge() (float64, bool) {
	if at, odd := s.contradiction(); odd {
		return at, true
	}
	best := s.best()
	above := best + 1
	top := s.trials[len(s.trials)-1]
	switch {
	case above == len(s.trials), best < 0 && top.low:
		next := s.snap(top.at * s.stride())
		return next, next > top.at*tight
	case best < 0:
		next := s.snap(s.trials[0].at / s.stride())
		return next, !s.measured(next)
	}
	if at, ok := s.above(best, above); ok {
		return at, true
	}
	return s.below(best)
}

// stride is how far a search leaps beyond the loads that were run.
func (s *search) stride() float64 {
	if slices.ContainsFunc(s.done, func(r record.Rung) bool { return !r.Refined }) {
		return extension
	}
	return stride
}

// best is the operating point so far: the lowest passing load whose throughput
// is within reach of the highest; -1 where no load passes.
func (s *search) best() int {
	most := 0.0
	for _, t := range s.trials {
		if t.pass {
			most = max(most, t.x)
		}
	}
	for i, t := range s.trials {
		if t.pass && t.x*nearlySame >= most {
			return i
		}
	}
	return -1
}

// above closes in between the best load and the next one, which breaks a limit
// or brings no more. That there is no more above takes two rungs to believe.
func (s *search) above(best, next int) (float64, bool) {
	lo, hi := s.trials[best], s.trials[next]
	adjacent := s.closed(lo.at, hi.at)
	if !adjacent && hi.x > lo.x*nearlySame {
		return s.between(lo, hi), true
	}
	witnesses := 0
	for _, t := range s.trials[next:] {
		witnesses += len(t.rungs)
	}
	if witnesses >= 2 && (len(hi.rungs) >= sureRuns || !s.doubtful(next)) {
		return 0, false
	}
	if adjacent {
		return hi.at, true
	}
	return s.inside(lo.at*wider, lo.at, hi.at), true
}

// below looks for a lower load of the same throughput, where the law says that
// growth ended before.
func (s *search) below(best int) (float64, bool) {
	law, ok := s.law()
	if best == 0 || !ok || s.mode == record.Open {
		return 0, false
	}
	lo, hi := s.trials[best-1].at, s.trials[best].at
	if s.closed(lo, hi) || law.kink >= hi/tight || law.kink <= lo {
		return 0, false
	}
	at := s.inside(law.kink+0.5, lo, hi)
	return at, !s.measured(at)
}

// closed says that nothing worth measuring lies between two loads.
func (s *search) closed(lo, hi float64) bool {
	return hi/lo <= tight || s.mode == record.Closed && hi-lo < 1.5
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
		if !seenPass || t.low {
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

// doubtful says that a failing load is the only sign of a limit there and that
// its throughput is more than 10 % off what the other loads foretell: something
// else may have disturbed it.
func (s *search) doubtful(fail int) bool {
	rest := *s
	rest.trials = slices.Delete(slices.Clone(s.trials), fail, fail+1)
	law, ok := rest.law()
	t := s.trials[fail]
	return ok && t.x > 0 && math.Abs(math.Log(t.x)-law.log(t.at)) > 0.1
}

// between picks the load to try inside a bracket.
func (s *search) between(pass, fail trial) float64 {
	lo, hi := pass.at, fail.at
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
	at, ok := s.predict(pass, fail)
	if !ok {
		return middle
	}
	if law, known := s.law(); known && lo < law.kink && law.kink < at {
		at = law.kink // more load than that brings no more, whatever the limits allow
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
	return min(max(math.Floor(at+0.25), lo+1), hi-1)
}
