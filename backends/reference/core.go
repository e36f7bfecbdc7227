package reference

import (
	"context"
	"fmt"
)

// Core joins a scheduler to an executor and keeps the slices whose results lie
// in the future: the whole engine but for time itself, which every call is
// told. A server drives it by the real clock, a simulation by events. It is
// not safe for concurrent use.
type Core struct {
	Sched *Scheduler
	exec  Executor
	indep bool
	due   dueHeap
	order uint64
	last  int64 // when the step before was done; 0 once a step has begun
}

// Token is one step forward of a sequence.
type Token struct {
	Seq *Sequence
	// Slice holds the id and its probabilities, lent during the call; nil when
	// the sequence ended without a token because the executor failed with Err.
	Slice *Slice
	// At is when the token was ready by the executor's account.
	At  int64
	Err error
}

// NewCore returns an engine in which nothing runs.
func NewCore(s *Scheduler, e Executor) *Core {
	return &Core{Sched: s, exec: e, indep: e.Info().Independent}
}

// Wake is the time of the next thing to happen; ok is false when nothing will
// unless a sequence is added.
func (c *Core) Wake() (at int64, ok bool) {
	at, ok = c.Sched.Wake()
	if len(c.due) > 0 && (!ok || c.due[0].slice.Done < at) {
		return c.due[0].slice.Done, true
	}
	return at, ok
}

// Add queues a sequence that arrived at now. Tokens of other sequences may be
// emitted by an executor whose sequences are independent.
func (c *Core) Add(q *Sequence, now int64, emit func(Token)) {
	c.Sched.Add(q, now)
	c.follow(now, emit)
}

// Cancel ends a sequence early and frees what it held.
func (c *Core) Cancel(q *Sequence, why Finish, now int64, emit func(Token)) {
	c.Sched.End(q, why, now)
	c.follow(now, emit)
}

// Advance applies up to limit slices that are ready at now and emits their
// tokens in order. emit may call Scheduler.End.
func (c *Core) Advance(now int64, limit int, emit func(Token)) {
	for n := 0; n < limit && len(c.due) > 0 && c.due[0].slice.Done <= now; n++ {
		q := c.due.pop()
		at := q.slice.Done
		if c.Sched.Apply(&q.slice, at) {
			emit(Token{Seq: q, Slice: &q.slice, At: at})
		}
		c.last = at
		c.follow(at, emit)
	}
	if at, ok := c.Sched.Wake(); ok && at <= now {
		c.follow(at, emit)
	}
}

// follow begins what can begin at now where a step does not block.
func (c *Core) follow(now int64, emit func(Token)) {
	if !c.indep {
		return
	}
	if b := c.Sched.Next(now); b != nil {
		c.Complete(b, c.exec.Step(context.Background(), b), now, emit)
	}
}

// Begin returns the step that a computing executor is to run next, nil when
// there is none; its results go to Complete. Where a step was just done the
// next one starts at that time, so that simulated steps keep to their times.
func (c *Core) Begin(now int64) *Batch {
	if c.indep || len(c.due) > 0 {
		return nil
	}
	if c.last != 0 {
		now = c.last
	}
	b := c.Sched.Next(now)
	c.last = 0
	return b
}

// Complete takes the results of a step. If the step failed its sequences end
// with FinishError.
func (c *Core) Complete(b *Batch, err error, now int64, emit func(Token)) {
	for _, sl := range b.Slices {
		q := sl.seq
		if err == nil {
			if q.StallAt == sl.Output && sl.Want {
				sl.Done += q.Stall
			}
			c.order++
			q.order = c.order
			c.due.push(q)
			continue
		}
		c.Sched.End(q, FinishError, now)
		c.Sched.Apply(sl, now)
		if q.Finish == FinishError {
			emit(Token{Seq: q, At: now, Err: fmt.Errorf("the executor failed: %w", err)})
		}
	}
}

// dueHeap orders sequences in a step by when their slice is done; equals stay
// in the order in which they were begun, so that none overtakes the others.
type dueHeap []*Sequence

func (h dueHeap) less(i, j int) bool {
	if h[i].slice.Done != h[j].slice.Done {
		return h[i].slice.Done < h[j].slice.Done
	}
	return h[i].order < h[j].order
}

func (h *dueHeap) push(q *Sequence) {
	*h = append(*h, q)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.less(i, up) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *dueHeap) pop() *Sequence {
	s := *h
	q := s[0]
	n := len(s) - 1
	s[0], s[n] = s[n], nil
	s = s[:n]
	*h = s
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < n && s.less(child, least) {
				least = child
			}
		}
		if least == i {
			return q
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
