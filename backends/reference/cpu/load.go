package cpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/headway-bench/headway/backends/tokenizer"
)

// load reads a model from a Hugging Face folder.
func load(dir string) (*Model, error) {
	c, err := readConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	c.Name = filepath.Base(filepath.Clean(dir))
	files, err := openTensors(dir)
	if err != nil {
		return nil, err
	}
	defer files.close()
	kind := float32s
	if files.all("BF16") {
		kind = bfloat16s
	}
	if err := files.check(&c); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	m := newModel(c, kind)
	m.dir = dir
	return m, m.fill(files)
}

// fill reads every tensor of the model. The set and the shapes have been
// checked.
func (m *Model) fill(files *tensors) error {
	var reads []func() error
	matrix := func(name string, w *matrix, row func(r int) int) {
		reads = append(reads, func() error { return files.readMatrix(name, w, row) })
	}
	vector := func(name string, v []float32) {
		reads = append(reads, func() error { return files.readVector(name, v) })
	}
	from := func(first int) func(int) int { return func(r int) int { return first + r } }
	c := &m.Config
	matrix("model.embed_tokens.weight", m.embed, from(0))
	if !c.TiedHead {
		matrix("lm_head.weight", m.head, from(0))
	}
	vector("model.norm.weight", m.norm)
	for i := range m.layers {
		l, prefix := &m.layers[i], layerPrefix(i)
		vector(prefix+"input_layernorm.weight", l.attnNorm)
		matrix(prefix+"self_attn.q_proj.weight", l.qkv, from(0))
		matrix(prefix+"self_attn.k_proj.weight", l.qkv, from(c.qWidth()))
		matrix(prefix+"self_attn.v_proj.weight", l.qkv, from(c.qWidth()+c.kvWidth()))
		matrix(prefix+"self_attn.o_proj.weight", l.out, from(0))
		vector(prefix+"post_attention_layernorm.weight", l.ffnNorm)
		matrix(prefix+"mlp.gate_proj.weight", l.gateUp, func(r int) int { return 2 * r })
		matrix(prefix+"mlp.up_proj.weight", l.gateUp, func(r int) int { return 2*r + 1 })
		matrix(prefix+"mlp.down_proj.weight", l.down, from(0))
	}
	errs := make([]error, len(reads))
	parallel(len(reads), func(i int) { errs[i] = reads[i]() })
	return errors.Join(errs...)
}

// wanted lists the tensors of a model of this configuration with their shapes.
func (c *Config) wanted() map[string][]int {
	want := map[string][]int{
		"model.embed_tokens.weight": {c.Vocab, c.Hidden},
		"model.norm.weight":         {c.Hidden},
	}
	if !c.TiedHead {
		want["lm_head.weight"] = []int{c.Vocab, c.Hidden}
	}
	for i := range c.Layers {
		prefix := layerPrefix(i)
		want[prefix+"input_layernorm.weight"] = []int{c.Hidden}
		want[prefix+"self_attn.q_proj.weight"] = []int{c.qWidth(), c.Hidden}
		want[prefix+"self_attn.k_proj.weight"] = []int{c.kvWidth(), c.Hidden}
		want[prefix+"self_attn.v_proj.weight"] = []int{c.kvWidth(), c.Hidden}
		want[prefix+"self_attn.o_proj.weight"] = []int{c.Hidden, c.qWidth()}
		want[prefix+"post_attention_layernorm.weight"] = []int{c.Hidden}
		want[prefix+"mlp.gate_proj.weight"] = []int{c.FFN, c.Hidden}
		want[prefix+"mlp.up_proj.weight"] = []int{c.FFN, c.Hidden}
		want[prefix+"mlp.down_proj.weight"] = []int{c.Hidden, c.FFN}
	}
	return want
}

func layerPrefix(i int) string { return "model.layers." + strconv.Itoa(i) + "." }

// parallel runs f for 0 to n-1 on all cores and returns when all are done.
func parallel(n int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}

// configFile is what is read of config.json. Other keys are passed over,
// except those that would change the computation.
type configFile struct {
	ModelType    string   `json:"model_type"`
	Vocab        int      `json:"vocab_size"`
	Hidden       int      `json:"hidden_size"`
	FFN          int      `json:"intermediate_size"`
	Layers       int      `json:"num_hidden_layers"`
	Heads        int      `json:"num_attention_heads"`
	KVHeads      *int     `json:"num_key_value_heads"`
	HeadDim      *int     `json:"head_dim"`
	MaxPositions int      `json:"max_position_embeddings"`
	NormEps      *float32 `json:"rms_norm_eps"`
	Tied         bool     `json:"tie_word_embeddings"`
	Activation   string   `json:"hidden_act"`
	AttnBias     bool     `json:"attention_bias"`
	MLPBias      bool     `json:"mlp_bias"`
	BOS          *int32   `json:"bos_token_id"`
	EOS          ids      `json:"eos_token_id"`

	RopeTheta      *float64  `json:"rope_theta"`
	RopeScaling    *ropeFile `json:"rope_scaling"`
	RopeParameters *ropeFile `json:"rope_parameters"`
}

// ropeFile is rope_scaling of transformers 4 and rope_parameters of 5.
type ropeFile struct {
	Type       string   `json:"rope_type"`
	OldType    string   `json:"type"`
	Theta      *float64 `json:"rope_theta"`
	Factor     float64  `json:"factor"`
	LowFactor  float64  `json:"low_freq_factor"`
	HighFactor float64  `json:"high_freq_factor"`
	Original   int      `json:"original_max_position_embeddings"`
}

// ids is a token id, a list of them, or null.
type ids []int32

func (v *ids) UnmarshalJSON(b []byte) error {
	var one int32
	if json.Unmarshal(b, &one) == nil {
		if string(b) != "null" {
			*v = ids{one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]int32)(v))
}

// maxConfig is the size in bytes that a config.json is refused above.
const maxConfig = 1 << 20

func readConfig(path string) (Config, error) {
	data, err := tokenizer.ReadFile(path, maxConfig)
	if err != nil {
		return Config{}, fmt.Errorf("model configuration: %w", err)
	}
	c, err := parseConfig(data)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// parseConfig reads a config.json and refuses what the executor does not
// compute.
func parseConfig(data []byte) (Config, error) {
	var f configFile
	if err := tokenizer.Unmarshal(data, &f); err != nil {
		return Config{}, err
	}
	switch {
	case f.ModelType != "llama":
		return Config{}, fmt.Errorf("model_type is %q, only \"llama\" can be run", f.ModelType)
	case f.Activation != "" && f.Activation != "silu":
		return Config{}, fmt.Errorf("hidden_act is %q, only \"silu\" can be run", f.Activation)
	case f.AttnBias || f.MLPBias:
		return Config{}, errors.New("attention_bias and mlp_bias must be false: biases are not computed")
	case f.Heads < 1:
		return Config{}, fmt.Errorf("num_attention_heads is %d, must be at least 1", f.Heads)
	}
	c := Config{
		Family: "llama",
		Vocab:  f.Vocab, Hidden: f.Hidden, FFN: f.FFN, Layers: f.Layers,
		Heads: f.Heads, KVHeads: f.Heads, HeadDim: f.Hidden / f.Heads,
		MaxPositions: f.MaxPositions, NormEps: 1e-6, TiedHead: f.Tied,
		BOS: -1, EOS: f.EOS,
		Rope: f.rope(),
	}
	if f.KVHeads != nil {
		c.KVHeads = *f.KVHeads
	}
	if f.HeadDim != nil {
		c.HeadDim = *f.HeadDim
	}
	if f.NormEps != nil {
		c.NormEps = *f.NormEps
	}
	if f.BOS != nil {
		c.BOS = *f.BOS
	}
	return c, c.check()
}

// rope joins the two forms that configurations have.
func (f *configFile) rope() Rope {
	r := Rope{Theta: 10000, Type: "default"}
	if f.RopeTheta != nil {
		r.Theta = *f.RopeTheta
	}
	file := f.RopeParameters
	if file == nil {
		file = f.RopeScaling
	}
	if file == nil {
		return r
	}
	if file.Theta != nil {
		r.Theta = *file.Theta
	}
	switch {
	case file.Type != "":
		r.Type = file.Type
	case file.OldType != "":
		r.Type = file.OldType
	}
	r.Factor, r.LowFactor, r.HighFactor, r.Original = file.Factor, file.LowFactor, file.HighFactor, file.Original
	return r
}
