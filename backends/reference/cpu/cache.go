package cpu

import (
	"fmt"

	"github.com/headway-bench/headway/backends/reference"
)

// cache is the paged KV cache. In each layer a block holds, one KV head after
// the other, blockSize rows of headStride elements: the rows of one head in
// one block are a small matrix to be multiplied with the queries.
type cache struct {
	blocks, blockSize   int
	kvHeads, headStride int
	keys, values        [][]float32 // by layer
}

// maxCache is the size in bytes that a cache is refused above.
const maxCache = 1 << 40

func newCache(c *Config, kv reference.KVConfig) (*cache, error) {
	k := &cache{
		blocks: kv.Blocks, blockSize: kv.BlockSize,
		kvHeads: c.KVHeads, headStride: padded(c.HeadDim),
		keys: make([][]float32, c.Layers), values: make([][]float32, c.Layers),
	}
	perToken := bytesPerToken(c)
	if int64(kv.Blocks) > maxCache/perToken/int64(kv.BlockSize) {
		return nil, fmt.Errorf("KV cache of %d blocks of %d positions of %d bytes is above the limit of 1 TiB", kv.Blocks, kv.BlockSize, perToken)
	}
	for l := range c.Layers {
		n := kv.Blocks * kv.BlockSize * k.kvHeads * k.headStride
		k.keys[l], k.values[l] = make([]float32, n), make([]float32, n)
	}
	return k, nil
}

// bytesPerToken is the cache of one position over all layers.
func bytesPerToken(c *Config) int64 {
	return 2 * 4 * int64(c.Layers) * int64(c.KVHeads) * int64(padded(c.HeadDim))
}

// rows returns where the rows of one head in one block start in keys and
// values of a layer.
func (k *cache) rows(block int32, head int) int {
	return (int(block)*k.kvHeads + head) * k.blockSize * k.headStride
}

// row returns where the row of position pos starts, blocks being the
// sequence's table.
func (k *cache) row(blocks []int32, pos, head int) int {
	return k.rows(blocks[pos/k.blockSize], head) + pos%k.blockSize*k.headStride
}
