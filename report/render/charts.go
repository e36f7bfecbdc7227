package render

import (
	"fmt"
	"math"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/knee"
)

// chart is one figure of the page, as its script reads it. Every point of it
// is in the page's tables too.
type chart struct {
	ID     string   `json:"id"`
	Title  string   `json:"title"`
	Note   string   `json:"-"`
	X      axis     `json:"x"`
	Y      axis     `json:"y"`
	Series []series `json:"series"`
	Bands  []band   `json:"bands"`
	Named  bool     `json:"named"` // each point bears its load
	Limits []limit  `json:"limits"`
}

// axis is one axis: its label with the unit, and its scale.
type axis struct {
	Label string  `json:"label"`
	Log   bool    `json:"log"`
	Fit   bool    `json:"fit"` // from the least value, not from 0
	Max   float64 `json:"max"` // end of the axis; 0 is the largest value
}

// series is one set of points. Kind is "rungs" (a point a rung, joined in the
// order of the ladder), "line" or "dots".
type series struct {
	Label string    `json:"label"`
	Kind  string    `json:"kind"`
	Color int       `json:"color"`
	Dash  bool      `json:"dash"`
	X     []float64 `json:"x"`
	Y     []float64 `json:"y"`
	Names []string  `json:"names"` // of the points
	Doubt []bool    `json:"doubt"` // the point's rung is not valid
}

// band is a stretch of the x axis, with a line at At when it is not null.
type band struct {
	Label string   `json:"label"`
	Color int      `json:"color"`
	From  float64  `json:"from"`
	To    float64  `json:"to"`
	At    *float64 `json:"at"`
}

// limit is a line across, at the value of an SLO.
type limit struct {
	Label string  `json:"label"`
	Y     float64 `json:"y"`
}

// named is a bundle with the name it has on the page.
type named struct {
	*bundle.Bundle
	name  string
	color int
}

// valueOf takes a figure of a rung.
type valueOf func(*record.Rung) record.Value

// rungSeries takes a point of each rung of which both figures are known.
func rungSeries(n named, label string, color int, x, y valueOf) series {
	s := series{Label: label, Kind: "rungs", Color: color, X: []float64{}, Y: []float64{}, Names: []string{}, Doubt: []bool{}}
	for i := range n.Result.Rungs {
		g := &n.Result.Rungs[i]
		xv, xok := x(g).Float()
		yv, yok := y(g).Float()
		if !xok || !yok {
			continue
		}
		name := "load " + loadOf(g)
		if g.Verdict != record.Valid {
			name += " (" + string(g.Verdict) + ")"
		}
		s.X, s.Y, s.Names = append(s.X, xv), append(s.Y, yv), append(s.Names, name)
		s.Doubt = append(s.Doubt, g.Verdict != record.Valid)
	}
	return s
}

func inFlightOf(g *record.Rung) record.Value {
	if g.InFlightMean.OK() || g.Concurrency == 0 {
		return g.InFlightMean
	}
	return record.Known(float64(g.Concurrency))
}

func tokenRateOf(g *record.Rung) record.Value   { return g.OutputTokenThroughputPerS }
func requestRateOf(g *record.Rung) record.Value { return g.RequestThroughputPerS }

// throughputUnit picks output tok/s where every result has it.
func throughputUnit(all []named) (of valueOf, unit, law string) {
	for _, n := range all {
		if !slices.ContainsFunc(n.Result.Rungs, func(g record.Rung) bool { return g.OutputTokenThroughputPerS.OK() }) {
			return requestRateOf, "req/s", "requests_per_s"
		}
	}
	return tokenRateOf, "output tok/s", "output_tokens_per_s"
}

// overview lists the charts that have a point a rung.
func overview(all []named) []chart {
	charts := []chart{throughputChart(all)}
	if c, ok := rateChart(all); ok {
		charts = append(charts, c)
	}
	charts = append(charts, latencyCharts(all)...)
	charts = append(charts, tradeOff(all, true), tradeOff(all, false))
	charts = append(charts, lagChart(all), cpuChart(all))
	for i := range charts {
		if charts[i].X.Label == inFlightLabel {
			charts[i].X.Log = charts[0].X.Log
		}
	}
	return slices.DeleteFunc(charts, func(c chart) bool {
		return !slices.ContainsFunc(c.Series, func(s series) bool { return len(s.X) > 0 })
	})
}

func throughputChart(all []named) chart {
	of, unit, law := throughputUnit(all)
	c := chart{ID: "throughput", Title: "Throughput against load", Y: axis{Label: unit},
		X:    axis{Label: inFlightLabel},
		Note: "The knee is where more requests in flight stop adding throughput; the band is its 95 % interval, the thin line the fitted law."}
	for _, n := range all {
		s := rungSeries(n, n.name, n.color, inFlightOf, of)
		c.Series = append(c.Series, s)
		k := &n.Result.Knee
		if line, ok := lawLine(k, law, s.X); ok {
			line.Label, line.Color = "fitted law", n.color
			c.Series = append(c.Series, line)
		}
		c.Bands = append(c.Bands, kneeBand(n, k.InFlight, k.InFlightCI95)...)
		if x, ok := n.Result.OperatingPoint.InFlightMean.Float(); ok && len(all) == 1 {
			c.Bands = append(c.Bands, band{Label: "operating point", Color: operatingColor, From: x, To: x, At: &x})
		}
	}
	c.X.Log = wideX(c.Series)
	return c
}

// rateChart shows achieved against offered, where load was offered as a rate.
func rateChart(all []named) (chart, bool) {
	c := chart{ID: "rate", Title: "Achieved against offered rate", X: axis{Label: "offered req/s"}, Y: axis{Label: "completed req/s"},
		Note: "Below the diagonal the server no longer keeps up with what is offered."}
	var most float64
	for _, n := range all {
		s := rungSeries(n, n.name, n.color, func(g *record.Rung) record.Value { return g.RatePerS }, requestRateOf)
		if len(s.X) == 0 {
			continue
		}
		most = max(most, slices.Max(s.X))
		c.Series = append(c.Series, s)
		c.Bands = append(c.Bands, kneeBand(n, n.Result.Knee.RatePerS, n.Result.Knee.RateCI95)...)
	}
	if len(c.Series) == 0 {
		return c, false
	}
	c.Series = append(c.Series, series{Label: "achieved = offered", Kind: "line", Color: gridColor, Dash: true, X: []float64{0, most}, Y: []float64{0, most}, Names: []string{"", ""}})
	return c, true
}

const inFlightLabel = "requests in flight, mean"

// gridColor is the palette's neutral colour; limitColor its warning colour.
const gridColor, limitColor = 7, 8

// operatingColor is the colour of the operating point.
const operatingColor = 2

// kneeBand marks a knee and its interval.
func kneeBand(n named, at record.Value, ci *[2]record.Value) []band {
	x, ok := at.Float()
	if !ok || n.Result.Knee.Status != knee.Found {
		return nil
	}
	b := band{Label: "knee " + brief(at), Color: n.color, From: x, To: x, At: &x}
	if ci != nil && ci[0].OK() && ci[1].OK() {
		b.From, b.To = ci[0].Or(x), ci[1].Or(x)
	}
	return []band{b}
}

// lawLine draws X(N) = min(N/(a + b*N), C) over the measured loads.
func lawLine(k *knee.Knee, unit string, over []float64) (series, bool) {
	a, aok := k.Law.A.Float()
	b := k.Law.B.Or(0)
	if !aok || a+b <= 0 || k.Law.Unit != unit || len(over) < 2 {
		return series{}, false
	}
	lo, hi := max(slices.Min(over), 1e-3), slices.Max(over)
	if hi <= lo {
		return series{}, false
	}
	s := series{Kind: "line", Dash: true}
	const steps = 96
	for i := range steps + 1 {
		n := lo * math.Pow(hi/lo, float64(i)/steps)
		x := min(n/(a+b*n), k.Law.Cap.Or(math.Inf(1)))
		s.X, s.Y, s.Names = append(s.X, round3(n)), append(s.Y, round3(x)), append(s.Names, "law")
	}
	return s, true
}

// wideX says that loads span so much that only a log axis shows them.
func wideX(all []series) bool { return wide(all, 16, func(s series) []float64 { return s.X }) }

// wideY says that values span so much that a linear axis hides the small ones.
func wideY(all []series) bool { return wide(all, 20, func(s series) []float64 { return s.Y }) }

// wide says that the numbers of an axis, all above 0, span a ratio.
func wide(all []series, ratio float64, axis func(series) []float64) bool {
	lo, hi := math.Inf(1), 0.0
	for _, s := range all {
		for _, v := range axis(s) {
			if v <= 0 {
				return false
			}
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return hi >= ratio*lo
}

// latencyCharts show percentiles against load, one chart a latency: p50, p95
// and p99 of one result, p95 of several.
func latencyCharts(all []named) []chart {
	rate := !slices.ContainsFunc(all, func(n named) bool { return !open(n.Result) })
	x, label := valueOf(inFlightOf), inFlightLabel
	ttft, e2e, from := "ttft", "e2e", ""
	if rate {
		x, label = func(g *record.Rung) record.Value { return g.RatePerS }, "offered req/s"
		ttft, e2e, from = "ttft_response", "e2e_response", ", from the scheduled time"
	}
	var charts []chart
	for _, l := range []struct{ key, slo, title string }{
		{ttft, "ttft", "Time to first token (TTFT)" + from}, {"itl", "itl", "Inter-token latency (ITL)"},
		{"tpot", "tpot", "Time per output token (TPOT)"}, {e2e, "e2e", "Whole answer (E2E)" + from},
	} {
		c := chart{ID: l.slo, Title: l.title, X: axis{Label: label}, Y: axis{Label: "ms"}}
		dist := latencyOf(l.key)
		stats := []string{"p95"}
		if len(all) == 1 {
			stats = []string{"p50", "p95", "p99"}
		}
		for _, n := range all {
			for i, stat := range stats {
				name, color := n.name+" "+stat, n.color
				if len(all) == 1 {
					name, color = stat, i
				}
				c.Series = append(c.Series, rungSeries(n, name, color, x, func(g *record.Rung) record.Value { return *dist(g).Stat(stat) }))
			}
			c.Limits = append(c.Limits, limitsOf(n, l.slo)...)
			if !rate {
				c.Bands = append(c.Bands, kneeBand(n, n.Result.Knee.InFlight, nil)...)
			}
		}
		if !slices.ContainsFunc(c.Series, func(s series) bool { return len(s.X) > 0 }) && len(all) == 1 {
			c.Series = append(c.Series, rungSeries(all[0], "mean", 0, x, func(g *record.Rung) record.Value { return dist(g).Mean }))
		}
		c.X.Log, c.Y.Log = wideX(c.Series), wideY(c.Series)
		if c.Y.Log {
			c.Note = "Logarithmic scale."
		}
		charts = append(charts, c)
	}
	return charts
}

func latencyOf(key string) func(*record.Rung) *record.Dist {
	for _, l := range latencies {
		if l.key == key {
			return l.of
		}
	}
	return func(*record.Rung) *record.Dist { return &record.Dist{} }
}

// limitsOf are the SLOs of a profile on one latency, in ms.
func limitsOf(n named, metric string) []limit {
	list, err := n.Result.Profile.SLO.List()
	if err != nil {
		return nil
	}
	var out []limit
	for _, s := range list {
		if s.Metric == metric {
			out = append(out, limit{Label: s.String(), Y: s.Value})
		}
	}
	return out
}

// tradeOff is throughput an accelerator against what one user gets: speed, or
// the p95 of the whole answer.
func tradeOff(all []named, speed bool) chart {
	of, unit, _ := throughputUnit(all)
	c := chart{ID: "tradeoff-e2e", Named: true, Title: "Throughput against waiting", X: axis{Label: "E2E p95, ms", Fit: true}, Y: axis{Label: unit + " an accelerator"},
		Note: "Up and to the left is better."}
	x := func(g *record.Rung) record.Value { return e2eHeadline(g).P95 }
	if speed {
		c.ID, c.Title, c.X.Label = "tradeoff-speed", "Throughput against speed of one user", "output tok/s a user, p50 (mean where that is unknown)"
		c.Note = "Up and to the right is better: more work from the hardware, more speed for each user."
		x = func(g *record.Rung) record.Value {
			if v := g.PerUserTokensPerS.P50; v.OK() {
				return v
			}
			return g.PerUserTokensPerS.Mean
		}
	}
	for _, n := range all {
		count := n.Result.Profile.Hardware.Count
		if count <= 0 {
			count = 1
			c.Y.Label = unit + " (accelerators unknown)"
		}
		c.Series = append(c.Series, rungSeries(n, n.name, n.color, x, func(g *record.Rung) record.Value { return of(g).Scale(1 / float64(count)) }))
	}
	c.X.Log = !speed && wideX(c.Series)
	return c
}

// e2eHeadline is the response time in open loop and the service time otherwise.
func e2eHeadline(g *record.Rung) *record.Dist {
	if g.Mode == record.Open {
		return &g.E2EResponse
	}
	return &g.E2E
}

// lagChart shows whether the client kept up.
func lagChart(all []named) chart {
	c := chart{ID: "client-lag", Title: "Client: lags, p99", X: axis{Label: inFlightLabel}, Y: axis{Label: "ms"},
		Note: "Send lag is how late a request left, receive lag how late a read came back. Both belong far below the latencies measured."}
	for _, n := range all {
		prefix := ""
		if len(all) > 1 {
			prefix = n.name + " "
		}
		receive := rungSeries(n, prefix+"receive lag", n.color, inFlightOf, func(g *record.Rung) record.Value { return g.ReceiveLag.P99 })
		receive.Dash = true
		c.Series = append(c.Series, rungSeries(n, prefix+"send lag", n.color, inFlightOf, func(g *record.Rung) record.Value { return g.SendLag.P99 }), receive)
	}
	return c
}

func cpuChart(all []named) chart {
	c := chart{ID: "client-cpu", Title: "Client: processor use", X: axis{Label: inFlightLabel}, Y: axis{Label: "% of all cores"}}
	for _, n := range all {
		c.Series = append(c.Series, rungSeries(n, n.name, n.color, inFlightOf, func(g *record.Rung) record.Value { return g.Client.CPURatio.Scale(100) }))
	}
	return c
}

// palette is the number of colours for results.
const palette = 7

// timelineCharts are the charts of one rung over time.
func timelineCharts(g *record.Rung, t *timeline) []chart {
	x := axis{Label: "s from the rung's start", Max: float64(t.used) * t.width / 1e9}
	flight := series{Label: "in flight", Kind: "line", Color: 0}
	tokens := series{Label: "output tok/s", Kind: "line", Color: 2}
	for i := range t.used {
		at := round3((float64(i) + 0.5) * t.width / 1e9)
		flight.X, flight.Y = append(flight.X, at), append(flight.Y, round3(t.inFlight[i]/t.width))
		tokens.X, tokens.Y = append(tokens.X, at), append(tokens.Y, round3(t.tokens[i]/t.width*1e9))
	}
	ttft := series{Label: fmt.Sprintf("TTFT (%d of %d requests)", len(t.ttft.x), t.ttft.seen), Kind: "dots", Color: 1}
	ttft.X, ttft.Y = t.ttft.sorted()
	failed := series{Label: fmt.Sprintf("failed (%d of %d)", len(t.failed.x), t.failed.seen), Kind: "dots", Color: limitColor}
	failed.X, failed.Y = t.failed.sorted()
	window := []band{{Label: "measured window", Color: gridColor, From: g.Window.StartS, To: g.Window.EndS}}
	charts := []chart{
		{ID: "in-flight", Title: "Requests in flight", X: x, Y: axis{Label: "requests"}, Series: []series{flight}, Bands: window},
		{ID: "tokens", Title: "Output tokens", X: x, Y: axis{Label: "tok/s"}, Series: []series{tokens}, Bands: window},
		{ID: "ttft", Title: "Time to first token of each request", X: x, Y: axis{Label: "ms"}, Series: []series{ttft}, Bands: window},
	}
	if len(failed.X) > 0 {
		charts[2].Series = append(charts[2].Series, failed)
	}
	return charts
}
