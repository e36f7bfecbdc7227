// Package backends says what headway can ask of a language-model server and
// what it gets back: a Request, a stream of Events, an Outcome. The packages
// below it speak one wire protocol each; nothing here knows of profiles,
// rungs or latencies.
package backends

import (
	"context"
	"time"
)

// Request is one generation asked of a server.
type Request struct {
	// ID is sent as X-Request-Id and joins the client's record to the server's.
	ID string
	// Prompt is what the model reads.
	Prompt Prompt
	// MaxTokens is the output length asked for, in tokens, at least 1.
	MaxTokens int
	// ForceLength asks for exactly MaxTokens, by whatever field the dialect has
	// for it (ignore_eos, min_tokens). A dialect that has none ignores it.
	ForceLength bool
	// Sampling is how the next token is chosen.
	Sampling Sampling
	// Priority is the scheduling priority, larger is served earlier whatever
	// the dialect's sign; nil sends none.
	Priority *float64
	// CacheSalt keeps the prompt from sharing a prefix cache with other salts
	// where the dialect has such a field.
	CacheSalt string
}

// Prompt holds exactly one of its three forms.
type Prompt struct {
	Text     string
	IDs      []int32
	Messages []Message
}

// Message is one turn of a chat.
type Message struct {
	Role    string
	Content string
}

// Sampling holds the parameters of token choice; nil leaves the server's
// default.
type Sampling struct {
	Temperature *float64
	TopP        *float64
	TopK        *int
	Seed        *int64
	Stop        []string
}

// Kind is a set of the things that one event carries.
type Kind uint8

// What an event may carry. Role, an empty delta, a ping and a final usage are
// no output; the kinds up to KindUsageStep are.
const (
	KindText      Kind = 1 << iota // answer text, refusal text included
	KindReasoning                  // reasoning text
	KindTool                       // name or arguments of a tool call
	KindTokenIDs                   // token ids, with or without text
	KindUsageStep                  // a running usage that has grown, with or without text
	KindRole                       // opens the message, carries no token
	KindFinish                     // carries a finish reason
	KindUsage                      // carries the request's final usage

	KindOutput = KindText | KindReasoning | KindTool | KindTokenIDs | KindUsageStep
)

// Event is one event of a stream, a value handed to a Sink as it arrives.
// Text is lent: it must not be kept after Sink.Event returns.
type Event struct {
	// At is when the event's last byte arrived, on the clock of package clock:
	// the kernel's receive stamp where it can be had, else the time at which
	// the read returned.
	At int64
	// Returned is when the read that brought the event's last byte returned.
	Returned int64
	// Read numbers the reads of the connection: events of equal Read came out
	// of the same read.
	Read uint64
	Kind Kind
	// Text is the text of this event, whatever its kind; nil when it has none.
	Text []byte
	// TokenIDs is the number of token ids in this event.
	TokenIDs int
	// Completion is the running usage's count of output tokens so far; -1 when
	// the event has none.
	Completion int
}

// Sink receives the life of one request. Calls come from one goroutine, in
// order: Sent, FirstByte, then events. A request that is sent again, on a new
// connection or as a retry that was asked for, calls Sent again, and what came
// before that call is void.
type Sink interface {
	// Sent is called with the time just before the request's last write.
	Sent(at int64)
	// FirstByte is called with the arrival of the first byte of the answer.
	FirstByte(at int64)
	Event(Event)
}

// Usage is the server's own count. Unknown counts are -1.
type Usage struct {
	Prompt     int
	Completion int
	Cached     int // prompt tokens taken from a prefix cache
	Reasoning  int // part of Completion, never to be added to it
}

// NoUsage is a usage in which nothing is known.
var NoUsage = Usage{Prompt: -1, Completion: -1, Cached: -1, Reasoning: -1}

// Outcome is how a request ended.
type Outcome struct {
	Class Class
	// Err says what went wrong, for people; it never holds a secret.
	Err string
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// RetryAfter is how long the server asked to wait, 0 when it did not.
	RetryAfter time.Duration
	// Finish is the server's finish reason, "" when it gave none.
	Finish string
	// Usage is the server's count; Running says that it came as a running
	// usage on the events rather than at the end.
	Usage Usage
	// Warnings are oddities that do not fail the request, as short codes.
	Warnings []string
	// NotStreamed says that the server answered a streamed request at once.
	NotStreamed bool
	// End is when the last byte of the answer, or the failure, was seen.
	End int64
	// Connect is the time spent opening a connection for this request, 0 when
	// an open one was used. It is part of no latency.
	Connect time.Duration
	// Reconnects counts connections that proved closed before any byte of the
	// answer and were replaced.
	Reconnects int
	// Retries counts attempts after the first, which are made only when asked
	// for; RetryWait is the time spent waiting for them.
	Retries   int
	RetryWait time.Duration
	// Remote is the address that answered.
	Remote string
	// Stamps says who stamped the arrivals: "kernel" or "user".
	Stamps string
	// Body is the head of what a failed stream sent, bounded, secrets removed.
	Body []byte
}

// Client speaks to one target. It is safe for concurrent use.
type Client interface {
	// Stream sends the request and reads its answer to the end. It returns
	// only when the connection is done with: every failure is an Outcome, not
	// an error. Cancelling ctx ends it with class cancelled, a deadline on ctx
	// with class timeout.
	Stream(ctx context.Context, r *Request, sink Sink) Outcome
	// Server is what was learnt about the target when it was opened.
	Server() Server
	// Can says what the dialect and the server offer.
	Can() Capabilities
	// Tokenize counts and returns the ids that the server's own tokenizer
	// makes of a prompt, template and special tokens included.
	// ErrNoTokenizer when it has no such route.
	Tokenize(ctx context.Context, p Prompt) ([]int32, error)
	// Close releases the connections.
	Close()
}

// Capabilities are what a load generator has to know about a target.
type Capabilities struct {
	Chat           bool // the route takes messages
	TokenIDs       bool // the route takes prompts as token ids
	ForceLength    bool // output lengths can be forced
	RunningUsage   bool // usage can be asked for on every event
	TokenIDsOut    bool // token ids of the output can be asked for
	Tokenize       bool // the server has a tokenizer route
	CacheReset     bool // the server has a route that empties its prefix cache
	PrefixCaching  bool // the server is known to cache prefixes
	StampsByKernel bool // arrivals are stamped by the kernel
}

// Server identifies the target as it described itself; "" and 0 where it did
// not say.
type Server struct {
	Engine      string
	Version     string
	ModelID     string
	Models      []string
	MaxModelLen int
	// Settings are further facts the server told, by name.
	Settings map[string]string
	// Source names the answers that the above was read from.
	Source string
	// Dialect is the name of the dialect in use, and Why says how it was
	// chosen.
	Dialect string
	Why     string
	// Metrics is the URL of its Prometheus page, "" when it has none.
	Metrics string
}
