package importer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
)

const (
	maxCSV     = 256 << 20 // bytes
	maxHeaders = 8         // header rows
	maxRows    = 100_000
)

// guidellmCSV is its summary table: one row a benchmark under several header
// rows. Columns come and go between versions, so they are found by name.
var guidellmCSV = format{tool: "guidellm", definitions: guidellmDefinitions}

// csvMetrics are the column groups of each metric, by header words.
var csvMetrics = map[string][2]string{
	"requests_per_second":           {"server throughput", "requests/sec"},
	"request_concurrency":           {"server throughput", "concurrency"},
	"output_tokens_per_second":      {"token throughput", "output tokens/sec"},
	"prompt_tokens_per_second":      {"token throughput", "input tokens/sec"},
	"tokens_per_second":             {"token throughput", "total tokens/sec"},
	"request_latency":               {"request latency", "sec"},
	"request_scheduled_latency":     {"scheduled latency", "sec"},
	"request_dispatch_delay":        {"dispatch delay", "sec"},
	"time_to_first_token_ms":        {"time to first token", "ms"},
	"time_to_first_output_token_ms": {"time to first output token", "ms"},
	"inter_token_latency_ms":        {"inter token latency", "ms"},
	"prompt_token_count":            {"token metrics", "input tokens"},
	"output_token_count":            {"token metrics", "output tokens"},
}

func readGuidellmCSV(r io.Reader) ([]run, error) {
	limited := &io.LimitedReader{R: r, N: maxCSV}
	in := csv.NewReader(limited)
	in.FieldsPerRecord, in.LazyQuotes, in.ReuseRecord = -1, true, false
	columns := map[string]int{}
	var headers [][]string
	var all []run
	for n := 1; ; n++ {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("guidellm CSV: %w", err)
		}
		if len(columns) == 0 {
			if !hasFigures(row) {
				if headers = append(headers, row); len(headers) > maxHeaders {
					return nil, ErrUnknownFormat
				}
				continue
			}
			if columns = csvColumns(headers); columns["server throughput|successful requests/sec|mean"] == 0 {
				return nil, fmt.Errorf("%w (a CSV without guidellm's column Server Throughput, Successful Requests/Sec, Mean)", ErrUnknownFormat)
			}
		}
		if len(all) == maxRows {
			return nil, fmt.Errorf("guidellm CSV: more than %d rows", maxRows)
		}
		all = append(all, readCSVRow(columns, row))
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("guidellm CSV: larger than %d MiB", maxCSV>>20)
	}
	if len(columns) == 0 {
		return nil, ErrUnknownFormat
	}
	return all, nil
}

// hasFigures tells a row of figures from a row of headers.
func hasFigures(row []string) bool {
	n := 0
	for _, cell := range row {
		if _, err := strconv.ParseFloat(cell, 64); err == nil {
			n++
		}
	}
	return n >= 3
}

// csvColumns names each column by its header words, in lower case, with "|"
// between; the number is the column's, counted from 1.
func csvColumns(headers [][]string) map[string]int {
	columns := map[string]int{}
	widest := 0
	for _, h := range headers {
		widest = max(widest, len(h))
	}
	for i := range widest {
		var parts []string
		for _, h := range headers {
			if i < len(h) && strings.TrimSpace(h[i]) != "" {
				parts = append(parts, strings.ToLower(strings.TrimSpace(h[i])))
			}
		}
		if name := strings.Join(parts, "|"); columns[name] == 0 {
			columns[name] = i + 1
		}
	}
	return columns
}

func readCSVRow(columns map[string]int, row []string) run {
	cell := func(name string) string {
		if i := columns[name]; i > 0 && i <= len(row) {
			return strings.TrimSpace(row[i-1])
		}
		return ""
	}
	number := func(name string) record.Value { return parsed(cell(name)) }
	whole := func(name string) int64 { return int64(min(max(number(name).Or(0), 0), 1<<53)) }
	r := run{settings: map[string]string{}}
	counts(&r.rung, whole("request counts|successful"), whole("request counts|errored"), whole("request counts|incomplete"))
	r.rung.Window.EndS = above(number("timings|duration|sec")).Or(0)
	kind, at := strategyText(cell("benchmark|strategy"))
	guidellmLoad(&r, kind, int(min(at.Or(0), 1<<30)), at)
	r.model = jsonModel(cell("run info|backend"))
	guidellmFigures(&r.rung, func(name string) stats {
		group, ok := csvMetrics[name]
		if !ok {
			return stats{}
		}
		base := group[0] + "|successful " + group[1] + "|"
		s := stats{mean: number(base + "mean"), at: map[float64]record.Value{0.5: number(base + "median")}}
		s.fill(cell(base + "percentiles"))
		return s
	})
	return r
}

// fill reads the list [min, p0.1, p1, p5, p10, p25, p75, p90, p95, p99, max].
func (s *stats) fill(list string) {
	parts := strings.Split(strings.Trim(list, "[]"), ",")
	if len(parts) != 11 {
		return
	}
	at := func(i int) record.Value { return parsed(parts[i]) }
	s.min, s.max = at(0), at(10)
	s.at[0.05], s.at[0.9], s.at[0.95], s.at[0.99] = at(3), at(7), at(8), at(9)
}

// jsonModel finds the model in the JSON that a cell holds.
func jsonModel(cell string) string {
	v, err := newParser(strings.NewReader(cell)).value("", 0)
	if err != nil {
		return ""
	}
	o, _ := v.(map[string]any)
	return object(o).text("model")
}
