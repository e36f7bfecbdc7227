//go:build !amd64 && !arm64

package cpu

// vectorUnit names the instructions that the products use.
func vectorUnit() string { return "plain Go" }

func mulF32(y []float32, yStride int, w, x []float32, stride, cols, rows, n int) {
	mulF32Go(y, yStride, w, x, stride, cols, rows, n)
}

func mulBF16(y []float32, yStride int, w []uint16, x []float32, stride, cols, rows, n int) {
	mulBF16Go(y, yStride, w, x, stride, cols, rows, n)
}

func sumRows(sum, rows, p []float32, dim int) { sumRowsGo(sum, rows, p, dim) }
