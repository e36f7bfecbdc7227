package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/profiles"
)

func newProfileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "List, show, start and check profiles",
		Long: `A profile says what to run: the model, precision, hardware and serving engine
that a number belongs to, the workload, the load, the timing of each rung and
the limits. It is a YAML file, and strict: what it does not know is an error
with its place and the nearest valid name.`,
		Example: `  headway profile list`,
	}
	group(cmd, newProfileListCommand(), newProfileShowCommand(), newProfileInitCommand(), newProfileValidateCommand())
	return cmd
}

func newProfileListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the built-in profiles",
		Long: `list names the built-in profiles and says what each is for. They are workloads:
model, hardware, precision and serving engine come by flag, file or server.`,
		Example: `  headway profile list
  headway profile list --format json`,
		Args: takes(0, 0, "no arguments"),
	}
	format := addFormat(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format.value == "json" {
			return printJSON(cmd, profiles.Builtins())
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		for _, s := range profiles.Builtins() {
			fmt.Fprintf(w, "%s\t%s\n", s.Name, s.About)
		}
		return w.Flush()
	}
	return cmd
}

func newProfileShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show PROFILE.yaml|NAME",
		Short: "Print a profile in full",
		Long: `show prints a profile with every default written out, after the overrides of
--set. The YAML that it prints is a profile file.`,
		Example: `  headway profile show chat
  headway profile show chat --set workload.input_tokens=2048 --set load.open.rate=1,2,4
  headway profile show chat --format json`,
		Args: takes(1, 1, "one profile"),
	}
	format := addFormat(cmd, "yaml", "json")
	set := addSet(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := openProfile(cmd.InOrStdin(), args[0])
		if err != nil {
			return err
		}
		if err := applySet(p, *set); err != nil {
			return err
		}
		return printProfile(cmd, p, format.value)
	}
	return cmd
}

func newProfileInitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [FILE.yaml]",
		Short: "Start a profile of your own",
		Long: `init writes a profile to start from, with a remark on each part, to the file or
to stdout; --from starts from a built-in profile instead. It does not overwrite
a file.`,
		Example: `  headway profile init
  headway profile init --from rag`,
		Args: takes(0, 1, "at most one file"),
	}
	format := addFormat(cmd, "yaml", "json")
	from := cmd.Flags().String("from", "", "built-in profile to start from")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := starter(*from, format.value)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			_, err := cmd.OutOrStdout().Write(text)
			return err
		}
		return writeNew(args[0], text)
	}
	return cmd
}

// starter returns the text that init writes.
func starter(from, format string) ([]byte, error) {
	if from == "" && format == "yaml" {
		return profiles.Starter(), nil
	}
	p, err := profiles.Parse(strings.NewReader(string(profiles.Starter())), "starter.yaml")
	if from != "" {
		p, err = profiles.Builtin(from)
	}
	if err != nil {
		return nil, err
	}
	return encodeProfile(p, format)
}

// writeNew writes a file that must not exist yet.
func writeNew(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return usagef("%s exists already; name another file or remove it", name)
	}
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	if _, err := file.Write(text); err != nil {
		return errors.Join(fmt.Errorf("write profile: %w", err), file.Close(), os.Remove(name))
	}
	return file.Close()
}

func newProfileValidateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate PROFILE.yaml|NAME...",
		Short: "Check profiles",
		Long: `validate checks profiles and reports every fault with file:line:column. It also
lists what is unknown: such a profile can be run, but not published. "-" reads
stdin. The exit code is 2 when a profile has a fault.`,
		Example: `  headway profile validate chat
  headway profile validate chat rag --format json`,
		Args: takes(1, -1, "at least one profile"),
	}
	format := addFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var faults profiles.Errors
		checks := []profileCheck{}
		for _, name := range args {
			p, err := openProfile(cmd.InOrStdin(), name)
			found, isFaults := errors.AsType[profiles.Errors](err)
			if err != nil && !isFaults {
				return err
			}
			faults = append(faults, found...)
			checks = append(checks, newProfileCheck(name, p, found))
		}
		if err := printChecks(cmd, checks, format.value); err != nil {
			return err
		}
		if len(faults) > 0 {
			return faults
		}
		return nil
	}
	return cmd
}

// profileCheck is what validate found in one profile.
type profileCheck struct {
	Profile string         `json:"profile"`
	Valid   bool           `json:"valid"`
	Faults  []profileFault `json:"faults"`
	Unknown []string       `json:"unknown"`
}

type profileFault struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Field   string `json:"field"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

func newProfileCheck(name string, p *profiles.Profile, faults profiles.Errors) profileCheck {
	check := profileCheck{Profile: name, Valid: p != nil, Faults: []profileFault{}, Unknown: []string{}}
	for _, f := range faults {
		check.Faults = append(check.Faults, profileFault(f))
	}
	if p != nil {
		check.Unknown = append(check.Unknown, p.Unknowns()...)
	}
	return check
}

func printChecks(cmd *cobra.Command, checks []profileCheck, format string) error {
	if format == "json" {
		return printJSON(cmd, checks)
	}
	for _, c := range checks {
		if !c.Valid {
			continue
		}
		line := c.Profile + ": valid"
		if len(c.Unknown) > 0 {
			line += "; unknown: " + strings.Join(c.Unknown, ", ")
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return nil
}

// openProfile opens a file, a built-in profile, or stdin for "-".
func openProfile(stdin io.Reader, name string) (*profiles.Profile, error) {
	if name == "-" {
		return profiles.Parse(stdin, "stdin")
	}
	return profiles.Open(name)
}

func printProfile(cmd *cobra.Command, p *profiles.Profile, format string) error {
	text, err := encodeProfile(p, format)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// addSet adds --set, which may stand several times.
func addSet(cmd *cobra.Command) *[]string {
	return cmd.Flags().StringArray("set", nil, "override a field of the profile: workload.seed=7")
}

// applySet overrides fields, in order, and then checks the whole.
func applySet(p *profiles.Profile, overrides []string) error {
	for _, override := range overrides {
		path, value, ok := strings.Cut(override, "=")
		if !ok {
			return usagef("--set %s has no value; write --set field=value", override)
		}
		if err := p.Set(path, value); err != nil {
			return fmt.Errorf("--set: %w", err)
		}
	}
	return p.Validate()
}

func encodeProfile(p *profiles.Profile, format string) ([]byte, error) {
	if format == "json" {
		text, err := json.MarshalIndent(p, "", "  ")
		return append(text, '\n'), err
	}
	return p.YAML()
}
