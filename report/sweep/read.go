package sweep

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// loadColumns place a rung; a table has at least one of them.
var loadColumns = []string{"concurrency", "in_flight", "rate_req_per_s"}

// throughputColumns: a table has at least one of them.
var throughputColumns = []string{"request_throughput_per_s", "output_token_throughput_per_s"}

// ErrTable is wrapped by every error about the content of a table.
var ErrTable = errors.New("not a sweep table")

// Bounds of a table.
const (
	maxRows  = 100_000
	maxBytes = 32 << 20
)

// Read reads a table: a header with known column names, then one rung a row;
// an empty cell or "-" is unknown. A column "result" tells several ladders
// apart; without it there is one. Where in-flight is unknown and the request
// throughput and the mean E2E are known it is their product (Little's law).
// name is used in errors, which give line and column.
func Read(r io.Reader, name string) ([]Sweep, error) {
	limited := &io.LimitedReader{R: r, N: maxBytes}
	t := &table{name: name, csv: csv.NewReader(limited), places: map[string]int{}}
	t.csv.TrimLeadingSpace = true
	if err := t.header(); err != nil {
		return nil, t.unlessCut(limited, err)
	}
	for rows := 0; ; rows++ {
		err := t.row()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, t.unlessCut(limited, err)
		}
		if rows >= maxRows {
			return nil, fmt.Errorf("%s: %w: more than %d rows", name, ErrTable, maxRows)
		}
	}
	if len(t.sweeps) == 0 {
		return nil, fmt.Errorf("%s: %w: it has a header but no rung", name, ErrTable)
	}
	for i := range t.sweeps {
		t.sweeps[i].complete()
	}
	return t.sweeps, t.unlessCut(limited, nil)
}

type table struct {
	name    string
	csv     *csv.Reader
	columns []column // of the header; the zero column is "result"
	sweeps  []Sweep
	places  map[string]int // of the sweeps, by name
}

// unlessCut returns err, or that the table is too long where it was cut.
func (t *table) unlessCut(r *io.LimitedReader, err error) error {
	if r.N > 0 {
		return err
	}
	return fmt.Errorf("%s: %w: larger than %d MiB, no sweep is", t.name, ErrTable, maxBytes>>20)
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
		c, ok := columnNamed(n)
		switch {
		case !ok:
			return t.at(i, unknown(n))
		case slices.Contains(names[:i], n):
			return t.at(i, fmt.Sprintf("column %q is there twice", n))
		}
		names[i] = n
		t.columns = append(t.columns, c)
	}
	if !has(names, loadColumns) {
		return t.at(0, "no column says the load; it takes one of "+strings.Join(loadColumns, ", "))
	}
	if !has(names, throughputColumns) {
		return t.at(0, "no column says the throughput; it takes one of "+strings.Join(throughputColumns, ", "))
	}
	return nil
}

func columnNamed(name string) (column, bool) {
	if name == resultColumn {
		return column{}, true
	}
	i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
	if i < 0 {
		return column{}, false
	}
	return columns[i], true
}

// unknown words that no column has a name, with the nearest that one has.
func unknown(name string) string {
	name = name[:min(len(name), 60)]
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	if near := profiles.Nearest(name, names); near != "" {
		return fmt.Sprintf("unknown column %q; the nearest name is %q", name, near)
	}
	return fmt.Sprintf("unknown column %q; drop it, or give it one of the names that `headway knee --help` lists", name)
}

// row reads one rung into the sweep it belongs to.
func (t *table) row() error {
	cells, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if err != nil {
		return t.syntax(err)
	}
	g := record.Rung{Verdict: record.Valid}
	var filled []string
	result := ""
	for i, cell := range cells {
		c := t.columns[i]
		cell = strings.TrimSpace(cell)
		switch {
		case c.set == nil && strings.ContainsFunc(cell, unicode.IsControl):
			return t.at(i, fmt.Sprintf("the result's name %.80q has control characters", cell))
		case c.set == nil:
			result = cell
			continue
		case cell == "" || cell == "-":
			continue
		}
		if err := c.set(&g, cell); err != nil {
			return t.at(i, err.Error())
		}
		filled = append(filled, c.name)
	}
	if !slices.Contains(filled, "completed") {
		g.Requests.Completed = record.Untold
	}
	s := t.sweep(result)
	if !slices.Contains(filled, "index") {
		g.Index = len(s.Rungs)
	}
	s.Rungs = append(s.Rungs, g)
	for _, name := range filled {
		s.filled[name] = true
	}
	return nil
}

// sweep returns the sweep of a name, in the order of their first rungs.
func (t *table) sweep(name string) *Sweep {
	i, known := t.places[name]
	if !known {
		i = len(t.sweeps)
		t.places[name] = i
		t.sweeps = append(t.sweeps, Sweep{Name: name, filled: map[string]bool{}})
	}
	return &t.sweeps[i]
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
		what = fmt.Sprintf("the row does not have the %d cells of the header", len(t.columns))
	}
	return fmt.Errorf("%s:%d:%d: %w: %s", t.name, p.Line, max(p.Column, 1), ErrTable, what)
}

func has(names, wanted []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(wanted, n) })
}

// complete fills in what follows from the rest of the table.
func (s *Sweep) complete() {
	mode := s.mode()
	for i := range s.Rungs {
		g := &s.Rungs[i]
		if g.Mode == "" {
			g.Mode = mode
		}
		rate, known := g.RequestThroughputPerS.Float()
		e2e, ok := g.E2E.Mean.Float()
		if !g.InFlightMean.OK() && known && ok && rate*e2e > 0 {
			g.InFlightMean = record.Known(rate * e2e / 1000)
			s.Derived++
		}
		for _, d := range distributions {
			if dist := d.of(g); *dist != (record.Dist{}) {
				dist.Count = g.Requests.Completed
			}
		}
		// A table that does not tell response times from service times has
		// those of its tool.
		if g.TTFTResponse == (record.Dist{}) {
			g.TTFTResponse = g.TTFT
		}
		if g.E2EResponse == (record.Dist{}) {
			g.E2EResponse = g.E2E
		}
	}
}

// mode is how the load of a table without modes was offered: open where rates
// are all that varies.
func (s *Sweep) mode() record.Mode {
	rates, caps := map[float64]bool{}, map[int]bool{}
	for _, g := range s.Rungs {
		if r, ok := g.RatePerS.Float(); ok {
			rates[r] = true
		}
		if g.Concurrency > 0 {
			caps[g.Concurrency] = true
		}
	}
	if len(rates) > 1 && len(caps) <= 1 {
		return record.Open
	}
	return record.Closed
}
