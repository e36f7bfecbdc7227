// Package compare sets results side by side: at equal load, at equal SLO and
// each at its own operating point. Results that were not made alike are
// refused with the list of their differences, unless each is allowed by name.
package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/gate"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/slo"
	"github.com/headway-bench/headway/report/stat"
)

// Input is one result. Definitions names how a metric was defined where it is
// not as headway defines it, as in imported files.
type Input struct {
	Name        string
	Profile     profiles.Profile
	Rungs       []record.Rung
	Definitions map[string]string
}

// Options steer a comparison.
type Options struct {
	// Allow names differences that are wanted, as Difference.Field has them.
	Allow []string
	// SLOs for the operating points; nil takes those of the first profile.
	SLOs []profiles.SLO
}

// Difference is one way in which results were not made alike.
type Difference struct {
	Field   string   `json:"field"`  // model.id
	Values  []string `json:"values"` // one a result
	Allowed bool     `json:"allowed"`
}

// Finding says what a comparison of one figure shows.
type Finding string

// The findings.
const (
	Same         Finding = "no difference found" // the interval of the ratio has 1 in it
	Better       Finding = "better"
	Worse        Finding = "worse"
	Mixed        Finding = "mixed"        // some figures are better, others worse
	Inconclusive Finding = "inconclusive" // too little to say how far apart they may be
	Unknown      Finding = "unknown"      // one side does not have it
)

// Cell is one figure of one result, held against the first result.
type Cell struct {
	Value   record.Value `json:"value"`
	Ratio   record.Value `json:"ratio"` // to the first result
	Lo      record.Value `json:"lo"`    // 95 % interval of the ratio
	Hi      record.Value `json:"hi"`
	Finding Finding      `json:"finding"`
}

// Row is one figure over all results.
type Row struct {
	Metric string `json:"metric"` // ttft_p95
	Unit   string `json:"unit"`
	Cells  []Cell `json:"cells"` // one a result
}

// Table is one basis of comparison.
type Table struct {
	Basis string `json:"basis"` // concurrency=32, operating point, knee
	Rows  []Row  `json:"rows"`
	// Note says why a table is empty or short.
	Note string `json:"note,omitempty"`
}

// Comparison is results side by side. With Refused the tables are empty.
type Comparison struct {
	Names       []string     `json:"names"`
	Refused     bool         `json:"refused"`
	Differences []Difference `json:"differences"`
	// Finding is that of the figures at equal load, or at the operating points
	// where no load is common.
	Finding Finding `json:"finding"`
	// Headline is the finding in words, and where the operating points differ
	// although it names no difference.
	Headline string          `json:"headline"`
	AtLoad   []Table         `json:"at_load"`
	AtSLO    Table           `json:"at_slo"`
	AtPoint  Table           `json:"at_operating_point"`
	Knees    []knee.Knee     `json:"knees"`
	Warnings []record.Reason `json:"warnings"`
}

// Compare sets two or more results side by side.
func Compare(inputs []Input, o Options) (Comparison, error) {
	c := Comparison{Differences: []Difference{}, AtLoad: []Table{}, Knees: []knee.Knee{}, Warnings: []record.Reason{}}
	if len(inputs) < 2 {
		return c, fmt.Errorf("a comparison takes two results or more, not %d", len(inputs))
	}
	for _, in := range inputs {
		c.Names = append(c.Names, in.Name)
	}
	c.Differences = Differences(inputs, o.Allow)
	if unused := unusedNames(c.Differences, o.Allow); len(unused) > 0 {
		return c, fmt.Errorf("nothing differs by %s; what differs is %s", strings.Join(unused, ", "), fields(c.Differences))
	}
	c.Refused = slices.ContainsFunc(c.Differences, func(d Difference) bool { return !d.Allowed })
	if c.Refused {
		c.Finding, c.Headline = Unknown, "refused: the results were not made alike"
		return c, nil
	}
	if o.SLOs == nil {
		slos, err := inputs[0].Profile.SLO.List()
		if err != nil {
			return c, err
		}
		o.SLOs = slos
	}
	c.fill(inputs, o)
	return c, nil
}

func (c *Comparison) fill(inputs []Input, o Options) {
	for _, in := range inputs {
		c.Knees = append(c.Knees, knee.Fit(knee.FromRungs(in.Rungs), knee.Options{}))
		for _, r := range in.Rungs {
			if r.Verdict == record.Invalid {
				c.warn("invalid_rung", "%s: rung %d is invalid and left out", in.Name, r.Index)
			}
		}
	}
	for _, name := range commonLoads(inputs) {
		loads := make([][]record.Rung, len(inputs))
		for i, in := range inputs {
			loads[i] = at(in, name)
			if !slices.ContainsFunc(loads[i], func(r record.Rung) bool { return r.Verdict == record.Valid }) {
				c.warn("inconclusive_load", "%s: every rung at %s is inconclusive", in.Name, name)
			}
		}
		c.AtLoad = append(c.AtLoad, table(name, loads))
	}
	points := make([][]record.Rung, len(inputs))
	for i, in := range inputs {
		p := knee.OperatingPoint(in.Rungs, o.SLOs, economics(in))
		if points[i] = p.Load(); p.Verdict == record.Inconclusive {
			c.warn("inconclusive_point", "%s: the operating point is shown by inconclusive rungs only", in.Name)
		}
	}
	c.AtPoint = table("operating point", points)
	c.AtSLO = sloTable(inputs, o.SLOs)
	if len(o.SLOs) == 0 {
		c.AtPoint.Note, c.AtSLO.Note = "no SLO was given", "no SLO was given"
	}
	c.Finding = overall(c.AtLoad)
	c.Headline = string(c.Finding)
	switch atPoint := overall([]Table{c.AtPoint}); {
	case len(c.AtLoad) == 0:
		c.warn("no_common_load", "no load was run by all results: they are compared at their operating points only")
		c.Finding = atPoint
		c.Headline = string(atPoint) + " at their operating points"
	case len(o.SLOs) > 0 && apart(points) && atPoint != Same:
		c.Headline += " at equal load; the operating points differ: " + pointNames(points)
	}
}

// apart says that operating points are not at one load.
func apart(points [][]record.Rung) bool {
	return slices.ContainsFunc(points, func(p []record.Rung) bool { return pointName(p) != pointName(points[0]) })
}

func pointNames(points [][]record.Rung) string {
	names := make([]string, len(points))
	for i, p := range points {
		names[i] = pointName(p)
	}
	return strings.Join(names, ", ")
}

// pointName is the load of an operating point.
func pointName(rungs []record.Rung) string {
	if len(rungs) == 0 {
		return "none"
	}
	return gate.LoadName(rungs)
}

func economics(in Input) knee.Economics {
	return knee.Economics{USDPerHour: in.Profile.Cost.USDPerHour, Accelerators: in.Profile.Hardware.Count}
}

func (c *Comparison) warn(code, format string, args ...any) {
	c.Warnings = append(c.Warnings, record.Reason{Code: code, Message: fmt.Sprintf(format, args...)})
}

// table compares one load of every result. A nil load is one that a result
// does not have.
func table(basis string, loads [][]record.Rung) Table {
	t := Table{Basis: basis, Rows: []Row{}}
	family := float64(len(gate.DefaultMetrics) * (len(loads) - 1))
	for _, m := range gate.DefaultMetrics {
		row := Row{Metric: m.Name(), Unit: slo.Unit(m.Metric)}
		known := false
		for _, load := range loads {
			cell := compareTo(loads[0], load, m, 0.05/2/family)
			known = known || cell.Value.OK()
			row.Cells = append(row.Cells, cell)
		}
		row.Cells[0].Finding = Same
		if known {
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) == 0 {
		t.Note = "no result has this point"
	}
	return t
}

// compareTo holds one figure of a load against that of the first result.
func compareTo(first, load []record.Rung, m gate.Metric, alpha float64) Cell {
	base, here := slo.Read(first, m.Metric, m.Stat), slo.Read(load, m.Metric, m.Stat)
	cell := Cell{Value: here.Value, Finding: Unknown}
	b, h := base.Value.Or(0), here.Value.Or(0)
	if !(b > 0) || !(h > 0) {
		return cell
	}
	cell.Ratio = record.Known(h / b)
	s := gate.Compare(first, load, m, stat.Errors{Lo: alpha, Hi: alpha})
	cell.Lo, cell.Hi = record.Known(math.Exp(s.Lo)), record.Known(math.Exp(s.Hi))
	switch rises := s.Lo > 0; {
	case math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0):
		cell.Finding = Inconclusive
	case !rises && s.Hi >= 0:
		cell.Finding = Same
	case rises == m.MoreIsBetter:
		cell.Finding = Better
	default:
		cell.Finding = Worse
	}
	return cell
}

// overall is the finding of a comparison as a whole: worse or better only
// where no row says the opposite.
func overall(tables []Table) Finding {
	seen := map[Finding]int{}
	for _, t := range tables {
		for _, r := range t.Rows {
			for _, cell := range r.Cells[1:] {
				seen[cell.Finding]++
			}
		}
	}
	switch {
	case seen[Better] > 0 && seen[Worse] > 0:
		return Mixed
	case seen[Better] > 0:
		return Better
	case seen[Worse] > 0:
		return Worse
	case seen[Same] > 0:
		return Same
	case seen[Inconclusive] > 0:
		return Inconclusive
	}
	return Unknown
}

// sloTable shows how much each result carries within the same limits.
func sloTable(inputs []Input, slos []profiles.SLO) Table {
	t := Table{Basis: "equal SLO", Rows: []Row{}}
	figures := []struct {
		name, unit string
		of         func(knee.Operating) record.Value
	}{
		{"output_token_throughput", "tok/s", func(p knee.Operating) record.Value { return p.OutputTokenThroughputPerS }},
		{"request_throughput", "req/s", func(p knee.Operating) record.Value { return p.RequestThroughputPerS }},
		{"output_token_throughput_per_accelerator", "tok/s", func(p knee.Operating) record.Value { return p.TokensPerSPerAccelerator }},
		{"in_flight", "requests", func(p knee.Operating) record.Value { return p.InFlightMean }},
		{"usd_per_million_output_tokens", "USD", func(p knee.Operating) record.Value { return p.USDPerMillionOutputTokens }},
		{"tokens_per_joule", "tok/J", func(p knee.Operating) record.Value { return p.TokensPerJoule }},
	}
	points := make([]knee.Operating, len(inputs))
	for i, in := range inputs {
		points[i] = knee.OperatingPoint(in.Rungs, slos, economics(in))
	}
	for _, f := range figures {
		row := Row{Metric: f.name, Unit: f.unit}
		known := false
		for _, p := range points {
			v := f.of(p)
			cell := Cell{Value: v, Finding: Unknown}
			if b, ok := f.of(points[0]).Float(); ok && b > 0 {
				cell.Ratio = v.Scale(1 / b)
			}
			known = known || v.OK()
			row.Cells = append(row.Cells, cell)
		}
		if known {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// commonLoads names the loads that every result ran and measured well.
func commonLoads(inputs []Input) []string {
	var names []string
	for _, load := range knee.ByLoad(inputs[0].Rungs) {
		name := gate.LoadName(load)
		shared := true
		for _, in := range inputs {
			shared = shared && len(at(in, name)) > 0
		}
		if shared {
			names = append(names, name)
		}
	}
	return names
}

// at returns the rungs of one load that can be trusted.
func at(in Input, name string) []record.Rung {
	for _, load := range knee.ByLoad(in.Rungs) {
		if gate.LoadName(load) == name {
			return slices.DeleteFunc(load, func(r record.Rung) bool { return r.Verdict == record.Invalid })
		}
	}
	return nil
}
