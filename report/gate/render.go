package gate

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/text"
)

// Formats are what Render writes.
var Formats = []string{"text", "json", "markdown", "junit"}

// Render writes a verdict as text, json, markdown (for a comment on a pull
// request) or junit (XML for CI).
func Render(w io.Writer, v Verdict, format string) error {
	switch format {
	case "text":
		return renderText(w, v)
	case "json":
		return renderJSON(w, v)
	case "markdown":
		return renderMarkdown(w, v)
	case "junit":
		return renderJUnit(w, v)
	}
	return fmt.Errorf("--format %q: a verdict is written as %s", format, strings.Join(Formats, ", "))
}

func renderText(w io.Writer, v Verdict) error {
	var b strings.Builder
	fmt.Fprintf(&b, "gate: %s\n", v.Status)
	for _, c := range v.Checks {
		fmt.Fprintf(&b, "  %-12s %s at %s: %s\n", c.Status, text.Plain(c.Name), text.Plain(c.where()), text.Plain(c.Message))
	}
	for _, r := range v.Warnings {
		fmt.Fprintf(&b, "  note: %s\n", text.Plain(r.Message))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func renderJSON(w io.Writer, v Verdict) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Schema string `json:"schema"`
		Verdict
		ExitCode int `json:"exit_code"`
	}{"headway.verdict/v1", v, v.ExitCode()})
}

func renderMarkdown(w io.Writer, v Verdict) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### headway gate: %s\n", strings.ToUpper(string(v.Status)))
	if len(v.Checks) > 0 {
		b.WriteString("\n| check | load | value | 95 % interval | base | limit | verdict |\n|---|---|---|---|---|---|---|\n")
		for _, c := range v.Checks {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | **%s** |\n",
				text.Markdown(c.Name), text.Markdown(c.where()), amount(c.Value, c.Unit), c.interval(), amount(c.Base, c.Unit), c.limit(), c.Status)
		}
	}
	for i, c := range v.Checks {
		if i == 0 {
			b.WriteString("\n")
		}
		if c.Status != Pass {
			fmt.Fprintf(&b, "- **%s** %s at %s: %s\n", c.Status, text.Markdown(c.Name), text.Markdown(c.where()), text.Markdown(c.Message))
		}
	}
	for _, r := range v.Warnings {
		fmt.Fprintf(&b, "- note: %s\n", text.Markdown(r.Message))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// interval writes Lo and Hi: of the ratio where there is one, as a change.
func (c Check) interval() string {
	lo, okLo := c.Lo.Float()
	hi, okHi := c.Hi.Float()
	switch {
	case !okLo || !okHi:
		return "-"
	case c.Ratio.OK():
		return fmt.Sprintf("%+.1f %% to %+.1f %%", 100*(lo-1), 100*(hi-1))
	}
	return amount(c.Lo, c.Unit) + " to " + amount(c.Hi, c.Unit)
}

func (c Check) limit() string {
	if l, ok := c.Limit.Float(); ok && c.Ratio.OK() {
		return fmt.Sprintf("%+.1f %%", 100*(l-1))
	}
	return amount(c.Limit, c.Unit)
}

func amount(v record.Value, unit string) string {
	x, ok := v.Float()
	switch {
	case !ok:
		return "-"
	case unit == "ratio":
		return fmt.Sprintf("%.3g %%", 100*x)
	case unit == "count":
		return fmt.Sprintf("%.4g", x)
	}
	return fmt.Sprintf("%.4g %s", x, unit)
}

// The elements of a JUnit report.
type (
	junitSuites struct {
		XMLName  xml.Name   `xml:"testsuites"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Suite    junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
		Out      string      `xml:"system-out,omitempty"`
	}
	junitCase struct {
		Name    string       `xml:"name,attr"`
		Class   string       `xml:"classname,attr"`
		Failure *junitDetail `xml:"failure"`
		Error   *junitDetail `xml:"error"`
		Skipped *junitDetail `xml:"skipped"`
		Out     string       `xml:"system-out,omitempty"`
	}
	junitDetail struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// renderJUnit writes a case a check and one for the measurement as a whole, so
// that a verdict that no check explains is a red case too. An inconclusive
// check is an error unless it was resolved to pass: CI systems take a skipped
// case for success.
func renderJUnit(w io.Writer, v Verdict) error {
	suite := junitSuite{Name: "headway gate"}
	resolvedPass := v.Resolved && v.Status == Pass
	worst := Pass
	for _, c := range v.Checks {
		if c.Status.rank() > worst.rank() {
			worst = c.Status
		}
		suite.add(junitCase{Name: text.Plain(c.Name + " at " + c.where()), Class: "headway." + v.Kind}, c.Status, c.Message, resolvedPass)
	}
	whole := junitCase{Name: "measurement", Class: "headway." + v.Kind}
	status := Pass
	if v.Status.rank() > worst.rank() {
		status = v.Status
	}
	suite.add(whole, status, notes(v.Warnings), resolvedPass)
	suite.Out = text.Plain(fmt.Sprintf("verdict: %s, exit code %d", v.Status, v.ExitCode()))
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	err := e.Encode(junitSuites{
		Name: "headway", Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Skipped: suite.Skipped, Suite: suite,
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

func (s *junitSuite) add(c junitCase, status Status, message string, resolvedPass bool) {
	d := &junitDetail{Message: text.Plain(message), Type: string(status), Text: text.Plain(message)}
	s.Tests++
	switch {
	case status == Pass:
		c.Out = text.Plain(message)
	case status == Fail:
		s.Failures++
		c.Failure = d
	case status == Inconclusive && resolvedPass:
		s.Skipped++
		c.Skipped = d
	default:
		s.Errors++
		c.Error = d
	}
	s.Cases = append(s.Cases, c)
}

func notes(rs []record.Reason) string {
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = r.Message
	}
	return strings.Join(out, "; ")
}
