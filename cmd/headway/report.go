package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/render"
)

func newReportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report RESULT...",
		Short: "Show results: table, Markdown, CSV, JSON or a page of charts",
		Long: `report shows results again. RESULT is a bundle directory, a result.json, a
matrix directory, or "-" for stdin. The same bundle gives the same bytes; html
is one page that needs no network, with all results in the same charts; csv is
one table, which headway knee reads. With --publish it refuses, with exit code
2, a result that does not name everything a reader needs to compare or repeat
it.`,
		Example: `  headway report RUN
  headway report RUN --format html
  headway report BEFORE AFTER --format html
  headway report RUN --format markdown --publish`,
		Args: takes(1, -1, "at least one result"),
	}
	format := addFormat(cmd, "table", "json", "markdown", "csv", "html")
	publish := cmd.Flags().Bool("publish", false, "refuse a result with unknown required fields")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var all []*bundle.Bundle
		for _, path := range args {
			results, err := bundle.OpenAll(path, cmd.InOrStdin())
			if err != nil {
				return exitWith(exitUsage, err)
			}
			all = append(all, results...)
		}
		if *publish {
			if err := publishable(all); err != nil {
				return exitWith(exitUsage, err)
			}
		}
		return writeResults(cmd.OutOrStdout(), all, format.value)
	}
	return cmd
}

func publishable(all []*bundle.Bundle) error {
	var errs []error
	for _, b := range all {
		errs = append(errs, render.Publish(b.Result))
	}
	return errors.Join(errs...)
}

// writeResults writes results in one of the formats of report and run: json is
// exactly result.json, and an array for several results.
func writeResults(w io.Writer, all []*bundle.Bundle, format string) error {
	switch format {
	case "html":
		return render.HTML(w, all...)
	case "csv":
		return render.CSV(w, all...)
	case "json":
		if len(all) != 1 {
			results := make([]*bundle.Result, len(all))
			for i, b := range all {
				results[i] = b.Result
			}
			return render.JSONArray(w, results)
		}
	}
	for i, b := range all {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if format == "table" && len(all) > 1 {
			if _, err := fmt.Fprintf(w, "=== %s\n", b.Path); err != nil {
				return err
			}
		}
		if err := writeResult(w, b.Result, format); err != nil {
			return err
		}
	}
	return nil
}

func writeResult(w io.Writer, r *bundle.Result, format string) error {
	switch format {
	case "json":
		return render.JSON(w, r)
	case "markdown":
		return render.Markdown(w, r)
	}
	return render.Table(w, r, tableOptions(w))
}
