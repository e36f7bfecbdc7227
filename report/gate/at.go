package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/knee"
)

// At says which load of a result is judged. The zero value is the only one.
type At struct {
	Concurrency    int
	RatePerS       float64
	OperatingPoint bool
}

// ParseAt reads concurrency=32, rate=8, operating-point, or "" for the only
// load.
func ParseAt(s string) (At, error) {
	name, value, _ := strings.Cut(s, "=")
	switch {
	case s == "":
		return At{}, nil
	case s == "operating-point":
		return At{OperatingPoint: true}, nil
	case name == "concurrency":
		if n, err := strconv.Atoi(value); err == nil && n > 0 {
			return At{Concurrency: n}, nil
		}
	case name == "rate":
		if r, err := strconv.ParseFloat(value, 64); err == nil && r > 0 && !math.IsInf(r, 0) {
			return At{RatePerS: r}, nil
		}
	}
	return At{}, fmt.Errorf("--at %q: it takes concurrency=N, rate=N or operating-point", s)
}

// String writes the load as --at takes it.
func (a At) String() string {
	switch {
	case a.OperatingPoint:
		return "operating-point"
	case a.Concurrency > 0:
		return fmt.Sprintf("concurrency=%d", a.Concurrency)
	case a.RatePerS > 0:
		return fmt.Sprintf("rate=%g", a.RatePerS)
	}
	return "the only load"
}

// pick returns the rungs of the load that is asked for; the error lists the
// loads there are. Without an operating point that is the lowest load: what is
// broken there is broken everywhere.
func (a At) pick(rungs []record.Rung, slos []profiles.SLO) ([]record.Rung, error) {
	loads := knee.ByLoad(rungs)
	switch {
	case len(loads) == 0:
		return nil, fmt.Errorf("the result has no rung")
	case a.OperatingPoint:
		if p := knee.OperatingPoint(rungs, slos, knee.Economics{}); p.Status == knee.PointFound {
			return p.Load(), nil
		}
		return loads[0], nil
	case a == At{} && len(loads) == 1:
		return loads[0], nil
	case a == At{}:
		return nil, fmt.Errorf("the result has %d loads (%s): choose one with --at", len(loads), names(loads))
	}
	for _, load := range loads {
		if LoadName(load) == a.String() {
			return load, nil
		}
	}
	return nil, fmt.Errorf("no rung was run at %s; there are %s", a, names(loads))
}

// LoadName names the load of rungs as --at takes it.
func LoadName(load []record.Rung) string {
	switch r := load[0]; r.Mode {
	case record.Open:
		return fmt.Sprintf("rate=%g", r.RatePerS.Or(0))
	case record.Offline:
		return "offline"
	default:
		return fmt.Sprintf("concurrency=%d", r.Concurrency)
	}
}

func names(loads [][]record.Rung) string {
	out := make([]string, len(loads))
	for i, l := range loads {
		out[i] = LoadName(l)
	}
	return strings.Join(out, ", ")
}
