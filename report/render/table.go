// Package render turns a result into what people read: a terminal table,
// Markdown, CSV, JSON and one self-contained page of charts. All of it is pure:
// the same bundle gives the same bytes.
package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/text"
)

// Options say how a terminal table looks.
type Options struct {
	// Width is the number of columns of the terminal; 0 is 80. From 112 on,
	// numbers and words are written in full.
	Width int
	// Color adds ANSI colours. The caller asks for it only on a terminal and
	// where NO_COLOR is unset.
	Color bool
}

// wideColumns is the width from which the wide table fits.
const wideColumns = 112

// Table writes the whole result for a terminal: what was measured, one line a
// rung, then knee, points and doubts.
func Table(w io.Writer, r *bundle.Result, o Options) error {
	if o.Width <= 0 {
		o.Width = 80
	}
	var b strings.Builder
	identityBlock(&b, r, o)
	b.WriteByte('\n')
	if err := rungTable(&b, r, o); err != nil {
		return err
	}
	notes(&b, r)
	b.WriteByte('\n')
	conclusions(&b, r, o)
	_, err := io.WriteString(w, b.String())
	return err
}

// identityBlock writes the facts without which the numbers say nothing.
func identityBlock(b *strings.Builder, r *bundle.Result, o Options) {
	for _, f := range identity(r) {
		text.Wrap(b, fmt.Sprintf("%-12s", f.Name), text.Plain(f.Value), o.Width)
	}
}

func rungTable(b *strings.Builder, r *bundle.Result, o Options) error {
	wide := o.Width >= wideColumns
	cols := columns(r, wide)
	pad := tw.Padding{Left: tw.Empty, Right: tw.Space, Overwrite: true}
	if wide {
		pad.Right = "  "
	}
	var raw strings.Builder
	t := tablewriter.NewTable(&raw,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Symbols: tw.NewSymbols(tw.StyleASCII),
			Settings: tw.Settings{
				Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off, ShowHeader: tw.Off},
				Lines:      tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.Off, ShowFooterLine: tw.Off},
			},
		})),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithPadding(pad),
		tablewriter.WithHeaderAlignment(tw.AlignRight),
		tablewriter.WithRowAlignment(tw.AlignRight),
	)
	head := make([]string, len(cols))
	for i, c := range cols {
		head[i] = c.head
	}
	t.Header(head)
	for i := range r.Rungs {
		row := make([]string, len(cols))
		for j, c := range cols {
			row[j] = c.cell(&r.Rungs[i])
		}
		row[len(row)-1] = paint(row[len(row)-1], verdictColor(r.Rungs[i].Verdict), o.Color)
		if err := t.Append(row); err != nil {
			return fmt.Errorf("render table: %w", err)
		}
	}
	if err := t.Render(); err != nil {
		return fmt.Errorf("render table: %w", err)
	}
	for line := range strings.Lines(raw.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return nil
}

// column is one column of the rung table.
type column struct {
	head string
	cell func(*record.Rung) string
}

// columns of the rung table, each with its unit; narrow ones use at most five
// characters a number.
func columns(r *bundle.Result, wide bool) []column {
	num := short
	inFlight, output, errs, elasticity, user := "in\nflight", "output\ntok/s", "errors\n%", "elas-\nticity", "tok/s\n/user\np50"
	switch {
	case wide:
		num = full
		inFlight, elasticity, user = "in-flight\nmean", "elasticity", "tok/s/user\np50"
	case slices.ContainsFunc(r.Rungs, func(g record.Rung) bool { return g.Verdict == record.Inconclusive }):
		output, errs = "out\ntok/s", "err\n%" // the longest verdict takes the room
	}
	value := func(f func(*record.Rung) record.Value) func(*record.Rung) string {
		return func(g *record.Rung) string { return num(f(g)) }
	}
	perc := func(f func(*record.Rung) (record.Value, int64), p float64) func(*record.Rung) string {
		return func(g *record.Rung) string {
			v, n := f(g)
			if !v.OK() {
				return lacking(n, p)
			}
			return num(v)
		}
	}
	pace, paceOf := paceColumn(r)
	ttft, e2e, response := ttftOf(r), e2eOf(r), ""
	if open(r) {
		response = "*"
	}
	return []column{
		{"load", loadOf},
		{inFlight, value(func(g *record.Rung) record.Value { return g.InFlightMean })},
		{"req/s", value(func(g *record.Rung) record.Value { return g.RequestThroughputPerS })},
		{output, value(func(g *record.Rung) record.Value { return g.OutputTokenThroughputPerS })},
		{user, perc(func(g *record.Rung) (record.Value, int64) { return g.PerUserTokensPerS.P50, g.PerUserTokensPerS.Count }, 0.50)},
		{"TTFT" + response + "\np50\nms", perc(func(g *record.Rung) (record.Value, int64) { return ttft(g).P50, ttft(g).Count }, 0.50)},
		{"TTFT" + response + "\np95\nms", perc(func(g *record.Rung) (record.Value, int64) { return ttft(g).P95, ttft(g).Count }, 0.95)},
		{pace + "\np95\nms", perc(func(g *record.Rung) (record.Value, int64) { return paceOf(g).P95, paceOf(g).Count }, 0.95)},
		{"E2E" + response + "\np95\nms", perc(func(g *record.Rung) (record.Value, int64) { return e2e(g).P95, e2e(g).Count }, 0.95)},
		{errs, func(g *record.Rung) string { return num(errorRate(g).Scale(100)) }},
		{elasticity, func(g *record.Rung) string { return fixed2(g.Elasticity) }},
		{"verdict", func(g *record.Rung) string { return verdictWord(g.Verdict) }},
	}
}

// paceColumn is the column of the decoding speed: ITL, or TPOT where that is
// all that the rungs have.
func paceColumn(r *bundle.Result) (name string, of func(*record.Rung) *record.Dist) {
	itl, tpot := false, false
	for i := range r.Rungs {
		itl, tpot = itl || r.Rungs[i].ITL.Mean.OK(), tpot || r.Rungs[i].TPOT.Mean.OK()
	}
	if tpot && !itl {
		return "TPOT", func(g *record.Rung) *record.Dist { return &g.TPOT }
	}
	return "ITL", func(g *record.Rung) *record.Dist { return &g.ITL }
}

// notes explain what the cells can't.
func notes(b *strings.Builder, r *bundle.Result) {
	if open(r) {
		b.WriteString("* from the scheduled time, waiting before sending included\n")
	}
	if strings.Contains(b.String(), "-(") {
		b.WriteString("-(n): too few samples; this percentile takes n\n")
	}
}
