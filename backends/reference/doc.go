// Package reference is the bundled server: vLLM's HTTP API over a scheduler
// with iteration-level batching and a paged KV cache. What computes (or
// pretends to) is an Executor; the packages below hold one each.
//
// A request's way: conn reads it, plan checks it, Scheduler decides what each
// step computes, an Executor computes it, and a stream renders and writes the
// tokens. Core is the part of that without clock, thread or network: Scheduler,
// Executor and the results that lie in the future. The server's engine drives a
// Core by the real clock; a simulation can drive one by events:
//
//	core.Add(sequence, now, emit)
//	for ok := true; ok; now, ok = core.Wake() {
//		core.Advance(now, limit, emit)
//		if b := core.Begin(now); b != nil {
//			core.Complete(b, executor.Step(ctx, b), now, emit)
//		}
//	}
package reference
