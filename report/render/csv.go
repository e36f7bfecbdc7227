package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
)

// CSV writes one row a rung after RFC 4180, the unit in every header. An empty
// cell is unknown. Columns bear the names of the contract where it has them.
func CSV(w io.Writer, r *bundle.Result) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	fields := csvFields()
	row := make([]string, len(fields))
	for i, f := range fields {
		row[i] = f.name
	}
	out.Write(row)
	for i := range r.Rungs {
		for j, f := range fields {
			row[j] = f.cell(&r.Rungs[i])
		}
		out.Write(row)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// csvField is one column of the CSV.
type csvField struct {
	name string
	cell func(*record.Rung) string
}

func csvFields() []csvField {
	number := func(name string, f func(*record.Rung) record.Value) csvField {
		return csvField{name, func(g *record.Rung) string { return exact(f(g)) }}
	}
	count := func(name string, f func(*record.Rung) int64) csvField {
		return csvField{name, func(g *record.Rung) string { return strconv.FormatInt(f(g), 10) }}
	}
	fields := []csvField{
		count("index", func(g *record.Rung) int64 { return int64(g.Index) }),
		{"mode", func(g *record.Rung) string { return string(g.Mode) }},
		{"concurrency", func(g *record.Rung) string {
			if g.Concurrency == 0 {
				return ""
			}
			return strconv.Itoa(g.Concurrency)
		}},
		number("rate_req_per_s", func(g *record.Rung) record.Value { return g.RatePerS }),
		count("repeat", func(g *record.Rung) int64 { return int64(g.Repeat) }),
		{"verdict", func(g *record.Rung) string { return string(g.Verdict) }},
		count("sent", func(g *record.Rung) int64 { return g.Requests.Sent }),
		count("completed", func(g *record.Rung) int64 { return g.Requests.Completed }),
		count("failed", func(g *record.Rung) int64 { return g.Requests.Failed }),
		number("in_flight", func(g *record.Rung) record.Value { return g.InFlightMean }),
		number("request_throughput_per_s", func(g *record.Rung) record.Value { return g.RequestThroughputPerS }),
		number("output_token_throughput_per_s", func(g *record.Rung) record.Value { return g.OutputTokenThroughputPerS }),
		number("total_token_throughput_per_s", func(g *record.Rung) record.Value { return g.TotalTokenThroughputPerS }),
		number("goodput_req_per_s", func(g *record.Rung) record.Value { return g.GoodputReqPerS }),
		number("elasticity", func(g *record.Rung) record.Value { return g.Elasticity }),
		{"token_source", func(g *record.Rung) string { return g.Tokens.Source }},
		number("input_tokens_mean", func(g *record.Rung) record.Value { return g.InputTokens.Mean }),
		number("output_tokens_mean", func(g *record.Rung) record.Value { return g.OutputTokens.Mean }),
	}
	fields = append(fields, csvDist("per_user_tokens_per_s", "", perUserOf, "mean", "p05", "p50")...)
	for _, l := range latencies {
		fields = append(fields, csvDist(l.key, "_ms", l.of, "mean", "p50", "p95", "p99")...)
	}
	return fields
}

// csvDist are the columns of one distribution.
func csvDist(name, unit string, of func(*record.Rung) *record.Dist, stats ...string) []csvField {
	var fields []csvField
	for _, s := range stats {
		fields = append(fields, csvField{name + "_" + s + unit, func(g *record.Rung) string { return exact(statOf(of(g), s)) }})
	}
	return fields
}

func perUserOf(g *record.Rung) *record.Dist { return &g.PerUserTokensPerS }

// latency is one latency of a rung: its key in the contract, its name for
// people, and where it is.
type latency struct {
	key, name string
	of        func(*record.Rung) *record.Dist
}

var latencies = []latency{
	{"ttft", "TTFT", func(g *record.Rung) *record.Dist { return &g.TTFT }},
	{"ttft_response", "TTFT (response)", func(g *record.Rung) *record.Dist { return &g.TTFTResponse }},
	{"ttfo", "TTFO", func(g *record.Rung) *record.Dist { return &g.TTFO }},
	{"itl", "ITL", func(g *record.Rung) *record.Dist { return &g.ITL }},
	{"icl", "ICL", func(g *record.Rung) *record.Dist { return &g.ICL }},
	{"tpot", "TPOT", func(g *record.Rung) *record.Dist { return &g.TPOT }},
	{"e2e", "E2E", func(g *record.Rung) *record.Dist { return &g.E2E }},
	{"e2e_response", "E2E (response)", func(g *record.Rung) *record.Dist { return &g.E2EResponse }},
	{"send_lag", "send lag", func(g *record.Rung) *record.Dist { return &g.SendLag }},
	{"receive_lag", "receive lag", func(g *record.Rung) *record.Dist { return &g.ReceiveLag }},
}

// statOf picks a statistic of a distribution by its key.
func statOf(d *record.Dist, key string) record.Value {
	switch key {
	case "mean":
		return d.Mean
	case "min":
		return d.Min
	case "p05":
		return d.P05
	case "p50":
		return d.P50
	case "p90":
		return d.P90
	case "p95":
		return d.P95
	case "p99":
		return d.P99
	case "p999":
		return d.P999
	case "max":
		return d.Max
	default:
		return record.Value{}
	}
}
