package reference

import "slices"

// KVCache hands out the blocks of an executor's KV cache. It knows numbers
// only; the memory is the executor's. It is not safe for concurrent use.
type KVCache struct {
	size int     // positions a block
	free []int32 // a stack; unused when runs are wanted
	used []bool
	n    int // blocks in use
	runs bool
}

// NewKVCache manages c.Blocks blocks. With contiguous set every allocation is
// one run of neighbouring blocks (first fit), as engines had before paging.
func NewKVCache(c KVConfig, contiguous bool) *KVCache {
	k := &KVCache{size: c.BlockSize, used: make([]bool, c.Blocks), runs: contiguous}
	if !contiguous {
		k.free = make([]int32, c.Blocks)
		for i := range k.free {
			k.free[i] = int32(c.Blocks - 1 - i)
		}
	}
	return k
}

// Blocks returns the number of blocks in all.
func (k *KVCache) Blocks() int { return len(k.used) }

// Used returns the number of blocks that are handed out.
func (k *KVCache) Used() int { return k.n }

// Usage is Used over Blocks, 0 to 1.
func (k *KVCache) Usage() float64 { return float64(k.Used()) / float64(max(1, len(k.used))) }

// Grow extends a block table until it covers positions positions and reports
// whether that was possible; otherwise the table is unchanged.
func (k *KVCache) Grow(table []int32, positions int) ([]int32, bool) {
	need := (positions+k.size-1)/k.size - len(table)
	switch {
	case need <= 0:
		return table, true
	case k.runs && len(table) > 0:
		return table, false
	case k.runs:
		return k.run(table, need)
	case need > len(k.free):
		return table, false
	}
	k.n += need
	for range need {
		b := k.free[len(k.free)-1]
		k.free = k.free[:len(k.free)-1]
		k.used[b] = true
		table = append(table, b)
	}
	return table, true
}

// run takes the first run of need free blocks.
func (k *KVCache) run(table []int32, need int) ([]int32, bool) {
	for start, n := 0, 0; start+n < len(k.used); {
		if k.used[start+n] {
			start, n = start+n+1, 0
			continue
		}
		if n++; n == need {
			k.n += need
			for b := start; b < start+n; b++ {
				k.used[b] = true
				table = append(table, int32(b))
			}
			return table, true
		}
	}
	return table, false
}

// Free takes the blocks of a table back and returns the empty table.
func (k *KVCache) Free(table []int32) []int32 {
	k.n -= len(table)
	for _, b := range slices.Backward(table) {
		k.used[b] = false
		if !k.runs {
			k.free = append(k.free, b)
		}
	}
	return table[:0]
}
