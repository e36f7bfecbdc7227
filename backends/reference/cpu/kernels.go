package cpu

import "math"

// The products and sums that take the time, in plain Go. mulF32, mulBF16 and
// sumRows are what is called; the files kernels_GOARCH.go put the processor's
// vector unit under them where it has one. None checks bounds: callers slice
// their arguments to the lengths that are read and written.

// mulF32Go adds to y[t*yStride+r], for r below rows and t below n, the product
// of row r of w with vector t of x over cols elements, at most strip. Rows and
// vectors lie stride elements apart.
func mulF32Go(y []float32, yStride int, w, x []float32, stride, cols, rows, n int) {
	for r := range rows {
		row := w[r*stride:][:cols]
		for t := range n {
			y[t*yStride+r] += dot(row, x[t*stride:][:cols])
		}
	}
}

// mulBF16Go is mulF32Go over bfloat16 weights, each widened once for all
// vectors.
func mulBF16Go(y []float32, yStride int, w []uint16, x []float32, stride, cols, rows, n int) {
	var wide [strip]float32
	for r := range rows {
		for i, v := range w[r*stride:][:cols] {
			wide[i] = fromBF16(v)
		}
		for t := range n {
			y[t*yStride+r] += dot(wide[:cols], x[t*stride:][:cols])
		}
	}
}

// dot multiplies and adds two vectors of equal length, a multiple of 4, in
// four chains so that additions overlap.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	return (s0 + s1) + (s2 + s3)
}

// sumRowsGo adds p[i] * rows[i*dim : (i+1)*dim] to sum for every i.
func sumRowsGo(sum, rows, p []float32, dim int) {
	for i, f := range p {
		for d, v := range rows[i*dim:][:dim] {
			sum[d] += f * v
		}
	}
}

// exp is e^x in float32 with a relative error below 3e-7; x is clamped to
// what float32 can hold.
func exp(x float32) float32 {
	const log2e = 1.4426950408889634
	x = min(max(x, -87), 88)
	// x = n*ln2 + r with |r| <= ln2/2; ln2 is split so that n*hi is exact.
	n := float32(math.RoundToEven(float64(x * log2e)))
	r := x - n*0.693359375
	r += n * 2.12194440e-4
	// Taylor series of e^r; the first term left out is below 1e-7.
	p := float32(1.0 / 5040)
	p = p*r + 1.0/720
	p = p*r + 1.0/120
	p = p*r + 1.0/24
	p = p*r + 1.0/6
	p = p*r + 0.5
	p = p*r + 1
	p = p*r + 1
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}
