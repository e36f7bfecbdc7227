package sweep

import (
	"encoding/csv"
	"fmt"
	"io"
)

// Write writes one row a rung after RFC 4180, the unit in every header; an
// empty cell is unknown. With several sweeps the first column says whose the
// rung is.
func Write(w io.Writer, sweeps ...Sweep) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	several := len(sweeps) != 1
	write := func(first string, cell func(column) string) {
		var row []string
		if several {
			row = append(row, first)
		}
		for _, c := range columns {
			row = append(row, cell(c))
		}
		// An error stays with the writer until it is flushed.
		_ = out.Write(row)
	}
	write(resultColumn, func(c column) string { return c.name })
	for _, s := range sweeps {
		for i := range s.Rungs {
			write(s.Name, func(c column) string { return c.get(&s.Rungs[i]) })
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}
