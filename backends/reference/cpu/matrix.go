package cpu

import "math"

// storage is how weights are held in memory.
type storage uint8

const (
	float32s storage = iota
	bfloat16s
)

// lanes is the number of tokens that share one pass over the weights: as many
// as the product kernels keep sums for in registers while a weight is at hand.
const lanes = 8

// simd is the width that rows are padded to, in elements: that of the widest
// vector register.
const simd = 16

// strip is the number of columns that a product takes at a time, so that the
// vectors' part stays in the nearest cache while the rows pass by.
const strip = 512

// padded is n rounded up to whole vectors.
func padded(n int) int { return (n + simd - 1) / simd * simd }

// matrix is a weight matrix (rows, cols) in row order. Rows are stride
// elements long: the elements past cols are zero. One of the slices is set.
type matrix struct {
	rows, cols, stride int
	f32                []float32
	bf16               []uint16
}

func newMatrix(rows, cols int, kind storage) *matrix {
	m := &matrix{rows: rows, cols: cols, stride: padded(cols)}
	if kind == bfloat16s {
		m.bf16 = make([]uint16, rows*m.stride)
	} else {
		m.f32 = make([]float32, rows*m.stride)
	}
	return m
}

// setRow stores one row of cols weights; bfloat16 storage rounds to nearest
// even.
func (m *matrix) setRow(row int, w []float32) {
	at := row * m.stride
	if m.bf16 == nil {
		copy(m.f32[at:at+m.cols], w)
		return
	}
	for i, v := range w[:m.cols] {
		m.bf16[at+i] = toBF16(v)
	}
}

// row writes one row's cols weights to dst.
func (m *matrix) row(row int, dst []float32) {
	at := row * m.stride
	if m.bf16 == nil {
		copy(dst[:m.cols], m.f32[at:])
		return
	}
	for i := range dst[:m.cols] {
		dst[i] = fromBF16(m.bf16[at+i])
	}
}

// mul computes rows lo to hi of the product with n vectors, 1 to lanes of
// them: y[t*yStride+r] = sum over k of w[r][k] * x[t*stride+k]. The order of
// the additions is the same for every n, so a token's result does not depend
// on its neighbours.
func (m *matrix) mul(y []float32, yStride int, x []float32, n, lo, hi int) {
	if lo >= hi {
		return
	}
	for t := range n {
		clear(y[t*yStride:][lo:hi])
	}
	y, x = y[lo:(n-1)*yStride+hi], x[:n*m.stride]
	for at := 0; at < m.stride; at += strip {
		cols, from := min(strip, m.stride-at), lo*m.stride+at
		if m.bf16 == nil {
			mulF32(y, yStride, m.f32[from:], x[at:], m.stride, cols, hi-lo, n)
		} else {
			mulBF16(y, yStride, m.bf16[from:], x[at:], m.stride, cols, hi-lo, n)
		}
	}
}

func fromBF16(v uint16) float32 { return math.Float32frombits(uint32(v) << 16) }

// toBF16 rounds to nearest even; NaN stays NaN.
func toBF16(v float32) uint16 {
	b := math.Float32bits(v)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// fromF16 widens an IEEE half.
func fromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0: // zero and subnormals: frac * 2^-24
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
