package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headway-bench/headway/profiles"
)

// commands are the subcommands of headway, each made in its own file.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newRunCommand(),
		newServeCommand(),
		newSimulateCommand(),
		newKneeCommand(),
		newReportCommand(),
		newGateCommand(),
		newCompareCommand(),
		newImportCommand(),
		newVerifyCommand(),
		newProfileCommand(),
		newDoctorCommand(),
		newVersionCommand(),
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "headway",
		Short: "Find how much load an LLM server carries before its users feel it",
		Long: `headway offers an LLM server more and more load, measures what its users get,
and finds the knee: the load past which the flow of tokens stops growing and
everyone only waits longer.

Exit codes: 0 done and passed; 1 a gate failed; 2 usage or invalid input;
3 the run could not be made or is invalid; 4 inconclusive; 130 interrupted.`,
		Example: `  headway run quickstart
  headway run chat --target http://localhost:8000 --slo ttft_p95=500ms
  headway gate RUN --slo ttft_p95=500ms --at operating-point`,
	}
	group(root, commands()...)
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.DisableSuggestions = true
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	describeCompletion(root)
	return root
}

// group makes a command that only holds others: alone it prints its help, and
// an unknown name is a usage error with the nearest one.
func group(parent *cobra.Command, children ...*cobra.Command) {
	parent.AddCommand(children...)
	parent.Args = cobra.ArbitraryArgs
	parent.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		if near := profiles.Nearest(args[0], names); near != "" {
			return usagef("unknown command %q; did you mean %q?", cmd.CommandPath()+" "+args[0], near)
		}
		return usagef("unknown command %q; `%s --help` lists the commands", cmd.CommandPath()+" "+args[0], cmd.CommandPath())
	}
}

// otherNames are the names that other tools give to flags.
var otherNames = map[string]string{
	"base-url": "target", "endpoint-url": "target", "host": "target", "url": "target",
	"max-concurrency": "concurrency", "c": "concurrency", "users": "concurrency", "vus": "concurrency",
	"request-rate": "rate", "qps": "rate", "rps": "rate",
	"duration": "measure", "num-prompts": "min-requests", "num-requests": "min-requests", "requests": "min-requests",
	"isl": "input-tokens", "osl": "output-tokens", "random-input-len": "input-tokens", "random-output-len": "output-tokens",
	"output": "out", "o": "out", "port": "addr",
}

// flagError words a fault of a flag, with the nearest flag for an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usagef("%w; see `%s --help`", err, cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name := unknown.GetSpecifiedName()
	near := profiles.Nearest(name, names)
	if here := otherNames[name]; here != "" && cmd.Flags().Lookup(here) != nil {
		near = here
	}
	if near != "" {
		return usagef("unknown flag %s; did you mean --%s?", dashed(name), near)
	}
	if !cmd.HasParent() && (name == "version" || name == "v") {
		return usagef("unknown flag %s; `headway version` prints the version", dashed(name))
	}
	return usagef("unknown flag %s; `%s --help` lists the flags", dashed(name), cmd.CommandPath())
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// takes checks the number of arguments: least to most of those that usage
// names; most below 0 is no limit.
func takes(least, most int, usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return usagef("`%s` takes %s, got %d; see `%s --help`", cmd.CommandPath(), usage, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// choice is a flag that takes one of a few words.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }

// Type names the values in the help.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

// Set takes one of the allowed words.
func (c *choice) Set(text string) error {
	for _, word := range c.allowed {
		if text == word {
			c.value = text
			return nil
		}
	}
	if near := profiles.Nearest(text, c.allowed); near != "" {
		return fmt.Errorf("did you mean %q?", near)
	}
	return fmt.Errorf("it takes %s", strings.Join(c.allowed, ", "))
}

// addFormat adds --format; the first of the formats is the default.
func addFormat(cmd *cobra.Command, formats ...string) *choice {
	format := &choice{value: formats[0], allowed: formats}
	cmd.Flags().Var(format, "format", "what stdout gets")
	return format
}

// describeCompletion gives cobra's completion command an example.
func describeCompletion(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Example = "  headway completion bash"
		for _, shell := range cmd.Commands() {
			shell.Example = "  headway completion " + shell.Name()
		}
	}
}
