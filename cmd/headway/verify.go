package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/report/bundle"
)

func newVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify BUNDLE|MATRIX",
		Short: "Check that a bundle is whole and unchanged",
		Long: `verify checks a bundle against its manifest: every file is there and unchanged,
none was added, the manifest itself is unchanged, and the result holds to its
schema. Of a matrix it checks every bundle that the index lists; JSON is then an
array. It lists every finding; the exit code is then 2.`,
		Example: `  headway verify RUN
  headway verify RUN --format json`,
		Args: takes(1, 1, "one bundle directory, or that of a matrix"),
	}
	format := addFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		checked := verifyAll(args[0])
		var err error
		if format.value == "json" {
			err = printVerifications(cmd, args[0], checked)
		} else {
			err = printWhole(cmd, checked)
		}
		if err != nil {
			return err
		}
		return exitWith(exitUsage, allFindings(checked))
	}
	return cmd
}

// checkedBundle is a bundle directory with what was found against it.
type checkedBundle struct {
	dir      string
	findings []error
}

// verifyAll checks the bundle at path, or every bundle of a matrix. An index
// that cannot be read is a finding against path.
func verifyAll(path string) []checkedBundle {
	dirs, err := bundle.Directories(path)
	if err != nil {
		return []checkedBundle{{path, []error{err}}}
	}
	var out []checkedBundle
	for _, dir := range dirs {
		out = append(out, checkedBundle{dir, bundle.Verify(dir)})
	}
	return out
}

// printVerifications prints one object for a bundle, and an array for a matrix.
func printVerifications(cmd *cobra.Command, path string, checked []checkedBundle) error {
	if len(checked) == 1 && checked[0].dir == path {
		return printJSON(cmd, newVerification(path, checked[0].findings))
	}
	var all []verification
	for _, c := range checked {
		all = append(all, newVerification(c.dir, c.findings))
	}
	return printJSON(cmd, all)
}

// printWhole names the bundles that nothing was found against.
func printWhole(cmd *cobra.Command, checked []checkedBundle) error {
	for _, c := range checked {
		if len(c.findings) > 0 {
			continue
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: whole and unchanged\n", c.dir); err != nil {
			return err
		}
	}
	return nil
}

// allFindings joins what was found; where there are several bundles each
// finding names its own.
func allFindings(checked []checkedBundle) error {
	var all []error
	for _, c := range checked {
		for _, err := range c.findings {
			if len(checked) > 1 {
				err = fmt.Errorf("%s: %w", c.dir, err)
			}
			all = append(all, err)
		}
	}
	return errors.Join(all...)
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
