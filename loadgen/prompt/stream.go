package prompt

import (
	"context"
	"sync"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/loadgen/internal/draw"
)

// Item is one request made ready: everything that does not depend on when it
// is sent.
type Item struct {
	Prompt backends.Prompt
	// Input is the prompt's length on the wire in tokens, template and special
	// tokens included, 0 when unknown. Exact says that it was counted, not
	// estimated.
	Input int
	Exact bool
	// Output is the number of tokens to ask for.
	Output int
	// CacheSalt keeps the prompt from sharing a prefix cache, where the server
	// knows such a field.
	CacheSalt string
	// CancelAfter and CancelTokens end the request from the client's side
	// after a time or so many tokens; 0 does not.
	CancelAfter  time.Duration
	CancelTokens int

	units int // words or ids that the prompt was made of
	err   error
}

// Stream gives the items of one rung, in order, made ahead by goroutines of
// its own. Item k depends on the rung's seed and k only. It is safe for
// concurrent use.
type Stream struct {
	source  *Source
	seed    uint64
	lengths func(k int64) Lengths
	cancel  context.CancelFunc
	done    sync.WaitGroup

	turn  chan int64 // holds the number of the next item to make
	slots []slot
}

// slot holds every item whose number is the slot's modulo the ring.
type slot struct {
	free chan struct{}
	full chan *Item
}

// The ring's depth is bounded in items and, at 4 bytes a token, in memory.
const (
	minAhead   = 64
	maxAhead   = 4096
	aheadBytes = 64 << 20
	makers     = 2
)

// Open starts a rung's items. lengths gives the token counts of item k and is
// called from several goroutines; burst is the number of items that may be
// taken at once. Close the stream to end its goroutines.
func (s *Source) Open(ctx context.Context, seed uint64, lengths func(k int64) Lengths, burst int) *Stream {
	depth := min(max(minAhead, burst), maxAhead)
	depth = max(min(depth, aheadBytes/(4*max(1, lengths(0).Input))), makers)
	ctx, cancel := context.WithCancel(ctx)
	st := &Stream{source: s, seed: seed, lengths: lengths, cancel: cancel,
		turn: make(chan int64, 1), slots: make([]slot, depth)}
	st.turn <- 0
	for i := range st.slots {
		st.slots[i] = slot{free: make(chan struct{}, 1), full: make(chan *Item, 1)}
		st.slots[i].free <- struct{}{}
	}
	for range makers {
		st.done.Go(func() { st.make(ctx) })
	}
	return st
}

// make makes items until ctx ends.
func (st *Stream) make(ctx context.Context) {
	for {
		k, ok := st.claim(ctx)
		if !ok {
			return
		}
		it := &Item{}
		if it.err = st.source.fill(ctx, it, st.seed, k, st.lengths(k)); it.err == nil {
			st.source.cancellation(it, st.seed, k)
		}
		st.slots[k%int64(len(st.slots))].full <- it
	}
}

// claim takes the number of the next item to make once its slot is free, so
// that the slots fill in order.
func (st *Stream) claim(ctx context.Context) (int64, bool) {
	var k int64
	select {
	case k = <-st.turn:
	case <-ctx.Done():
		return 0, false
	}
	select {
	case <-st.slots[k%int64(len(st.slots))].free:
	case <-ctx.Done():
		return 0, false
	}
	st.turn <- k + 1
	return k, true
}

// Fill waits until the first n items, or as many as are made ahead, are ready,
// and returns the first error among them. It is called before the first Take.
func (st *Stream) Fill(ctx context.Context, n int) error {
	for k := range min(n, len(st.slots)) {
		select {
		case it := <-st.slots[k].full:
			st.slots[k].full <- it
			if it.err != nil {
				return it.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Take returns item k, waiting for it if it is not ready. Each item may be
// taken once, in any order within the ring.
func (st *Stream) Take(ctx context.Context, k int64) (*Item, error) {
	slot := &st.slots[k%int64(len(st.slots))]
	select {
	case it := <-slot.full:
		slot.free <- struct{}{}
		return it, it.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the stream. No Take may follow.
func (st *Stream) Close() {
	st.cancel()
	st.done.Wait()
}

// cancellation draws whether the client gives the request up.
func (s *Source) cancellation(it *Item, seed uint64, k int64) {
	c := s.cfg.Workload.Cancel
	if c.Share <= 0 || draw.New(seed, streamCancel, uint64(k)).Uniform() > c.Share {
		return
	}
	it.CancelAfter, it.CancelTokens = c.After.Std(), c.AfterTokens
}
