package cpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/reference"
)

// Executor runs a Model on the processor's cores. It implements
// reference.Executor.
type Executor struct {
	model  *Model
	cache  *cache
	pool   *pool
	work   *workspace
	device string
}

// New returns an executor over m with a KV cache of the given size in float32.
// threads is the number of cores to use, all of them when it is below 1.
func New(m *Model, kv reference.KVConfig, threads int) (*Executor, error) {
	if kv.Blocks < 1 || kv.BlockSize < 1 {
		return nil, fmt.Errorf("KV cache of %d blocks of %d positions, needs at least 1 of each", kv.Blocks, kv.BlockSize)
	}
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	cache, err := newCache(&m.Config, kv)
	if err != nil {
		return nil, err
	}
	return &Executor{
		model:  m,
		cache:  cache,
		pool:   newPool(threads),
		work:   newWorkspace(&m.Config, threads),
		device: fmt.Sprintf("%d threads, %s", threads, vectorUnit()),
	}, nil
}

// Info describes the model.
func (e *Executor) Info() reference.ModelInfo {
	c := &e.model.Config
	return reference.ModelInfo{
		Name: c.Name, Family: c.Family,
		Executor: "cpu", Device: e.device,
		VocabSize: c.Vocab, MaxModelLen: c.MaxPositions,
		Layers: c.Layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		KVBytesPerToken: bytesPerToken(c),
		EOS:             c.EOS, BOS: c.BOS,
	}
}

// Close ends the workers and drops the memory. The executor cannot be used
// again.
func (e *Executor) Close() error {
	e.pool.close()
	e.model, e.cache, e.work = nil, nil, nil
	return nil
}

// Step computes the batch, lanes tokens to a pass over the weights, prefill
// chunks and decoded tokens mixed. A context that ends in mid-step ends it
// with the context's error.
func (e *Executor) Step(ctx context.Context, b *reference.Batch) error {
	if e.model == nil {
		return errors.New("step on a closed executor")
	}
	if len(b.Slices) == 0 {
		return nil
	}
	for _, s := range b.Slices {
		if err := e.check(s); err != nil {
			return err
		}
	}
	e.pool.begin()
	defer e.pool.end()
	pass := e.work.pass[:0]
	for _, s := range b.Slices {
		for i, id := range s.Tokens {
			if len(pass) == lanes {
				if err := ctx.Err(); err != nil {
					return err
				}
				e.forward(pass)
				pass = pass[:0]
			}
			pass = append(pass, token{slice: s, id: id, pos: s.Start + i, last: i == len(s.Tokens)-1})
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e.forward(pass)
	now := clock.Now()
	for _, s := range b.Slices {
		s.Done = now
	}
	return nil
}

// token is one position of a pass.
type token struct {
	slice *reference.Slice
	id    int32
	pos   int
	last  bool // of its slice
}

// check refuses a slice that would read or write outside the cache.
func (e *Executor) check(s *reference.Slice) error {
	c := &e.model.Config
	end := s.Start + len(s.Tokens)
	switch {
	case len(s.Tokens) == 0 || s.Start < 0:
		return fmt.Errorf("sequence %d: %d tokens from position %d, needs at least 1 from 0 on", s.Seq, len(s.Tokens), s.Start)
	case end > c.MaxPositions:
		return fmt.Errorf("sequence %d: position %d is past the model's %d", s.Seq, end-1, c.MaxPositions)
	case len(s.Blocks)*e.cache.blockSize < end:
		return fmt.Errorf("sequence %d: %d blocks of %d hold fewer than its %d positions", s.Seq, len(s.Blocks), e.cache.blockSize, end)
	}
	for _, id := range s.Tokens {
		if id < 0 || int(id) >= c.Vocab {
			return fmt.Errorf("sequence %d: token id %d is outside the vocabulary of %d", s.Seq, id, c.Vocab)
		}
	}
	for _, block := range s.Blocks[:(end+e.cache.blockSize-1)/e.cache.blockSize] {
		if block < 0 || int(block) >= e.cache.blocks {
			return fmt.Errorf("sequence %d: block %d is outside the cache of %d", s.Seq, block, e.cache.blocks)
		}
	}
	return nil
}
