package sim

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/tokenizer"
)

// Shape is the size of a Llama model, from its published config.json.
type Shape struct {
	Hidden, FFN, Layers int
	Heads, KVHeads      int
	HeadDim             int
	Vocab, MaxPositions int
	TiedHead            bool
	BOS                 int32
	EOS                 []int32
	// Words are the ids that answers are made of; nil are those of the byte
	// tokenizer.
	Words []int32
}

var (
	llama2 = []int32{2}
	llama3 = []int32{128001, 128008, 128009}
)

// shapes are the models that can be pretended, by name.
var shapes = map[string]Shape{
	"tiny-llama-2":   {Hidden: 512, FFN: 1408, Layers: 8, Heads: 8, KVHeads: 8, HeadDim: 64, Vocab: 4096, MaxPositions: 4096, BOS: 256, EOS: []int32{257}},
	"tiny-llama-3.1": {Hidden: 384, FFN: 1344, Layers: 4, Heads: 6, KVHeads: 2, HeadDim: 64, Vocab: 2048, MaxPositions: 32768, BOS: 256, EOS: []int32{257}},
	"llama-2-7b":     {Hidden: 4096, FFN: 11008, Layers: 32, Heads: 32, KVHeads: 32, HeadDim: 128, Vocab: 32000, MaxPositions: 4096, BOS: 1, EOS: llama2},
	"llama-2-13b":    {Hidden: 5120, FFN: 13824, Layers: 40, Heads: 40, KVHeads: 40, HeadDim: 128, Vocab: 32000, MaxPositions: 4096, BOS: 1, EOS: llama2},
	"llama-2-70b":    {Hidden: 8192, FFN: 28672, Layers: 80, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 32000, MaxPositions: 4096, BOS: 1, EOS: llama2},
	"llama-3-8b":     {Hidden: 4096, FFN: 14336, Layers: 32, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 8192, BOS: 128000, EOS: llama3},
	"llama-3-70b":    {Hidden: 8192, FFN: 28672, Layers: 80, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 8192, BOS: 128000, EOS: llama3},
	"llama-3.1-8b":   {Hidden: 4096, FFN: 14336, Layers: 32, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 131072, BOS: 128000, EOS: llama3},
	"llama-3.1-70b":  {Hidden: 8192, FFN: 28672, Layers: 80, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 131072, BOS: 128000, EOS: llama3},
	"llama-3.1-405b": {Hidden: 16384, FFN: 53248, Layers: 126, Heads: 128, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 131072, BOS: 128000, EOS: llama3},
	"llama-3.2-1b":   {Hidden: 2048, FFN: 8192, Layers: 16, Heads: 32, KVHeads: 8, HeadDim: 64, Vocab: 128256, MaxPositions: 131072, TiedHead: true, BOS: 128000, EOS: llama3},
	"llama-3.2-3b":   {Hidden: 3072, FFN: 8192, Layers: 28, Heads: 24, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 131072, TiedHead: true, BOS: 128000, EOS: llama3},
	"llama-3.3-70b":  {Hidden: 8192, FFN: 28672, Layers: 80, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 128256, MaxPositions: 131072, BOS: 128000, EOS: llama3},
}

// Models lists the names that Model knows.
func Models() []string { return slices.Sorted(maps.Keys(shapes)) }

// Model returns the shape of a Llama model by name.
func Model(name string) (Shape, error) {
	s, ok := shapes[strings.ToLower(name)]
	if !ok {
		return Shape{}, fmt.Errorf("no shape of a model %q to simulate; there are %s", name, strings.Join(Models(), ", "))
	}
	return s, nil
}

// weightBytes and kvElementBytes are those of bfloat16, in which Llama weights
// are published.
const (
	weightBytes    = 2
	kvElementBytes = 2
)

// Info describes the model as an executor does.
func (s Shape) Info(name string) reference.ModelInfo {
	return reference.ModelInfo{Name: name, Family: "llama", VocabSize: s.Vocab, MaxModelLen: s.MaxPositions,
		Layers: s.Layers, KVHeads: s.KVHeads, HeadDim: s.HeadDim,
		KVBytesPerToken: int64(2 * s.Layers * s.KVHeads * s.HeadDim * kvElementBytes), EOS: s.EOS, BOS: s.BOS, Words: s.Words}
}

// Speaking returns the shape with the vocabulary of a tokenizer. Its answers
// are made of the tokens that are text by themselves.
func (s Shape) Speaking(t *tokenizer.Tokenizer) (Shape, error) {
	s.Vocab, s.BOS, s.EOS, s.Words = t.VocabSize(), -1, nil, nil
	if id, ok := t.BOS(); ok {
		s.BOS = id
	}
	if id, ok := t.EOS(); ok {
		s.EOS = []int32{id}
	}
	var text []byte
	for id := range int32(s.Vocab) {
		text = t.AppendDecode(text[:0], id)
		if len(text) > 0 && !slices.Contains(s.EOS, id) && utf8.Valid(text) && bytes.IndexFunc(text, unicode.IsControl) < 0 {
			s.Words = append(s.Words, id)
		}
	}
	if s.Words == nil {
		return s, errors.New("no token of the vocabulary is text by itself, so that no answer can be made of it")
	}
	return s, nil
}

// Parameters is the number of weights: embedding, attention (q and o of all
// heads, k and v of the KV heads), the three SwiGLU products, norms, and the
// output projection where it is not the embedding.
func (s Shape) Parameters() int64 {
	embedding := int64(s.Vocab) * int64(s.Hidden)
	n := embedding + s.layerParameters()*int64(s.Layers) + int64(s.Hidden)
	if !s.TiedHead {
		n += embedding
	}
	return n
}

func (s Shape) layerParameters() int64 {
	h := int64(s.Hidden)
	heads, kv := int64(s.Heads*s.HeadDim), int64(s.KVHeads*s.HeadDim)
	return 2*h*heads + 2*h*kv + 3*h*int64(s.FFN) + 2*h
}

// multiplied is the number of weights that each token is multiplied with, and
// that each step reads: all but the embedding table, of which only rows are.
func (s Shape) multiplied() int64 {
	return s.layerParameters()*int64(s.Layers) + int64(s.Vocab)*int64(s.Hidden)
}
