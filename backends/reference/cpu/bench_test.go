package cpu

import (
	"context"
	"fmt"
	"testing"

	"github.com/headway-bench/headway/backends/reference"
)

// BenchmarkStep reports what a decoding step of n sequences costs: the law that
// a server on this executor follows.
func BenchmarkStep(b *testing.B) {
	for _, name := range Names() {
		m, err := Open(name, 1)
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range []int{1, 2, 4, 6, 8, 12, 16, 24, 32, 64} {
			b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) {
				const blockSize, each, context = 16, 8, 48
				e := executor(b, m, reference.KVConfig{Blocks: n * each, BlockSize: blockSize}, 0)
				batch := decoding(n, each, context)
				for b.Loop() {
					step(b, e, batch)
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
			})
		}
	}
}

// decoding is a batch of n sequences that each read one token at position.
func decoding(n, blocks, position int) *reference.Batch {
	var batch reference.Batch
	for i := range n {
		s := &reference.Slice{
			Seq: uint64(i), Tokens: []int32{int32(300 + i)}, Start: position, Want: true,
			Sampling: reference.SamplingParams{Logprobs: -1},
		}
		for j := range blocks {
			s.Blocks = append(s.Blocks, int32(i*blocks+j))
		}
		batch.Slices = append(batch.Slices, s)
	}
	return &batch
}

func step(b testing.TB, e *Executor, batch *reference.Batch) {
	b.Helper()
	if err := e.Step(context.Background(), batch); err != nil {
		b.Fatal(err)
	}
}
