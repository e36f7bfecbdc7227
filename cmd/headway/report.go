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
		Use:   "report RESULT",
		Short: "Show a result: table, Markdown, CSV, JSON or a page of charts",
		Long: `report shows a result again. RESULT is a bundle directory, a result.json, a
matrix directory, or "-" for stdin. The same bundle gives the same bytes; html
is one page that needs no network. With --publish it refuses, with exit code 2,
a result that does not name everything a reader needs to compare or repeat it.`,
		Example: `  headway report RUN
  headway report RUN --format html
  headway report RUN --format markdown --publish`,
		Args: takes(1, 1, "one result"),
	}
	format := addFormat(cmd, "table", "json", "markdown", "csv", "html")
	publish := cmd.Flags().Bool("publish", false, "refuse a result with unknown required fields")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := bundle.OpenAll(args[0], cmd.InOrStdin())
		if err != nil {
			return exitWith(exitUsage, err)
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
// exactly result.json, and an array for the several results of a matrix.
func writeResults(w io.Writer, all []*bundle.Bundle, format string) error {
	switch format {
	case "html":
		return render.HTML(w, all...)
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
	case "csv":
		return render.CSV(w, r)
	}
	return render.Table(w, r, tableOptions(w))
}
