package record

import "github.com/headway-bench/headway/backends"

// Source says who counted the output tokens of a request.
type Source uint8

// The sources, the best first.
const (
	NoSource     Source = iota
	RunningUsage        // the server's usage on each event
	TokenIDs            // the ids the server returned
	FinalUsage          // the server's usage at the end
	Tokenizer           // the tokenizer on the joined text
	EventCount          // one token an event, an estimate
	sources
)

var sourceNames = [sources]string{"", "running_usage", "token_ids", "usage", "tokenizer", "events"}

// String returns the name that results carry, "" for NoSource.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return ""
}

const (
	// maxTokens is the largest count that is believed of one request.
	maxTokens = 1 << 24
	// prefixBudget bounds the bytes tokenized to learn the tokens of each
	// event of one request.
	prefixBudget = 1 << 20
)

// tokenCount is what is known of the output tokens of one request.
type tokenCount struct {
	output   int // -1 when unknown
	source   Source
	first    int  // tokens of the first event, 1 where that is not known
	perEvent bool // the tokens of each event are known
	// seen and told are what this client counted and what the server's usage
	// said, -1 where there is none. They should agree.
	seen, told int
}

// count settles the output tokens by the best source and gives each event its
// tokens. A usage that is negative, absurd, or zero beside seen tokens is
// passed over with a warning.
func (t *Timeline) count(u backends.Usage) tokenCount {
	final := t.believe(u.Completion)
	running := t.running
	c := tokenCount{output: -1, first: 1, seen: -1, told: final}
	overclaimed := t.overclaims(max(final, running), u)
	if overclaimed {
		c.told, final = max(final, running), -1
	}
	if t.falling || overclaimed {
		t.warn("usage_not_believed")
		running = 0
	}
	joined := -1
	if running == 0 && t.ids == 0 && !t.eventsNumber(final) {
		joined = t.joinedTokens()
	}
	switch {
	case running > 0:
		c.output, c.source = max(running, final), RunningUsage
	case t.ids > 0:
		c.output, c.source = t.ids, TokenIDs
	case final >= 0:
		c.output, c.source = final, FinalUsage
	case joined > 0:
		c.output, c.source = joined, Tokenizer
	case t.raw > 0:
		c.output, c.source = t.raw, EventCount
	}
	switch {
	case t.ids > 0:
		c.seen = t.ids
	case running > 0:
		c.seen = running
	case joined > 0:
		c.seen = joined
	case overclaimed || t.raw > final+1: // each event has a token at least
		c.seen = t.raw
	}
	c.perEvent = running > 0 && t.spreadRunning() || t.ids > 0 && t.spreadIDs() ||
		t.spreadEvents(c.output) || joined > 0 && t.spreadText()
	if c.perEvent && len(t.events) > 0 {
		c.first = int(t.events[0].k)
	}
	return c
}

// longest is the most output tokens that pass for the length asked for.
func (t *Timeline) longest() int { return t.Asked + max(16, t.Asked/10) }

// sentLong says that what the server sent is itself longer than was asked for:
// by its events, its token ids, or its text, of which few tokens have more than
// eight bytes.
func (t *Timeline) sentLong() bool { return max(t.raw, t.ids, t.bytes/8) > t.longest() }

// overclaims says that the server claims far more tokens than it was asked for
// while what it sent is not too long. Reasoning that is counted and not shown
// is no part of the claim.
func (t *Timeline) overclaims(n int, u backends.Usage) bool {
	return t.Asked > 0 && t.raw > 0 && !t.sentLong() && n-max(u.Reasoning, 0) > t.longest()
}

// tooLong says that far more was generated than was asked for.
func (t *Timeline) tooLong() bool {
	n := t.tokens.output
	if !t.sentLong() {
		n -= max(t.Outcome.Usage.Reasoning, 0)
	}
	return t.Asked > 0 && n > t.longest()
}

// endedEarly says that the answer is shorter than it was forced to be, by more
// than the one token that counts of a last token differ by.
func (t *Timeline) endedEarly() bool {
	return t.Forced && t.tokens.output >= 0 && t.tokens.output < t.Asked-1
}

// believe returns the server's count, or -1 when it has none to be believed.
func (t *Timeline) believe(n int) int {
	switch {
	case n == -1:
		return -1
	case n < 0 || n > maxTokens, n == 0 && t.raw > 0:
		t.warn("usage_not_believed")
		return -1
	}
	return n
}

// joinedTokens counts the joined text, -1 when it cannot.
func (t *Timeline) joinedTokens() int {
	if t.Count == nil || t.cut || len(t.text) == 0 {
		return -1
	}
	return t.Count(t.text)
}

// spreadRunning gives each event the increment of the running usage.
func (t *Timeline) spreadRunning() bool {
	before := int32(0)
	for i := range t.events {
		e := &t.events[i]
		if e.running < before {
			return false
		}
		e.k, before = e.running-before, e.running
	}
	return len(t.events) > 0
}

// spreadIDs gives each event its token ids.
func (t *Timeline) spreadIDs() bool {
	for i := range t.events {
		t.events[i].k = t.events[i].ids
	}
	return len(t.events) > 0
}

// eventsNumber says that the stream has n events within one, which shows n
// tokens better than the text: its tokens need not be those that were made.
func (t *Timeline) eventsNumber(n int) bool { return t.raw > 0 && n >= t.raw-1 && n <= t.raw+1 }

// spreadEvents gives each event of the stream one token, where the events
// number the tokens within one.
func (t *Timeline) spreadEvents(output int) bool {
	if !t.eventsNumber(output) {
		return false
	}
	for i := range t.events {
		t.events[i].k = t.events[i].raw
	}
	return true
}

// spreadText gives each event the tokens that it adds to the text so far.
func (t *Timeline) spreadText() bool {
	if len(t.text)*len(t.ends) > prefixBudget {
		return false
	}
	before := 0
	for i := range t.events {
		n := t.Count(t.text[:t.ends[i]])
		t.events[i].k = int32(max(n-before, 0))
		before = max(n, before)
	}
	return true
}

// Arrivals calls f for each token event with its arrival and its tokens, which
// add up to the output tokens. Where the tokens of each event are not known
// they are spread evenly; tokens of which no event was seen arrive at the end.
func (t *Timeline) Arrivals(f func(at int64, tokens int)) {
	left, n := max(t.tokens.output, 0), len(t.events)
	if n == 0 {
		if left > 0 {
			f(t.end, left)
		}
		return
	}
	total := left
	for i := range t.events {
		k := total*(i+1)/n - total*i/n
		if t.tokens.perEvent {
			k = min(int(t.events[i].k), left)
		}
		if i == n-1 {
			k = left
		}
		left -= k
		f(t.events[i].at, k)
	}
}

const (
	burstEvents = 8     // fewer events of a stream cannot be judged
	burstTokens = 16    // as many in one event and no other is no stream
	burstGap    = 8     // a silence is this many mean gaps
	burstShare  = 0.8   // of the time between first and last token is silence
	burstPace   = 50000 // ns an event; no model decodes one stream faster
)

// atOnce says that a streamed answer of many tokens was a single event.
func (t *Timeline) atOnce() bool {
	return len(t.events) == 1 && t.tokens.output >= burstTokens && !t.Outcome.NotStreamed
}

// judgeable says that the answer was long enough to be judged for bursts.
func (t *Timeline) judgeable() bool { return t.raw >= burstEvents || t.atOnce() }

// burst says whether the answer came in a few bursts with silence between them,
// or all at once, as behind a proxy that buffers or a server that only pretends
// to stream.
func (t *Timeline) burst() bool {
	if t.raw < burstEvents {
		return t.atOnce()
	}
	whole := t.LastTokenAt() - t.events[0].at
	if whole < burstPace*int64(t.raw-1) {
		return true
	}
	mean, silent := whole/int64(t.raw-1), int64(0)
	for i := 1; i < len(t.events); i++ {
		if gap := t.events[i].at - t.events[i-1].at; gap >= burstGap*mean {
			silent += gap
		}
	}
	return float64(silent) >= burstShare*float64(whole)
}
