package profiles

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// maxQuoted bounds what an error message quotes from a profile.
const maxQuoted = 60

// position is a place in a profile's text, counted from 1.
type position struct{ line, column int }

// decoder fills a Profile from a YAML tree and collects every fault with its
// place. It is for one goroutine.
type decoder struct {
	file    string
	errs    Errors
	pos     map[string]position // of each value seen, by path
	partial bool                // a value is set alone: it has no place, and other keys may stay
}

// noder is a type with a YAML form of its own.
type noder interface {
	decodeNode(d *decoder, n ast.Node, path string)
}

// former is a type with a form of its own: a scalar, a list or a mapping.
type former interface{ form() any }

// at returns where a node stands.
func at(n ast.Node) position {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return position{}
	}
	p := n.GetToken().Position
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return at(m.Values[0].Key)
	}
	return position{p.Line, p.Column}
}

func (d *decoder) fail(n ast.Node, path, hint, format string, args ...any) {
	var p position
	if !d.partial {
		p = at(n)
	}
	d.errs = append(d.errs, Error{
		File: d.file, Line: p.line, Column: p.column,
		Field: path, Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// value decodes n into v, whose dotted path is given for messages.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	d.pos[path] = at(n)
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		d.fail(n, path, "write the value out", "anchors, aliases and tags are not part of a profile")
		return
	}
	if form, ok := v.Addr().Interface().(noder); ok {
		form.decodeNode(d, n, path)
		return
	}
	if _, null := n.(*ast.NullNode); null {
		d.fail(n, path, "give a value or remove the key", "has no value")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(n, v.Elem(), path)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// structure decodes a mapping whose keys are the struct's YAML names.
func (d *decoder) structure(n ast.Node, v reflect.Value, path string) {
	entries, ok := mappingOf(n)
	if !ok {
		d.fail(n, path, "its keys are "+strings.Join(keys(v.Type()), ", "), "needs a mapping, not %s", kindOf(n))
		return
	}
	seen := map[string]bool{}
	for _, entry := range entries {
		key, ok := d.key(entry, path)
		if !ok {
			continue
		}
		field, tag, ok := fieldByKey(v, key)
		if !ok {
			d.unknownKey(entry.Key, key, path, v.Type())
			continue
		}
		if seen[key] {
			d.fail(entry.Key, join(path, key), "keep one of them", "stands twice")
			continue
		}
		seen[key] = true
		if tag.unknown && scalarText(entry.Value) == Unknown {
			d.pos[join(path, key)] = at(entry.Value)
			setUnknown(field)
			continue
		}
		d.value(entry.Value, field, join(path, key))
	}
	if !d.partial {
		d.missing(n, v.Type(), seen, path)
	}
}

// missing reports the required keys that a mapping lacks.
func (d *decoder) missing(n ast.Node, t reflect.Type, seen map[string]bool, path string) {
	for i := range t.NumField() {
		tag := tagOf(t.Field(i))
		if !tag.required || seen[tag.key] {
			continue
		}
		hint := "add it"
		if tag.unknown || slices.Contains([]string{"model", "precision", "hardware", "serving"}, path) {
			hint = "name it, or write `" + tag.key + ": unknown`"
		}
		d.fail(n, join(path, tag.key), hint, "is missing")
	}
}

// unknownKey reports a key that the format does not have, with the nearest
// name here, else the place where the key belongs.
func (d *decoder) unknownKey(n ast.Node, key, path string, t reflect.Type) {
	field := join(path, quotable(key))
	near, other := Nearest(key, keys(t)), placesOf(key)
	hint := didYouMean(key, keys(t))
	switch {
	case near != "":
	case secretName.MatchString(key):
		d.fail(n, field, secretHint, "secrets never stand in a profile")
		return
	case len(other) > 0:
		hint = "it belongs in " + strings.Join(other, " or ")
	}
	d.fail(n, field, hint, "unknown key")
}

// mapping decodes a map of names to scalars, or to lists for a matrix.
func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) {
	entries, ok := mappingOf(n)
	if !ok {
		d.fail(n, path, "write name: value pairs", "needs a mapping, not %s", kindOf(n))
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(entries))
	for _, entry := range entries {
		key, ok := d.key(entry, path)
		if !ok {
			continue
		}
		field := join(path, quotable(key))
		if v.Type().Elem().Kind() == reflect.String && secretName.MatchString(key) {
			d.fail(entry.Key, field, secretHint, "secrets never stand in a profile")
			continue
		}
		name := reflect.ValueOf(key)
		if out.MapIndex(name).IsValid() {
			d.fail(entry.Key, field, "keep one of them", "stands twice")
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		d.value(entry.Value, value, field)
		out.SetMapIndex(name, value)
	}
	v.Set(out)
}

// list decodes a sequence. Elements of a list of strings may be any value and
// are kept as YAML text, which is what a matrix needs.
func (d *decoder) list(n ast.Node, v reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(n, path, "write it in brackets: [1, 2, 4]", "needs a list, not %s", kindOf(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, element := range seq.Values {
		field := fmt.Sprintf("%s[%d]", path, i)
		if out.Index(i).Kind() == reflect.String && !isScalar(element) {
			d.pos[field] = at(element)
			out.Index(i).SetString(flow(element))
			continue
		}
		d.value(element, out.Index(i), field)
	}
	v.Set(out)
}

func (d *decoder) scalar(n ast.Node, v reflect.Value, path string) {
	if !isScalar(n) {
		d.fail(n, path, scalarHints[path], "needs one value, not %s", kindOf(n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(scalarText(n))
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.fail(n, path, "write true or false", "needs true or false, not %s", shown(n))
			return
		}
		v.SetBool(b.Value)
	case reflect.Int, reflect.Int64:
		i, ok := d.integer(n, path)
		if ok {
			v.SetInt(i)
		}
	case reflect.Float64:
		f, ok := d.number(n, path)
		if ok {
			v.SetFloat(f)
		}
	default:
		panic("profiles: no YAML form for " + v.Type().String())
	}
}

// scalarHints say where to write what does not fit into one value.
var scalarHints = map[string]string{
	"workload.prompt": "name the file of prompts in workload.dataset.file, that of a trace in load.open.trace.file",
}

// integer reads a whole number; 64.0 is one, 64.5 and "64" are not.
func (d *decoder) integer(n ast.Node, path string) (int64, bool) {
	if d.ambiguous(n, path) {
		return 0, false
	}
	switch n := n.(type) {
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			return i, true
		case uint64:
			if i <= math.MaxInt64 {
				return int64(i), true
			}
		}
		d.fail(n, path, "", "%s is too large", shown(n))
		return 0, false
	case *ast.FloatNode:
		if n.Value == math.Trunc(n.Value) && math.Abs(n.Value) < 1<<53 {
			return int64(n.Value), true
		}
	}
	d.fail(n, path, "", "needs a whole number, not %s", shown(n))
	return 0, false
}

// number reads a finite number.
func (d *decoder) number(n ast.Node, path string) (float64, bool) {
	if d.ambiguous(n, path) {
		return 0, false
	}
	switch n := n.(type) {
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			return float64(i), true
		case uint64:
			return float64(i), true
		}
	case *ast.FloatNode:
		if !math.IsInf(n.Value, 0) && !math.IsNaN(n.Value) {
			return n.Value, true
		}
	}
	d.fail(n, path, "", "needs a number, not %s", shown(n))
	return 0, false
}

// octal is a number that starts with a 0 it does not need.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]`)

// ambiguous refuses 010, which is 8 to some readers of YAML and 10 to others.
func (d *decoder) ambiguous(n ast.Node, path string) bool {
	if _, ok := n.(*ast.IntegerNode); !ok || !octal.MatchString(n.GetToken().Value) {
		return false
	}
	d.fail(n, path, "write the number without a leading 0", "%s is octal to some readers of YAML and decimal to others", n.GetToken().Value)
	return true
}

// key returns the text of a mapping's key.
func (d *decoder) key(entry *ast.MappingValueNode, path string) (string, bool) {
	if entry.Key == nil || entry.Value == nil || !isScalar(entry.Key) {
		d.fail(entry, path, "write `key: value`", "has a key that is no plain name")
		return "", false
	}
	return scalarText(entry.Key), true
}

// mappingOf returns the entries of a mapping node.
func mappingOf(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func isScalar(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return true
	}
	return false
}

// scalarText is a scalar as written, so that the version 3.10 keeps its zero;
// other nodes give "".
func scalarText(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	}
	if isScalar(n) {
		return n.GetToken().Value
	}
	return ""
}

// kindOf names what a node is, for messages.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	return shown(n)
}

// shown quotes a scalar for a message.
func shown(n ast.Node) string {
	switch n.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		return kindOf(n)
	}
	return strconv.Quote(quotable(scalarText(n)))
}

// quotable cuts a text to what a message may carry.
func quotable(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// secretName matches the keys under which people paste credentials. Counts of
// tokens and names of variables do not match.
var secretName = regexp.MustCompile(`(?i)(^|[_-])(api[_-]?key|token|password|passwd|secret|authori[sz]ation|bearer|credentials?)$`)

const secretHint = "name the environment variable that holds the key in target.api_key_env"
