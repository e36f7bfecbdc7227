package record

import (
	"encoding/json"
	"math"
)

// Value is a number that may be unknown. The zero Value is unknown, and
// unknown is null in JSON: what was not measured is never 0.
type Value struct {
	v     float64
	known bool
}

// Known returns v as a known Value, or the unknown Value when v is not finite.
func Known(v float64) Value {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Value{}
	}
	return Value{v: v, known: true}
}

// Float returns the number and whether it is known.
func (v Value) Float() (float64, bool) { return v.v, v.known }

// OK says whether the number is known.
func (v Value) OK() bool { return v.known }

// Or returns the number, or def when it is unknown.
func (v Value) Or(def float64) float64 {
	if v.known {
		return v.v
	}
	return def
}

// Scale multiplies a known number by f.
func (v Value) Scale(f float64) Value {
	if !v.known {
		return v
	}
	return Known(v.v * f)
}

// MarshalJSON writes the number with at most nine significant digits, or null.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.known {
		return []byte("null"), nil
	}
	return json.Marshal(round(v.v))
}

// UnmarshalJSON reads a number or null.
func (v *Value) UnmarshalJSON(b []byte) error {
	var p *float64
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*v = Value{}
	if p != nil {
		*v = Known(*p)
	}
	return nil
}

// round keeps nine significant digits, more than any measurement here has.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 8-math.Floor(math.Log10(math.Abs(v))))
	if math.IsInf(scale, 0) || scale == 0 {
		return v
	}
	return math.Round(v*scale) / scale
}
