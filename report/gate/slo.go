package gate

import (
	"fmt"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/slo"
)

// Run is one result to be judged. Name is shown in messages.
type Run struct {
	Name  string
	Rungs []record.Rung
}

// silentErrors is the error rate that fails a gate which set no limit of its
// own on it: figures over the survivors of a failing server are no pass.
const silentErrors = 0.05

// JudgeSLO holds every limit against one load of the runs, whose repeats are
// judged together.
func JudgeSLO(runs []Run, slos []profiles.SLO, at At) Verdict {
	const kind = "slo"
	if len(slos) == 0 {
		return refuse(kind, "no limit to judge: give --slo, such as ttft_p95=500ms")
	}
	load, err := at.pick(join(runs), slos)
	if err != nil {
		return refuse(kind, "%v", err)
	}
	v := newVerdict(kind)
	v.trust(load)
	v.errorRate(load, slos)
	for _, s := range slos {
		v.add(checkSLO(load, s))
	}
	if at.OperatingPoint && v.Status == Pass && knee.OperatingPoint(load, slos, knee.Economics{}).Status != knee.PointFound {
		v.raise(Inconclusive)
		v.warn("no_operating_point", "at no load do all limits hold with their confidence bounds; at %s they hold by value only", LoadName(load))
	}
	return v
}

func join(runs []Run) []record.Rung {
	var all []record.Rung
	for _, r := range runs {
		all = append(all, r.Rungs...)
	}
	return all
}

// trust raises the verdict by what is known against the measurement.
func (v *Verdict) trust(load []record.Rung) {
	for _, r := range load {
		switch r.Verdict {
		case record.Invalid:
			v.raise(Invalid)
		case record.Inconclusive:
			v.raise(Inconclusive)
		default:
			continue
		}
		for _, reason := range r.Reasons {
			v.warn(reason.Code, "repeat %d is %s: %s", r.Repeat, r.Verdict, reason.Message)
		}
		if len(r.Reasons) == 0 {
			v.warn(string(r.Verdict), "repeat %d is %s", r.Repeat, r.Verdict)
		}
	}
}

// errorRate fails a load on which many requests failed although no limit
// speaks of it, and warns of any.
func (v *Verdict) errorRate(load []record.Rung, slos []profiles.SLO) {
	for _, s := range slos {
		if s.Metric == "error_rate" {
			return
		}
	}
	r := slo.Read(load, "error_rate", "")
	share := r.Value.Or(0)
	switch {
	case share > silentErrors:
		c := checkSLO(load, profiles.SLO{Metric: "error_rate", Value: silentErrors, Text: "5%"})
		c.Message += "; no limit on it was given, 5 % is assumed"
		v.add(c)
	case share > 0:
		v.warn("errors", "%s of requests failed and are in no latency; set a limit on error_rate", slo.Format("error_rate", r.Value))
	}
}

func checkSLO(load []record.Rung, s profiles.SLO) Check {
	r := slo.Read(load, s.Metric, s.Stat)
	c := Check{
		Name: s.Name(), Load: LoadName(load), Unit: unitKey(s.Metric),
		Value: r.Value, Lo: r.Lo, Hi: r.Hi, Limit: record.Known(s.Value), Samples: r.Samples,
	}
	if r.Basis != "" {
		c.Test = "95 % interval over " + r.Basis
	}
	switch {
	case r.State == slo.Missing:
		c.Status = Usage
		c.Message = fmt.Sprintf("%s is not in the result: it was not measured", s.Name())
	case r.State == slo.FewSamples:
		c.Status, c.Need = Inconclusive, r.Need
		c.Message = fmt.Sprintf("%s has %d samples and needs %d", s.Name(), r.Samples, r.Need)
	case slo.Holds(s, r.Value.Or(0)) && r.Repeats < len(load):
		c.Status, c.Need = Inconclusive, r.Need
		c.Message = fmt.Sprintf("%s, limit %s%s, but only %d of %d repeats have it with the %d samples that it needs",
			slo.Format(s.Metric, r.Value), direction(s), s.Text, r.Repeats, len(load), r.Need)
	case slo.Holds(s, r.Value.Or(0)):
		c.Status = Pass
		c.Message = fmt.Sprintf("%s, limit %s%s", slo.Format(s.Metric, r.Value), direction(s), s.Text)
		if !r.Surely(s) {
			c.Message += ", but its interval reaches past the limit"
		}
	default:
		c.Status = Fail
		c.Message = fmt.Sprintf("%s is over the limit %s%s", slo.Format(s.Metric, r.Value), direction(s), s.Text)
		if s.AtLeast {
			c.Message = fmt.Sprintf("%s is under the limit %s%s", slo.Format(s.Metric, r.Value), direction(s), s.Text)
		}
	}
	return c
}

func direction(s profiles.SLO) string {
	if s.AtLeast {
		return ">="
	}
	return "<="
}

// unitKey names the unit of Check.Value.
func unitKey(metric string) string {
	switch u := slo.Unit(metric); u {
	case "%":
		return "ratio"
	case "":
		return "count"
	default:
		return u
	}
}
