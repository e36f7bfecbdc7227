package cpu

import "golang.org/x/sys/cpu"

//go:generate go -C _gen run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg cpu

// vectors says whether the processor has what the vector kernels need.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// vectorUnit names the instructions that the products use.
var vectorUnit = func() string {
	if vectors {
		return "AVX2"
	}
	return "plain Go"
}()

// The products by number of vectors.
var (
	mulF32By = [lanes + 1]func(y *float32, yStride int, w, x *float32, stride, rows int){
		1: mulF32x1, 2: mulF32x2, 3: mulF32x3, 4: mulF32x4, 5: mulF32x5, 6: mulF32x6, 7: mulF32x7, 8: mulF32x8,
	}
	mulBF16By = [lanes + 1]func(y *float32, yStride int, w *uint16, x *float32, stride, rows int){
		1: mulBF16x1, 2: mulBF16x2, 3: mulBF16x3, 4: mulBF16x4, 5: mulBF16x5, 6: mulBF16x6, 7: mulBF16x7, 8: mulBF16x8,
	}
)

func mulF32(y []float32, yStride int, w, x []float32, stride, rows, n int) {
	if !vectors {
		mulF32Go(y, yStride, w, x, stride, rows, n)
		return
	}
	mulF32By[n](&y[0], yStride, &w[0], &x[0], stride, rows)
}

func mulBF16(y []float32, yStride int, w []uint16, x []float32, stride, rows, n int) {
	if !vectors {
		mulBF16Go(y, yStride, w, x, stride, rows, n)
		return
	}
	mulBF16By[n](&y[0], yStride, &w[0], &x[0], stride, rows)
}

func sumRows(sum, rows, p []float32, dim int) {
	if !vectors {
		sumRowsGo(sum, rows, p, dim)
		return
	}
	sumRowsAVX2(&sum[0], &rows[0], &p[0], dim, len(p))
}
