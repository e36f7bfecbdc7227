// Package reference is the bundled server: vLLM's HTTP API over a scheduler
// with iteration-level batching and a paged KV cache. What computes (or
// pretends to) is an Executor; the packages below hold one each.
package reference
