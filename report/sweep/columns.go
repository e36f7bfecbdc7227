// Package sweep is a ladder as a CSV: a header with known column names, then
// one rung a row. What it writes it reads, and it reads tables of any tool
// that bear the names.
package sweep

import (
	"fmt"
	"math"
	"strconv"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// Sweep is one ladder of a table.
type Sweep struct {
	// Name is what the column "result" says, "" in a table without it.
	Name  string
	Rungs []record.Rung
	// Derived counts the rungs whose in-flight is not the table's but request
	// throughput times mean E2E (Little's law).
	Derived int

	filled map[string]bool // columns that have a value
}

// resultColumn tells the ladders of one table apart.
const resultColumn = "result"

// column is one column of the table. get returns "" for what is unknown; set
// takes what a cell says, which is not empty.
type column struct {
	name string
	get  func(*record.Rung) string
	set  func(r *record.Rung, cell string) error
}

// columns are all columns in the order in which they are written.
var columns = newColumns()

func newColumns() []column {
	cs := []column{
		whole("index", func(g *record.Rung) *int { return &g.Index }),
		word("mode", func(g *record.Rung) *record.Mode { return &g.Mode }, record.Closed, record.Open, record.Offline),
		optional(whole("concurrency", func(g *record.Rung) *int { return &g.Concurrency })),
		number("rate_req_per_s", func(g *record.Rung) *record.Value { return &g.RatePerS }),
		whole("repeat", func(g *record.Rung) *int { return &g.Repeat }),
		word("verdict", func(g *record.Rung) *record.Verdict { return &g.Verdict }, record.Valid, record.Invalid, record.Inconclusive),
		whole("sent", func(g *record.Rung) *int64 { return &g.Requests.Sent }),
		told(whole("completed", func(g *record.Rung) *int64 { return &g.Requests.Completed })),
		whole("failed", func(g *record.Rung) *int64 { return &g.Requests.Failed }),
		number("in_flight", func(g *record.Rung) *record.Value { return &g.InFlightMean }),
		number("request_throughput_per_s", func(g *record.Rung) *record.Value { return &g.RequestThroughputPerS }),
		number("output_token_throughput_per_s", func(g *record.Rung) *record.Value { return &g.OutputTokenThroughputPerS }),
		number("input_token_throughput_per_s", func(g *record.Rung) *record.Value { return &g.InputTokenThroughputPerS }),
		number("total_token_throughput_per_s", func(g *record.Rung) *record.Value { return &g.TotalTokenThroughputPerS }),
		number("goodput_req_per_s", func(g *record.Rung) *record.Value { return &g.GoodputReqPerS }),
		number("elasticity", func(g *record.Rung) *record.Value { return &g.Elasticity }),
		word("token_source", func(g *record.Rung) *string { return &g.Tokens.Source }),
		number("input_tokens_mean", func(g *record.Rung) *record.Value { return &g.InputTokens.Mean }),
		number("output_tokens_mean", func(g *record.Rung) *record.Value { return &g.OutputTokens.Mean }),
		telemetry("kv_cache_usage_max", func(t *record.Telemetry) *record.Value { return &t.KVCacheUsageMax }),
		telemetry("requests_running_mean", func(t *record.Telemetry) *record.Value { return &t.RequestsRunningMean }),
		telemetry("requests_waiting_mean", func(t *record.Telemetry) *record.Value { return &t.RequestsWaitingMean }),
		telemetry("preemptions", func(t *record.Telemetry) *record.Value { return &t.Preemptions }),
	}
	for _, d := range distributions {
		for _, stat := range d.stats {
			cs = append(cs, number(d.name+"_"+stat+d.unit, func(g *record.Rung) *record.Value { return d.of(g).Stat(stat) }))
		}
	}
	return cs
}

// distribution is what several columns tell of one metric.
type distribution struct {
	name, unit string
	stats      []string
	of         func(*record.Rung) *record.Dist
}

var latencyStats = []string{"mean", "p50", "p90", "p95", "p99"}

var distributions = []distribution{
	{"per_user_tokens_per_s", "", []string{"mean", "p05", "p50"}, func(g *record.Rung) *record.Dist { return &g.PerUserTokensPerS }},
	{"ttft", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.TTFT }},
	{"ttft_response", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.TTFTResponse }},
	{"ttfo", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.TTFO }},
	{"itl", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.ITL }},
	{"icl", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.ICL }},
	{"tpot", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.TPOT }},
	{"e2e", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.E2E }},
	{"e2e_response", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.E2EResponse }},
	{"send_lag", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.SendLag }},
	{"receive_lag", "_ms", latencyStats, func(g *record.Rung) *record.Dist { return &g.ReceiveLag }},
}

// number is a column of a figure that may be unknown.
func number(name string, of func(*record.Rung) *record.Value) column {
	return column{name,
		func(g *record.Rung) string { return text(*of(g)) },
		func(g *record.Rung, cell string) error {
			v, err := parse(name, cell)
			if err == nil {
				*of(g) = record.Known(v)
			}
			return err
		}}
}

// telemetry is a column of what the server told.
func telemetry(name string, of func(*record.Telemetry) *record.Value) column {
	c := number(name, func(g *record.Rung) *record.Value {
		if g.Telemetry == nil {
			g.Telemetry = new(record.Telemetry)
		}
		return of(g.Telemetry)
	})
	get := c.get
	c.get = func(g *record.Rung) string {
		if g.Telemetry == nil {
			return ""
		}
		return get(g)
	}
	return c
}

// whole is a column of a whole number.
func whole[T int | int64](name string, of func(*record.Rung) *T) column {
	return column{name,
		func(g *record.Rung) string { return strconv.FormatInt(int64(*of(g)), 10) },
		func(g *record.Rung, cell string) error {
			v, err := parse(name, cell)
			if err == nil && (v != math.Trunc(v) || v > math.MaxInt32) {
				err = fmt.Errorf("%s is %q; it takes a whole number (a measured mean is in_flight)", name, cell)
			}
			if err == nil {
				*of(g) = T(v)
			}
			return err
		}}
}

// optional is a column whose 0 is unknown.
func optional(c column) column {
	get := c.get
	c.get = func(g *record.Rung) string {
		if cell := get(g); cell != "0" {
			return cell
		}
		return ""
	}
	return c
}

// told is a column of a count that may be untold.
func told(c column) column {
	get := c.get
	c.get = func(g *record.Rung) string {
		if cell := get(g); cell != strconv.Itoa(record.Untold) {
			return cell
		}
		return ""
	}
	return c
}

// word is a column of text, one of the allowed words where there are any.
func word[T ~string](name string, of func(*record.Rung) *T, allowed ...T) column {
	return column{name,
		func(g *record.Rung) string { return string(*of(g)) },
		func(g *record.Rung, cell string) error {
			for _, a := range allowed {
				if string(a) == cell {
					*of(g) = a
					return nil
				}
			}
			if len(allowed) > 0 {
				return fmt.Errorf("%s is %q; it takes one of %v", name, cell, allowed)
			}
			*of(g) = T(cell)
			return nil
		}}
}

func parse(name, cell string) (float64, error) {
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 && name != "elasticity" {
		return 0, fmt.Errorf("%s is %q; it takes a number of 0 or more, or - where unknown", name, cell)
	}
	return v, nil
}

// text writes nine significant digits, as JSON has them; "" where unknown.
func text(v record.Value) string {
	if f, ok := v.Float(); ok {
		return strconv.FormatFloat(f, 'g', 9, 64)
	}
	return ""
}

// Lacks returns the column that a limit speaks of when no rung has a value in
// it.
func (s Sweep) Lacks(limit profiles.SLO) (name string, lacks bool) {
	name = columnOf(limit)
	filled := s.filled[name]
	if limit.Metric == "ttft" || limit.Metric == "e2e" {
		filled = filled || s.filled[limit.Metric+"_response_"+limit.Stat+"_ms"]
	}
	return name, !filled
}

func columnOf(limit profiles.SLO) string {
	switch limit.Metric {
	case "tps":
		return "per_user_tokens_per_s_" + limit.Stat
	case "goodput":
		return "goodput_req_per_s"
	case "request_throughput", "output_token_throughput":
		return limit.Metric + "_per_s"
	case "error_rate":
		return "failed"
	case "kv_cache_usage":
		return "kv_cache_usage_max"
	case "preemptions":
		return "preemptions"
	}
	return limit.Metric + "_" + limit.Stat + "_ms"
}
