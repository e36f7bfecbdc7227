package cpu

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends/reference"
)

func TestParseConfig(t *testing.T) {
	const base = `"model_type":"llama","vocab_size":100,"hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":512`
	scaled := Rope{Theta: 500000, Type: "llama3", Factor: 8, LowFactor: 1, HighFactor: 4, Original: 8192}
	const llama3 = `"factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192`
	for _, c := range []struct {
		name, fields string
		check        func(Config) bool
	}{
		{"defaults", ``, func(c Config) bool {
			return c.KVHeads == 4 && c.HeadDim == 16 && c.Rope == Rope{Theta: 10000, Type: "default"} && c.BOS == -1 && c.EOS == nil && c.NormEps == 1e-6
		}},
		{"grouped queries", `,"num_key_value_heads":2,"head_dim":32`, func(c Config) bool { return c.KVHeads == 2 && c.HeadDim == 32 }},
		{"rope of transformers 4", `,"rope_theta":500000,"rope_scaling":{"rope_type":"llama3",` + llama3 + `}`, func(c Config) bool { return c.Rope == scaled }},
		{"rope of transformers 5", `,"rope_parameters":{"rope_type":"llama3","rope_theta":500000,` + llama3 + `}`, func(c Config) bool { return c.Rope == scaled }},
		{"rope scaling null", `,"rope_theta":20000.0,"rope_scaling":null`, func(c Config) bool { return c.Rope == Rope{Theta: 20000, Type: "default"} }},
		{"linear scaling of old files", `,"rope_scaling":{"type":"linear","factor":2.0}`, func(c Config) bool { return c.Rope.Type == "linear" && c.Rope.Factor == 2 }},
		{"several ends", `,"bos_token_id":1,"eos_token_id":[2,3]`, func(c Config) bool { return c.BOS == 1 && slices.Equal(c.EOS, []int32{2, 3}) }},
		{"one end", `,"eos_token_id":2`, func(c Config) bool { return slices.Equal(c.EOS, []int32{2}) }},
		{"no end", `,"eos_token_id":null`, func(c Config) bool { return c.EOS == nil }},
	} {
		if got, err := parseConfig([]byte("{" + base + c.fields + "}")); err != nil || !c.check(got) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	for _, c := range []struct{ name, fields, want string }{
		{"another model", `,"model_type":"mamba"`, `model_type is "mamba"`},
		{"activation", `,"hidden_act":"gelu"`, `hidden_act is "gelu"`},
		{"bias", `,"attention_bias":true`, "biases"},
		{"heads", `,"num_attention_heads":0`, "num_attention_heads is 0"},
		{"uneven groups", `,"num_key_value_heads":3`, "no multiple"},
		{"odd head", `,"head_dim":15`, "odd"},
		{"huge vocabulary", `,"vocab_size":99999999`, "vocab_size is 99999999"},
		{"negative layers", `,"num_hidden_layers":-1`, "num_hidden_layers is -1"},
		{"unknown rope", `,"rope_scaling":{"rope_type":"yarn","factor":4}`, `"yarn"`},
		{"llama3 without factors", `,"rope_scaling":{"rope_type":"llama3","factor":8}`, "low_freq_factor"},
		{"not JSON", `,`, "invalid character"},
		{"a size as text", `,"hidden_size":"64"`, "hidden_size is a JSON string, must be a whole number"},
		{"a size that overflows", `,"hidden_size":1e30`, "hidden_size is a JSON number 1e30, must be a whole number"},
		{"a list of ends as text", `,"eos_token_id":["a"]`, "eos_token_id"},
		{"rope as a number", `,"rope_scaling":5`, "rope_scaling is a JSON number, must be an object"},
		{"rope factor as text", `,"rope_scaling":{"factor":"8"}`, "rope_scaling.factor is a JSON string, must be a number"},
	} {
		if _, err := parseConfig([]byte("{" + base + c.fields + "}")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// The frequencies of Llama 3.1 by the published rule: long waves are
// stretched, short ones kept, those between are between.
func TestLlama3Frequencies(t *testing.T) {
	r := Rope{Theta: 500000, Type: "llama3", Factor: 8, LowFactor: 1, HighFactor: 4, Original: 8192}
	plain := Rope{Theta: 500000, Type: "default"}.frequencies(128)
	for i, got := range r.frequencies(128) {
		wave := 2 * math.Pi / plain[i]
		low, high := plain[i]/8, plain[i]
		switch {
		case wave < 8192.0/4:
			low = high
		case wave > 8192:
			high = low
		}
		if got < low*(1-1e-12) || got > high*(1+1e-12) {
			t.Errorf("plane %d of wavelength %g: frequency %g, want %g to %g", i, wave, got, low, high)
		}
	}
}

// write makes a safetensors file of the given entries.
func write(t *testing.T, path string, header map[string]any, data []byte) {
	t.Helper()
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	if err := os.WriteFile(path, slices.Concat(out, text, data), 0o644); err != nil {
		t.Fatal(err)
	}
}

type entry = map[string]any

// rewrite copies a golden model with its weights as dtype, in files files.
func rewrite(t *testing.T, name, dtype string, files int) string {
	t.Helper()
	m, _ := openGolden(t, name)
	source := filepath.Join("..", "..", "..", "testdata", "models", name)
	from, err := openTensors(source)
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	dir := t.TempDir()
	config, err := os.ReadFile(filepath.Join(source, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	headers, data := make([]map[string]any, files), make([][]byte, files)
	index := map[string]string{}
	names := slices.Sorted(maps.Keys(m.Config.wanted()))
	for i, tensorName := range names {
		at := from.byName[tensorName]
		raw := make([]byte, at.bytes)
		if _, err := at.file.ReadAt(raw, at.start); err != nil {
			t.Fatal(err)
		}
		var out []byte
		for o := 0; o < len(raw); o += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(raw[o:]))
			switch dtype {
			case "F32":
				out = append(out, raw[o:o+4]...)
			case "BF16":
				out = binary.LittleEndian.AppendUint16(out, toBF16(v))
			case "F16":
				out = binary.LittleEndian.AppendUint16(out, toF16(v))
			}
		}
		f := i % files
		if headers[f] == nil {
			headers[f] = entry{"__metadata__": entry{"format": "pt"}}
		}
		headers[f][tensorName] = entry{"dtype": dtype, "shape": at.shape, "data_offsets": []int{len(data[f]), len(data[f]) + len(out)}}
		data[f] = append(data[f], out...)
		index[tensorName] = shardName(f)
	}
	if files == 1 {
		write(t, filepath.Join(dir, "model.safetensors"), headers[0], data[0])
		return dir
	}
	for f := range files {
		write(t, filepath.Join(dir, shardName(f)), headers[f], data[f])
	}
	text, _ := json.Marshal(entry{"weight_map": index})
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func shardName(i int) string { return "part-" + string(rune('a'+i)) + ".safetensors" }

// toF16 is exact for the small normal numbers used here, but for rounding by
// cutting off.
func toF16(v float32) uint16 {
	b := math.Float32bits(v)
	exp := int(b>>23&0xff) - 112
	if exp <= 0 {
		return uint16(b >> 16 & 0x8000)
	}
	return uint16(b>>16&0x8000) | uint16(exp)<<10 | uint16(b>>13&0x3ff)
}

// Narrow weights move the logits by what their last bit is worth, and no more.
func TestStorageTypesAndShards(t *testing.T) {
	for _, c := range []struct {
		name, dtype string
		files       int
		tolerance   float64
	}{
		{"one file of F32", "F32", 1, 1e-3},
		{"three files of F32", "F32", 3, 1e-3},
		{"F16", "F16", 1, 0.05},
		{"two files of BF16", "BF16", 2, 0.3},
	} {
		for _, model := range goldenModels {
			t.Run(c.name+"/"+model, func(t *testing.T) {
				_, g := openGolden(t, model)
				m, err := Open(rewrite(t, model, c.dtype, c.files), 0)
				if err != nil {
					t.Fatal(err)
				}
				e := executor(t, m, reference.KVConfig{Blocks: 40, BlockSize: 4}, 1)
				one := g.Cases[2]
				one.Tokens = one.Tokens[:1]
				s := newSequence(1, one, shuffled(40, 3), 1000, m.Config.Vocab)
				runAll(t, e, g.Stride, s)
				if s.worst > c.tolerance {
					t.Errorf("a logit differs by %g, limit %g", s.worst, c.tolerance)
				}
			})
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	const model = "tiny-llama-2"
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  string
	}{
		{"no weights", func(t *testing.T, dir string) { remove(t, dir, "model.safetensors") }, "model.safetensors: no such file"},
		{"no configuration", func(t *testing.T, dir string) { remove(t, dir, "config.json") }, "config.json: no such file"},
		{"truncated data", func(t *testing.T, dir string) { cut(t, dir, 1000) }, "outside the file's"},
		{"truncated header", func(t *testing.T, dir string) { cut(t, dir, -100) }, "safetensors header of"},
		{"other shapes", func(t *testing.T, dir string) {
			replace(t, dir, `"intermediate_size": 176`, `"intermediate_size": 184`)
		}, "config.json asks for [184 64]"},
		{"missing layer", func(t *testing.T, dir string) { replace(t, dir, `"num_hidden_layers": 2`, `"num_hidden_layers": 3`) }, `tensor "model.layers.2.`},
		{"layer too many", func(t *testing.T, dir string) { replace(t, dir, `"num_hidden_layers": 2`, `"num_hidden_layers": 1`) }, "no part of a Llama of this configuration"},
		{"index that leaves the folder", func(t *testing.T, dir string) {
			put(t, dir, "model.safetensors.index.json", `{"weight_map":{"a":"../x.safetensors"}}`)
		}, "no safetensors file beside it"},
		{"index with an absolute path", func(t *testing.T, dir string) {
			put(t, dir, "model.safetensors.index.json", `{"weight_map":{"a":"/x.safetensors"}}`)
		}, "no safetensors file beside it"},
		{"index of another shape", func(t *testing.T, dir string) {
			put(t, dir, "model.safetensors.index.json", `{"weight_map":{"a":5}}`)
		}, "weight_map is a JSON number, must be a string"},
		{"index of a missing file", func(t *testing.T, dir string) {
			put(t, dir, "model.safetensors.index.json", `{"weight_map":{"a":"b.safetensors"}}`)
		}, "b.safetensors: no such file"},
		{"folder as weights", func(t *testing.T, dir string) {
			remove(t, dir, "model.safetensors")
			if err := os.Mkdir(filepath.Join(dir, "model.safetensors"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "model.safetensors is no regular file"},
		{"list as configuration", func(t *testing.T, dir string) { put(t, dir, "config.json", "[]") }, "array stands where an object is expected"},
		{"empty index", func(t *testing.T, dir string) { put(t, dir, "model.safetensors.index.json", `{}`) }, "names no file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := rewrite(t, model, "F32", 1)
			c.spoil(t, dir)
			if _, err := Open(dir, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := Open("no-such-model", 0); err == nil || !strings.Contains(err.Error(), "tiny-llama-3.1") {
		t.Errorf("error %v, want one that lists the names", err)
	}
}

// TestHeaderRefuses reads headers in front of 64 bytes of data.
func TestHeaderRefuses(t *testing.T) {
	entry := func(shape, offsets string) string {
		return `{"a":{"dtype":"F32","shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	for _, c := range []struct{ name, header, want string }{
		{"overlapping tensors", `{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]},"b":{"dtype":"F32","shape":[8],"data_offsets":[28,60]}}`, `"a" and "b" overlap`},
		{"the same bytes twice", `{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]},"b":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}`, "overlap"},
		{"negative size", entry("[-4,-4]", "[0,64]"), "out of range"},
		{"a shape that overflows", entry("[4294967296,4294967296,4]", "[0,64]"), "out of range"},
		{"a shape without its data", entry("[1000000,1000000]", "[0,64]"), "needs 4000000000000 bytes"},
		{"a size as text", entry(`["4"]`, "[0,16]"), "shape is a JSON string, must be a whole number"},
		{"data before the start", entry("[16]", "[-64,0]"), "outside the file's"},
		{"an end before the begin", entry("[16]", "[64,0]"), "outside the file's"},
		{"an end only", entry("[16]", "[64]"), "no begin and end"},
		{"a list", "[1,2]", "array stands where an object is expected"},
		{"a tensor that is none", `{"a":7}`, `tensor "a": number stands where an object is expected`},
		{"half a header", `{"a":`, "not JSON at byte 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := binary.LittleEndian.AppendUint64(nil, uint64(len(c.header)))
			file = append(append(file, c.header...), make([]byte, 64)...)
			if _, err := readHeader(bytes.NewReader(file), int64(len(file))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	huge := binary.LittleEndian.AppendUint64(nil, maxHeader+1)
	if _, err := readHeader(bytes.NewReader(huge), 1<<40); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a header above the limit: error %v", err)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cut shortens the weights by bytes, or to -bytes when that is negative.
func cut(t *testing.T, dir string, by int) {
	t.Helper()
	path := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	keep := len(data) - by
	if by < 0 {
		keep = -by
	}
	put(t, dir, "model.safetensors", string(data[:keep]))
}

func replace(t *testing.T, dir, from, to string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil || !bytes.Contains(data, []byte(from)) {
		t.Fatalf("config.json has no %s (%v)", from, err)
	}
	put(t, dir, "config.json", strings.Replace(string(data), from, to, 1))
}

func FuzzSafetensorsHeader(f *testing.F) {
	seed := func(header string, data int) {
		out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		f.Add(append(append(out, header...), make([]byte, data)...))
	}
	seed(`{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"__metadata__":{"format":"pt"}}`, 24)
	seed(`{"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}`, 8)
	seed(`{"a":{"dtype":"BF16","shape":[9223372036854775807,4],"data_offsets":[0,0]}}`, 0)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := readHeader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for name, at := range found {
			if at.start < 8 || at.bytes < 0 || at.start+at.bytes > int64(len(data)) {
				t.Errorf("tensor %q lies at %d to %d of %d bytes", name, at.start, at.start+at.bytes, len(data))
			}
			n := widths[at.dtype]
			for _, d := range at.shape {
				n *= int64(d)
			}
			if widths[at.dtype] > 0 && n != at.bytes {
				t.Errorf("tensor %q of shape %v has %d bytes", name, at.shape, at.bytes)
			}
		}
	})
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"llama","vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":2,"max_position_embeddings":8,"eos_token_id":[1]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if err == nil && (c.HeadDim < 1 || c.Heads%c.KVHeads != 0) {
			t.Errorf("accepted %+v", c)
		}
	})
}
