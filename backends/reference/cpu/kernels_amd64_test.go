package cpu

import (
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/headway-bench/headway/backends/reference"
)

// Every vector unit, and plain Go, gives the golden logits.
func TestGoldenOnEveryUnit(t *testing.T) {
	defer func(u *kernels) { unit = u }(unit)
	for _, u := range append(units(), nil) {
		unit = u
		t.Run(vectorUnit(), func(t *testing.T) {
			for _, name := range goldenModels {
				m, g := openGolden(t, name)
				e := executor(t, m, reference.KVConfig{Blocks: 40, BlockSize: 4}, 2)
				s := newSequence(1, g.Cases[4], shuffled(40, 9), 7, m.Config.Vocab)
				runAll(t, e, g.Stride, s)
				s.check(t)
			}
		})
	}
}

// products are the kernels that this processor can run.
func products(yStride int, w []float32, half []uint16, x []float32, stride, cols, rows, n int) map[string]func(y []float32) {
	all := map[string]func(y []float32){
		"F32 Go":  func(y []float32) { mulF32Go(y, yStride, w, x, stride, cols, rows, n) },
		"BF16 Go": func(y []float32) { mulBF16Go(y, yStride, half, x, stride, cols, rows, n) },
	}
	for _, u := range units() {
		all["F32 "+u.name] = func(y []float32) { u.f32[n](&y[0], yStride, &w[0], &x[0], stride, cols, rows) }
		all["BF16 "+u.name] = func(y []float32) { u.bf16[n](&y[0], yStride, &half[0], &x[0], stride, cols, rows) }
	}
	return all
}

func units() []*kernels {
	var us []*kernels
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		us = append(us, avx2)
	}
	if cpu.X86.HasAVX512 {
		us = append(us, avx512)
	}
	return us
}
