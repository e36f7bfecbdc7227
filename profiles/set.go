package profiles

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Set overrides one field by its dotted path, as --set path=value does. It is
// as strict as Parse and leaves p unchanged when it fails, with Errors. Lists
// may omit their brackets. Setting a mode of load replaces the other modes, and
// naming a data set or a trace the lengths that come from it.
// Faults between several fields are left to Validate, so that they can be set
// one after another.
func (p *Profile) Set(path, value string) error { return p.set(path, value).or() }

func (p *Profile) set(path, value string) Errors {
	next := clone(p)
	d := decoder{pos: map[string]position{}, partial: true}
	v, ok := d.resolve(reflect.ValueOf(next).Elem(), path)
	if !ok {
		return d.errs
	}
	if keep := strings.Split(path, "."); keep[0] == "load" && len(keep) > 1 {
		next.Load.only(keep[1])
	}
	d.assign(v, path, value)
	if len(d.errs) > 0 {
		return d.errs
	}
	next.takeLengths(p)
	next.complete()
	for _, e := range next.check() {
		if e.Field == path || strings.HasPrefix(e.Field, path+".") || strings.HasPrefix(e.Field, path+"[") {
			d.errs = append(d.errs, e)
		}
	}
	if len(d.errs) > 0 {
		return d.errs
	}
	*p = *next
	return nil
}

// takeLengths drops the lengths that a file gives instead, when it was not named
// before.
func (p *Profile) takeLengths(before *Profile) {
	input, output := p.lengthSources()
	wasInput, wasOutput := before.lengthSources()
	if input != wasInput && input != "" {
		p.Workload.InputTokens = Length{}
	}
	if output != wasOutput && output == LengthTrace {
		p.Workload.OutputTokens = Length{}
	}
}

// only drops the modes of load besides the named one.
func (l *Load) only(mode string) {
	switch mode {
	case "closed":
		l.Open, l.Offline = nil, nil
	case "open":
		l.Closed, l.Offline = nil, nil
	case "offline":
		l.Closed, l.Open = nil, nil
	}
}

// slot is a settable field: a value, or the entry of a map.
type slot struct {
	value reflect.Value
	store func() // puts the value back into its map
}

// resolve walks to the field of a dotted path and makes what is missing on the
// way.
func (d *decoder) resolve(v reflect.Value, path string) (slot, bool) {
	done, rest := "", path
	for {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		if rest == "" && path != "" {
			return slot{v, func() {}}, true
		}
		if v.Kind() == reflect.Map {
			if secretName.MatchString(rest) {
				d.fail(nil, join(done, rest), secretHint, "secrets never stand in a profile")
				return slot{}, false
			}
			return mapEntry(v, rest), true
		}
		var key string
		key, rest, _ = strings.Cut(rest, ".")
		if v.Kind() != reflect.Struct || hasForm(v.Type()) {
			d.fail(nil, join(done, quotable(key)), "set "+done+" as a whole", "%s has no fields", done)
			return slot{}, false
		}
		field, _, ok := fieldByKey(v, key)
		if !ok {
			d.unknownKey(nil, key, done, v.Type())
			return slot{}, false
		}
		v, done = field, join(done, key)
	}
}

func mapEntry(m reflect.Value, key string) slot {
	if m.IsNil() {
		m.Set(reflect.MakeMap(m.Type()))
	}
	value := reflect.New(m.Type().Elem()).Elem()
	return slot{value, func() { m.SetMapIndex(reflect.ValueOf(key), value) }}
}

// assign decodes the text of a value into the field.
func (d *decoder) assign(t slot, path, text string) {
	if t.value.Kind() == reflect.String {
		t.value.SetString(text)
		t.store()
		return
	}
	if text == Unknown && mayBeUnknown(path) {
		setUnknown(t.value)
		return
	}
	if t.value.Kind() == reflect.Slice && !strings.HasPrefix(strings.TrimSpace(text), "[") {
		text = "[" + text + "]"
	}
	if n := d.inline(t.value, path, text); n != nil {
		d.value(n, t.value, path)
		t.store()
	}
}

// inline parses the text of a value. Limits are taken as they stand: ">=" would
// open a block in YAML.
func (d *decoder) inline(v reflect.Value, path, text string) ast.Node {
	if _, ok := v.Addr().Interface().(*SLOs); ok && !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return &ast.StringNode{BaseNode: &ast.BaseNode{}, Value: text}
	}
	file, fault := parseYAML([]byte(text))
	if fault != nil || len(file.Docs) != 1 || file.Docs[0].Body == nil {
		d.errs = append(d.errs, Error{Field: path, Message: fmt.Sprintf("%q is no value", quotable(text)), Hint: "write it as it stands in a profile's YAML"})
		return nil
	}
	return file.Docs[0].Body
}

// mayBeUnknown says whether the format lets the field at path be `unknown`.
func mayBeUnknown(path string) bool {
	v := reflect.ValueOf(new(Profile)).Elem()
	unknown := false
	for key := range strings.SplitSeq(path, ".") {
		if v.Kind() != reflect.Struct {
			return false
		}
		field, tag, ok := fieldByKey(v, key)
		if !ok {
			return false
		}
		v, unknown = field, tag.unknown
	}
	return unknown
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
