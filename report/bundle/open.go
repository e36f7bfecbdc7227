package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds of what is read as results: a ladder of a thousand rungs takes a tenth
// of each. Between two values of JSON stands a comma, so that commas bound the
// memory that the values take.
const (
	MaxResultBytes  = 128 << 20
	maxResultCommas = 4 << 20
)

// Bundle is an opened result. Dir is "" when only a result.json was given, and
// then there are no requests and no histograms.
type Bundle struct {
	Path   string // as given
	Dir    string
	Result *Result
}

// Open reads a bundle directory or a result.json. A directory of a matrix is
// refused with the names of its bundles; OpenAll takes it.
func Open(path string) (*Bundle, error) {
	all, err := OpenAll(path, nil)
	if err != nil {
		return nil, err
	}
	if len(all) == 1 {
		return all[0], nil
	}
	var names []string
	for _, b := range all {
		if b.Dir != "" {
			names = append(names, b.Path)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s holds %d results, one is needed", path, len(all))
	}
	return nil, fmt.Errorf("%s holds %d results, one is needed: name one of %s", path, len(all), strings.Join(names, ", "))
}

// OpenAll reads every result at path: one for a bundle directory or a
// result.json, several for a matrix directory or a JSON array of results. The
// path "-" reads stdin.
func OpenAll(path string, stdin io.Reader) ([]*Bundle, error) {
	if path == "-" && stdin != nil {
		return Read(stdin, "-")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open result: %w", err)
	}
	if !info.IsDir() {
		return openFile(path, os.Open)
	}
	if index, err := readIndex(path); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(path, IndexFile), err)
		}
		return openMatrix(path, index)
	}
	all, err := openFile(filepath.Join(path, ResultFile), openPart)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is no bundle: it has no %s: %w", path, ResultFile, err)
		}
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%s holds %d results where a bundle has one", filepath.Join(path, ResultFile), len(all))
	}
	all[0].Path, all[0].Dir = path, path
	return all, nil
}

// openPart opens a file of a bundle, which is a regular one: to open or read a
// pipe or a device might never end.
func openPart(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

func openFile(path string, open func(string) (*os.File, error)) ([]*Bundle, error) {
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open result: %w", err)
	}
	defer f.Close()
	return Read(f, path)
}

func openMatrix(dir string, index *Index) ([]*Bundle, error) {
	var out []*Bundle
	for _, e := range index.Bundles {
		b, err := Open(filepath.Join(dir, e.Dir))
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// Read decodes one result, or a JSON array of results, named name in errors.
// Each is held to the schema; keys that the schema does not know are passed
// over, as later versions may add some.
func Read(r io.Reader, name string) ([]*Bundle, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxResultBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > MaxResultBytes {
		return nil, fmt.Errorf("%s: larger than %d MiB, no result is", name, MaxResultBytes>>20)
	}
	if n := bytes.Count(b, []byte(",")); n > maxResultCommas {
		return nil, fmt.Errorf("%s: has about %d values, no result has as many", name, n)
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	raws := []json.RawMessage{b}
	switch t := bytes.TrimLeft(b, " \t\r\n"); {
	case len(t) > 0 && t[0] == '[':
		raws = nil
		if err := decodeJSON(b, &raws); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	case len(t) > 0 && t[0] != '{' && strings.EqualFold(filepath.Ext(name), ".csv"):
		return nil, fmt.Errorf("%s: is a table, a result is needed: a bundle directory or its result.json; only `headway knee` reads a table", name)
	}
	var out []*Bundle
	for i, raw := range raws {
		res, err := decodeResult(raw)
		if err != nil {
			if len(raws) > 1 {
				return nil, fmt.Errorf("%s: result %d: %w", name, i, err)
			}
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, &Bundle{Path: name, Result: res})
	}
	return out, nil
}

// decodeResult reads one result and holds it to the schema.
func decodeResult(b []byte) (*Result, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := decodeJSON(b, &head); err != nil {
		return nil, err
	}
	if head.Schema != Schema {
		return nil, schemaError(head.Schema, Schema)
	}
	if err := uniqueKeys(b); err != nil {
		return nil, err
	}
	if err := Validate(b); err != nil {
		return nil, err
	}
	r := new(Result)
	if err := decodeJSON(b, r); err != nil {
		return nil, err
	}
	// encoding/json takes a key in any case, the schema in its own alone: what
	// was read is held to the schema, too.
	if err := Check(r); err != nil {
		return nil, err
	}
	return r, nil
}

// schemaError says how far a schema's name is from the one wanted.
func schemaError(got, want string) error {
	family, version, _ := strings.Cut(want, "/v")
	gotFamily, gotVersion, _ := strings.Cut(got, "/v")
	if gotFamily == family {
		g, err := strconv.Atoi(gotVersion)
		w, _ := strconv.Atoi(version)
		switch {
		case err == nil && g > w:
			return fmt.Errorf("schema %q: %w (%s): use a newer headway", got, ErrNewer, want)
		default:
			return fmt.Errorf("schema %q is no version that this headway reads, which is %s", got, want)
		}
	}
	if got == "" {
		return fmt.Errorf("no schema key: not a headway file, %q is expected; `headway import` reads other tools' files", want)
	}
	return fmt.Errorf("schema %q is not %q: not a headway file of this kind", got, want)
}

// decodeJSON reads one JSON value and nothing after it, with the line and
// column of a mistake.
func decodeJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("is empty")
		}
		return at(b, d, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		line, col := position(b, d.InputOffset())
		return fmt.Errorf("line %d, column %d: something follows the JSON value", line, col)
	}
	return nil
}

// at adds the place of a decoding error.
func at(b []byte, d *json.Decoder, err error) error {
	offset := d.InputOffset()
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset - 1
	case errors.As(err, &typ) && typ.Field != "":
		return fmt.Errorf("%s: %s does not fit there", typ.Field, typ.Value)
	case errors.As(err, &typ):
		return fmt.Errorf("holds %s, an object is expected", typ.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		offset = int64(len(b))
	}
	line, col := position(b, offset)
	return fmt.Errorf("line %d, column %d: %w", line, col, err)
}

func position(b []byte, offset int64) (line, col int) {
	head := b[:min(max(offset, 0), int64(len(b)))]
	return 1 + bytes.Count(head, []byte("\n")), len(head) - bytes.LastIndexByte(head, '\n')
}

// uniqueKeys refuses an object that has a key twice: readers differ in which of
// the two they take.
func uniqueKeys(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var objects []map[string]bool // of the open brackets; nil for a list
	key := false                  // a key or the end of an object is next
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return at(b, d, err)
		}
		switch t := t.(type) {
		case json.Delim:
			switch t {
			case '{':
				objects = append(objects, map[string]bool{})
			case '[':
				objects = append(objects, nil)
			default:
				objects = objects[:len(objects)-1]
			}
		case string:
			if key {
				seen := objects[len(objects)-1]
				if seen[t] {
					line, col := position(b, d.InputOffset())
					return fmt.Errorf("line %d, column %d: the key %q stands twice", line, col, t)
				}
				seen[t] = true
				key = false
				continue
			}
		}
		key = len(objects) > 0 && objects[len(objects)-1] != nil
	}
}

// readBounded reads a small file of the bundle.
func readBounded(path string) ([]byte, error) {
	f, err := openPart(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 16 << 20
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("larger than %d MiB", most>>20)
	}
	return b, err
}
