package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Law is a server whose times are known: Slots sequences run at once (0: no
// limit), the first token comes TTFT after admission and each further one ITL
// after the last, both as functions of the number of running sequences.
type Law struct {
	Slots     int
	TTFT, ITL Linear
}

// Linear is Base + PerSeq*n, n running sequences, in nanoseconds.
type Linear struct {
	Base, PerSeq float64
}

// At is the value for n running sequences.
func (l Linear) At(n int) int64 { return int64(l.Base + l.PerSeq*float64(n)) }

// String gives the form that ParseLaw reads.
func (l Linear) String() string {
	if l.PerSeq == 0 {
		return time.Duration(l.Base).String()
	}
	return fmt.Sprintf("%v+%v*n", time.Duration(l.Base), time.Duration(l.PerSeq))
}

// String gives the form that ParseLaw reads.
func (l Law) String() string {
	s := fmt.Sprintf("ttft=%v,itl=%v", l.TTFT, l.ITL)
	if l.Slots > 0 {
		s = fmt.Sprintf("slots=%d,%s", l.Slots, s)
	}
	return s
}

// ParseLaw reads a law such as "slots=16,ttft=50ms,itl=10ms+0.1ms*n". slots
// may be left out; ttft and itl are needed, each a duration, a duration times
// n, or the sum of both.
func ParseLaw(text string) (Law, error) {
	var l Law
	seen := map[string]bool{}
	for _, field := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(field, "=")
		name = strings.TrimSpace(name)
		if !ok {
			return l, fmt.Errorf("law %q: %q is not name=value", text, field)
		}
		if seen[name] {
			return l, fmt.Errorf("law %q: %s is given twice", text, name)
		}
		seen[name] = true
		var err error
		switch name {
		case "slots":
			if l.Slots, err = strconv.Atoi(value); err != nil || l.Slots < 1 {
				return l, fmt.Errorf("law %q: slots must be a whole number of at least 1, not %q", text, value)
			}
		case "ttft":
			l.TTFT, err = parseLinear(value)
		case "itl":
			l.ITL, err = parseLinear(value)
		default:
			return l, fmt.Errorf("law %q: unknown name %q; there are slots, ttft and itl", text, name)
		}
		if err != nil {
			return l, fmt.Errorf("law %q: %s: %w", text, name, err)
		}
	}
	for _, name := range []string{"ttft", "itl"} {
		if !seen[name] {
			return l, fmt.Errorf("law %q: %s is missing, as in slots=16,ttft=50ms,itl=10ms+0.1ms*n", text, name)
		}
	}
	return l, nil
}

func parseLinear(text string) (Linear, error) {
	var l Linear
	var base, slope bool
	for _, term := range strings.Split(text, "+") {
		term = strings.TrimSpace(term)
		per, isSlope := strings.CutSuffix(term, "*n")
		if isSlope && slope || !isSlope && base {
			return l, fmt.Errorf("%q has two terms of one kind; want a duration, a duration times n, or their sum, as 10ms+0.1ms*n", text)
		}
		d, err := time.ParseDuration(strings.TrimSpace(per))
		switch {
		case err != nil:
			return l, fmt.Errorf("%q is no duration with a unit (as 10ms, or 0.1ms*n)", term)
		case d < 0:
			return l, fmt.Errorf("%q is negative", term)
		case d > time.Hour:
			return l, fmt.Errorf("%q is more than an hour", term)
		case isSlope:
			l.PerSeq, slope = float64(d), true
		default:
			l.Base, base = float64(d), true
		}
	}
	return l, nil
}
