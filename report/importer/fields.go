package importer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
)

// object is a decoded JSON object.
type object map[string]any

// sub returns the object under a path of keys, empty where there is none.
func (o object) sub(path ...string) object {
	for _, key := range path {
		next, ok := o[key].(map[string]any)
		if !ok {
			return nil
		}
		o = next
	}
	return o
}

// list returns the objects of a list.
func (o object) list(key string) []object {
	items, _ := o[key].([]any)
	var out []object
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// has says that the key is there, whatever its value.
func (o object) has(keys ...string) bool {
	for _, k := range keys {
		if _, ok := o[k]; !ok {
			return false
		}
	}
	return true
}

// maxFigure bounds a number that is taken for a measurement: nanoseconds since
// 1970 are the largest that the tools write.
const maxFigure = 1e19

// figure is a measured number; what is below 0 or absurd is unknown.
func figure(f float64) record.Value {
	if f >= 0 && f <= maxFigure {
		return record.Known(f)
	}
	return record.Value{}
}

// parsed is the figure that a text holds; "-", NaN and words are unknown.
func parsed(text string) record.Value {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return record.Value{}
	}
	return figure(f)
}

// num returns the first of the keys that holds a number, or a text that is one,
// as a figure.
func (o object) num(keys ...string) record.Value {
	for _, k := range keys {
		switch v := o[k].(type) {
		case float64:
			return figure(v)
		case string:
			if f := parsed(v); f.OK() {
				return f
			}
		}
	}
	return record.Value{}
}

// positive is num where 0 means that nothing was measured.
func (o object) positive(keys ...string) record.Value {
	if v := o.num(keys...); v.Or(0) > 0 {
		return v
	}
	return record.Value{}
}

// count returns a number as a whole one, 0 where there is none.
func (o object) count(keys ...string) int64 {
	f := o.num(keys...).Or(0)
	if f < 0 || f > 1<<53 {
		return 0
	}
	return int64(f)
}

// text returns the first of the keys that holds a text or a number.
func (o object) text(keys ...string) string {
	for _, k := range keys {
		switch v := o[k].(type) {
		case string:
			if v != "" {
				return v
			}
		case float64:
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return ""
}

// scalars lists the texts, numbers and truth values of the object but those
// named, for the metadata of a result.
func (o object) scalars(but func(key string) bool) map[string]string {
	out := map[string]string{}
	for k, v := range o {
		if but(k) {
			continue
		}
		switch v := v.(type) {
		case string:
			out[k] = clip(v)
		case float64, bool:
			out[k] = clip(fmt.Sprint(v))
		}
	}
	return out
}

// clip bounds a text that is only carried along.
func clip(s string) string {
	const most = 500
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return strings.ToValidUTF8(s, "")
}

// secret says that a key's value has no place in a result.
func secret(key string) bool {
	k := strings.ToLower(key)
	for _, word := range []string{"key", "token_secret", "password", "auth", "header", "secret", "cookie"} {
		if strings.Contains(k, word) {
			return true
		}
	}
	return false
}

// numbers returns a list of numbers.
func (o object) numbers(key string) []float64 {
	list, _ := o[key].([]float64)
	return list
}
