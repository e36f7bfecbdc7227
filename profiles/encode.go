package profiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// fields is a mapping that keeps its order.
type fields []entry

type entry struct {
	key   string
	value any // nil, bool, int64, float64, string, []any or fields
}

// MarshalJSON writes the mapping in its order.
func (f fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, e := range f {
		b.WriteByte("{,"[min(i, 1)])
		key, err := json.Marshal(e.key)
		if err != nil {
			return nil, err
		}
		value, err := marshalValue(e.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	if len(f) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshalValue is JSON that is YAML, too: a number without an exponent.
func marshalValue(v any) ([]byte, error) {
	if f, ok := v.(float64); ok {
		return []byte(flowText(f)), nil
	}
	return json.Marshal(v)
}

// YAML writes the profile so that Parse gives an equal one.
func (p *Profile) YAML() ([]byte, error) {
	var b bytes.Buffer
	for _, e := range tree(reflect.ValueOf(p).Elem()).(fields) {
		writeBlock(&b, e, "")
	}
	return b.Bytes(), nil
}

// lineWidth is how long a mapping may be to stand on one line.
const lineWidth = 100

// writeBlock writes one key of a mapping: what is small and flat on one line,
// the rest indented below.
func writeBlock(b *bytes.Buffer, e entry, indent string) {
	inner, isMapping := e.value.(fields)
	line := indent + plainOrQuoted(e.key) + ": " + flowText(e.value) + "\n"
	if !isMapping || len(inner) == 0 || (len(line) <= lineWidth && flat(inner)) {
		b.WriteString(line)
		return
	}
	b.WriteString(indent + plainOrQuoted(e.key) + ":\n")
	for _, e := range inner {
		writeBlock(b, e, indent+"  ")
	}
}

func flat(f fields) bool {
	return !slices.ContainsFunc(f, func(e entry) bool {
		_, nested := e.value.(fields)
		return nested
	})
}

// tree turns a value of a profile into what its YAML holds.
func tree(v reflect.Value) any {
	if form, ok := v.Interface().(former); ok && v.Kind() != reflect.Pointer {
		return form.form()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return tree(v.Elem())
	case reflect.Struct:
		out := fields{}
		for i := range v.NumField() {
			tag := tagOf(v.Type().Field(i))
			field := v.Field(i)
			switch {
			case tag.omitEmpty && isEmpty(field):
			case tag.unknown && field.Kind() != reflect.Struct && field.IsZero():
				out = append(out, entry{tag.key, Unknown})
			default:
				out = append(out, entry{tag.key, tree(field)})
			}
		}
		return out
	case reflect.Map:
		out := fields{}
		for _, key := range v.MapKeys() {
			out = append(out, entry{key.String(), tree(v.MapIndex(key))})
		}
		slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.key, b.key) })
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = tree(v.Index(i))
		}
		return out
	case reflect.Int, reflect.Int64:
		return v.Int()
	case reflect.Float64:
		return v.Float()
	case reflect.Bool:
		return v.Bool()
	}
	return v.String()
}

// isEmpty says whether an optional field is left out: zero, or without items.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

// flowText writes a value on one line.
func flowText(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case fields:
		parts := make([]string, len(value))
		for i, e := range value {
			parts[i] = plainOrQuoted(e.key) + ": " + flowText(e.value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(value))
		for i, v := range value {
			parts[i] = flowText(v)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return plainOrQuoted(value)
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// flow writes a node of a YAML tree on one line.
func flow(n ast.Node) string { return flowText(plain(n)) }

// plain turns a node into what flowText writes. Scalars keep their text.
func plain(n ast.Node) any {
	if entries, ok := mappingOf(n); ok {
		out := fields{}
		for _, e := range entries {
			if e.Key != nil && e.Value != nil {
				out = append(out, entry{scalarText(e.Key), plain(e.Value)})
			}
		}
		return out
	}
	switch n := n.(type) {
	case *ast.SequenceNode:
		out := []any{}
		for _, v := range n.Values {
			out = append(out, plain(v))
		}
		return out
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return verbatim(scalarText(n))
	}
	return scalarText(n)
}

// verbatim is text that needs no quotes.
type verbatim string

// String returns the text.
func (v verbatim) String() string { return string(v) }

// plainText is what stands without quotes: words with single blanks between
// them. Colons are left to quotes, as the parser may see a mapping in them.
var plainText = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./%+@=-]*( [A-Za-z0-9_./%+@=(-][A-Za-z0-9_./%+@=;()-]*)*$`)

// plainOrQuoted writes a string so that YAML reads the same string.
func plainOrQuoted(s string) string {
	if plainText.MatchString(s) && !token.IsNeedQuoted(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
