package cpu

import (
	"math"

	"github.com/headway-bench/headway/backends/tokenizer"
)

// random returns a model whose projections and embeddings are drawn with mean
// 0 and standard deviation 0.02 (norms are 1). The draw depends on seed, the
// tensor and the index alone, in integer arithmetic: every platform gets the
// same weights. The output rows of single bytes and specials are zero, so that
// the most probable token is always a word and generated text is valid UTF-8.
func random(c Config, seed uint64) *Model {
	m := newModel(c, float32s)
	var fills []fill
	outer := []*matrix{m.embed}
	if m.head != m.embed {
		outer = append(outer, m.head)
	}
	for _, w := range append(outer, m.projections()...) {
		key := mix(seed + uint64(len(fills))*0x9e3779b97f4a7c15)
		fills = append(fills, fill{w, key})
	}
	ones := func(v []float32) {
		for i := range v {
			v[i] = 1
		}
	}
	ones(m.norm)
	for i := range m.layers {
		ones(m.layers[i].attnNorm)
		ones(m.layers[i].ffnNorm)
	}
	parallel(len(fills), func(i int) { fills[i].draw() })
	for id := range min(tokenizer.ByteFirstWord, m.head.rows) {
		m.head.setRow(id, make([]float32, c.Hidden))
	}
	return m
}

// projections lists the matrices of all layers.
func (m *Model) projections() []*matrix {
	var ws []*matrix
	for i := range m.layers {
		l := &m.layers[i]
		ws = append(ws, l.qkv, l.out, l.gateUp, l.down)
	}
	return ws
}

// fill is one matrix to be drawn and the key of its stream.
type fill struct {
	w   *matrix
	key uint64
}

// draw fills the matrix: each weight is the sum of the four 16-bit parts of a
// hash, near enough to a normal distribution.
func (f fill) draw() {
	const deviation = 0.02
	scale := float32(deviation / (math.Sqrt(1.0/3) * (1 << 16)))
	row := make([]float32, f.w.cols)
	at := f.key
	for r := range f.w.rows {
		for i := range row {
			at += 0x9e3779b97f4a7c15
			h := mix(at)
			sum := int32(h&0xffff) + int32(h>>16&0xffff) + int32(h>>32&0xffff) + int32(h>>48) - 2*0xffff
			row[i] = float32(sum) * scale
		}
		f.w.setRow(r, row)
	}
}

// mix is the finalizer of splitmix64: a bijection whose bits all depend on all
// bits of x (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
