package render

import (
	"fmt"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/text"
)

// conclusions writes knee, points, cause and doubts for a terminal.
func conclusions(b *strings.Builder, r *bundle.Result, o Options) {
	for _, f := range findings(r) {
		text.Wrap(b, paint(fmt.Sprintf("%-18s", f.Name+":"), bold, o.Color), text.Plain(f.Value), o.Width)
	}
}

// findings are the sentences of a result: knee, points, cause, doubts.
func findings(r *bundle.Result) []fact {
	out := []fact{
		{"knee", kneeText(&r.Knee)},
		{"operating point", pointText(r, &r.OperatingPoint)},
		{"peak throughput", pointText(r, &r.Peak)},
		{"single user", pointText(r, &r.SingleUser)},
	}
	if r.Knee.Status == knee.Found {
		out = append(out, fact{"cause", causeText(&r.Knee)})
	}
	return append(out, doubts(r)...)
}

// doubts are warnings of the knee, failures and warnings of the run, and
// reasons and warnings of its rungs.
func doubts(r *bundle.Result) []fact {
	var out []fact
	for _, w := range r.Knee.Warnings {
		out = append(out, fact{"knee warning", w.Message})
	}
	failed := record.Failures(r.Rungs)
	if text := failed.FailureText(); text != "" {
		out = append(out, fact{"errors", text})
	}
	for _, w := range r.Warnings {
		out = append(out, fact{"warning", w.Message})
	}
	for i := range r.Rungs {
		g := &r.Rungs[i]
		at := "load " + repeatOf(g)
		for _, reason := range g.Reasons {
			out = append(out, fact{string(g.Verdict), at + ": " + reason.Message})
		}
		for _, w := range g.Warnings {
			out = append(out, fact{"warning", at + ": " + w.Message})
		}
	}
	return out
}

// kneeText is the knee in one sentence.
func kneeText(k *knee.Knee) string {
	var s string
	switch k.Status {
	case knee.Found:
		s = "found at " + kneeAt(k)
		if v := k.OutputTokenThroughputPerS; v.OK() {
			s += fmt.Sprintf(", %s output tok/s", brief(v))
		}
		if v := k.RequestThroughputPerS; v.OK() {
			s += fmt.Sprintf(", %s req/s", brief(v))
		}
	case knee.NotReached:
		s = "not_reached: throughput still grows at the highest load; add higher loads"
		if v := k.HalfSaturationInFlight; v.OK() {
			s += fmt.Sprintf(" (half saturation at %s in flight)", brief(v))
		}
	case knee.NotLinear:
		s = "not_linear: the lowest load is already saturated; add lower loads"
	case knee.Insufficient:
		s = "insufficient: fewer than 4 distinct loads; add loads to the ladder"
	default:
		return absent
	}
	if k.Retrograde {
		s += "; throughput falls beyond its peak"
	}
	if k.HingeInFlight.OK() && k.Status == knee.Found && k.Method == knee.Batching {
		s += fmt.Sprintf("; %s law (the plain hinge says %s)", k.Method, brief(k.HingeInFlight))
	}
	return s
}

// kneeAt is the load at the knee with its 95 % interval.
func kneeAt(k *knee.Knee) string {
	inFlight := brief(k.InFlight) + interval(k.InFlightCI95) + " in flight"
	if k.RatePerS.OK() {
		return brief(k.RatePerS) + interval(k.RateCI95) + " req/s offered, " + inFlight
	}
	return inFlight
}

func interval(ci *[2]record.Value) string {
	if ci == nil || !ci[0].OK() || !ci[1].OK() {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", brief(ci[0]), brief(ci[1]))
}

func causeText(k *knee.Knee) string {
	parts := []string{string(k.Cause)}
	for _, e := range k.Evidence {
		parts = append(parts, e.Message)
	}
	return strings.Join(parts, "; ")
}

// pointText is one of the four points of a result in one sentence.
func pointText(r *bundle.Result, p *bundle.Point) string {
	switch p.Status {
	case knee.PointNoSLO:
		return "none asked for (give --slo to find it)"
	case knee.PointFound:
	default:
		s := "none"
		if p.Binding != "" {
			s += ": " + p.Binding
		}
		return s
	}
	var parts []string
	if g := rungOf(r, p); g != nil {
		parts = append(parts, "load "+loadOf(g))
	}
	for _, f := range pointFigures(p) {
		if f.value.OK() {
			parts = append(parts, fmt.Sprintf(f.format, brief(f.value)))
		}
	}
	if p.Binding != "" {
		parts = append(parts, "bound by "+p.Binding)
	}
	if p.Verdict == record.Inconclusive {
		parts = append(parts, unsure)
	}
	return strings.Join(parts, ", ")
}

// unsure marks a point that no valid rung shows.
const unsure = "INCONCLUSIVE: no valid rung shows it"

// rungOf is the first rung of a point, nil where it has none.
func rungOf(r *bundle.Result, p *bundle.Point) *record.Rung {
	for i := range r.Rungs {
		if len(p.Rungs) > 0 && r.Rungs[i].Index == p.Rungs[0] {
			return &r.Rungs[i]
		}
	}
	return nil
}

// figure is a number with the words around it.
type figure struct {
	format string
	value  record.Value
}

func pointFigures(p *bundle.Point) []figure {
	return []figure{
		{"%s in flight", p.InFlightMean},
		{"%s req/s", p.RequestThroughputPerS},
		{"%s output tok/s", p.OutputTokenThroughputPerS},
		{"%s output tok/s an accelerator", p.TokensPerSPerAccelerator},
		{"%s tok/s a user", p.PerUserTokensPerS},
		{"TTFT p95 %s ms", p.TTFTP95MS},
		{"ITL p95 %s ms", p.ITLP95MS},
		{"E2E p95 %s ms", p.E2EP95MS},
		{"%s USD per million output tokens", p.USDPerMillionOutputTokens},
		{"%s output tokens per joule", p.TokensPerJoule},
	}
}
