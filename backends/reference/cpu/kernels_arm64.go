package cpu

//go:generate sh -c "go -C _gen run ./neon > kernels_arm64.s"

// vectorUnit names the instructions that the products use; every arm64
// processor has them.
func vectorUnit() string { return "NEON" }

// The products by number of vectors: each adds to y[v*yStride+r] the product
// of row r of w with vector v of x over cols elements, a multiple of 4. Rows
// and vectors lie stride elements apart.
var (
	mulF32By = [...]func(y *float32, yStride int, w, x *float32, stride, cols, rows int){
		1: mulF32x1NEON, 2: mulF32x2NEON, 3: mulF32x3NEON, 4: mulF32x4NEON, 5: mulF32x5NEON, 6: mulF32x6NEON, 7: mulF32x7NEON, 8: mulF32x8NEON,
	}
	mulBF16By = [...]func(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int){
		1: mulBF16x1NEON, 2: mulBF16x2NEON, 3: mulBF16x3NEON, 4: mulBF16x4NEON, 5: mulBF16x5NEON, 6: mulBF16x6NEON, 7: mulBF16x7NEON, 8: mulBF16x8NEON,
	}
)

func mulF32(y []float32, yStride int, w, x []float32, stride, cols, rows, n int) {
	mulF32By[n](&y[0], yStride, &w[0], &x[0], stride, cols, rows)
}

func mulBF16(y []float32, yStride int, w []uint16, x []float32, stride, cols, rows, n int) {
	mulBF16By[n](&y[0], yStride, &w[0], &x[0], stride, cols, rows)
}

func sumRows(sum, rows, p []float32, dim int) { sumRowsGo(sum, rows, p, dim) }

//go:noescape
func mulF32x1NEON(y *float32, yStride int, w *float32, x *float32, stride, cols, rows int)

//go:noescape
func mulF32x2NEON(y *float32, yStride int, w *float32, x *float32, stride, cols, rows int)

//go:noescape
func mulF32x3NEON(y *float32, yStride int, w *float32, x *float32, stride, cols, rows int)

//go:noescape
func mulF32x4NEON(y *float32, yStride int, w *float32, x *float32, stride, cols, rows int)

//go:noescape
func mulF32x5NEON(y *float32, yStride int, w *float32, x *float32, stride, cols, rows int)

//go:noescape
func mulF32x6NEON(y *float32, yStride int, w *float32, x *float32, stride, cols, rows int)

//go:noescape
func mulF32x7NEON(y *float32, yStride int, w *float32, x *float32, stride, cols, rows int)

//go:noescape
func mulF32x8NEON(y *float32, yStride int, w *float32, x *float32, stride, cols, rows int)

//go:noescape
func mulBF16x1NEON(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int)

//go:noescape
func mulBF16x2NEON(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int)

//go:noescape
func mulBF16x3NEON(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int)

//go:noescape
func mulBF16x4NEON(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int)

//go:noescape
func mulBF16x5NEON(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int)

//go:noescape
func mulBF16x6NEON(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int)

//go:noescape
func mulBF16x7NEON(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int)

//go:noescape
func mulBF16x8NEON(y *float32, yStride int, w *uint16, x *float32, stride, cols, rows int)
