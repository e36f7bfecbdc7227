package cpu

import "golang.org/x/sys/cpu"

//go:generate go -C _gen run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg cpu

// kernels are the products of one vector unit, by number of vectors.
type kernels struct {
	name string
	f32  [lanes + 1]func(y *float32, yStride int, w, x *float32, stride, cols, rows int)
	bf16 [lanes + 1]func(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int)
}

// avx2 and avx512 are the units that there are kernels for; unit is the one in
// use, nil where the processor has none of them.
var (
	avx2 = &kernels{
		name: "AVX2",
		f32: [...]func(y *float32, yStride int, w, x *float32, stride, cols, rows int){
			1: mulF32x1AVX2, 2: mulF32x2AVX2, 3: mulF32x3AVX2, 4: mulF32x4AVX2, 5: mulF32x5AVX2, 6: mulF32x6AVX2, 7: mulF32x7AVX2, 8: mulF32x8AVX2,
		},
		bf16: [...]func(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int){
			1: mulBF16x1AVX2, 2: mulBF16x2AVX2, 3: mulBF16x3AVX2, 4: mulBF16x4AVX2, 5: mulBF16x5AVX2, 6: mulBF16x6AVX2, 7: mulBF16x7AVX2, 8: mulBF16x8AVX2,
		},
	}
	avx512 = &kernels{
		name: "AVX-512",
		f32: [...]func(y *float32, yStride int, w, x *float32, stride, cols, rows int){
			1: mulF32x1AVX512, 2: mulF32x2AVX512, 3: mulF32x3AVX512, 4: mulF32x4AVX512, 5: mulF32x5AVX512, 6: mulF32x6AVX512, 7: mulF32x7AVX512, 8: mulF32x8AVX512,
		},
		bf16: [...]func(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int){
			1: mulBF16x1AVX512, 2: mulBF16x2AVX512, 3: mulBF16x3AVX512, 4: mulBF16x4AVX512, 5: mulBF16x5AVX512, 6: mulBF16x6AVX512, 7: mulBF16x7AVX512, 8: mulBF16x8AVX512,
		},
	}
	unit = detect()
)

func detect() *kernels {
	switch {
	case cpu.X86.HasAVX512 && cpu.X86.HasFMA:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return nil
}

// vectorUnit names the instructions that the products use.
func vectorUnit() string {
	if unit == nil {
		return "plain Go"
	}
	return unit.name
}

func mulF32(y []float32, yStride int, w, x []float32, stride, cols, rows, n int) {
	if unit == nil {
		mulF32Go(y, yStride, w, x, stride, cols, rows, n)
		return
	}
	unit.f32[n](&y[0], yStride, &w[0], &x[0], stride, cols, rows)
}

func mulBF16(y []float32, yStride int, w []uint16, x []float32, stride, cols, rows, n int) {
	if unit == nil {
		mulBF16Go(y, yStride, w, x, stride, cols, rows, n)
		return
	}
	unit.bf16[n](&y[0], yStride, &w[0], &x[0], stride, cols, rows)
}

func sumRows(sum, rows, p []float32, dim int) {
	if unit == nil {
		sumRowsGo(sum, rows, p, dim)
		return
	}
	sumRowsAVX2(&sum[0], &rows[0], &p[0], dim, len(p))
}
