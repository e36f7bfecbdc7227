package render

import (
	"fmt"
	"math"
	"strconv"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
)

// absent stands for what is unknown.
const absent = "-"

// short writes a number in at most five characters: 0.012, 1.23, 45.6, 789,
// 1234, 12.3k, 1.2M.
func short(v record.Value) string {
	f, ok := v.Float()
	if !ok {
		return absent
	}
	a := math.Abs(f)
	switch {
	case a == 0:
		return "0"
	case a < 0.0005:
		return fmt.Sprintf("%.0e", f)
	case a < 0.9995:
		return strconv.FormatFloat(f, 'f', 3, 64)
	case a < 9.995:
		return strconv.FormatFloat(f, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case a < 9999.5:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case a < 99950:
		return strconv.FormatFloat(f/1e3, 'f', 1, 64) + "k"
	case a < 999500:
		return strconv.FormatFloat(f/1e3, 'f', 0, 64) + "k"
	case a < 99.95e6:
		return strconv.FormatFloat(f/1e6, 'f', 1, 64) + "M"
	default:
		return strconv.FormatFloat(f, 'g', 2, 64)
	}
}

// full writes a number with up to four significant digits and no suffix.
func full(v record.Value) string {
	f, ok := v.Float()
	if !ok {
		return absent
	}
	a := math.Abs(f)
	switch {
	case a == 0:
		return "0"
	case a < 0.0005 || a >= 1e9:
		return strconv.FormatFloat(f, 'g', 3, 64)
	case a < 0.9995:
		return strconv.FormatFloat(f, 'f', 3, 64)
	case a < 99.95:
		return strconv.FormatFloat(f, 'f', 2, 64)
	case a < 9999.5:
		return strconv.FormatFloat(f, 'f', 1, 64)
	default:
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
}

// brief writes a number with three significant digits, for sentences.
func brief(v record.Value) string {
	f, ok := v.Float()
	if !ok {
		return absent
	}
	if a := math.Abs(f); a >= 999.5 && a < 1e9 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// exact writes a number as result.json has it, or "".
func exact(v record.Value) string {
	if f, ok := v.Float(); ok {
		return strconv.FormatFloat(f, 'g', 9, 64)
	}
	return ""
}

func fixed2(v record.Value) string {
	if f, ok := v.Float(); ok {
		s := strconv.FormatFloat(f, 'f', 2, 64)
		if s == "-0.00" {
			return "0.00"
		}
		return s
	}
	return absent
}

// lacking is the cell of a percentile p that is unknown with n samples: the
// dash, with the count it takes where that is the cause.
func lacking(n int64, p float64) string {
	if need := record.Need(p); n > 0 && n < need {
		return fmt.Sprintf("-(%d)", need)
	}
	return absent
}

// errorRate is failed over ended requests of the window, 0 to 1.
func errorRate(g *record.Rung) record.Value {
	ended := g.Requests.Completed + g.Requests.Failed
	if ended == 0 {
		return record.Value{}
	}
	return record.Known(float64(g.Requests.Failed) / float64(ended))
}

// loadOf is the load that was asked for; that of a ramp is no one number.
func loadOf(g *record.Rung) string {
	switch g.Mode {
	case record.Open:
		if rate, ok := g.RatePerS.Float(); ok {
			return brief(record.Known(rate)) + "/s"
		}
		return "varied"
	case record.Offline:
		return "all"
	default:
		return strconv.Itoa(g.Concurrency)
	}
}

// repeatOf is loadOf, and which repeat of it where it is not the first.
func repeatOf(g *record.Rung) string {
	if g.Repeat == 0 {
		return loadOf(g)
	}
	return fmt.Sprintf("%s, repeat %d", loadOf(g), g.Repeat+1)
}

// open says that a result's headlines are response times.
func open(r *bundle.Result) bool { return len(r.Rungs) > 0 && r.Rungs[0].Mode == record.Open }

// ttftOf picks service time in closed loop and response time in open loop.
func ttftOf(r *bundle.Result) func(*record.Rung) *record.Dist {
	if open(r) {
		return func(g *record.Rung) *record.Dist { return &g.TTFTResponse }
	}
	return func(g *record.Rung) *record.Dist { return &g.TTFT }
}

// e2eOf is ttftOf for the whole answer.
func e2eOf(r *bundle.Result) func(*record.Rung) *record.Dist {
	if open(r) {
		return func(g *record.Rung) *record.Dist { return &g.E2EResponse }
	}
	return func(g *record.Rung) *record.Dist { return &g.E2E }
}

// verdictWord is a verdict by its name; that of a rung that does not count
// stands out.
func verdictWord(v record.Verdict) string {
	if v == record.Invalid {
		return "INVALID"
	}
	return string(v)
}

func verdictColor(v record.Verdict) string {
	switch v {
	case record.Valid:
		return green
	case record.Invalid:
		return red
	default:
		return yellow
	}
}

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	reset  = "\x1b[0m"
)

func paint(s, color string, on bool) string {
	if !on {
		return s
	}
	return color + s + reset
}
