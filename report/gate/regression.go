package gate

import (
	"fmt"
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/slo"
	"github.com/headway-bench/headway/report/stat"
)

// Metric is one figure that may not regress.
type Metric struct {
	Metric, Stat string
	// MoreIsBetter says that a fall is the regression.
	MoreIsBetter bool
}

// Name is the name as an SLO has it.
func (m Metric) Name() string {
	if m.Stat == "" {
		return m.Metric
	}
	return m.Metric + "_" + m.Stat
}

// sign turns the log of the metric so that a rise is a regression.
func (m Metric) sign() float64 {
	if m.MoreIsBetter {
		return -1
	}
	return 1
}

// DefaultMetrics are judged unless others are asked for. Extreme percentiles
// are left out: at the sizes of a CI run they tell little but noise.
var DefaultMetrics = []Metric{
	{"ttft", "p50", false}, {"ttft", "p95", false},
	{"itl", "mean", false}, {"itl", "p95", false},
	{"e2e", "p50", false}, {"e2e", "p95", false},
	{"request_throughput", "", true}, {"output_token_throughput", "", true},
}

// Options steer the judgement of a regression. The zero value is the default.
type Options struct {
	// MaxRegression is the regression that is still accepted, as a ratio; 0 is
	// 5 %.
	MaxRegression float64
	// Metrics to be judged; nil is DefaultMetrics.
	Metrics []Metric
	// At restricts the judgement to one load; the zero value judges every load
	// that both sides have.
	At At
}

func (o Options) limit() float64 {
	if o.MaxRegression > 0 {
		return o.MaxRegression
	}
	return 0.05
}

func (o Options) metrics() []Metric {
	if o.Metrics != nil {
		return o.Metrics
	}
	return DefaultMetrics
}

const (
	// familyError is the chance that any metric of the set fails although none
	// regressed beyond the limit.
	familyError = 0.02
	// passError is the chance that a metric passes although it regressed by
	// the limit. The verdict passes only when all do, so it holds for the set.
	passError = 0.05
	// betweenRuns is the standard deviation of log metrics from run to run that
	// is assumed where too few runs are at hand to see it.
	betweenRuns = 0.01
	// fewestRuns is how many runs a side takes for its spread between runs to
	// be seen.
	fewestRuns = 3
	// maxErrorRise is the rise of the error rate that is still accepted, in
	// absolute terms.
	maxErrorRise = 0.01
)

// JudgeBaseline holds runs against a baseline. The unit of the test is the run
// where both sides have three or more, else the repeat; never the request, as
// requests of one run are correlated. Metrics are compared as logs. One error
// rate holds for the whole set.
func JudgeBaseline(runs, base []Run, o Options) Verdict {
	const kind = "baseline"
	loads, err := commonLoads(runs, base, o.At)
	if err != nil {
		return refuse(kind, "%v", err)
	}
	v := newVerdict(kind)
	var family []candidate
	for _, l := range loads {
		v.trust(append(join(l.base), join(l.runs)...))
		for _, m := range o.metrics() {
			if c, ok := l.candidate(m, o.limit()); ok {
				family = append(family, c)
			}
		}
	}
	v.judgeFamily(family, o.limit())
	for _, l := range loads {
		v.add(l.errorRise())
	}
	v.settle(loads)
	return v
}

// settle adds what holds for the verdict as a whole.
func (v *Verdict) settle(loads []pairedLoad) {
	if len(v.Checks) == len(loads) { // error rates alone
		v.raise(Usage)
		v.warn("no_metric", "neither side has any of the metrics that are judged")
	}
	for _, l := range loads {
		if !l.seesRuns() {
			v.warn("one_run", "the spread between runs cannot be seen in %d and %d runs: 1 %% is assumed; give %d runs on each side, or interleave with --against",
				len(l.base), len(l.runs), fewestRuns)
			return
		}
	}
}

// pairedLoad is one load of both sides, run by run.
type pairedLoad struct {
	name       string
	base, runs []Run
}

// commonLoads finds the loads that both sides have.
func commonLoads(runs, base []Run, at At) ([]pairedLoad, error) {
	if len(join(base)) == 0 || len(join(runs)) == 0 {
		return nil, fmt.Errorf("a regression takes at least one rung on each side")
	}
	if at.OperatingPoint {
		return nil, fmt.Errorf("--at operating-point is not a load that both sides have: name it as concurrency=N or rate=N")
	}
	var out []pairedLoad
	for _, load := range knee.ByLoad(join(runs)) {
		name := LoadName(load)
		l := pairedLoad{name: name, base: only(base, name), runs: only(runs, name)}
		if len(l.base) > 0 && (at == At{} || at.String() == name) {
			out = append(out, l)
		}
	}
	if len(out) == 0 && (at != At{}) {
		return nil, fmt.Errorf("%s was not run on both sides: base has %s, the runs have %s", at, names(knee.ByLoad(join(base))), names(knee.ByLoad(join(runs))))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no load was run on both sides: base has %s, the runs have %s", names(knee.ByLoad(join(base))), names(knee.ByLoad(join(runs))))
	}
	return out, nil
}

// only keeps the rungs of one load, and the runs that have any.
func only(runs []Run, name string) []Run {
	var out []Run
	for _, r := range runs {
		for _, load := range knee.ByLoad(r.Rungs) {
			if LoadName(load) == name {
				out = append(out, Run{Name: r.Name, Rungs: load})
			}
		}
	}
	return out
}

func (l pairedLoad) seesRuns() bool { return min(len(l.base), len(l.runs)) >= fewestRuns }

// candidate prepares one metric; ok is false where neither side has it.
func (l pairedLoad) candidate(m Metric, limit float64) (c candidate, ok bool) {
	base, fresh := readSide(l.base, m), readSide(l.runs, m)
	c = candidate{
		metric: m,
		check:  Check{Name: m.Name(), Load: l.name, Unit: unitKey(m.Metric), Base: base.value, Value: fresh.value, Limit: record.Known(regressed(limit, m))},
		shift:  func(e stat.Errors) stat.Shift { return l.shift(base, fresh, e) },
	}
	switch {
	case base.state == slo.Missing && fresh.state == slo.Missing:
		return c, false
	case base.state == slo.Missing || fresh.state == slo.Missing:
		c.settle(Usage, "one side did not measure it")
	case base.state == slo.FewSamples || fresh.state == slo.FewSamples:
		c.check.Need = max(base.need, fresh.need)
		c.settle(Inconclusive, fmt.Sprintf("too few samples for %s: it needs %d a repeat", m.Name(), c.check.Need))
	}
	c.check.Samples = int64(min(len(base.logs(l.seesRuns())), len(fresh.logs(l.seesRuns()))))
	return c, true
}

func (c *candidate) settle(s Status, message string) {
	c.settled, c.check.Status, c.check.Message = true, s, message
}

// Compare estimates the shift of the log of a metric from one load of base to
// one of another result, with the bounds of JudgeBaseline. A rise is positive,
// whether it is for the better or not.
func Compare(base, fresh []record.Rung, m Metric, e stat.Errors) stat.Shift {
	m.MoreIsBetter = false
	l := pairedLoad{base: []Run{{Rungs: base}}, runs: []Run{{Rungs: fresh}}}
	return l.shift(readSide(l.base, m), readSide(l.runs, m), e)
}

// shift compares the two sides; a positive shift is a regression.
func (l pairedLoad) shift(base, fresh side, e stat.Errors) stat.Shift {
	if l.seesRuns() {
		return stat.Between(base.logs(true), fresh.logs(true), e)
	}
	b, f := base.logs(false), fresh.logs(false)
	if min(len(b), len(f)) < 2 {
		return singles(base, fresh, e)
	}
	return widened(stat.Between(b, f, e), e)
}

// widened adds the assumed spread between runs to the bounds.
func widened(s stat.Shift, e stat.Errors) stat.Shift {
	spread := betweenRuns * math.Sqrt2
	z := func(alpha float64) float64 { return stat.StudentT(1-alpha, 1e6) }
	s.Lo = s.Estimate - math.Hypot(s.Estimate-s.Lo, z(e.Lo)*spread)
	s.Hi = s.Estimate + math.Hypot(s.Hi-s.Estimate, z(e.Hi)*spread)
	return s
}

// singles compares two lone repeats by the intervals that their own samples
// give.
func singles(base, fresh side, e stat.Errors) stat.Shift {
	se := math.Hypot(base.se, fresh.se)
	s := stat.Shift{
		Estimate: stat.Mean(fresh.logs(false)) - stat.Mean(base.logs(false)), SD: se / math.Sqrt2,
		Test: "intervals of order statistics within one repeat, which assumes independent requests",
	}
	s.Lo, s.Hi = s.Estimate-stat.StudentT(1-e.Lo, 1e6)*se, s.Estimate+stat.StudentT(1-e.Hi, 1e6)*se
	if math.IsNaN(se) {
		s.Lo, s.Hi = math.Inf(-1), math.Inf(1)
	}
	return widened(s, e)
}

// side is one metric on one side.
type side struct {
	state slo.State
	value record.Value
	need  int64
	runs  [][]float64 // log values of the repeats, by run; a rise is a regression
	se    float64     // of the log of a lone repeat; NaN where unknown
}

func readSide(runs []Run, m Metric) side {
	all := slo.Read(join(runs), m.Metric, m.Stat)
	s := side{state: all.State, value: all.Value, need: all.Need, se: math.NaN()}
	for _, r := range runs {
		var logs []float64
		for _, rung := range r.Rungs {
			if v := slo.Read([]record.Rung{rung}, m.Metric, m.Stat).Value.Or(0); v > 0 {
				logs = append(logs, m.sign()*math.Log(v))
			}
		}
		if len(logs) > 0 {
			s.runs = append(s.runs, logs)
		}
	}
	if s.state == slo.Measured && len(s.runs) == 0 {
		s.state = slo.FewSamples // zeros have no ratio
	}
	lo, okLo := all.Lo.Float()
	hi, okHi := all.Hi.Float()
	if okLo && okHi && lo > 0 {
		s.se = math.Log(hi/lo) / (2 * 1.96)
	}
	return s
}

// logs is one value a run, or one a repeat.
func (s side) logs(byRun bool) []float64 {
	var out []float64
	for _, r := range s.runs {
		if byRun {
			out = append(out, stat.Mean(r))
		} else {
			out = append(out, r...)
		}
	}
	return out
}

// regressed is the ratio of new to base at which a metric has regressed by the
// limit.
func regressed(limit float64, m Metric) float64 {
	if m.MoreIsBetter {
		return 1 / (1 + limit)
	}
	return 1 + limit
}

// judge sets the status of a check from the shift of its logs, in which a rise
// is a regression. Lo and Hi become the bounds of the ratio of new over base.
func (c *Check) judge(s stat.Shift, m Metric, limit float64, e stat.Errors) {
	c.Ratio = record.Known(math.Exp(m.sign() * s.Estimate))
	lo, hi := math.Exp(m.sign()*s.Lo), math.Exp(m.sign()*s.Hi)
	c.Lo, c.Hi = record.Known(min(lo, hi)), record.Known(max(lo, hi))
	c.Test = s.Test
	bar := math.Log(1 + limit)
	change := fmt.Sprintf("%+.1f %%", 100*(c.Ratio.Or(1)-1))
	switch {
	case s.Lo > bar:
		c.Status = Fail
		c.Message = fmt.Sprintf("%s, a regression of more than %.3g %%", change, 100*limit)
	case s.Hi < bar:
		c.Status = Pass
		c.Message = fmt.Sprintf("%s, no regression of %.3g %%", change, 100*limit)
	default:
		c.Status = Inconclusive
		c.Need = stat.Need(s.SD, s.Estimate-bar, e.Lo)
		c.Message = fmt.Sprintf("%s, and the interval spans the limit of %.3g %%; about %d repeats a side would tell", change, 100*limit, c.Need)
	}
}
