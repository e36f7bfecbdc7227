package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/importer"
	"github.com/headway-bench/headway/report/render"
)

func newImportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE... --out DIR",
		Short: "Read another tool's results into a bundle",
		Long: `import reads result files of vLLM bench, trtllm-bench, SGLang, guidellm, AIPerf,
genai-perf and inference-perf, which it tells apart by their content. Each run
becomes a rung of one ladder, so that knee, report, compare and gate read it.
How the tool defined each metric is kept beside the figures.`,
		Example: `  headway import c1.json c8.json c64.json --out imported
  headway import sweep.json --out imported --format json`,
		Args: takes(1, -1, "at least one file"),
	}
	format := addFormat(cmd, "table", "json", "markdown", "csv")
	out := cmd.Flags().String("out", "", "bundle directory to write; it must not exist")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *out == "" {
			return usagef("--out is missing; name the bundle directory to write")
		}
		result, err := importer.Files(args...)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		result.Headway = bundle.Build{Version: thisBuild().Version, Commit: thisBuild().Commit}
		w, err := bundle.Create(*out)
		if err != nil {
			return err
		}
		if err := w.Finish(result, render.Pages()...); err != nil {
			return fmt.Errorf("write the imported bundle: %w", err)
		}
		return writeResults(cmd.OutOrStdout(), []*bundle.Bundle{{Result: result}}, format.value)
	}
	return cmd
}
