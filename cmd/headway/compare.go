package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/compare"
	"github.com/headway-bench/headway/report/text"
)

func newCompareCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare RESULT RESULT...",
		Short: "Set results side by side, and refuse unlike ones",
		Long: `compare sets two or more results side by side: at equal load, at equal SLO and
each at its own operating point. Every figure is held against the first result,
with the 95 % interval of the ratio. Results of another model, precision,
lengths, sampling or definitions are refused with the list, exit code 2, unless
--allow names each difference.`,
		Example: `  headway compare BEFORE AFTER
  headway compare BF16 FP8 --allow precision.weights --slo ttft_p95=500ms
  headway compare BEFORE AFTER --format json`,
		Args: takes(2, -1, "two results or more"),
	}
	format := addFormat(cmd, "table", "json", "markdown")
	limits := addSLO(cmd)
	allow := cmd.Flags().StringSlice("allow", nil, "differences that are wanted: precision.weights,model.id")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		slos, err := limits.parse()
		if err != nil {
			return err
		}
		if err := stdinOnce(args); err != nil {
			return err
		}
		results, err := openResults(args, cmd.InOrStdin())
		if err != nil {
			return err
		}
		c, err := compare.Compare(comparisonInputs(results), compare.Options{Allow: *allow, SLOs: slos})
		if err != nil {
			return exitWith(exitUsage, err)
		}
		if format.value == "json" {
			err = printJSON(cmd, c)
		} else if !c.Refused {
			err = printComparison(cmd.OutOrStdout(), c, format.value == "markdown")
		}
		if err == nil && c.Refused {
			return refusal(c)
		}
		return err
	}
	return cmd
}

func comparisonInputs(results []*bundle.Bundle) []compare.Input {
	inputs := make([]compare.Input, len(results))
	for i, b := range results {
		inputs[i] = compare.Input{Name: b.Path, Profile: b.Result.Profile, Rungs: b.Result.Rungs}
		inputs[i].Profile.Workload.Sampling = b.Result.Sampling()
		if b.Result.Imported != nil {
			inputs[i].Definitions = b.Result.Imported.Definitions
		}
	}
	return inputs
}

// refusal lists what makes results unlike.
func refusal(c compare.Comparison) error {
	var b strings.Builder
	var fields []string
	for _, d := range c.Differences {
		if !d.Allowed {
			fmt.Fprintf(&b, "\n  %s: %s", d.Field, strings.Join(d.Values, " / "))
			fields = append(fields, d.Field)
		}
	}
	return usagef("the results were not made alike:%s\nto compare them all the same: --allow %s", b.String(), strings.Join(fields, ","))
}

// printComparison writes each basis as a table: a row a figure, and for every
// further result its change from the first.
func printComparison(w io.Writer, c compare.Comparison, markdown bool) error {
	var b strings.Builder
	show := func(label, message string) {
		if markdown {
			fmt.Fprintf(&b, "\n%s%s\n", label, text.Markdown(message))
			return
		}
		text.Wrap(&b, label, text.Plain(message), textColumns)
	}
	if markdown {
		fmt.Fprintf(&b, "overall: %s\n", text.Markdown(c.Headline))
	} else {
		text.Wrap(&b, "overall: ", text.Plain(c.Headline), textColumns)
	}
	for _, d := range c.Differences {
		show("allowed: ", d.Field+" differs: "+strings.Join(d.Values, " / "))
	}
	for _, warning := range c.Warnings {
		show("warning: ", warning.Message)
	}
	if !markdown {
		for i, name := range c.Names {
			show(letter(i)+": ", name)
		}
		b.WriteString("changes from A in %, with their 95 % interval; ~ is no difference found\n")
	}
	tables := append([]compare.Table{}, c.AtLoad...)
	for _, t := range append(tables, c.AtSLO, c.AtPoint) {
		fmt.Fprintf(&b, "\n%s\n", t.Basis)
		if t.Note != "" {
			show("", t.Note)
		}
		switch {
		case len(t.Rows) == 0:
		case markdown:
			writeMarkdownComparison(&b, c.Names, t)
		default:
			writeComparison(&b, t)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// textColumns is the width that text fits where no terminal tells one.
const textColumns = 80

// letter names a result in a table.
func letter(i int) string { return string(rune('A' + i%26)) }

// writeComparison writes a table of the first result beside each of the others.
func writeComparison(b *strings.Builder, t compare.Table) {
	for other := 1; other < len(t.Rows[0].Cells); other++ {
		tabs := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(tabs, "metric\tA\t%s\n", letter(other))
		for _, row := range t.Rows {
			fmt.Fprintf(tabs, "%s\t%s\t%s\n", rowName(row), comparisonValue(row.Cells[0]), comparisonCell(row.Cells[other], "~"))
		}
		tabs.Flush()
	}
}

func writeMarkdownComparison(b *strings.Builder, names []string, t compare.Table) {
	b.WriteString("\n| metric |")
	for _, name := range names {
		b.WriteString(" " + text.Markdown(name) + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(names)) + "\n")
	for _, row := range t.Rows {
		b.WriteString("| " + rowName(row) + " | " + comparisonValue(row.Cells[0]) + " |")
		for _, cell := range row.Cells[1:] {
			b.WriteString(" " + comparisonCell(cell, "no difference found") + " |")
		}
		b.WriteByte('\n')
	}
}

func rowName(row compare.Row) string { return strings.TrimSpace(row.Metric + " " + row.Unit) }

func comparisonValue(c compare.Cell) string {
	if !c.Value.OK() {
		return "-"
	}
	return fmt.Sprintf("%.4g", c.Value.Or(0))
}

// comparisonCell writes a figure, and its change with interval and finding;
// same stands for no difference found.
func comparisonCell(c compare.Cell, same string) string {
	out := comparisonValue(c)
	if !c.Value.OK() || !c.Ratio.OK() {
		return out
	}
	out += " (" + change(c.Ratio) + " %"
	if c.Lo.OK() && c.Hi.OK() {
		out += ", " + change(c.Lo) + " to " + change(c.Hi)
	}
	if c.Finding != compare.Same {
		same = string(c.Finding)
	}
	return out + ") " + same
}

// change words a ratio as per cent with their sign.
func change(ratio record.Value) string { return fmt.Sprintf("%+.1f", 100*(ratio.Or(1)-1)) }
