package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
)

// OpenFile opens a file of a model's folder, which is a regular one: to open or
// read a pipe or a device might never end.
func OpenFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// ReadFile returns a file of a model's folder, an error when it has more than
// limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is above the limit of %d bytes", path, limit)
	}
	return data, err
}

// Unmarshal decodes JSON as encoding/json does. Its errors name the field, or
// the byte, that is wrong.
func Unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("%s stands where %s is expected", wrong.Value, jsonName(wrong.Type))
	case errors.As(err, &wrong):
		return fmt.Errorf("%s is a JSON %s, must be %s", wrong.Field, wrong.Value, jsonName(wrong.Type))
	}
	return err
}

// jsonName says what JSON a type is decoded from.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "an object"
	}
	return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
}
