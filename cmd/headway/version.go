package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what this binary was made from; Version is "(devel)" and Commit
// empty when that was not recorded.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // the tree had changes beside the commit
	Go       string `json:"go_version"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and what it was built from",
		Long: `version prints the module version, the commit it was built from when that is
recorded in the binary, the Go version and the platform.`,
		Example: `  headway version
  headway version --format json`,
		Args: takes(0, 0, "no arguments"),
	}
	format := addFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b := thisBuild()
		if format.value == "json" {
			return printJSON(cmd, b)
		}
		commit := b.Commit
		if b.Modified {
			commit += " (modified)"
		}
		if commit == "" {
			commit = "not recorded"
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "headway %s\ncommit  %s\ngo      %s %s/%s\n", b.Version, commit, b.Go, b.OS, b.Arch)
		return err
	}
	return cmd
}

// printJSON writes v to stdout, indented.
func printJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
