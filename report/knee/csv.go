package knee

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
)

// columns are what a table may have, and where each value goes.
var columns = map[string]func(*Point) *record.Value{
	"concurrency":                   func(p *Point) *record.Value { return &p.Concurrency },
	"in_flight":                     func(p *Point) *record.Value { return &p.InFlight },
	"rate_req_per_s":                func(p *Point) *record.Value { return &p.RatePerS },
	"request_throughput_per_s":      func(p *Point) *record.Value { return &p.RequestS },
	"output_token_throughput_per_s": func(p *Point) *record.Value { return &p.TokensS },
	"ttft_p50_ms":                   func(p *Point) *record.Value { return &p.TTFT.P50 },
	"ttft_p95_ms":                   func(p *Point) *record.Value { return &p.TTFT.P95 },
	"ttft_p99_ms":                   func(p *Point) *record.Value { return &p.TTFT.P99 },
	"ttft_mean_ms":                  func(p *Point) *record.Value { return &p.TTFT.Mean },
	"itl_mean_ms":                   func(p *Point) *record.Value { return &p.ITLMeanMS },
	"itl_p95_ms":                    func(p *Point) *record.Value { return &p.ITL.P95 },
	"e2e_mean_ms":                   func(p *Point) *record.Value { return &p.E2EMeanMS },
	"completed":                     func(p *Point) *record.Value { return &p.Completed },
}

// loadColumns place a rung; a table has at least one of them.
var loadColumns = []string{"concurrency", "in_flight", "rate_req_per_s"}

// throughputColumns: a table has at least one of them.
var throughputColumns = []string{"request_throughput_per_s", "output_token_throughput_per_s"}

// ErrTable is wrapped by every error about the content of a table.
var ErrTable = errors.New("not a sweep table")

// maxRows bounds a table.
const maxRows = 100_000

// ReadCSV reads a sweep: a header with known column names, then one rung a
// row; an empty cell or "-" is unknown. Where in-flight is unknown and the
// request throughput and the mean E2E are known it is their product (Little's
// law), and a warning says so. name is used in errors, which give line and
// column.
func ReadCSV(r io.Reader, name string) ([]Point, []record.Reason, error) {
	t := &table{name: name, csv: csv.NewReader(r)}
	t.csv.TrimLeadingSpace = true
	if err := t.header(); err != nil {
		return nil, nil, err
	}
	var points []Point
	for {
		p, err := t.row()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if points = append(points, p); len(points) > maxRows {
			return nil, nil, fmt.Errorf("%s: %w: more than %d rows", name, ErrTable, maxRows)
		}
	}
	if len(points) == 0 {
		return nil, nil, fmt.Errorf("%s: %w: it has a header but no rung", name, ErrTable)
	}
	return points, deriveInFlight(points), nil
}

type table struct {
	name  string
	csv   *csv.Reader
	names []string
}

func (t *table) header() error {
	names, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w: it is empty; the first row names the columns", t.name, ErrTable)
	}
	if err != nil {
		return t.syntax(err)
	}
	names[0] = strings.TrimPrefix(names[0], "\ufeff")
	for i, n := range names {
		n = strings.TrimSpace(n)
		if columns[n] == nil {
			return t.at(i, fmt.Sprintf("unknown column %q; %s", n, nearest(n)))
		}
		if slices.Contains(names[:i], n) {
			return t.at(i, fmt.Sprintf("column %q is there twice", n))
		}
		names[i] = n
	}
	t.names = names
	if !has(names, loadColumns) {
		return t.at(0, "no column says the load; it takes one of "+strings.Join(loadColumns, ", "))
	}
	if !has(names, throughputColumns) {
		return t.at(0, "no column says the throughput; it takes one of "+strings.Join(throughputColumns, ", "))
	}
	return nil
}

func (t *table) row() (Point, error) {
	var p Point
	cells, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return p, io.EOF
	}
	if err != nil {
		return p, t.syntax(err)
	}
	for i, cell := range cells {
		cell = strings.TrimSpace(cell)
		if cell == "" || cell == "-" {
			continue
		}
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return p, t.at(i, fmt.Sprintf("%s is %q; it takes a number of 0 or more, or - where unknown", t.names[i], cell))
		}
		*columns[t.names[i]](&p) = record.Known(v)
	}
	p.ITL.Mean = p.ITLMeanMS
	return p, nil
}

// at is an error at a field of the row that was read last.
func (t *table) at(field int, what string) error {
	line, col := t.csv.FieldPos(field)
	return fmt.Errorf("%s:%d:%d: %w: %s", t.name, line, col, ErrTable, what)
}

// syntax places an error of the CSV reader itself.
func (t *table) syntax(err error) error {
	var p *csv.ParseError
	if !errors.As(err, &p) {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	what := p.Err.Error()
	if errors.Is(p.Err, csv.ErrFieldCount) {
		what = fmt.Sprintf("the row does not have the %d cells of the header", len(t.names))
	}
	return fmt.Errorf("%s:%d:%d: %w: %s", t.name, p.Line, max(p.Column, 1), ErrTable, what)
}

func has(names, wanted []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(wanted, n) })
}

// nearest suggests the column whose name is fewest edits away.
func nearest(name string) string {
	best, least := "", math.MaxInt
	for c := range columns {
		if d := edits(name, c); d < least || d == least && c < best {
			best, least = c, d
		}
	}
	return fmt.Sprintf("the nearest name is %q", best)
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// deriveInFlight fills unknown in-flight by Little's law.
func deriveInFlight(points []Point) []record.Reason {
	derived := 0
	for i := range points {
		p := &points[i]
		rate, ok := p.RequestS.Float()
		e2e, known := p.E2EMeanMS.Float()
		if !p.InFlight.OK() && ok && known && rate*e2e > 0 {
			p.InFlight = record.Known(rate * e2e / 1000)
			derived++
		}
	}
	if derived == 0 {
		return []record.Reason{}
	}
	return []record.Reason{{
		Code:    "in_flight_derived",
		Message: fmt.Sprintf("in-flight of %d rungs is request throughput times mean E2E (Little's law)", derived),
		Value:   record.Known(float64(derived)),
	}}
}
