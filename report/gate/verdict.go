// Package gate turns results into a verdict that a CI job can act on: limits
// held at one load, a run against its baseline, or two interleaved targets
// against each other. A missing metric or an invalid measurement is never a
// pass.
package gate

import (
	"fmt"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
)

// Status is a judgement, of one check or of all.
type Status string

// The statuses.
const (
	Pass         Status = "pass"
	Fail         Status = "fail"
	Inconclusive Status = "inconclusive"
	Invalid      Status = "invalid" // the measurement cannot be trusted
	Usage        Status = "usage"   // what was asked for cannot be judged
)

// ExitCode is the contract's exit code of a status.
func (s Status) ExitCode() int {
	switch s {
	case Pass:
		return 0
	case Fail:
		return 1
	case Usage:
		return 2
	case Invalid:
		return 3
	}
	return 4
}

// rank orders statuses: the highest among the checks is the verdict.
func (s Status) rank() int {
	switch s {
	case Usage:
		return 4
	case Invalid:
		return 3
	case Fail:
		return 2
	case Inconclusive:
		return 1
	}
	return 0
}

// Check is the judgement of one metric. For a limit Value is held against
// Limit; for a regression Ratio, new over base, is held against Limit.
type Check struct {
	Name   string       `json:"name"`             // ttft_p95
	Load   string       `json:"load"`             // concurrency=32
	Result string       `json:"result,omitempty"` // whose load, where several results are judged apart
	Status Status       `json:"status"`
	Unit   string       `json:"unit"` // ms, tok/s, req/s, ratio, count
	Value  record.Value `json:"value"`
	Lo     record.Value `json:"lo"` // 95 % interval of Value, or of Ratio
	Hi     record.Value `json:"hi"`
	Base   record.Value `json:"base"`
	Ratio  record.Value `json:"ratio"`
	Limit  record.Value `json:"limit"`
	// Test names what was assumed and how it was judged.
	Test string `json:"test"`
	// Samples behind the value: repeats, pairs or requests; Need is how many
	// would settle it, where it is inconclusive.
	Samples int64  `json:"samples"`
	Need    int64  `json:"need"`
	Message string `json:"message"`
}

// Verdict is the whole judgement.
type Verdict struct {
	Status   Status          `json:"status"`
	Kind     string          `json:"kind"` // slo, baseline, pair
	Checks   []Check         `json:"checks"`
	Warnings []record.Reason `json:"warnings"`
	// Resolved says that an inconclusive verdict was turned into this one on
	// request.
	Resolved bool `json:"resolved"`
}

// ExitCode is the contract's exit code of the verdict.
func (v Verdict) ExitCode() int { return v.Status.ExitCode() }

// Resolve turns an inconclusive verdict into as, Pass or Fail, and says so;
// other verdicts stay.
func (v Verdict) Resolve(as Status) Verdict {
	if v.Status != Inconclusive || as != Pass && as != Fail {
		return v
	}
	v.Status, v.Resolved = as, true
	v.warn("inconclusive_resolved", "the verdict is inconclusive and counts as %s, as asked", as)
	return v
}

// Of names the result that a verdict is about, in its checks and its warnings.
func (v Verdict) Of(result string) Verdict {
	v.Checks, v.Warnings = slices.Clone(v.Checks), slices.Clone(v.Warnings)
	for i := range v.Checks {
		v.Checks[i].Result = result
	}
	for i := range v.Warnings {
		v.Warnings[i].Message = result + ": " + v.Warnings[i].Message
	}
	return v
}

// where is the load of a check, with the result that it belongs to.
func (c Check) where() string {
	if c.Result == "" {
		return c.Load
	}
	return c.Load + " of " + c.Result
}

// Join makes one verdict of several, such as limits and a regression.
func Join(vs ...Verdict) Verdict {
	out := Verdict{Checks: []Check{}, Warnings: []record.Reason{}, Status: Pass}
	for i, v := range vs {
		if i > 0 {
			out.Kind += "+"
		}
		out.Kind += v.Kind
		out.Checks = append(out.Checks, v.Checks...)
		out.Warnings = append(out.Warnings, v.Warnings...)
		out.Resolved = out.Resolved || v.Resolved
		out.raise(v.Status)
	}
	return out
}

func newVerdict(kind string) Verdict {
	return Verdict{Status: Pass, Kind: kind, Checks: []Check{}, Warnings: []record.Reason{}}
}

// refuse is a verdict that there is nothing to judge.
func refuse(kind, format string, args ...any) Verdict {
	v := newVerdict(kind)
	v.Status = Usage
	v.warn(string(Usage), format, args...)
	return v
}

func (v *Verdict) add(c Check) {
	v.Checks = append(v.Checks, c)
	v.raise(c.Status)
}

func (v *Verdict) raise(s Status) {
	if s.rank() > v.Status.rank() {
		v.Status = s
	}
}

func (v *Verdict) warn(code, format string, args ...any) {
	v.Warnings = append(v.Warnings, record.Reason{Code: code, Message: fmt.Sprintf(format, args...)})
}
