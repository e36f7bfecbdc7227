package render

import (
	"io"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/sweep"
)

// CSV writes one row a rung. With several bundles the first column names the
// bundle.
func CSV(w io.Writer, bundles ...*bundle.Bundle) error {
	var sweeps []sweep.Sweep
	for _, n := range nameAll(bundles) {
		sweeps = append(sweeps, sweep.Sweep{Name: n.name, Rungs: n.Result.Rungs})
	}
	return sweep.Write(w, sweeps...)
}
