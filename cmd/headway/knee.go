package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/sweep"
	"github.com/headway-bench/headway/report/text"
)

func newKneeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "knee RESULT|FILE.csv",
		Short: "Find the knee of a result, or of a table of any tool",
		Long: `knee fits the batching law to a ladder and says where throughput stops growing
with load. RESULT is a bundle directory, a result.json, or "-" for stdin; a CSV
has a header with any of these columns, and an empty cell or "-" is unknown. It
may have the others of headway report --format csv too:

  concurrency in_flight rate_req_per_s completed
  request_throughput_per_s output_token_throughput_per_s
  ttft_p50_ms ttft_p95_ms ttft_p99_ms ttft_mean_ms
  itl_mean_ms itl_p95_ms e2e_mean_ms

With --slo it names the operating point too: the load of the highest throughput
at which every limit holds.`,
		Example: `  headway knee sweep.csv
  headway knee sweep.csv --slo ttft_p95=500ms --format json
  headway knee - < sweep.csv`,
		Args: takes(1, 1, "one result or table"),
	}
	format := addFormat(cmd, "text", "json")
	limits := addSLO(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		slos, err := limits.parse()
		if err != nil {
			return err
		}
		ladders, err := openLadders(args[0], cmd.InOrStdin(), slos)
		if err != nil {
			return err
		}
		found := make([]kneeReport, len(ladders))
		for i, l := range ladders {
			found[i] = l.knee(slos)
		}
		switch {
		case format.value == "text":
			return printKnees(cmd.OutOrStdout(), found)
		case len(found) == 1:
			return printJSON(cmd, found[0])
		}
		return printJSON(cmd, found)
	}
	return cmd
}

// kneeReport is the KNEE of one ladder, and the POINT where limits were given.
type kneeReport struct {
	knee.Knee
	OperatingPoint *knee.Operating `json:"operating_point,omitempty"`

	name string
}

// ladder is what a knee is found on.
type ladder struct {
	name      string
	rungs     []record.Rung
	economics knee.Economics
	seed      uint64
	warnings  []record.Reason
}

func (l ladder) knee(slos []profiles.SLO) kneeReport {
	out := kneeReport{Knee: knee.Fit(knee.FromRungs(l.rungs), knee.Options{Seed: l.seed}), name: l.name}
	out.Warnings = append(out.Warnings, l.warnings...)
	if len(slos) > 0 {
		point := knee.OperatingPoint(l.rungs, slos, l.economics)
		out.OperatingPoint = &point
	}
	return out
}

// openLadders reads a table, or the ladder of each result at path.
func openLadders(path string, stdin io.Reader, slos []profiles.SLO) ([]ladder, error) {
	if info, err := os.Stat(path); path != "-" && err == nil && info.IsDir() {
		return resultLadders(bundle.OpenAll(path, nil))
	}
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usagef("open result: %w", err)
		}
		defer file.Close()
		in = file
	}
	content := bufio.NewReader(in)
	if startsJSON(content) {
		return resultLadders(bundle.Read(content, path))
	}
	sweeps, err := sweep.Read(content, path)
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	return tableLadders(sweeps, path, slos)
}

// tableLadders takes the ladders of a table, which has a column for each limit.
func tableLadders(sweeps []sweep.Sweep, path string, slos []profiles.SLO) ([]ladder, error) {
	var out []ladder
	for _, s := range sweeps {
		l := ladder{name: path, rungs: s.Rungs}
		if s.Name != "" {
			l.name = s.Name
		}
		for _, limit := range slos {
			if column, lacks := s.Lacks(limit); lacks {
				return nil, usagef("%s does not tell %s: no rung has a value in a column %s", l.name, limit.Name(), column)
			}
		}
		if s.Derived > 0 {
			l.warnings = append(l.warnings, record.Reason{Code: "in_flight_derived",
				Message: fmt.Sprintf("in-flight of %d rungs is request throughput times mean E2E (Little's law)", s.Derived),
				Value:   record.Known(float64(s.Derived))})
		}
		out = append(out, l)
	}
	return out, nil
}

// startsJSON looks at the first byte that is no blank.
func startsJSON(r *bufio.Reader) bool {
	head, _ := r.Peek(4096)
	head = bytes.TrimLeft(head, " \t\r\n\ufeff")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

func resultLadders(results []*bundle.Bundle, err error) ([]ladder, error) {
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	var out []ladder
	for _, b := range results {
		r := b.Result
		out = append(out, ladder{
			name: b.Path, rungs: r.Rungs, seed: uint64(r.Seed),
			economics: knee.Economics{USDPerHour: r.Profile.Cost.USDPerHour, Accelerators: r.Profile.Hardware.Count},
		})
	}
	if len(out) == 0 {
		return nil, usagef("there is no result to find a knee in")
	}
	return out, nil
}

// printKnees writes each knee as lines of name and value.
func printKnees(w io.Writer, found []kneeReport) error {
	var b strings.Builder
	for i, k := range found {
		if len(found) > 1 {
			if i > 0 {
				b.WriteByte('\n')
			}
			text.Wrap(&b, "", text.Plain(k.name), textColumns)
		}
		k.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (k kneeReport) write(b *strings.Builder) {
	line := func(name, format string, args ...any) {
		text.Wrap(b, fmt.Sprintf("%-24s", name+":"), text.Plain(fmt.Sprintf(format, args...)), textColumns)
	}
	number := func(name string, v record.Value, unit string) {
		if f, ok := v.Float(); ok {
			line(name, "%.4g%s", f, unit)
		}
	}
	line("knee", "%s", k.Status)
	if k.Status == knee.Found {
		line("law", "%s", k.Method)
	}
	number("rate", k.RatePerS, " req/s"+between(k.RateCI95))
	number("in flight", k.InFlight, between(k.InFlightCI95))
	number("request throughput", k.RequestThroughputPerS, " req/s")
	number("output throughput", k.OutputTokenThroughputPerS, " tok/s")
	number("half saturation", k.HalfSaturationInFlight, " in flight")
	number("running stops growing", k.Running.InFlight, " in flight")
	number("plain hinge", k.HingeInFlight, " in flight")
	if k.Status == knee.Found {
		line("cause", "%s", k.Cause)
	}
	for _, e := range k.Evidence {
		line("evidence", "%s", e.Message)
	}
	if p := k.OperatingPoint; p != nil {
		k.writePoint(p, line, number)
	}
	for _, w := range k.Warnings {
		line("warning", "%s", w.Message)
	}
}

func (k kneeReport) writePoint(p *knee.Operating, line func(name, format string, args ...any), number func(string, record.Value, string)) {
	line("operating point", "%s", p.Status)
	number("  concurrency", p.Concurrency, "")
	number("  rate", p.RatePerS, " req/s")
	number("  request throughput", p.RequestThroughputPerS, " req/s")
	number("  output throughput", p.OutputTokenThroughputPerS, " tok/s")
	number("  TTFT p95", p.TTFTP95MS, " ms")
	number("  ITL p95", p.ITLP95MS, " ms")
	if p.Binding != "" {
		line("  stopped by", "%s", p.Binding)
	}
	if p.Verdict == record.Inconclusive {
		line("  inconclusive", "no valid rung shows it")
	}
}

// between words a 95 % interval.
func between(ci *[2]record.Value) string {
	if ci == nil || !ci[0].OK() || !ci[1].OK() {
		return ""
	}
	return fmt.Sprintf(" (95 %%: %.4g to %.4g)", ci[0].Or(0), ci[1].Or(0))
}

// sloFlag is --slo.
type sloFlag struct {
	list  string
	flags *pflag.FlagSet
}

func addSLO(cmd *cobra.Command) *sloFlag {
	f := &sloFlag{flags: cmd.Flags()}
	cmd.Flags().StringVar(&f.list, "slo", "", "limits: ttft_p95=500ms,tps_p05>=20,error_rate=0.5%")
	return f
}

// parse returns the limits, none without the flag.
func (f *sloFlag) parse() ([]profiles.SLO, error) {
	if !f.flags.Changed("slo") {
		return nil, nil
	}
	slos, err := profiles.ParseSLOs(f.list)
	if faults, ok := errors.AsType[profiles.Errors](err); ok {
		for i := range faults {
			faults[i].Field = strings.TrimPrefix(faults[i].Field, "slo.")
		}
		return nil, fmt.Errorf("--slo: %w", faults)
	}
	return slos, err
}
