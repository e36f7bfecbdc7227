package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Each kernel is compared with a product in float64, at sizes that leave rows
// and columns over, with guard elements around what it may write.
func TestProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const guard, before = -12345, 0.5
	for _, cols := range []int{16, 32, 48, 80, 512} {
		for _, rows := range []int{1, 2, 3, 4, 5, 7, 8, 33} {
			for n := 1; n <= lanes; n++ {
				stride := cols + 16
				w, half := randomVector(rng, rows*stride), make([]uint16, rows*stride)
				for i, v := range w {
					half[i] = toBF16(v)
					w[i] = fromBF16(half[i])
				}
				x := randomVector(rng, n*stride)
				yStride := rows + 3
				for name, mul := range products(yStride, w, half, x, stride, cols, rows, n) {
					y := make([]float32, n*yStride)
					for i := range y {
						y[i] = guard
						if i%yStride < rows {
							y[i] = before
						}
					}
					mul(y)
					for i, got := range y {
						v, r := i/yStride, i%yStride
						want, size := float64(guard), 0.0
						if r < rows {
							want, size = product(w[r*stride:][:cols], x[v*stride:][:cols])
							want += before
						}
						if math.Abs(float64(got)-want) > 1e-6*(size+before) {
							t.Fatalf("%s, %d rows of %d, %d vectors: y[%d] = %g, want %g", name, rows, cols, n, i, got, want)
						}
					}
				}
			}
		}
	}
}

// product is the dot product of two vectors, and that of their magnitudes.
func product(a, b []float32) (sum, size float64) {
	for i := range a {
		p := float64(a[i]) * float64(b[i])
		sum += p
		size += math.Abs(p)
	}
	return sum, size
}

func TestSumRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, dim := range []int{8, 24, 32, 40, 64, 128} {
		for _, n := range []int{1, 2, 16, 37} {
			rows, p := randomVector(rng, n*dim), randomVector(rng, n)
			for name, add := range map[string]func(sum, rows, p []float32, dim int){"sumRows": sumRows, "sumRowsGo": sumRowsGo} {
				sum := randomVector(rng, dim)
				want := make([]float64, dim)
				for d := range want {
					want[d] = float64(sum[d])
					for i, f := range p {
						want[d] += float64(f) * float64(rows[i*dim+d])
					}
				}
				add(sum, rows, p, dim)
				for d := range want {
					if math.Abs(float64(sum[d])-want[d]) > 1e-5*(1+math.Abs(want[d])) {
						t.Fatalf("%s, %d rows of %d: element %d = %g, want %g", name, n, dim, d, sum[d], want[d])
					}
				}
			}
		}
	}
}

func randomVector(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func TestExp(t *testing.T) {
	for x := -86.0; x < 88; x += 0.0137 {
		got, want := float64(exp(float32(x))), math.Exp(float64(float32(x)))
		if math.Abs(got-want) > 3e-7*want {
			t.Fatalf("exp(%g) = %g, want %g", x, got, want)
		}
	}
	if got := exp(-1000); got < 0 || got > 1e-37 {
		t.Errorf("exp(-1000) = %g", got)
	}
}

func TestBFloat16Rounds(t *testing.T) {
	for _, c := range []struct {
		name string
		in   float32
		want uint16
	}{
		{"one", 1, 0x3f80},
		{"tie to even below", math.Float32frombits(0x3f808000), 0x3f80},
		{"tie to even above", math.Float32frombits(0x3f818000), 0x3f82},
		{"above the tie", math.Float32frombits(0x3f808001), 0x3f81},
		{"negative zero", math.Float32frombits(0x80000000), 0x8000},
		{"overflow to infinity", math.MaxFloat32, 0x7f80},
	} {
		if got := toBF16(c.in); got != c.want {
			t.Errorf("%s: %#04x, want %#04x", c.name, got, c.want)
		}
	}
	if v := fromBF16(toBF16(float32(math.NaN()))); v == v {
		t.Errorf("NaN became %g", v)
	}
}

func TestHalfWidens(t *testing.T) {
	for _, c := range []struct {
		in   uint16
		want float32
	}{
		{0x3c00, 1}, {0xc000, -2}, {0x0001, 1.0 / (1 << 24)}, {0x83ff, -1023.0 / (1 << 24)},
		{0x7bff, 65504}, {0x0400, 1.0 / (1 << 14)}, {0x7c00, float32(math.Inf(1))},
	} {
		if got := fromF16(c.in); got != c.want {
			t.Errorf("%#04x is %g, want %g", c.in, got, c.want)
		}
	}
}

// BenchmarkProduct reports the speed of the products over a matrix beyond the
// caches, on one core.
func BenchmarkProduct(b *testing.B) {
	const rows, cols = 16384, 1024
	for _, kind := range []storage{float32s, bfloat16s} {
		w := newMatrix(rows, cols, kind)
		for n := 1; n <= lanes; n++ {
			x, y := make([]float32, n*cols), make([]float32, n*rows)
			b.Run(fmt.Sprintf("%s/n=%d", []string{"f32", "bf16"}[kind], n), func(b *testing.B) {
				b.SetBytes(int64(rows*cols) * []int64{4, 2}[kind])
				for b.Loop() {
					w.mul(y, rows, x, n, 0, rows)
				}
				b.ReportMetric(2*float64(n)*rows*cols*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
