package tokenizer

import "sync"

// bpe is a byte-pair encoding: a vocabulary and the pairs that may be joined,
// each with the rank at which it was learnt.
type bpe struct {
	ids    map[string]int32 // by piece
	merges map[pair]merge
	// whole says that a word that is a piece is taken as it is, whatever the
	// merges would make of it (ignore_merges).
	whole   bool
	scratch sync.Pool // of *word
}

type pair struct{ left, right int32 }

type merge struct {
	rank uint32
	id   int32 // of the joined piece
}

// word is a text while it is being joined: a list of symbols, linked by index,
// and a queue of the pairs that can be joined.
type word struct {
	symbols []symbol
	queue   queue
}

// symbol is a piece so far. A symbol that was joined to its left neighbour has
// id -1.
type symbol struct{ id, prev, next int32 }

// join appends the ids that the merges leave of a word's first symbols. Of all
// adjacent pairs the one of lowest rank is joined first, the leftmost among
// equals, until none can be joined.
func (b *bpe) join(ids, first []int32) []int32 {
	if len(first) < 2 {
		return append(ids, first...)
	}
	w, _ := b.scratch.Get().(*word)
	if w == nil {
		w = new(word)
	}
	defer b.scratch.Put(w)
	w.symbols, w.queue = w.symbols[:0], w.queue[:0]
	for i, id := range first {
		w.symbols = append(w.symbols, symbol{id: id, prev: int32(i - 1), next: int32(i + 1)})
	}
	w.symbols[len(first)-1].next = -1
	for i := range len(first) - 1 {
		b.offer(w, int32(i))
	}
	for len(w.queue) > 0 {
		rank, left := w.queue.pop()
		b.apply(w, rank, left)
	}
	for i := int32(0); i >= 0; i = w.symbols[i].next {
		ids = append(ids, w.symbols[i].id)
	}
	return ids
}

// lookup returns the merge of the symbol at left with its right neighbour.
func (b *bpe) lookup(w *word, left int32) (merge, bool) {
	s := w.symbols[left]
	if s.id < 0 || s.next < 0 {
		return merge{}, false
	}
	m, ok := b.merges[pair{s.id, w.symbols[s.next].id}]
	return m, ok
}

// offer queues the pair that starts at left, if it can be joined.
func (b *bpe) offer(w *word, left int32) {
	if left < 0 {
		return
	}
	if m, ok := b.lookup(w, left); ok {
		w.queue.push(m.rank, left)
	}
}

// apply joins the pair at left, unless it has changed since it was queued.
func (b *bpe) apply(w *word, rank uint32, left int32) {
	m, ok := b.lookup(w, left)
	if !ok || m.rank != rank {
		return
	}
	s := &w.symbols[left]
	gone := &w.symbols[s.next]
	s.id, s.next = m.id, gone.next
	gone.id = -1
	if s.next >= 0 {
		w.symbols[s.next].prev = left
	}
	b.offer(w, s.prev)
	b.offer(w, left)
}

// queue is a binary heap of pairs by rank, then position. An entry holds the
// rank in its upper and the position in its lower 32 bits.
type queue []uint64

func (q *queue) push(rank uint32, at int32) {
	h := append(*q, uint64(rank)<<32|uint64(uint32(at)))
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up] <= h[i] {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	*q = h
}

func (q *queue) pop() (rank uint32, at int32) {
	h := *q
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if right := down + 1; right < last && h[right] < h[down] {
			down = right
		}
		if h[i] <= h[down] {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	*q = h
	return uint32(top >> 32), int32(uint32(top))
}
