package cpu

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headway-bench/headway/backends/tokenizer"
)

// Limits of a safetensors file's header and of an index, in bytes. A Llama has
// about ten tensors a layer, and each takes some hundred bytes.
const (
	maxHeader = 8 << 20
	maxIndex  = 8 << 20
)

// tensor is where one tensor's data lies.
type tensor struct {
	file  *os.File
	dtype string
	shape []int
	start int64 // in the file
	bytes int64
}

// tensors are the safetensors files of a model, one or several.
type tensors struct {
	byName map[string]tensor
	files  []*os.File
}

// openTensors opens model.safetensors, or the files that
// model.safetensors.index.json names.
func openTensors(dir string) (*tensors, error) {
	t := &tensors{byName: map[string]tensor{}}
	names, err := shards(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := t.add(filepath.Join(dir, name)); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

// shards lists the file names of a model folder.
func shards(dir string) ([]string, error) {
	const single = "model.safetensors"
	index := filepath.Join(dir, single+".index.json")
	data, err := tokenizer.ReadFile(index, maxIndex)
	if errors.Is(err, os.ErrNotExist) {
		return []string{single}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("model weights: %w", err)
	}
	var file struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := tokenizer.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", index, err)
	}
	seen := map[string]bool{}
	for _, name := range file.WeightMap {
		if name != filepath.Base(name) || !strings.HasSuffix(name, ".safetensors") {
			return nil, fmt.Errorf("%s: weight_map names %q, which is no safetensors file beside it", index, name)
		}
		seen[name] = true
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("%s: weight_map names no file", index)
	}
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// add opens one file and reads its header.
func (t *tensors) add(path string) error {
	f, err := tokenizer.OpenFile(path)
	if err != nil {
		return fmt.Errorf("model weights: %w", err)
	}
	t.files = append(t.files, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header, err := readHeader(f, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for name, at := range header {
		if _, twice := t.byName[name]; twice {
			return fmt.Errorf("%s: tensor %q is in another file as well", path, name)
		}
		at.file = f
		t.byName[name] = at
	}
	return nil
}

// widths are the bytes an element of the readable types has.
var widths = map[string]int64{"F32": 4, "F16": 2, "BF16": 2}

// readHeader reads the header of a safetensors file of the given size: eight
// bytes of length, JSON, then the data. Every tensor it returns lies inside
// the file, has as many bytes as its shape needs and overlaps no other.
func readHeader(r io.Reader, size int64) (map[string]tensor, error) {
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, fmt.Errorf("safetensors header length: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-8 {
		return nil, fmt.Errorf("safetensors header of %d bytes in a file of %d, at most %d are read", n, size, maxHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("safetensors header: %w", err)
	}
	var raw map[string]json.RawMessage
	if err := tokenizer.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("safetensors header: %w", err)
	}
	delete(raw, "__metadata__")
	found := make(map[string]tensor, len(raw))
	for name, entry := range raw {
		at, err := parseEntry(entry, 8+int64(n), size)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		found[name] = at
	}
	return found, apart(found)
}

// apart refuses tensors that share bytes.
func apart(found map[string]tensor) error {
	names := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(found[a].start, found[b].start), cmp.Compare(found[a].bytes, found[b].bytes))
	})
	for i := 1; i < len(names); i++ {
		if before := found[names[i-1]]; before.start+before.bytes > found[names[i]].start {
			return fmt.Errorf("tensors %q and %q overlap", names[i-1], names[i])
		}
	}
	return nil
}

// parseEntry reads one tensor's entry; data starts at data in a file of size
// bytes.
func parseEntry(entry json.RawMessage, data, size int64) (tensor, error) {
	var e struct {
		DType   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	if err := tokenizer.Unmarshal(entry, &e); err != nil {
		return tensor{}, err
	}
	if len(e.Offsets) != 2 {
		return tensor{}, fmt.Errorf("data_offsets %v are no begin and end", e.Offsets)
	}
	begin, end := e.Offsets[0], e.Offsets[1]
	if begin < 0 || end < begin || end > size-data {
		return tensor{}, fmt.Errorf("data_offsets %d to %d are outside the file's %d bytes of data", begin, end, size-data)
	}
	t := tensor{dtype: e.DType, start: data + begin, bytes: end - begin}
	elements := int64(1)
	for _, d := range e.Shape {
		if d < 0 || (d > 0 && elements > math.MaxInt64/8/d) {
			return tensor{}, fmt.Errorf("shape %v is out of range", e.Shape)
		}
		elements *= d
		t.shape = append(t.shape, int(d))
	}
	if width, known := widths[e.DType]; known && elements*width != t.bytes {
		return tensor{}, fmt.Errorf("%s of shape %v needs %d bytes, data_offsets give %d", e.DType, e.Shape, elements*width, t.bytes)
	}
	return t, nil
}

func (t *tensors) close() {
	for _, f := range t.files {
		f.Close()
	}
}

// all says whether every tensor has the given type.
func (t *tensors) all(dtype string) bool {
	for _, at := range t.byName {
		if at.dtype != dtype {
			return false
		}
	}
	return true
}

// check compares what the files hold with what the configuration needs: each
// missing, misshapen, unreadable or unknown tensor is an error. Stored rotary
// frequencies, and the copy of a tied output projection, are passed over.
func (t *tensors) check(c *Config) error {
	want := c.wanted()
	var wrong []string
	for name, shape := range want {
		at, ok := t.byName[name]
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("tensor %q is missing", name))
		case !slices.Equal(at.shape, shape):
			wrong = append(wrong, fmt.Sprintf("tensor %q has shape %v, config.json asks for %v", name, at.shape, shape))
		case widths[at.dtype] == 0:
			wrong = append(wrong, fmt.Sprintf("tensor %q has type %s, F32, F16 and BF16 can be read", name, at.dtype))
		}
	}
	for name := range t.byName {
		if _, ok := want[name]; !ok && name != "lm_head.weight" && !strings.HasSuffix(name, ".rotary_emb.inv_freq") {
			wrong = append(wrong, fmt.Sprintf("tensor %q is no part of a Llama of this configuration", name))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	const shown = 5
	if more := len(wrong) - shown; more > 0 {
		wrong = append(wrong[:shown], fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(wrong, "; "))
}

// readMatrix reads a tensor's rows into w, the r-th to row(r).
func (t *tensors) readMatrix(name string, w *matrix, row func(r int) int) error {
	at := t.byName[name]
	values := make([]float32, at.shape[1])
	return at.read(name, at.shape[1], func(r int, raw []byte) {
		at.widen(values, raw)
		w.setRow(row(r), values)
	})
}

// readVector reads a tensor of one dimension.
func (t *tensors) readVector(name string, v []float32) error {
	at := t.byName[name]
	return at.read(name, len(v), func(_ int, raw []byte) { at.widen(v, raw) })
}

// read hands the tensor's data to row, cols elements at a time.
func (at tensor) read(name string, cols int, row func(r int, raw []byte)) error {
	width := int(widths[at.dtype]) * cols
	batch := max(1, (1<<20)/width) * width
	buf := make([]byte, min(int64(batch), at.bytes))
	for done := int64(0); done < at.bytes; done += int64(len(buf)) {
		buf = buf[:min(int64(batch), at.bytes-done)]
		if _, err := at.file.ReadAt(buf, at.start+done); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		for i := 0; i < len(buf); i += width {
			row((int(done)+i)/width, buf[i:i+width])
		}
	}
	return nil
}

// widen converts little-endian elements to float32.
func (at tensor) widen(dst []float32, raw []byte) {
	for i := range dst {
		switch at.dtype {
		case "F32":
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		case "BF16":
			dst[i] = fromBF16(binary.LittleEndian.Uint16(raw[2*i:]))
		default:
			dst[i] = fromF16(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	}
}
