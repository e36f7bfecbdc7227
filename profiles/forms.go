package profiles

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Kinds of Length.
const (
	LengthFixed     = "fixed"
	LengthUniform   = "uniform"
	LengthNormal    = "normal"
	LengthLognormal = "lognormal"
	LengthEmpirical = "empirical"
	LengthDataset   = "dataset"
	LengthTrace     = "trace"
)

// Kinds of ThinkTime; the zero ThinkTime is no pause.
const (
	ThinkFixed       = "fixed"
	ThinkExponential = "exponential"
	ThinkLognormal   = "lognormal"
)

// maxLength bounds a token count, far above any context window.
const maxLength = 100_000_000

// Fixed is the Length of n tokens for every request.
func Fixed(n int) Length { return Length{Kind: LengthFixed, Value: n} }

// bounds returns the least and the greatest count that l can draw; ok is false
// where the counts come from a file.
func (l Length) bounds() (lo, hi int, ok bool) {
	switch l.Kind {
	case LengthFixed:
		return l.Value, l.Value, true
	case LengthUniform, LengthNormal, LengthLognormal:
		return l.Min, l.Max, true
	case LengthEmpirical:
		if len(l.Values) > 0 {
			return slices.Min(l.Values), slices.Max(l.Values), true
		}
	}
	return 0, 0, false
}

// String writes l in the form that a profile has, on one line.
func (l Length) String() string { return flowText(l.form()) }

// String lists what is asked of the sampler.
func (s Sampling) String() string {
	var parts []string
	if s.Temperature != nil {
		parts = append(parts, fmt.Sprintf("temperature %g", *s.Temperature))
	}
	if s.TopP != nil {
		parts = append(parts, fmt.Sprintf("top_p %g", *s.TopP))
	}
	if s.TopK != nil {
		parts = append(parts, fmt.Sprintf("top_k %d", *s.TopK))
	}
	if len(parts) == 0 {
		parts = append(parts, "server's default")
	}
	if s.ForceLength {
		parts = append(parts, "length forced")
	}
	return strings.Join(parts, ", ")
}

// form returns the count, the word, or the mapping that stands for l.
func (l Length) form() any {
	switch l.Kind {
	case LengthFixed:
		return int64(l.Value)
	case LengthUniform:
		return fields{{"uniform", []any{int64(l.Min), int64(l.Max)}}}
	case LengthNormal:
		return l.moments()
	case LengthLognormal:
		return fields{{"lognormal", l.moments()}}
	case LengthEmpirical:
		values := make([]any, len(l.Values))
		for i, v := range l.Values {
			values[i] = int64(v)
		}
		return fields{{"values", values}}
	}
	return l.Kind
}

func (l Length) moments() fields {
	return fields{{"mean", l.Mean}, {"stddev", l.StdDev}, {"min", int64(l.Min)}, {"max", int64(l.Max)}}
}

// MarshalJSON writes l in the form that a profile has.
func (l Length) MarshalJSON() ([]byte, error) { return json.Marshal(l.form()) }

// UnmarshalJSON reads the form that MarshalJSON writes.
func (l *Length) UnmarshalJSON(b []byte) error { return decodeJSON(b, l) }

const lengthHint = "write 128, {uniform: [64, 256]}, {mean: 128, stddev: 32, min: 1, max: 512}, " +
	"{lognormal: {mean: 128, stddev: 64, min: 1, max: 1024}}, {values: [64, 128]}, dataset or trace"

func (l *Length) decodeNode(d *decoder, n ast.Node, path string) {
	*l = Length{}
	if text := scalarText(n); text == LengthDataset || text == LengthTrace {
		l.Kind = text
		return
	}
	if i, ok := n.(*ast.IntegerNode); ok {
		if v, ok := d.count(i, path); ok {
			*l = Fixed(v)
		}
		return
	}
	entries, ok := mappingOf(n)
	if !ok || len(entries) == 0 {
		d.fail(n, path, lengthHint, "needs a token count or a distribution, not %s", kindOf(n))
		return
	}
	first, ok := d.key(entries[0], path)
	switch {
	case !ok:
	case len(entries) > 1 || slices.Contains(momentKeys, first):
		l.Kind = LengthNormal
		l.decodeMoments(d, n, path)
	case first == LengthUniform:
		l.Kind = LengthUniform
		if v := d.counts(entries[0].Value, join(path, first)); len(v) == 2 {
			l.Min, l.Max = v[0], v[1]
		} else if v != nil {
			d.fail(entries[0].Value, join(path, first), "write uniform: [64, 256]", "needs the least and the greatest count")
		}
	case first == LengthLognormal:
		l.Kind = LengthLognormal
		l.decodeMoments(d, entries[0].Value, join(path, first))
	case first == "values":
		l.Kind = LengthEmpirical
		l.Values = d.counts(entries[0].Value, join(path, first))
		if l.Values == nil {
			l.Values = []int{}
		}
	default:
		known := append([]string{LengthUniform, LengthLognormal, "values"}, momentKeys...)
		d.fail(entries[0].Key, join(path, quotable(first)), didYouMean(first, known), "unknown key")
	}
}

var momentKeys = []string{"mean", "stddev", "min", "max"}

// decodeMoments reads {mean, stddev, min, max}; min and max are 1 and four
// standard deviations above the mean unless told.
func (l *Length) decodeMoments(d *decoder, n ast.Node, path string) {
	var m struct {
		Mean   float64 `yaml:"mean"`
		StdDev float64 `yaml:"stddev"`
		Min    int     `yaml:"min"`
		Max    int     `yaml:"max"`
	}
	m.Max = -1
	d.structure(n, reflect.ValueOf(&m).Elem(), path)
	l.Mean, l.StdDev, l.Min, l.Max = m.Mean, m.StdDev, max(m.Min, 1), m.Max
	if m.Max == -1 {
		l.Max = int(math.Ceil(min(math.Max(m.Mean+4*m.StdDev, 1), maxLength)))
	}
}

// count reads a whole number of tokens that fits an int on every system.
func (d *decoder) count(n ast.Node, path string) (int, bool) {
	v, ok := d.integer(n, path)
	if ok && (v < 0 || v > maxLength) {
		d.fail(n, path, fmt.Sprintf("give 0 to %d", maxLength), "%d tokens is out of range", v)
		return 0, false
	}
	return int(v), ok
}

// counts reads a list of token counts; it is nil after a fault.
func (d *decoder) counts(n ast.Node, path string) []int {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(n, path, "write it in brackets: [64, 256]", "needs a list, not %s", kindOf(n))
		return nil
	}
	out := make([]int, 0, len(seq.Values))
	for i, element := range seq.Values {
		v, ok := d.count(element, fmt.Sprintf("%s[%d]", path, i))
		if !ok {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// IsZero says whether there is no pause.
func (t ThinkTime) IsZero() bool { return t == ThinkTime{} }

func (t ThinkTime) form() any {
	switch t.Kind {
	case ThinkExponential:
		return fields{{ThinkExponential, t.Mean.String()}}
	case ThinkLognormal:
		return fields{{ThinkLognormal, fields{{"mean", t.Mean.String()}, {"stddev", t.StdDev.String()}}}}
	}
	return t.Mean.String()
}

// MarshalJSON writes t in the form that a profile has.
func (t ThinkTime) MarshalJSON() ([]byte, error) { return json.Marshal(t.form()) }

// UnmarshalJSON reads the form that MarshalJSON writes.
func (t *ThinkTime) UnmarshalJSON(b []byte) error { return decodeJSON(b, t) }

func (t *ThinkTime) decodeNode(d *decoder, n ast.Node, path string) {
	*t = ThinkTime{}
	if isScalar(n) {
		if t.Mean.decodeNode(d, n, path); t.Mean != 0 {
			t.Kind = ThinkFixed
		}
		return
	}
	entries, ok := mappingOf(n)
	if !ok || len(entries) != 1 {
		d.fail(n, path, "write 2s, {exponential: 2s} or {lognormal: {mean: 2s, stddev: 1s}}", "needs a pause or one distribution, not %s", kindOf(n))
		return
	}
	kind, ok := d.key(entries[0], path)
	switch {
	case !ok:
	case kind == ThinkExponential:
		t.Kind = kind
		t.Mean.decodeNode(d, entries[0].Value, join(path, kind))
	case kind == ThinkLognormal:
		t.Kind = kind
		var m struct {
			Mean   Duration `yaml:"mean" profile:"required"`
			StdDev Duration `yaml:"stddev" profile:"required"`
		}
		d.structure(entries[0].Value, reflect.ValueOf(&m).Elem(), join(path, kind))
		t.Mean, t.StdDev = m.Mean, m.StdDev
	default:
		d.fail(entries[0].Key, join(path, quotable(kind)), didYouMean(kind, []string{ThinkExponential, ThinkLognormal}), "unknown key")
	}
}

func (w Warmup) form() any {
	if w.Auto {
		return "auto"
	}
	return w.Fixed.String()
}

// MarshalJSON writes "auto" or the time.
func (w Warmup) MarshalJSON() ([]byte, error) { return json.Marshal(w.form()) }

// UnmarshalJSON reads the form that MarshalJSON writes.
func (w *Warmup) UnmarshalJSON(b []byte) error { return decodeJSON(b, w) }

func (w *Warmup) decodeNode(d *decoder, n ast.Node, path string) {
	*w = Warmup{}
	if scalarText(n) == "auto" {
		w.Auto = true
		return
	}
	w.Fixed.decodeNode(d, n, path)
}

// String writes the duration with its unit and without empty parts: 5m, 1.5s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (d Duration) form() any { return d.String() }

// MarshalJSON writes the duration with its unit.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the form that MarshalJSON writes.
func (d *Duration) UnmarshalJSON(b []byte) error { return decodeJSON(b, d) }

func (d *Duration) decodeNode(dec *decoder, n ast.Node, path string) {
	text := scalarText(n)
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		dec.fail(n, path, fmt.Sprintf("write %ss, %sms or %sm", text, text, text), "%s has no unit", shown(n))
		return
	case *ast.StringNode:
	default:
		dec.fail(n, path, "write a time with its unit, such as 500ms, 60s or 5m", "needs a duration, not %s", kindOf(n))
		return
	}
	v, err := time.ParseDuration(text)
	switch {
	case err != nil:
		dec.fail(n, path, "write a time with its unit, such as 500ms, 60s or 5m", "%s is no duration", shown(n))
	case v < 0:
		dec.fail(n, path, "write a time of 0s or more", "%s is negative", shown(n))
	default:
		*d = Duration(v)
	}
}

// MarshalJSON writes an unknown count as null.
func (h Hardware) MarshalJSON() ([]byte, error) {
	out := hardwareJSON{Accelerator: h.Accelerator}
	if h.Count != 0 {
		out.Count = &h.Count
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (h *Hardware) UnmarshalJSON(b []byte) error {
	var in hardwareJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*h = Hardware{Accelerator: in.Accelerator}
	if in.Count != nil {
		h.Count = *in.Count
	}
	return nil
}

type hardwareJSON struct {
	Accelerator string `json:"accelerator"`
	Count       *int   `json:"count"`
}

// decodeJSON reads a form from JSON, which is YAML too.
func decodeJSON(b []byte, form noder) error {
	file, fault := parseYAML(b)
	if fault != nil || len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return Errors{{Message: "no value of a profile"}}
	}
	d := decoder{pos: map[string]position{}}
	form.decodeNode(&d, file.Docs[0].Body, "")
	return d.errs.or()
}
