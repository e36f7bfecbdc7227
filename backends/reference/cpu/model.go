package cpu

import (
	"fmt"
	"os"
	"strings"

	"github.com/headway-bench/headway/backends/tokenizer"
)

// Model is a Llama's weights in memory. It is read-only once opened: several
// executors may share it.
type Model struct {
	Config Config

	dir    string  // "" for seeded weights
	embed  *matrix // (vocab, hidden)
	layers []layer
	norm   []float32
	head   *matrix // (vocab, hidden); embed when tied
}

// layer holds one block. Projections that read the same input are stacked, so
// that one pass serves them all.
type layer struct {
	attnNorm []float32 // (hidden)
	qkv      *matrix   // (qWidth + 2*kvWidth, hidden): queries, keys, values
	out      *matrix   // (hidden, qWidth)
	ffnNorm  []float32 // (hidden)
	gateUp   *matrix   // (2*ffn, hidden): rows 2i and 2i+1 are gate and up i
	down     *matrix   // (hidden, ffn)
}

// Open returns a named tiny model (see Names) with random weights fixed by
// seed, or the model in a Hugging Face folder (config.json and safetensors),
// for which seed means nothing.
func Open(nameOrDir string, seed int64) (*Model, error) {
	if c, ok := shape(nameOrDir); ok {
		return random(c, uint64(seed)), nil
	}
	if info, err := os.Stat(nameOrDir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("model %q is neither a folder nor one of %s", nameOrDir, strings.Join(Names(), ", "))
	}
	return load(nameOrDir)
}

// Tokenizer returns the model's own tokenizer: the byte tokenizer of the named
// tiny models, tokenizer.json of a folder.
func (m *Model) Tokenizer() (*tokenizer.Tokenizer, error) {
	if m.dir == "" {
		return tokenizer.Bytes(m.Config.Vocab), nil
	}
	return tokenizer.Load(m.dir)
}

// Parameters is the number of weights.
func (m *Model) Parameters() int64 {
	n := int64(m.embed.rows)*int64(m.embed.cols) + int64(len(m.norm))
	if m.head != m.embed {
		n += int64(m.head.rows) * int64(m.head.cols)
	}
	for i := range m.layers {
		l := &m.layers[i]
		n += int64(len(l.attnNorm) + len(l.ffnNorm))
		for _, w := range []*matrix{l.qkv, l.out, l.gateUp, l.down} {
			n += int64(w.rows) * int64(w.cols)
		}
	}
	return n
}

// KVBytesPerToken is what an executor's KV cache takes for one position, over
// all layers and with its padding, in bytes.
func (m *Model) KVBytesPerToken() int64 { return bytesPerToken(&m.Config) }

// newModel allocates the weights of a configuration.
func newModel(c Config, kind storage) *Model {
	m := &Model{
		Config: c,
		embed:  newMatrix(c.Vocab, c.Hidden, kind),
		norm:   make([]float32, c.Hidden),
		layers: make([]layer, c.Layers),
	}
	m.head = m.embed
	if !c.TiedHead {
		m.head = newMatrix(c.Vocab, c.Hidden, kind)
	}
	for i := range m.layers {
		m.layers[i] = layer{
			attnNorm: make([]float32, c.Hidden),
			qkv:      newMatrix(c.qWidth()+2*c.kvWidth(), c.Hidden, kind),
			out:      newMatrix(c.Hidden, c.qWidth(), kind),
			ffnNorm:  make([]float32, c.Hidden),
			gateUp:   newMatrix(2*c.FFN, c.Hidden, kind),
			down:     newMatrix(c.Hidden, c.FFN, kind),
		}
	}
	return m
}
