// Package cpu computes Llama models (2, 3, 3.1, 3.2 and 3.3 configurations) in
// float32 on all cores, over a paged KV cache. It is the executor that runs
// anywhere and the oracle that others are compared with.
package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/headway-bench/headway/backends/tokenizer"
)

// Config is the shape of a Llama model, with the names of its config.json in
// mind.
type Config struct {
	// Name is what the model was opened as; Family is "llama".
	Name, Family string
	Vocab        int // entries of the vocabulary
	Hidden       int // width of the residual stream
	FFN          int // width of the feed-forward layer
	Layers       int
	Heads        int // query heads
	KVHeads      int // key and value heads; Heads is a multiple of it
	HeadDim      int // width of one head, even
	MaxPositions int // longest sequence
	NormEps      float32
	Rope         Rope
	// TiedHead says that the embedding serves as the output projection.
	TiedHead bool
	// BOS is -1 when the model has none.
	BOS int32
	EOS []int32
}

// Rope says how positions turn queries and keys. The halves of a head are the
// two coordinates of each plane (the layout of Hugging Face weights).
type Rope struct {
	Theta float64
	// Type is "default", "linear" or "llama3".
	Type string
	// Factor divides the frequencies: all of them (linear) or the low ones.
	Factor float64
	// LowFactor, HighFactor and Original (positions of the first training) set
	// the band of wavelengths in which llama3 scaling goes from none to Factor.
	LowFactor, HighFactor float64
	Original              int
}

// frequencies returns the angle of each plane per position, in radians, for
// heads of the given width.
func (r Rope) frequencies(headDim int) []float64 {
	freq := make([]float64, headDim/2)
	for i := range freq {
		f := math.Pow(r.Theta, -2*float64(i)/float64(headDim))
		switch r.Type {
		case "linear":
			f /= r.Factor
		case "llama3":
			f = r.llama3(f)
		}
		freq[i] = f
	}
	return freq
}

// llama3 scales one frequency as Llama 3.1 does: wavelengths above
// Original/LowFactor are stretched by Factor, those below Original/HighFactor
// are kept, and those between are blended linearly.
func (r Rope) llama3(f float64) float64 {
	turns := float64(r.Original) * f / (2 * math.Pi)
	keep := (turns - r.LowFactor) / (r.HighFactor - r.LowFactor)
	keep = min(1, max(0, keep))
	return keep*f + (1-keep)*f/r.Factor
}

// shapes are the models that need no files: seeded random weights.
var shapes = map[string]Config{
	"tiny-llama-2": {
		Vocab: 4096, Hidden: 512, FFN: 1408, Layers: 8, Heads: 8, KVHeads: 8, HeadDim: 64,
		MaxPositions: 4096, NormEps: 1e-5, Rope: Rope{Theta: 10000, Type: "default"},
	},
	"tiny-llama-3.1": {
		Vocab: 2048, Hidden: 384, FFN: 1344, Layers: 4, Heads: 6, KVHeads: 2, HeadDim: 64,
		MaxPositions: 8192, NormEps: 1e-5,
		Rope: Rope{Theta: 500000, Type: "llama3", Factor: 8, LowFactor: 1, HighFactor: 4, Original: 2048},
	},
}

// Names lists the models that Open knows without files.
func Names() []string {
	var names []string
	for name := range shapes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// shape returns the named tiny model's configuration.
func shape(name string) (Config, bool) {
	c, ok := shapes[name]
	if !ok {
		return Config{}, false
	}
	c.Name, c.Family = name, "llama"
	c.BOS, c.EOS = tokenizer.ByteBOS, []int32{tokenizer.ByteEOS, tokenizer.ByteEndOfTurn}
	return c, true
}

// Limits of what is read from a configuration: generous for any Llama, small
// enough that a damaged file cannot exhaust memory.
const (
	maxWidth     = 1 << 17
	maxVocab     = 1 << 21
	maxLayers    = 1 << 10
	maxPositions = 1 << 24
)

// check says what is wrong with a configuration.
func (c *Config) check() error {
	for _, f := range []struct {
		name  string
		value int
		limit int
	}{
		{"vocab_size", c.Vocab, maxVocab},
		{"hidden_size", c.Hidden, maxWidth},
		{"intermediate_size", c.FFN, maxWidth},
		{"num_hidden_layers", c.Layers, maxLayers},
		{"num_attention_heads", c.Heads, maxWidth},
		{"num_key_value_heads", c.KVHeads, maxWidth},
		{"head_dim", c.HeadDim, maxWidth},
		{"max_position_embeddings", c.MaxPositions, maxPositions},
	} {
		if f.value < 1 || f.value > f.limit {
			return fmt.Errorf("%s is %d, must be between 1 and %d", f.name, f.value, f.limit)
		}
	}
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("num_attention_heads %d is no multiple of num_key_value_heads %d", c.Heads, c.KVHeads)
	}
	if c.HeadDim%2 != 0 {
		return fmt.Errorf("head_dim %d is odd, rotary positions need pairs", c.HeadDim)
	}
	if c.Heads*c.HeadDim > maxWidth {
		return fmt.Errorf("num_attention_heads * head_dim is %d, must be at most %d", c.Heads*c.HeadDim, maxWidth)
	}
	if !(c.NormEps > 0 && c.NormEps < 1) {
		return fmt.Errorf("rms_norm_eps is %g, must be between 0 and 1", c.NormEps)
	}
	return c.Rope.check()
}

func (r Rope) check() error {
	if !(r.Theta > 1) || math.IsInf(r.Theta, 0) {
		return fmt.Errorf("rope_theta is %g, must be above 1", r.Theta)
	}
	switch r.Type {
	case "default":
		return nil
	case "linear":
		if !(r.Factor >= 1) {
			return fmt.Errorf("rope factor is %g, must be at least 1", r.Factor)
		}
		return nil
	case "llama3":
		if !(r.Factor >= 1) || !(r.LowFactor > 0) || !(r.HighFactor > r.LowFactor) || r.Original < 1 {
			return fmt.Errorf("llama3 rope scaling needs factor >= 1, 0 < low_freq_factor < high_freq_factor and original_max_position_embeddings >= 1, has %g, %g, %g, %d",
				r.Factor, r.LowFactor, r.HighFactor, r.Original)
		}
		return nil
	}
	return fmt.Errorf("rope type %q is not known; default, linear and llama3 are", r.Type)
}

// kvWidth is the width of the keys (or values) of one position.
func (c *Config) kvWidth() int { return c.KVHeads * c.HeadDim }

// qWidth is the width of the queries of one position.
func (c *Config) qWidth() int { return c.Heads * c.HeadDim }
