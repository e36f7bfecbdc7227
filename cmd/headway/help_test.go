package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// eachCommand calls visit with every command that a user can run.
func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, visit)
	}
}

// TestHelp holds every command to a text, an example and, where it prints
// results, --format json.
func TestHelp(t *testing.T) {
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if cmd.Short == "" || cmd.Long == "" {
				t.Error("has no text")
			}
			for line := range strings.Lines(cmd.Long) {
				if n := len(strings.TrimRight(line, "\n")); n > 80 && cmd.Parent() != nil && cmd.Parent().Name() != "completion" && cmd.Name() != "completion" {
					t.Errorf("a line of %d columns does not fit a terminal: %s", n, line)
				}
			}
			switch {
			case cmd.HasSubCommands(), cmd.Name() == "help", cmd.Name() == "serve", cmd.Parent().Name() == "completion":
				return
			}
			format := cmd.Flags().Lookup("format")
			if format == nil || !strings.Contains(format.Value.Type(), "json") {
				t.Error("has no --format json")
			}
		})
	})
}

// TestExamples parses each line of the examples as the program would.
func TestExamples(t *testing.T) {
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		if cmd.Name() == "help" {
			return
		}
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			lines := strings.FieldsFunc(cmd.Example, func(r rune) bool { return r == '\n' })
			if len(lines) == 0 {
				t.Fatal("has no example")
			}
			for _, line := range lines {
				checkExample(t, cmd, line)
			}
		})
	})
}

func checkExample(t *testing.T, cmd *cobra.Command, line string) {
	t.Helper()
	line, _, _ = strings.Cut(strings.TrimSpace(line), " # ")
	line, _, _ = strings.Cut(line, " < ")
	words := strings.Fields(line)
	if words[0] != "headway" {
		t.Errorf("%s: is no headway command", line)
		return
	}
	root := newRoot()
	found, args, err := root.Find(words[1:])
	if err != nil {
		t.Errorf("%s: %v", line, err)
		return
	}
	if cmd.HasParent() && !strings.HasPrefix(found.CommandPath(), cmd.CommandPath()) {
		t.Errorf("%s: shows another command", line)
	}
	if err := found.ParseFlags(args); err != nil {
		t.Errorf("%s: %v", line, err)
		return
	}
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		t.Errorf("%s: %v", line, err)
	}
}

// TestHelpIsNoError asks each command for its help.
func TestHelpIsNoError(t *testing.T) {
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), args, nil, &stdout, &stderr); code != 0 || stderr.Len() > 0 || !strings.Contains(stdout.String(), "Usage:") {
			t.Errorf("%s --help: exit code %d, stderr %q", cmd.CommandPath(), code, stderr.String())
		}
	})
}
