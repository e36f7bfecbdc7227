package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/report/bundle"
)

func newVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify BUNDLE",
		Short: "Check that a bundle is whole and unchanged",
		Long: `verify checks a bundle against its manifest: every file is there and unchanged,
none was added, the manifest itself is unchanged, and the result holds to its
schema. It lists every finding; the exit code is then 2.`,
		Example: `  headway verify RUN
  headway verify RUN --format json`,
		Args: takes(1, 1, "one bundle directory"),
	}
	format := addFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		findings := bundle.Verify(args[0])
		if format.value == "json" {
			if err := printJSON(cmd, newVerification(args[0], findings)); err != nil {
				return err
			}
		} else if len(findings) == 0 {
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: whole and unchanged\n", args[0]); err != nil {
				return err
			}
		}
		return exitWith(exitUsage, errors.Join(findings...))
	}
	return cmd
}

// verification is what verify found, for programs.
type verification struct {
	Bundle   string    `json:"bundle"`
	OK       bool      `json:"ok"`
	Findings []finding `json:"findings"`
}

type finding struct {
	File    string `json:"file"`
	Message string `json:"message"`
}

func newVerification(path string, errs []error) verification {
	v := verification{Bundle: path, OK: len(errs) == 0, Findings: []finding{}}
	for _, err := range errs {
		f := finding{Message: err.Error()}
		if known, ok := errors.AsType[*bundle.Finding](err); ok {
			f = finding{File: known.File, Message: known.Err.Error()}
		}
		v.Findings = append(v.Findings, f)
	}
	return v
}
