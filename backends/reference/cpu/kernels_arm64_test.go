package cpu

// products are the kernels that this processor can run.
func products(yStride int, w []float32, half []uint16, x []float32, stride, cols, rows, n int) map[string]func(y []float32) {
	return map[string]func(y []float32){
		"F32 Go":    func(y []float32) { mulF32Go(y, yStride, w, x, stride, cols, rows, n) },
		"BF16 Go":   func(y []float32) { mulBF16Go(y, yStride, half, x, stride, cols, rows, n) },
		"F32 NEON":  func(y []float32) { mulF32(y, yStride, w, x, stride, cols, rows, n) },
		"BF16 NEON": func(y []float32) { mulBF16(y, yStride, half, x, stride, cols, rows, n) },
	}
}
