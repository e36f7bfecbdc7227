package record

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/headway-bench/headway/backends"
)

// maxText bounds the text that a timeline keeps for the tokenizer, in bytes.
const maxText = 1 << 20

// lateness counts events that were merged into an earlier one of their read, by
// how late the read returned: element i those that were at least 1 ms << i and
// less than twice that late. Events that the server itself sent together are
// read in time and are in none.
type lateness [12]int64

// note counts a merged event.
func (l *lateness) note(lag int64) {
	if i := bits.Len64(uint64(max(lag, 0)) / uint64(time.Millisecond)); i > 0 {
		l[min(i, len(l))-1]++
	}
}

// over counts the events whose read was surely later than the limit, which is
// not below 1 ms.
func (l *lateness) over(limit time.Duration) int64 {
	n := int64(0)
	for i, c := range l {
		if time.Millisecond<<i >= limit {
			n += c
		}
	}
	return n
}

// arrival is one token event: everything that came out of one read.
type arrival struct {
	at      int64 // arrival, clock nanoseconds
	running int32 // running usage after the event, -1 when it had none
	ids     int32 // token ids in it
	raw     int32 // token-bearing events of the stream that were merged into it
	k       int32 // its tokens, known once the timeline is finished
}

// Timeline is the life of one request: when it was wanted, sent and answered,
// and when each token came. It is a backends.Sink, written by the one
// goroutine that reads the stream; after Finish it is read-only and may be
// handed to a Recorder and a RequestLog. In steady state it allocates nothing.
//
// All times are nanoseconds on the clock of package clock; 0 is "did not
// happen".
type Timeline struct {
	// ID is the request id, joined to the server's log by it.
	ID string
	// Rung and Index number the request: its rung, and its place in it.
	Rung, Index int
	// Intended is when the schedule wanted the request sent.
	Intended int64
	// Due is when nothing but this machine held the request back: later than
	// Intended for one that waited behind a cap on requests in flight. 0 is
	// Intended.
	Due int64
	// Asked is the output length asked for in tokens, 0 when none was. Forced
	// says that it was to be exactly that.
	Asked  int
	Forced bool
	// InputAsked is the prompt length asked for in tokens, 0 when unknown.
	// InputExact says that it was counted, so that the server must count the
	// same.
	InputAsked int
	InputExact bool
	// Censored says that the drain of the rung cut the request, which is no
	// failure.
	Censored bool
	// Count counts the tokens of a text; nil when there is no tokenizer. When
	// set, the text of the answer is kept until Release, at most 1 MiB of it.
	Count func(text []byte) int

	// Outcome is what the client reported, set by Finish.
	Outcome backends.Outcome

	sent, firstByte, firstAnswer, end int64

	events []arrival
	lags   []uint32 // receive lag of each distinct read, ns, saturating
	text   []byte
	ends   []int32 // end of each event in text, kept with it
	cut    bool    // text is longer than is kept

	lastRead  uint64
	anyRead   bool
	lastAt    int64
	lastToken bool // the read numbered lastRead already has a token event
	early     bool // an arrival was stamped before the request was sent

	raw     int      // token-bearing events
	bytes   int      // of their text
	merged  int      // those that came out of a read with an earlier one
	late    lateness // of the merged ones
	ids     int
	running int
	falling bool // the running usage went down or was absurd

	class    backends.Class
	tokens   tokenCount
	bursty   bool
	warnings []string
}

var _ backends.Sink = (*Timeline)(nil)

var timelines = sync.Pool{New: func() any { return new(Timeline) }}

// NewTimeline takes an empty timeline from the pool; Reset it before use.
func NewTimeline() *Timeline { return timelines.Get().(*Timeline) }

// Release hands the timeline back to the pool. It must not be used after.
func (t *Timeline) Release() {
	t.Reset("", 0, 0)
	timelines.Put(t)
}

// Reset empties the timeline for the request id, wanted at intended, that asks
// for asked output tokens. Slices are kept.
func (t *Timeline) Reset(id string, intended int64, asked int) {
	*t = Timeline{ID: id, Intended: intended, Asked: asked,
		events: t.events[:0], lags: t.lags[:0], text: t.text[:0], ends: t.ends[:0], warnings: t.warnings[:0]}
}

// Sent notes the time just before the request's last write. A later call, for
// a request sent again, voids what came before it.
func (t *Timeline) Sent(at int64) {
	t.sent, t.firstByte, t.firstAnswer = at, 0, 0
	t.events, t.lags, t.text, t.ends = t.events[:0], t.lags[:0], t.text[:0], t.ends[:0]
	t.cut, t.anyRead, t.lastToken, t.falling = false, false, false, false
	t.raw, t.bytes, t.merged, t.late, t.ids, t.running = 0, 0, 0, lateness{}, 0, 0
	t.lastAt = at
}

// FirstByte notes the arrival of the first byte of the answer.
func (t *Timeline) FirstByte(at int64) { t.firstByte = t.notBefore(at) }

// notBefore keeps arrivals in order: a kernel stamp that was converted between
// clocks may be off by nanoseconds, and no answer comes before its question.
func (t *Timeline) notBefore(at int64) int64 {
	if at < t.lastAt {
		t.early = t.early || at < t.sent
		return t.lastAt
	}
	t.lastAt = at
	return at
}

// Event notes one event of the stream. Events of one read are one token event
// with their tokens added.
func (t *Timeline) Event(e backends.Event) {
	at := t.notBefore(e.At)
	if !t.anyRead || e.Read != t.lastRead {
		t.anyRead, t.lastRead, t.lastToken = true, e.Read, false
		t.lags = append(t.lags, saturate(e.Returned-e.At))
	}
	t.noteRunning(e.Completion)
	if e.Kind&backends.KindOutput == 0 {
		return
	}
	if t.firstAnswer == 0 && e.Kind&(backends.KindText|backends.KindTool) != 0 {
		t.firstAnswer = at
	}
	t.raw++
	t.bytes += len(e.Text)
	t.ids += e.TokenIDs
	if t.Count != nil {
		t.keep(e.Text)
	}
	running := int32(-1)
	if e.Completion >= 0 && e.Completion <= maxTokens {
		running = int32(e.Completion)
	}
	if t.lastToken {
		t.merge(at, running, e)
		return
	}
	t.lastToken = true
	t.events = append(t.events, arrival{at: at, running: running, ids: int32(e.TokenIDs), raw: 1})
	if t.Count != nil {
		t.ends = append(t.ends, int32(len(t.text)))
	}
}

// merge adds an event to the token event of its read.
func (t *Timeline) merge(at int64, running int32, e backends.Event) {
	last := &t.events[len(t.events)-1]
	last.at = at
	last.ids += int32(e.TokenIDs)
	last.raw++
	if running >= 0 {
		last.running = running
	}
	t.merged++
	t.late.note(e.Returned - e.At)
	if t.Count != nil {
		t.ends[len(t.ends)-1] = int32(len(t.text))
	}
}

// noteRunning follows the running usage.
func (t *Timeline) noteRunning(n int) {
	switch {
	case n == -1:
	case n < t.running || n > maxTokens:
		t.falling = true
	default:
		t.running = n
	}
}

// keep joins the text for the tokenizer, up to its bound.
func (t *Timeline) keep(text []byte) {
	if len(t.text)+len(text) > maxText {
		t.cut = true
		return
	}
	t.text = append(t.text, text...)
}

// saturate keeps a lag in 32 bits: 0 for none, 4.29 s for that and above.
func saturate(ns int64) uint32 {
	return uint32(min(max(ns, 0), math.MaxUint32))
}

// Finish closes the timeline with the client's outcome: it settles the class,
// the output tokens and the tokens of each event. A request that ended well
// with nothing generated becomes no_output; one far longer than asked becomes
// too_long.
func (t *Timeline) Finish(o backends.Outcome) {
	t.Outcome, t.class = o, o.Class
	t.warnings = append(t.warnings[:0], o.Warnings...)
	t.end = max(o.End, t.lastAt, t.sent)
	t.tokens = t.count(o.Usage)
	if t.early {
		t.warn("stamp_before_sent")
	}
	if t.class == backends.OK {
		switch {
		case len(t.events) == 0 && t.tokens.output <= 0:
			t.class = backends.NoOutput
		case t.tooLong():
			t.class = backends.TooLong
		case t.endedEarly():
			t.warn("ended_early")
		}
	}
	t.bursty = t.burst()
}

// warn notes a code once.
func (t *Timeline) warn(code string) {
	if !slices.Contains(t.warnings, code) {
		t.warnings = append(t.warnings, code)
	}
}

// Class is how the request ended.
func (t *Timeline) Class() backends.Class { return t.class }

// Good says that the request completed without failure.
func (t *Timeline) Good() bool { return t.class == backends.OK }

// Warnings are oddities that did not fail the request, as short codes.
func (t *Timeline) Warnings() []string { return t.warnings }

// Bursty says that the answer came in a few bursts with silence between them,
// or all at once, as behind a proxy that buffers.
func (t *Timeline) Bursty() bool { return t.bursty }

// Judgeable says that the answer was long enough for Bursty to mean something.
func (t *Timeline) Judgeable() bool { return t.judgeable() }

// SentAt is when the request was sent, 0 when it never was.
func (t *Timeline) SentAt() int64 { return t.sent }

// FirstByteAt is when the first byte of the answer came, 0 when none did.
func (t *Timeline) FirstByteAt() int64 { return t.firstByte }

// FirstTokenAt is when the first token event came, 0 when none did or when the
// answer was not streamed.
func (t *Timeline) FirstTokenAt() int64 {
	if len(t.events) == 0 || t.Outcome.NotStreamed {
		return 0
	}
	return t.events[0].at
}

// LastTokenAt is when the last token event came, 0 when none did.
func (t *Timeline) LastTokenAt() int64 {
	if len(t.events) == 0 {
		return 0
	}
	return t.events[len(t.events)-1].at
}

// EndAt is when the request ended, well or not.
func (t *Timeline) EndAt() int64 { return t.end }

// TokensSoFar is the number of output tokens seen while the stream is read:
// the running usage, the token ids or else the events. It serves a cancellation
// after a number of tokens.
func (t *Timeline) TokensSoFar() int { return max(t.running, t.ids, t.raw) }

// OutputTokens is the number of output tokens, and whether it is known.
func (t *Timeline) OutputTokens() (int, bool) { return t.tokens.output, t.tokens.output >= 0 }

// InputTokens is the server's count of the prompt, or what was asked for when
// it told none.
func (t *Timeline) InputTokens() (int, bool) {
	if n := t.Outcome.Usage.Prompt; n > 0 && n <= maxTokens {
		return n, true
	}
	return t.InputAsked, t.InputAsked > 0
}

// Source says who counted the output tokens.
func (t *Timeline) Source() Source { return t.tokens.source }

// SendLag is the time from intended to sent.
func (t *Timeline) SendLag() (time.Duration, bool) {
	return span(t.Intended, t.sent)
}

// dueLag is the part of the send lag that this machine is to blame for: not the
// time that a connection took to open. It is not known of a request that was
// sent again.
func (t *Timeline) dueLag() (time.Duration, bool) {
	lag, ok := span(max(t.Due, t.Intended), t.sent)
	return max(lag-t.Outcome.Connect, 0), ok && t.Outcome.Retries == 0
}

// unsent says that the rung ended before the request could be sent.
func (t *Timeline) unsent() bool { return t.Censored && t.sent == 0 }

// TTFT is the time from sent to the first token. It is unknown without a token
// and for an answer that was not streamed.
func (t *Timeline) TTFT() (time.Duration, bool) { return span(t.sent, t.FirstTokenAt()) }

// TTFTResponse is the time from intended to the first token.
func (t *Timeline) TTFTResponse() (time.Duration, bool) { return span(t.Intended, t.FirstTokenAt()) }

// TTFO is the time from sent to the first token of the answer itself, after any
// reasoning.
func (t *Timeline) TTFO() (time.Duration, bool) {
	if t.Outcome.NotStreamed {
		return 0, false
	}
	return span(t.sent, t.firstAnswer)
}

// E2E is the time from sent to the last token.
func (t *Timeline) E2E() (time.Duration, bool) { return span(t.sent, t.LastTokenAt()) }

// E2EResponse is the time from intended to the last token.
func (t *Timeline) E2EResponse() (time.Duration, bool) { return span(t.Intended, t.LastTokenAt()) }

// decoding is the time from the first to the last token and the tokens that
// came in it; ok is false when there is no such token or no such time.
func (t *Timeline) decoding() (d time.Duration, tokens int, ok bool) {
	if len(t.events) < 2 || t.tokens.output < 0 {
		return 0, 0, false
	}
	tokens = t.tokens.output - t.tokens.first
	d = time.Duration(t.LastTokenAt() - t.events[0].at)
	return d, tokens, tokens > 0 && d > 0
}

// TPOT is the decoding time divided by the tokens after the first event. It is
// undefined, not zero, when nothing came after the first event.
func (t *Timeline) TPOT() (time.Duration, bool) {
	d, n, ok := t.decoding()
	if !ok {
		return 0, false
	}
	return d / time.Duration(n), true
}

// MeanITL is the mean gap between tokens; unknown where the tokens of each
// event are.
func (t *Timeline) MeanITL() (time.Duration, bool) {
	if !t.tokens.perEvent {
		return 0, false
	}
	return t.TPOT()
}

// PerUserTPS is the decoding speed that the user saw, in tokens per second.
func (t *Timeline) PerUserTPS() (float64, bool) {
	d, n, ok := t.decoding()
	if !ok {
		return 0, false
	}
	return float64(n) / d.Seconds(), true
}

// E2ETPS is the output tokens over the time from sent to the last token, in
// tokens per second: what the user got, waiting included.
func (t *Timeline) E2ETPS() (float64, bool) {
	d, ok := t.E2E()
	if !ok || d <= 0 || t.tokens.output <= 0 {
		return 0, false
	}
	return float64(t.tokens.output) / d.Seconds(), true
}

// Gaps calls f for each gap between successive token events, with the tokens
// of the later event. k is 0 where they are not known, or where the event
// brought none: its gap is then part of the next token's.
func (t *Timeline) Gaps(f func(gap time.Duration, k int)) {
	for i := 1; i < len(t.events); i++ {
		f(time.Duration(t.events[i].at-t.events[i-1].at), int(t.events[i].k))
	}
}

// span is the time between two stamps of which neither may be missing.
func span(from, to int64) (time.Duration, bool) {
	if from == 0 || to == 0 {
		return 0, false
	}
	return time.Duration(to - from), true
}
