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
// further result its ratio to the first.
func printComparison(w io.Writer, c compare.Comparison, markdown bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "overall: %s\n", c.Finding)
	for _, d := range c.Differences {
		fmt.Fprintf(&b, "allowed: %s differs: %s\n", d.Field, strings.Join(d.Values, " / "))
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning.Message)
	}
	tables := append([]compare.Table{}, c.AtLoad...)
	for _, t := range append(tables, c.AtSLO, c.AtPoint) {
		writeComparison(&b, c.Names, t, markdown)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeComparison(b *strings.Builder, names []string, t compare.Table, markdown bool) {
	lead, between, end := "", "\t", ""
	if markdown {
		lead, between, end = "| ", " | ", " |"
	}
	fmt.Fprintf(b, "\n%s\n", t.Basis)
	if markdown {
		b.WriteByte('\n')
	}
	if t.Note != "" {
		fmt.Fprintf(b, "%s\n", t.Note)
	}
	if len(t.Rows) == 0 {
		return
	}
	var out io.Writer = b
	if !markdown {
		tabs := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		defer tabs.Flush()
		out = tabs
	}
	header := append([]string{"metric"}, names...)
	fmt.Fprintln(out, lead+strings.Join(header, between)+end)
	if markdown {
		fmt.Fprintln(out, strings.Repeat("|---", len(header))+"|")
	}
	for _, row := range t.Rows {
		cells := []string{strings.TrimSpace(row.Metric + " " + row.Unit)}
		for i, cell := range row.Cells {
			cells = append(cells, comparisonCell(cell, i == 0))
		}
		fmt.Fprintln(out, lead+strings.Join(cells, between)+end)
	}
}

// comparisonCell writes a figure, and its change with interval and finding for
// results after the first.
func comparisonCell(c compare.Cell, first bool) string {
	if !c.Value.OK() {
		return "-"
	}
	text := fmt.Sprintf("%.4g", c.Value.Or(0))
	if first || !c.Ratio.OK() {
		return text
	}
	text += " (" + change(c.Ratio)
	if c.Lo.OK() && c.Hi.OK() {
		text += ", " + change(c.Lo) + " to " + change(c.Hi)
	}
	return text + ": " + string(c.Finding) + ")"
}

// change words a ratio as a percentage with its sign.
func change(ratio record.Value) string { return fmt.Sprintf("%+.1f %%", 100*(ratio.Or(1)-1)) }
