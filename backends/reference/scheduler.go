package reference

import (
	"math"
	"slices"
)

// SchedulerConfig says how sequences share an executor.
type SchedulerConfig struct {
	// MaxNumSeqs is how many sequences run at once; 0 sets no limit.
	MaxNumSeqs int
	// KV is the cache's size; every sequence must fit into it alone.
	KV KVConfig
	// Contiguous reserves MaxModelLen positions for each sequence when it is
	// admitted, in one run of blocks, in place of paging.
	Contiguous  bool
	MaxModelLen int
	// ChunkedPrefill is the number of tokens that a step computes at most,
	// decoding first; prompts are cut to fit. 0 computes whole prompts, as
	// static batches always do.
	ChunkedPrefill int
	// Static admits a batch of BatchSize sequences only when the last batch has
	// ended, or fewer when the oldest has waited BatchWindow nanoseconds.
	Static      bool
	BatchSize   int
	BatchWindow int64
	// Independent is ModelInfo.Independent.
	Independent bool
	EOS         []int32
}

// Scheduler decides what each step computes: iteration-level batching (Orca,
// OSDI 2022) over a paged KV cache (vLLM, SOSP 2023), first come first served.
// When the cache is full the sequence admitted last loses its blocks and is
// computed anew later. It is a state machine without clock or goroutine: every
// call is told the time. It is not safe for concurrent use.
type Scheduler struct {
	cfg         SchedulerConfig
	kv          *KVCache
	waiting     sequenceList
	running     sequenceList // by admission
	ready       []*Sequence  // running and in no step, by admission
	inFlight    int
	preemptions int
	batch       Batch
}

// NewScheduler returns an empty scheduler.
func NewScheduler(cfg SchedulerConfig) *Scheduler {
	if cfg.MaxNumSeqs == 0 {
		cfg.MaxNumSeqs = math.MaxInt
	}
	if cfg.Static {
		cfg.BatchSize = min(max(1, cfg.BatchSize), cfg.MaxNumSeqs)
		cfg.ChunkedPrefill = 0
	}
	return &Scheduler{cfg: cfg, kv: NewKVCache(cfg.KV, cfg.Contiguous)}
}

// Running is the number of sequences that have been admitted and have not ended.
func (s *Scheduler) Running() int { return s.running.len }

// Waiting is the number of sequences that wait for their first step, or again
// after a preemption.
func (s *Scheduler) Waiting() int { return s.waiting.len }

// Preemptions is how often a sequence has lost its blocks to another so far.
func (s *Scheduler) Preemptions() int { return s.preemptions }

// KV is the cache that the scheduler gives blocks of.
func (s *Scheduler) KV() *KVCache { return s.kv }

// Add queues a sequence that arrived at now.
func (s *Scheduler) Add(q *Sequence, now int64) {
	q.Arrival = now
	q.tokens = append(make([]int32, 0, len(q.Prompt)+min(q.MaxTokens, 256)), q.Prompt...)
	q.state = stateWaiting
	s.waiting.pushBack(q)
}

// Next returns the next step, nil when there is nothing to compute now: all is
// in flight or waits for room. The batch is lent until the next call.
func (s *Scheduler) Next(now int64) *Batch {
	if s.inFlight > 0 && !s.cfg.Independent {
		return nil
	}
	b := &s.batch
	b.At, b.Slices = now, b.Slices[:0]
	budget := math.MaxInt
	if s.cfg.ChunkedPrefill > 0 {
		budget = s.cfg.ChunkedPrefill
	}
	// Decoding goes first, then prompts already begun, then new ones.
	preempted := s.preemptions
	budget = s.schedule(budget, false)
	budget = s.schedule(budget, true)
	s.ready = slices.DeleteFunc(s.ready, func(q *Sequence) bool { return q.inFlight || q.state != stateRunning })
	if s.preemptions == preempted {
		s.admit(now, budget)
	}
	if len(b.Slices) == 0 {
		return nil
	}
	b.Running = s.running.len
	return b
}

// schedule puts the ready sequences that prefill (or those that do not) into
// the batch as far as budget goes, and returns what is left of it.
func (s *Scheduler) schedule(budget int, prefill bool) int {
	for _, q := range s.ready {
		rest := len(q.tokens) - q.computed
		if q.state != stateRunning || q.inFlight || (rest > 1) != prefill {
			continue
		}
		n := min(rest, budget)
		if n == 0 || !s.makeRoom(q, q.computed+n) {
			continue
		}
		s.slice(q, n)
		budget -= n
	}
	return budget
}

// admit starts waiting sequences while slots, blocks and budget last.
func (s *Scheduler) admit(now int64, budget int) {
	limit := s.cfg.MaxNumSeqs
	if s.cfg.Static {
		if s.running.len > 0 || s.waiting.len == 0 ||
			s.waiting.len < s.cfg.BatchSize && now < s.waiting.head.Arrival+s.cfg.BatchWindow {
			return
		}
		limit = s.cfg.BatchSize
	}
	for q := s.waiting.head; q != nil && s.running.len < limit && budget > 0; q = s.waiting.head {
		n := min(len(q.tokens), budget)
		positions := n
		if s.cfg.Contiguous {
			positions = s.cfg.MaxModelLen
		}
		var ok bool
		if q.blocks, ok = s.kv.Grow(q.blocks, positions); !ok {
			return
		}
		s.waiting.remove(q)
		s.running.pushBack(q)
		q.state = stateRunning
		if q.FirstScheduled == 0 {
			q.FirstScheduled = max(now, q.Arrival)
		}
		s.slice(q, n)
		budget -= n
	}
}

// makeRoom grows q's table to cover positions, preempting from the back until
// it can; it reports false when q itself had to go.
func (s *Scheduler) makeRoom(q *Sequence, positions int) bool {
	for {
		var ok bool
		if q.blocks, ok = s.kv.Grow(q.blocks, positions); ok {
			return true
		}
		victim := s.running.tail
		for victim != q && victim.inFlight {
			victim = victim.prev
			if victim == nil {
				victim = q
			}
		}
		s.preempt(victim)
		if victim == q {
			return false
		}
	}
}

func (s *Scheduler) preempt(q *Sequence) {
	q.blocks = s.kv.Free(q.blocks)
	q.computed = 0
	q.Preemptions++
	s.preemptions++
	s.running.remove(q)
	s.waiting.pushFront(q)
	q.state = stateWaiting
}

// slice adds the next n tokens of q to the batch.
func (s *Scheduler) slice(q *Sequence, n int) {
	end := q.computed + n
	outputs := len(q.tokens) - len(q.Prompt)
	top := q.slice.Top
	q.slice = Slice{
		Seq: q.ID, At: max(s.batch.At, q.Arrival), Tokens: q.tokens[q.computed:end], Start: q.computed, Blocks: q.blocks,
		Prefill: q.computed < len(q.Prompt) || n > 1, Want: end == len(q.tokens), Output: outputs,
		Sampling: q.Sampling, Top: top, seq: q,
	}
	q.slice.Sampling.BanEOS = q.IgnoreEOS || outputs < q.MinTokens
	q.inFlight = true
	s.inFlight++
	s.batch.Slices = append(s.batch.Slices, &q.slice)
}

// Apply takes the result of one slice, at the time now, and reports whether it
// brought a token. Slices of sequences that were cancelled meanwhile bring
// none. Once the sequence has ended its Finish is set.
func (s *Scheduler) Apply(sl *Slice, now int64) bool {
	q := sl.seq
	if !q.inFlight {
		return false
	}
	q.inFlight = false
	s.inFlight--
	if q.state == stateEnded {
		q.blocks = s.kv.Free(q.blocks)
		return false
	}
	q.computed += len(sl.Tokens)
	if !sl.Want {
		s.ready = append(s.ready, q)
		return false
	}
	q.tokens = append(q.tokens, sl.Next)
	n := len(q.tokens) - len(q.Prompt)
	switch {
	case !q.IgnoreEOS && n > q.MinTokens && slices.Contains(s.cfg.EOS, sl.Next):
		s.End(q, FinishStop, now)
	case n >= q.MaxTokens || len(q.tokens) >= s.cfg.MaxModelLen:
		s.End(q, FinishLength, now)
	default:
		s.ready = append(s.ready, q)
	}
	return true
}

// End ends a sequence for a reason from outside (a disconnect, a stop string)
// or from Apply and frees what it holds: at once, but for blocks that a
// computing executor is at work on, which are freed by Apply.
func (s *Scheduler) End(q *Sequence, why Finish, now int64) {
	if q.state == stateEnded || q.state == stateNew {
		return
	}
	q.list.remove(q)
	q.state, q.Finish, q.Ended = stateEnded, why, now
	if q.inFlight && s.cfg.Independent {
		q.inFlight = false
		s.inFlight--
	}
	if !q.inFlight {
		q.blocks = s.kv.Free(q.blocks)
	}
}

// Wake returns the time at which a static batch is due although no sequence
// arrives or ends before; ok is false when there is no such time.
func (s *Scheduler) Wake() (at int64, ok bool) {
	if !s.cfg.Static || s.waiting.len == 0 || s.running.len > 0 {
		return 0, false
	}
	return s.waiting.head.Arrival + s.cfg.BatchWindow, true
}
