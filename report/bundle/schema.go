package bundle

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// JSONSchema is the JSON Schema (draft 2020-12) of result.json.
//
//go:embed schema/result.v1.schema.json
var JSONSchema []byte

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("result.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("result.json")
})

// Validate holds the bytes of one result to JSONSchema and names the key of
// the first mistake.
func Validate(b []byte) error {
	s, err := compiled()
	if err != nil {
		return fmt.Errorf("the embedded schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	err = s.Validate(doc)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		return deepest(invalid)
	}
	return err
}

// Check holds a result to JSONSchema as it would be written.
func Check(r *Result) error {
	b, err := Encode(r)
	if err != nil {
		return err
	}
	return Validate(b)
}

// deepest words the most specific cause of a validation error.
func deepest(e *jsonschema.ValidationError) error {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	where := strings.Join(e.InstanceLocation, ".")
	if where == "" {
		where = "the result"
	}
	if r, ok := e.ErrorKind.(*kind.Required); ok {
		return fmt.Errorf("%s lacks the key %s", where, strings.Join(r.Missing, ", "))
	}
	return fmt.Errorf("%s: %s", where, e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
}
