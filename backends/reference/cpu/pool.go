package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pool shares the parts of a phase among worker goroutines. A phase is a
// function called once for each of its parts; do returns when all have run.
// Parts are claimed one at a time, so a worker that loses its core to another
// process holds up at most one of them. Workers wait for the next phase by
// spinning, but only between begin and end; outside they sleep.
type pool struct {
	workers int // the caller of do included
	// ticket is the state of the phase: generation, number of parts and the
	// next unclaimed one (24, 20 and 20 bits), so that a claim is one
	// compare-and-swap that fails when any of them has moved on.
	ticket atomic.Uint64
	phase  atomic.Pointer[phase]
	done   atomic.Int64
	open   atomic.Bool // between begin and end
	wake   []chan struct{}
	joined sync.WaitGroup
}

// phase runs one part; worker numbers the goroutine, below pool.workers.
type phase func(worker, part int)

const (
	partBits = 20
	maxParts = 1<<partBits - 1
)

// newPool starts threads-1 workers; the caller of do is one more.
func newPool(threads int) *pool {
	p := &pool{workers: threads}
	for w := 1; w < threads; w++ {
		wake := make(chan struct{}, 1)
		p.wake = append(p.wake, wake)
		p.joined.Go(func() {
			for range wake {
				p.serve(w)
			}
		})
	}
	return p
}

// close ends the workers.
func (p *pool) close() {
	for _, wake := range p.wake {
		close(wake)
	}
	p.joined.Wait()
}

// begin wakes the workers for a series of phases.
func (p *pool) begin() {
	p.open.Store(true)
	for _, wake := range p.wake {
		select {
		case wake <- struct{}{}:
		default: // still on its way from the last time
		}
	}
}

// end lets the workers sleep.
func (p *pool) end() { p.open.Store(false) }

// do runs f for parts 0 to n-1, at most maxParts, and returns when all are
// done. It is called by one goroutine, between begin and end.
func (p *pool) do(n int, f phase) {
	if n == 0 {
		return
	}
	if p.workers == 1 || n == 1 {
		for part := range n {
			f(0, part)
		}
		return
	}
	p.done.Store(0)
	p.phase.Store(&f)
	generation := p.ticket.Load()>>(2*partBits) + 1
	p.ticket.Store(generation<<(2*partBits) | uint64(n)<<partBits)
	for p.claim(0) {
	}
	for spins := 0; p.done.Load() < int64(n); spins++ {
		relax(spins)
	}
}

// claim takes a part of the phase, if there is one, and runs it.
func (p *pool) claim(worker int) bool {
	for {
		t := p.ticket.Load()
		part, parts := int(t&maxParts), int(t>>partBits&maxParts)
		if part >= parts {
			return false
		}
		f := p.phase.Load()
		// The phase cannot end while a part is unclaimed, so when the swap
		// succeeds f belongs to t.
		if p.ticket.CompareAndSwap(t, t+1) {
			(*f)(worker, part)
			p.done.Add(1)
			return true
		}
	}
}

// serve runs parts until the series of phases ends.
func (p *pool) serve(worker int) {
	for spins := 0; p.open.Load(); spins++ {
		if p.claim(worker) {
			spins = 0
		}
		relax(spins)
	}
}

// relax is what a waiting goroutine does: at first nothing, since phases are
// short; then it lets other goroutines run; and when the one that it waits for
// seems to have lost its core to another process, it leaves its own to them.
func relax(spins int) {
	switch {
	case spins < 64:
	case spins < 1024:
		runtime.Gosched()
	default:
		yieldCore()
	}
}
