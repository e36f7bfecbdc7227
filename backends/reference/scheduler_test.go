package reference

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// memoryExecutor stands for a model whose KV cache is real: each position
// keeps which token of which sequence was written there, and each step checks
// that everything before it is still there. Tokens follow from sequence and
// index, so that a recomputed sequence must repeat itself.
type memoryExecutor struct {
	t           *testing.T
	kv          KVConfig
	independent bool
	cells       []cell
	budget      int // tokens a step, 0 for any number
	step        func(start, tokens int) int64
}

type cell struct {
	seq      uint64
	position int
	token    int32
}

func (e *memoryExecutor) Info() ModelInfo {
	return ModelInfo{Name: "memory", VocabSize: 1000, MaxModelLen: 1 << 20, Independent: e.independent, EOS: []int32{0}}
}

func (e *memoryExecutor) Close() error { return nil }

func (e *memoryExecutor) Step(_ context.Context, b *Batch) error {
	total := 0
	seen := map[int32]uint64{}
	for _, sl := range b.Slices {
		total += len(sl.Tokens)
		if len(sl.Blocks)*e.kv.BlockSize < sl.Start+len(sl.Tokens) {
			e.t.Fatalf("sequence %d: %d blocks do not cover %d positions", sl.Seq, len(sl.Blocks), sl.Start+len(sl.Tokens))
		}
		for _, block := range sl.Blocks {
			if other, ok := seen[block]; ok {
				e.t.Fatalf("block %d belongs to sequences %d and %d", block, other, sl.Seq)
			}
			seen[block] = sl.Seq
		}
		at := func(p int) *cell { return &e.cells[int(sl.Blocks[p/e.kv.BlockSize])*e.kv.BlockSize+p%e.kv.BlockSize] }
		for p := range sl.Start {
			if c := at(p); c.seq != sl.Seq || c.position != p {
				e.t.Fatalf("sequence %d: position %d holds position %d of sequence %d", sl.Seq, p, c.position, c.seq)
			}
		}
		for i, token := range sl.Tokens {
			*at(sl.Start + i) = cell{sl.Seq, sl.Start + i, token}
		}
		sl.Next = nextOf(sl.Seq, sl.Output)
		sl.Done = sl.At + e.step(sl.Start, len(sl.Tokens))
	}
	if e.budget > 0 && total > e.budget {
		e.t.Fatalf("a step of %d tokens, over the budget of %d", total, e.budget)
	}
	return nil
}

func nextOf(seq uint64, output int) int32 { return int32(1 + (seq*31+uint64(output)*7)%999) }

// TestSchedulerKeepsItsPromises drives random loads through every kind of
// scheduler and holds each step to what a real KV cache would need.
func TestSchedulerKeepsItsPromises(t *testing.T) {
	for _, independent := range []bool{false, true} {
		for _, contiguous := range []bool{false, true} {
			for _, chunk := range []int{0, 7, 64} {
				for _, static := range []bool{false, true} {
					name := fmt.Sprintf("independent=%v/contiguous=%v/chunk=%d/static=%v", independent, contiguous, chunk, static)
					t.Run(name, func(t *testing.T) {
						preemptions := 0
						for seed := range uint64(8) {
							preemptions += driveScheduler(t, seed, SchedulerConfig{
								MaxNumSeqs: 6, KV: KVConfig{Blocks: 24, BlockSize: 4}, Contiguous: contiguous, MaxModelLen: 48,
								ChunkedPrefill: chunk, Static: static, BatchSize: 3, BatchWindow: 50, Independent: independent, EOS: []int32{0},
							})
						}
						if contiguous != (preemptions == 0) {
							t.Errorf("%d preemptions", preemptions)
						}
					})
				}
			}
		}
	}
}

// driveScheduler returns the number of preemptions.
func driveScheduler(t *testing.T, seed uint64, cfg SchedulerConfig) int {
	rng := rand.New(rand.NewPCG(seed, 1))
	exec := &memoryExecutor{t: t, kv: cfg.KV, independent: cfg.Independent, cells: make([]cell, cfg.KV.Blocks*cfg.KV.BlockSize)}
	if !cfg.Independent && !cfg.Static {
		exec.budget = cfg.ChunkedPrefill
	}
	exec.step = func(_, tokens int) int64 {
		if cfg.Independent {
			return int64(1 + tokens + rng.IntN(20))
		}
		return 10
	}
	sched := NewScheduler(cfg)
	core := NewCore(sched, exec)
	var all []*Sequence
	got := map[*Sequence][]int32{}
	emit := func(tk Token) { got[tk.Seq] = append(got[tk.Seq], tk.Slice.Next) }
	cancelled := map[*Sequence]bool{}
	now := int64(1)
	for len(all) < 40 || sched.Running()+sched.Waiting() > 0 {
		if len(all) < 40 && rng.IntN(3) == 0 {
			prompt := make([]int32, 1+rng.IntN(30))
			for i := range prompt {
				prompt[i] = int32(1 + rng.IntN(998))
			}
			q := &Sequence{ID: uint64(len(all) + 1), Prompt: prompt, MaxTokens: 1 + rng.IntN(48-len(prompt))}
			all = append(all, q)
			core.Add(q, now, emit)
		}
		if len(all) > 0 && rng.IntN(25) == 0 {
			q := all[rng.IntN(len(all))]
			cancelled[q] = cancelled[q] || q.Finish == FinishNone
			core.Cancel(q, FinishAbort, now, emit)
		}
		if b := core.Begin(now); b != nil {
			core.Complete(b, exec.Step(context.Background(), b), now, emit)
		}
		checkBlocks(t, sched, all)
		if at, ok := core.Wake(); ok {
			now = max(now, at)
		} else {
			now++
		}
		core.Advance(now, 1+rng.IntN(8), emit)
		if now > 1<<20 {
			t.Fatalf("seed %d: no progress with %d running and %d waiting", seed, sched.Running(), sched.Waiting())
		}
	}
	for core.Advance(1<<40, 1<<20, emit); ; core.Advance(1<<40, 1<<20, emit) {
		b := core.Begin(now)
		if b == nil {
			break
		}
		core.Complete(b, exec.Step(context.Background(), b), now, emit)
	}
	if n := sched.KV().Used(); n != 0 {
		t.Errorf("seed %d: %d blocks are still used when everything has ended", seed, n)
	}
	for _, q := range all {
		want := make([]int32, 0, q.MaxTokens)
		for i := range q.MaxTokens {
			want = append(want, nextOf(q.ID, i))
		}
		if cancelled[q] {
			want = want[:len(got[q])]
		}
		if !slices.Equal(got[q], want) {
			t.Errorf("seed %d: sequence %d (preempted %d times) gave %v, want %v", seed, q.ID, q.Preemptions, got[q], want)
		}
	}
	return sched.Preemptions()
}

// checkBlocks holds the block tables against the cache's own account.
func checkBlocks(t *testing.T, s *Scheduler, all []*Sequence) {
	t.Helper()
	owner := map[int32]uint64{}
	for _, q := range all {
		for _, b := range q.blocks {
			if other, ok := owner[b]; ok {
				t.Fatalf("block %d belongs to sequences %d and %d", b, other, q.ID)
			}
			owner[b] = q.ID
		}
		if q.state == stateWaiting && len(q.blocks) > 0 {
			t.Fatalf("sequence %d waits with %d blocks", q.ID, len(q.blocks))
		}
	}
	if len(owner) != s.KV().Used() {
		t.Fatalf("%d blocks are in tables, %d are used", len(owner), s.KV().Used())
	}
}

func TestPreemptionTakesTheLastAdmitted(t *testing.T) {
	cfg := SchedulerConfig{KV: KVConfig{Blocks: 4, BlockSize: 2}, MaxModelLen: 8}
	exec := &memoryExecutor{t: t, kv: cfg.KV, cells: make([]cell, 8), step: func(int, int) int64 { return 1 }}
	sched := NewScheduler(cfg)
	core := NewCore(sched, exec)
	first := &Sequence{ID: 1, Prompt: []int32{1, 2, 3}, MaxTokens: 5}
	second := &Sequence{ID: 2, Prompt: []int32{4, 5, 6}, MaxTokens: 5}
	var ended []uint64
	emit := func(tk Token) {
		if tk.Seq.Finish != FinishNone {
			ended = append(ended, tk.Seq.ID)
		}
	}
	core.Add(first, 1, emit)
	core.Add(second, 1, emit)
	for now := int64(1); len(ended) < 2 && now < 100; now++ {
		if b := core.Begin(now); b != nil {
			core.Complete(b, exec.Step(context.Background(), b), now, emit)
		}
		core.Advance(now+1, 10, emit)
	}
	if first.Preemptions != 0 || second.Preemptions == 0 || sched.Preemptions() != second.Preemptions {
		t.Errorf("preemptions are %d and %d, want none of the first and some of the second", first.Preemptions, second.Preemptions)
	}
	if !slices.Equal(ended, []uint64{1, 2}) {
		t.Errorf("ended in the order %v, want first come first served", ended)
	}
}

func TestChunkedPrefillLetsDecodingGoOn(t *testing.T) {
	cfg := SchedulerConfig{KV: KVConfig{Blocks: 100, BlockSize: 4}, MaxModelLen: 400, ChunkedPrefill: 10}
	sched := NewScheduler(cfg)
	short := &Sequence{ID: 1, Prompt: []int32{1}, MaxTokens: 20}
	long := &Sequence{ID: 2, Prompt: make([]int32, 35), MaxTokens: 3}
	sched.Add(short, 0)
	var shape [][]int
	for now := int64(0); long.Finish == FinishNone; now++ {
		if now == 1 {
			sched.Add(long, now)
		}
		b := sched.Next(now)
		var sizes []int
		for _, sl := range b.Slices {
			sizes = append(sizes, len(sl.Tokens))
			sl.Next = 1
			sched.Apply(sl, now)
		}
		shape = append(shape, sizes)
	}
	want := [][]int{{1}, {1, 9}, {1, 9}, {1, 9}, {1, 8}, {1, 1}, {1, 1}}
	if !slices.EqualFunc(shape, want, slices.Equal) {
		t.Errorf("steps computed %v tokens, want %v", shape, want)
	}
}

func TestStaticBatchesWait(t *testing.T) {
	cfg := SchedulerConfig{KV: KVConfig{Blocks: 100, BlockSize: 4}, MaxModelLen: 100, Static: true, BatchSize: 3, BatchWindow: 5}
	sched := NewScheduler(cfg)
	seqs := make([]*Sequence, 5)
	for i := range seqs {
		seqs[i] = &Sequence{ID: uint64(i), Prompt: []int32{1}, MaxTokens: 1 + i}
	}
	sched.Add(seqs[0], 0)
	sched.Add(seqs[1], 2)
	if sched.Next(4) != nil {
		t.Fatal("a batch of two began before its window was over")
	}
	if at, ok := sched.Wake(); !ok || at != 5 {
		t.Fatalf("Wake() = %d, %v, want 5", at, ok)
	}
	var sizes []int
	for now := int64(5); now < 30; now++ {
		if now == 6 {
			for _, q := range seqs[2:] {
				sched.Add(q, now)
			}
		}
		b := sched.Next(now)
		if b == nil {
			break
		}
		sizes = append(sizes, len(b.Slices))
		for _, sl := range b.Slices {
			sl.Next = 1
			sched.Apply(sl, now)
		}
	}
	// Two begin when the window ends; the full batch of three begins only when
	// the longer of the two is done.
	if want := []int{2, 1, 3, 3, 3, 2, 1}; !slices.Equal(sizes, want) {
		t.Errorf("steps had %v sequences, want %v", sizes, want)
	}
}

func TestFinishReasons(t *testing.T) {
	for _, tt := range []struct {
		name   string
		seq    Sequence
		tokens []int32
		want   Finish
		n      int
	}{
		{"length", Sequence{MaxTokens: 2}, []int32{5, 5, 5}, FinishLength, 2},
		{"eos", Sequence{MaxTokens: 9}, []int32{5, 0}, FinishStop, 2},
		{"ignore_eos", Sequence{MaxTokens: 3, IgnoreEOS: true}, []int32{5, 0, 5}, FinishLength, 3},
		{"min_tokens", Sequence{MaxTokens: 9, MinTokens: 2}, []int32{0, 0, 0}, FinishStop, 3},
		{"model length", Sequence{MaxTokens: 99}, []int32{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, FinishLength, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sched := NewScheduler(SchedulerConfig{KV: KVConfig{Blocks: 5, BlockSize: 4}, MaxModelLen: 10, EOS: []int32{0}})
			q := tt.seq
			q.Prompt = []int32{1, 2}
			sched.Add(&q, 0)
			for _, next := range tt.tokens {
				b := sched.Next(0)
				if b == nil {
					break
				}
				b.Slices[0].Next = next
				sched.Apply(b.Slices[0], 0)
			}
			if q.Finish != tt.want || len(q.Output()) != tt.n {
				t.Errorf("finished with %q after %d tokens, want %q after %d", q.Finish, len(q.Output()), tt.want, tt.n)
			}
		})
	}
}

func TestFailedStepEndsItsSequences(t *testing.T) {
	sched := NewScheduler(SchedulerConfig{KV: KVConfig{Blocks: 5, BlockSize: 4}, MaxModelLen: 10})
	core := NewCore(sched, &memoryExecutor{t: t})
	var failed []error
	emit := func(tk Token) { failed = append(failed, tk.Err) }
	core.Add(&Sequence{ID: 1, Prompt: []int32{1}, MaxTokens: 3}, 0, emit)
	core.Complete(core.Begin(0), context.DeadlineExceeded, 1, emit)
	if len(failed) != 1 || failed[0] == nil || sched.Running() != 0 || sched.KV().Used() != 0 {
		t.Errorf("errors %v, %d running, %d blocks used", failed, sched.Running(), sched.KV().Used())
	}
}

func TestCoreAllocatesNothingPerToken(t *testing.T) {
	cfg := SchedulerConfig{KV: KVConfig{Blocks: 10000, BlockSize: 16}, MaxModelLen: 100000, Independent: true}
	core := NewCore(NewScheduler(cfg), constantExecutor{})
	emit := func(Token) {}
	for i := range 16 {
		q := &Sequence{ID: uint64(i), Prompt: []int32{1}, MaxTokens: 9000}
		core.Add(q, 0, emit)
		q.tokens = slices.Grow(q.tokens, 10000)
		q.blocks = slices.Grow(q.blocks, 1000)
	}
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now++
		core.Advance(now, 64, emit)
	}); n != 0 {
		t.Errorf("%v allocations a step of 16 tokens, want none", n)
	}
}

// constantExecutor gives a token each nanosecond.
type constantExecutor struct{}

func (constantExecutor) Info() ModelInfo { return ModelInfo{Independent: true} }
func (constantExecutor) Close() error    { return nil }
func (constantExecutor) Step(_ context.Context, b *Batch) error {
	for _, sl := range b.Slices {
		sl.Next, sl.Done = 1, sl.At+1
	}
	return nil
}
