package reference

import (
	"context"

	"github.com/headway-bench/headway/backends/tokenizer"
)

// Executor computes one step of a model over a batch of sequences. Step is
// called by one goroutine at a time; Info may be called at any time.
type Executor interface {
	// Info describes the model; it never changes.
	Info() ModelInfo
	// Step runs every slice of the batch through the model and fills the
	// fields that Slice marks as results. A computing executor returns when
	// the results are there and sets every Done to that time; a simulating one
	// returns at once and sets Done in the future. An error concerns the whole
	// batch, whose requests then fail; the executor must be usable afterwards.
	Step(ctx context.Context, b *Batch) error
	// Close releases the model and the KV cache.
	Close() error
}

// ModelInfo is what the server has to know about a model.
type ModelInfo struct {
	// Name is the name the executor was opened with, Family e.g. "llama".
	Name, Family string
	// Executor is "cpu", "cuda" or "sim"; Device what it computes on or
	// pretends to be ("16 threads", "H100-SXM-80GB (simulated)").
	Executor, Device string
	// Simulated says that no model is computed and times are predicted.
	Simulated bool
	// Independent says that sequences progress on schedules of their own, so
	// that a step may begin while slices of earlier steps are not Done. Such
	// an executor never blocks in Step. Otherwise one step is run at a time.
	Independent bool

	VocabSize, MaxModelLen   int
	Layers, KVHeads, HeadDim int
	// KVBytesPerToken is the KV cache of one position over all layers, in bytes.
	KVBytesPerToken int64
	// EOS are the ids that end a generation; BOS is -1 when the model has none.
	EOS []int32
	BOS int32
	// Words are the ids that a simulated model makes answers of; nil are those
	// of the byte tokenizer.
	Words []int32
}

// KVConfig is the size of the KV cache that an executor holds: Blocks blocks
// of BlockSize positions each, numbered from 0. Which block belongs to which
// sequence is the scheduler's business; the memory is the executor's.
type KVConfig struct {
	Blocks, BlockSize int
}

// Batch is one step.
type Batch struct {
	// At is when the step starts, in nanoseconds on the clock of package clock
	// (or a virtual one).
	At int64
	// Running is the number of admitted sequences, those in earlier
	// unfinished steps included.
	Running int
	Slices  []*Slice
}

// Slice is the part of one sequence that a step computes: len(Tokens)
// positions from Start on. A decoding sequence has one token; a prefill, or a
// chunk of it, has more. A sequence is in at most one unfinished step.
type Slice struct {
	// Seq identifies the sequence over its whole life.
	Seq uint64
	// At is when this slice starts: Batch.At, or the arrival of its request
	// where that is later.
	At int64
	// Tokens are the input ids, lent until Done. Start is the position of the
	// first; positions before it are in the KV cache.
	Tokens []int32
	Start  int
	// Blocks is the sequence's block table, lent until Done: position p lies
	// in block Blocks[p/BlockSize] at offset p%BlockSize. It covers
	// Start+len(Tokens) positions. Blocks may differ from step to step.
	Blocks []int32
	// Prefill says that prompt tokens (or those of a preempted sequence) are
	// computed rather than the last sampled one.
	Prefill bool
	// Want asks for a sample after the last token; without it (a chunk that
	// does not end the prompt) the executor leaves Next and the rest alone.
	Want bool
	// Output is the index of the token to be sampled, 0 for the first of the
	// answer. Together with Sampling.Seed it fixes the random draw.
	Output   int
	Sampling SamplingParams

	// Results, set by Step.

	// Next is the sampled id; Logprob its natural log probability under the
	// model (temperature 1, before top-k and top-p); Top the most probable ids
	// in falling order, Sampling.Logprobs of them. Top may be reused by the
	// executor once the next step of the same sequence starts.
	Next    int32
	Logprob float32
	Top     []TokenLogprob
	// Done is when the result is ready, on the clock that Batch.At is on.
	Done int64

	seq *Sequence
}

// SamplingParams say how the next id is chosen from the logits.
type SamplingParams struct {
	// Temperature 0 takes the most probable id (the lowest id among equals).
	Temperature float32
	// TopP keeps the smallest set of ids whose probability reaches it; 1 or 0
	// keeps all. TopK keeps the k most probable; 0 or less keeps all.
	TopP float32
	TopK int
	Seed uint64
	// Logprobs is the number of alternatives wanted in Slice.Top; negative
	// when not even Slice.Logprob is needed.
	Logprobs int
	// BanEOS keeps the model's EOS ids from being chosen.
	BanEOS bool
}

// TokenLogprob is an id with its natural log probability.
type TokenLogprob struct {
	ID      int32
	Logprob float32
}

// Tokenizer turns text into the ids of a model and back. It is safe for
// concurrent use.
type Tokenizer interface {
	// Encode returns the ids of text; addSpecial adds the model's BOS (and
	// whatever else its template adds to a plain prompt).
	Encode(text string, addSpecial bool) []int32
	// Decode returns the bytes of ids; special ids have none. Every other id
	// below the vocabulary size has bytes; they may be a part of a UTF-8
	// character.
	Decode(ids []int32) []byte
	// Chat returns the ids of a conversation, BOS and the opening of the
	// assistant's turn included.
	Chat(messages []ChatMessage) ([]int32, error)
}

// ChatMessage is one turn of a chat prompt.
type ChatMessage = tokenizer.Message
