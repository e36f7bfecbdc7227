package record

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
)

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// came is one event of a scripted stream.
type came struct {
	at      int64 // ms
	kind    backends.Kind
	running int // 0 is none
	ids     int
	read    uint64 // 0 is one of its own
	lag     int64  // ns
	text    string
}

// answer plays a stream that was intended and sent at 0 s of a clock that
// stands at base, and finishes it.
const base = 1000 * sec

func answer(o backends.Outcome, events ...came) *Timeline {
	t := new(Timeline)
	t.Reset("r", base, 0)
	play(t, o, events...)
	return t
}

func play(t *Timeline, o backends.Outcome, events ...came) {
	start := t.Intended
	t.Sent(start)
	last := start
	for i, c := range events {
		e := backends.Event{At: start + c.at*ms, Returned: start + c.at*ms + c.lag, Read: uint64(1000 + i), Kind: c.kind,
			TokenIDs: c.ids, Completion: -1, Text: []byte(c.text)}
		if c.read > 0 {
			e.Read = c.read
		}
		if c.running > 0 {
			e.Completion = c.running
		}
		if i == 0 {
			t.FirstByte(e.At)
		}
		t.Event(e)
		last = e.At
	}
	if o.End == 0 {
		o.End = last
	}
	t.Finish(o)
}

func ended(class backends.Class, completion int) backends.Outcome {
	u := backends.NoUsage
	u.Completion = completion
	return backends.Outcome{Class: class, Usage: u}
}

// gapsPerToken lists the ITL in milliseconds, each as often as it counts.
func gapsPerToken(t *Timeline) []float64 {
	if !t.tokens.perEvent {
		return nil
	}
	var out []float64
	since := time.Duration(0)
	t.Gaps(func(gap time.Duration, k int) {
		since += gap
		for range k {
			out = append(out, since.Seconds()*1e3/float64(k))
		}
		if k > 0 {
			since = 0
		}
	})
	return out
}

const (
	text      = backends.KindText
	reasoning = backends.KindReasoning
	role      = backends.KindRole
	finish    = backends.KindFinish
	usage     = backends.KindUsage
	step      = backends.KindUsageStep
)

func TestTimeline(t *testing.T) {
	unknown := time.Duration(-1)
	for _, c := range []struct {
		name       string
		outcome    backends.Outcome
		events     []came
		class      backends.Class
		tokens     int // -1 unknown
		source     Source
		ttft, tpot time.Duration
		e2e        time.Duration
		itl        []float64
		warns      []string
	}{
		{name: "A1 vllm#15106 role chunk is no token", outcome: ended(backends.OK, 2),
			events: []came{{at: 900, kind: role}, {at: 2200, kind: text}, {at: 2220, kind: text}},
			tokens: 2, source: FinalUsage, ttft: 2200 * time.Millisecond, tpot: 20 * time.Millisecond, e2e: 2220 * time.Millisecond, itl: []float64{20}},
		{name: "A3 vllm#6064 nothing but empty chunks", outcome: ended(backends.OK, -1),
			events: []came{{at: 10, kind: role}, {at: 20, kind: finish}},
			class:  backends.NoOutput, tokens: -1, ttft: unknown, tpot: unknown, e2e: unknown},
		{name: "A4 vllm#7242 TTFT is no ITL", outcome: ended(backends.OK, 3),
			events: []came{{at: 1000, kind: text}, {at: 1100, kind: text}, {at: 1200, kind: text}},
			tokens: 3, source: FinalUsage, ttft: time.Second, tpot: 100 * time.Millisecond, e2e: 1200 * time.Millisecond, itl: []float64{100, 100}},
		{name: "A6 sglang#12064 speculative chunks of three", outcome: ended(backends.OK, 9),
			events: []came{{at: 9, kind: text, running: 3}, {at: 18, kind: text, running: 6}, {at: 27, kind: text, running: 9}},
			tokens: 9, source: RunningUsage, ttft: 9 * time.Millisecond, tpot: 3 * time.Millisecond, e2e: 27 * time.Millisecond, itl: []float64{3, 3, 3, 3, 3, 3}},
		{name: "A7 vllm#28183 coalesced tokens by running usage", outcome: ended(backends.OK, 6),
			events: []came{{at: 1000, kind: text, running: 1}, {at: 1400, kind: text, running: 5}, {at: 1500, kind: text, running: 6}},
			tokens: 6, source: RunningUsage, ttft: time.Second, tpot: 100 * time.Millisecond, e2e: 1500 * time.Millisecond, itl: []float64{100, 100, 100, 100, 100}},
		{name: "A8 llmperf#99 TPOT without TTFT over tokens, chunks unknown", outcome: ended(backends.OK, 11),
			events: []came{{at: 2000, kind: text}, {at: 2250, kind: text}, {at: 2500, kind: text}, {at: 2750, kind: text}, {at: 3000, kind: text}},
			tokens: 11, source: FinalUsage, ttft: 2 * time.Second, tpot: 100 * time.Millisecond, e2e: 3 * time.Second},
		{name: "A10 inference-perf#452 usage chunk and end are no tokens", outcome: backends.Outcome{Class: backends.OK, Usage: backends.Usage{Prompt: 5, Completion: 2, Cached: -1, Reasoning: -1}, End: base + 500*ms},
			events: []came{{at: 50, kind: role}, {at: 100, kind: text}, {at: 200, kind: text}, {at: 400, kind: usage}},
			tokens: 2, source: FinalUsage, ttft: 100 * time.Millisecond, tpot: 100 * time.Millisecond, e2e: 200 * time.Millisecond, itl: []float64{100}},
		{name: "A12 genai-bench#122 one token has no TPOT", outcome: ended(backends.OK, 1),
			events: []came{{at: 100, kind: text}},
			tokens: 1, source: FinalUsage, ttft: 100 * time.Millisecond, tpot: unknown, e2e: 100 * time.Millisecond},
		{name: "A13 llm-load-test zero tokens", outcome: ended(backends.OK, 0),
			class: backends.NoOutput, tokens: 0, source: FinalUsage, ttft: unknown, tpot: unknown, e2e: unknown},
		{name: "A17 guidellm#835 first reasoning chunk is the first token", outcome: ended(backends.OK, 2),
			events: []came{{at: 100, kind: reasoning}, {at: 150, kind: reasoning}, {at: 160, kind: finish}},
			tokens: 2, source: FinalUsage, ttft: 100 * time.Millisecond, tpot: 50 * time.Millisecond, e2e: 150 * time.Millisecond, itl: []float64{50}},
		{name: "A22 tokenomics#16 reasoning is part of completion",
			outcome: backends.Outcome{Usage: backends.Usage{Prompt: 1, Completion: 2, Cached: -1, Reasoning: 60}},
			events:  []came{{at: 100, kind: reasoning}, {at: 200, kind: text}},
			tokens:  2, source: FinalUsage, ttft: 100 * time.Millisecond, tpot: 100 * time.Millisecond, e2e: 200 * time.Millisecond, itl: []float64{100}},
		{name: "A23 aiperf#224 empty text between tokens", outcome: ended(backends.OK, 2),
			events: []came{{at: 100, kind: text}, {at: 150}, {at: 200, kind: text}},
			tokens: 2, source: FinalUsage, ttft: 100 * time.Millisecond, tpot: 100 * time.Millisecond, e2e: 200 * time.Millisecond, itl: []float64{100}},
		{name: "A23 empty text whose running usage grew", outcome: ended(backends.OK, 3),
			events: []came{{at: 100, kind: text, running: 1}, {at: 150, kind: step, running: 2}, {at: 200, kind: text, running: 3}},
			tokens: 3, source: RunningUsage, ttft: 100 * time.Millisecond, tpot: 50 * time.Millisecond, e2e: 200 * time.Millisecond, itl: []float64{50, 50}},
		{name: "A46 llama.cpp one token over is tolerated", outcome: ended(backends.OK, 9),
			events: []came{{at: 100, kind: text, running: 8}, {at: 110, kind: text, running: 9}},
			tokens: 9, source: RunningUsage, ttft: 100 * time.Millisecond, tpot: 10 * time.Millisecond, e2e: 110 * time.Millisecond, itl: []float64{10}},
		{name: "A54 evalscope#1499 not streamed has no TTFT",
			outcome: backends.Outcome{Usage: backends.Usage{Prompt: 1, Completion: 20, Cached: -1, Reasoning: -1}, NotStreamed: true},
			events:  []came{{at: 700, kind: text}},
			tokens:  20, source: FinalUsage, ttft: unknown, tpot: unknown, e2e: 700 * time.Millisecond},
		{name: "B57 events of one read are one token event", outcome: ended(backends.OK, 4),
			events: []came{{at: 100, kind: text}, {at: 200, kind: text, read: 7}, {at: 200, kind: text, read: 7}, {at: 300, kind: text}},
			tokens: 4, source: FinalUsage, ttft: 100 * time.Millisecond, tpot: 200 * time.Millisecond / 3, e2e: 300 * time.Millisecond, itl: []float64{50, 50, 100}},
		{name: "token ids count and spread", outcome: ended(backends.OK, 5),
			events: []came{{at: 100, kind: text | backends.KindTokenIDs, ids: 2}, {at: 160, kind: text | backends.KindTokenIDs, ids: 3}},
			tokens: 5, source: TokenIDs, ttft: 100 * time.Millisecond, tpot: 20 * time.Millisecond, e2e: 160 * time.Millisecond, itl: []float64{20, 20, 20}},
		{name: "no count at all is an estimate", outcome: ended(backends.OK, -1),
			events: []came{{at: 100, kind: text}, {at: 120, kind: text}},
			tokens: 2, source: EventCount, ttft: 100 * time.Millisecond, tpot: 20 * time.Millisecond, e2e: 120 * time.Millisecond, itl: []float64{20}},
		{name: "usage above zero without output is complete, with no TTFT", outcome: ended(backends.OK, 7),
			events: []came{{at: 100, kind: finish}},
			tokens: 7, source: FinalUsage, ttft: unknown, tpot: unknown, e2e: unknown},
		{name: "usage of zero beside tokens is passed over", outcome: ended(backends.OK, 0),
			events: []came{{at: 100, kind: text}, {at: 120, kind: text}},
			tokens: 2, source: EventCount, ttft: 100 * time.Millisecond, tpot: 20 * time.Millisecond, e2e: 120 * time.Millisecond, itl: []float64{20},
			warns: []string{"usage_not_believed"}},
		{name: "negative usage is passed over", outcome: ended(backends.OK, -5),
			events: []came{{at: 100, kind: text}, {at: 120, kind: text}},
			tokens: 2, source: EventCount, ttft: 100 * time.Millisecond, tpot: 20 * time.Millisecond, e2e: 120 * time.Millisecond, itl: []float64{20},
			warns: []string{"usage_not_believed"}},
		{name: "absurd usage is passed over for token ids", outcome: ended(backends.OK, 1<<40),
			events: []came{{at: 100, kind: text | backends.KindTokenIDs, ids: 1}, {at: 120, kind: text | backends.KindTokenIDs, ids: 1}},
			tokens: 2, source: TokenIDs, ttft: 100 * time.Millisecond, tpot: 20 * time.Millisecond, e2e: 120 * time.Millisecond, itl: []float64{20},
			warns: []string{"usage_not_believed"}},
		{name: "a running usage that falls is passed over", outcome: ended(backends.OK, 3),
			events: []came{{at: 100, kind: text, running: 5}, {at: 110, kind: text, running: 2}, {at: 120, kind: text, running: 3}},
			tokens: 3, source: FinalUsage, ttft: 100 * time.Millisecond, tpot: 10 * time.Millisecond, e2e: 120 * time.Millisecond, itl: []float64{10, 10},
			warns: []string{"usage_not_believed"}},
		{name: "a failure keeps its tokens", outcome: ended(backends.Truncated, -1),
			events: []came{{at: 100, kind: text}, {at: 120, kind: text}}, class: backends.Truncated,
			tokens: 2, source: EventCount, ttft: 100 * time.Millisecond, tpot: 20 * time.Millisecond, e2e: 120 * time.Millisecond, itl: []float64{20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := answer(c.outcome, c.events...)
			if got.Class() != c.class {
				t.Errorf("class %v, want %v", got.Class(), c.class)
			}
			if n, ok := got.OutputTokens(); ok != (c.tokens >= 0) || ok && n != c.tokens || got.Source() != c.source {
				t.Errorf("tokens %d %v by %v, want %d by %v", n, ok, got.Source(), c.tokens, c.source)
			}
			check := func(name string, d time.Duration, ok bool, want time.Duration) {
				if ok != (want >= 0) || ok && d != want {
					t.Errorf("%s = %v, %v; want %v", name, d, ok, want)
				}
			}
			d, ok := got.TTFT()
			check("TTFT", d, ok, c.ttft)
			d, ok = got.TPOT()
			check("TPOT", d, ok, c.tpot)
			d, ok = got.E2E()
			check("E2E", d, ok, c.e2e)
			if itl := gapsPerToken(got); !slices.Equal(itl, c.itl) {
				t.Errorf("ITL %v, want %v", itl, c.itl)
			}
			if !slices.Equal(got.Warnings(), c.warns) {
				t.Errorf("warnings %v, want %v", got.Warnings(), c.warns)
			}
			arrived := 0
			got.Arrivals(func(_ int64, n int) { arrived += n })
			if arrived != max(c.tokens, 0) {
				t.Errorf("%d tokens arrived, want all %d", arrived, c.tokens)
			}
		})
	}
}

func TestTimelineLength(t *testing.T) {
	var long []came
	for i := range int64(300) {
		long = append(long, came{at: i, kind: text})
	}
	hidden := ended(backends.OK, 160)
	hidden.Usage.Reasoning = 150
	for _, c := range []struct {
		name    string
		asked   int
		outcome backends.Outcome
		events  []came
		class   backends.Class
		tokens  int
		differ  bool // the two counts disagree
	}{
		{"A44 ollama ignores the limit", 16, ended(backends.OK, 300), long, backends.TooLong, 300, false},
		{"A44 no usage either", 16, ended(backends.OK, -1), long, backends.TooLong, 300, false},
		{"A44 many token ids in an event", 16, ended(backends.OK, 3000), []came{{at: 9, kind: text, ids: 3000}}, backends.TooLong, 3000, false},
		{"A44 few events of long text", 16, ended(backends.OK, 3000), []came{{at: 9, kind: text, text: strings.Repeat("word ", 3000)}}, backends.TooLong, 3000, false},
		{"A46 llama.cpp one over is tolerated", 8, ended(backends.OK, 9), long[:9], backends.OK, 9, false},
		{"a usage of twice what was asked for and sent is not believed", 20, ended(backends.OK, 47), long[:20], backends.OK, 20, true},
		{"nor is such a running usage", 20, ended(backends.OK, 47), []came{{at: 1, kind: text, running: 9}, {at: 2, kind: text, running: 47}}, backends.OK, 2, true},
		{"hidden reasoning is no part of the claim", 16, hidden, long[:10], backends.OK, 160, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := new(Timeline)
			got.Reset("r", base, c.asked)
			play(got, c.outcome, c.events...)
			if n, _ := got.OutputTokens(); got.Class() != c.class || n != c.tokens {
				t.Errorf("%v with %d tokens, want %v with %d", got.Class(), n, c.class, c.tokens)
			}
			if k := got.tokens; (k.seen >= 0 && k.told >= 0 && k.seen != k.told) != c.differ {
				t.Errorf("seen %d, told %d; want them to differ: %v", k.seen, k.told, c.differ)
			}
			if believed := !slices.Contains(got.Warnings(), "usage_not_believed"); believed == c.differ {
				t.Errorf("warnings %v", got.Warnings())
			}
		})
	}
}

func TestForcedLength(t *testing.T) {
	for _, c := range []struct {
		tokens int
		forced bool
		want   bool
	}{{10, true, true}, {18, true, true}, {19, true, false}, {20, true, false}, {10, false, false}, {-1, true, false}} {
		got := new(Timeline)
		got.Reset("r", base, 20)
		got.Forced = c.forced
		events := []came{{at: 1, kind: text, running: max(c.tokens, 0)}}
		if c.tokens < 0 {
			events = []came{{at: 1, kind: finish}}
		}
		play(got, ended(backends.OK, c.tokens), events...)
		if early := slices.Contains(got.Warnings(), "ended_early"); early != c.want {
			t.Errorf("%d of 20 tokens, forced %v: warned %v", c.tokens, c.forced, early)
		}
	}
}

func TestTimelineTTFO(t *testing.T) {
	got := answer(ended(backends.OK, 3), came{at: 100, kind: reasoning}, came{at: 200, kind: reasoning}, came{at: 900, kind: text})
	if d, ok := got.TTFO(); !ok || d != 900*time.Millisecond {
		t.Errorf("TTFO = %v, %v; want 900ms", d, ok)
	}
	none := answer(ended(backends.OK, 1), came{at: 100, kind: reasoning})
	if d, ok := none.TTFO(); ok {
		t.Errorf("TTFO of reasoning alone = %v, want unknown", d)
	}
}

func TestTimelineResponseTimes(t *testing.T) {
	got := new(Timeline)
	got.Reset("r", base, 0)
	got.Sent(base + 30*ms)
	got.Event(backends.Event{At: base + 80*ms, Kind: text, Read: 1, Completion: -1})
	got.Event(backends.Event{At: base + 90*ms, Kind: text, Read: 2, Completion: -1})
	got.Finish(ended(backends.OK, 2))
	lag, _ := got.SendLag()
	service, _ := got.TTFT()
	response, _ := got.TTFTResponse()
	e2e, _ := got.E2EResponse()
	if lag != 30*time.Millisecond || service != 50*time.Millisecond || response != 80*time.Millisecond || e2e != 90*time.Millisecond {
		t.Errorf("lag %v, TTFT %v, response %v, E2E response %v", lag, service, response, e2e)
	}
}

func TestTimelineSpeeds(t *testing.T) {
	// 101 tokens: the first after 1 s, the rest within 2 s.
	events := make([]came, 101)
	for i := range events {
		events[i] = came{at: 1000 + 20*int64(i), kind: text}
	}
	got := answer(ended(backends.OK, 101), events...)
	if v, ok := got.PerUserTPS(); !ok || v != 50 {
		t.Errorf("per-user TPS = %v, want 50", v)
	}
	if v, ok := got.E2ETPS(); !ok || v != 101.0/3 {
		t.Errorf("end-to-end TPS = %v, want 33.67", v)
	}
}

func TestTimelineTokenizer(t *testing.T) {
	// A24 perf_analyzer#563: the joined text is counted, not each chunk.
	pieces := func(b []byte) int { return (len(b) + 4) / 5 } // five bytes a token
	got := new(Timeline)
	got.Reset("r", base, 0)
	got.Count = pieces
	play(got, ended(backends.OK, -1), came{at: 100, kind: text, text: " Hel"}, came{at: 200, kind: text, text: "lo"}, came{at: 300, kind: text, text: "12345678"})
	if n, _ := got.OutputTokens(); n != 3 || got.Source() != Tokenizer {
		t.Errorf("%d tokens by %v, want 3 by the tokenizer", n, got.Source())
	}
	got.Reset("r", base, 0)
	got.Count = pieces
	play(got, ended(backends.OK, 8), came{at: 100, kind: text, text: "12345678901234567890"}, came{at: 200, kind: text, text: "12345678901234567890"})
	if itl := gapsPerToken(got); !slices.Equal(itl, []float64{25, 25, 25, 25}) {
		t.Errorf("ITL by the tokenizer %v, want four of 25", itl)
	}
	got.Reset("r", base, 0)
	got.Count = func([]byte) int { t.Error("text is counted though the events number the usage"); return 9 }
	play(got, ended(backends.OK, 2), came{at: 100, kind: text, text: "Hello"}, came{at: 200, kind: text, text: "you"})
	if n, _ := got.OutputTokens(); n != 2 || got.Source() != FinalUsage {
		t.Errorf("%d tokens by %v, want 2 by the usage", n, got.Source())
	}
}

func TestTimelineSentAgain(t *testing.T) {
	got := new(Timeline)
	got.Reset("r", base, 0)
	got.Sent(base)
	got.FirstByte(base + 5*ms)
	got.Sent(base + 100*ms)
	got.FirstByte(base + 150*ms)
	got.Event(backends.Event{At: base + 160*ms, Kind: text, Read: 1, Completion: -1})
	got.Finish(ended(backends.OK, 1))
	if d, _ := got.TTFT(); d != 60*time.Millisecond || got.FirstByteAt() != base+150*ms {
		t.Errorf("TTFT %v, first byte %d; want those of the later attempt", d, got.FirstByteAt()-base)
	}
}

func TestTimelineNeverNegative(t *testing.T) {
	got := new(Timeline)
	got.Reset("r", base, 0)
	got.Sent(base)
	got.Event(backends.Event{At: base - 10, Kind: text, Read: 1, Completion: -1})
	got.Event(backends.Event{At: base - 20, Kind: text, Read: 2, Completion: -1})
	got.Finish(ended(backends.OK, 2))
	if d, ok := got.TTFT(); !ok || d < 0 {
		t.Errorf("TTFT %v, %v; want 0 at least", d, ok)
	}
	if !slices.Contains(got.Warnings(), "stamp_before_sent") {
		t.Errorf("warnings %v lack stamp_before_sent", got.Warnings())
	}
}

func TestTimelineReads(t *testing.T) {
	events := []came{{at: 10, kind: text}}
	for i := range 4 { // four at once, read in time; four at once, read late
		events = append(events, came{at: 20, kind: text, read: 2, lag: 1000 + int64(i)}, came{at: 30, kind: text, read: 3, lag: 5 * ms})
	}
	slices.SortStableFunc(events, func(a, b came) int { return int(a.at - b.at) })
	got := answer(ended(backends.OK, 9), events...)
	if got.raw != 9 || len(got.events) != 3 || got.merged != 6 || got.late.over(time.Millisecond) != 3 {
		t.Errorf("raw %d in %d events, merged %d, late %v; want 9, 3, 6, and 3 late", got.raw, len(got.events), got.merged, got.late)
	}
	if !slices.Equal(got.lags, []uint32{0, 1000, uint32(5 * ms)}) {
		t.Errorf("one lag a read: %v", got.lags)
	}
}

func TestLateness(t *testing.T) {
	var l lateness
	for _, lag := range []time.Duration{-1, 0, 999 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 4 * time.Millisecond, time.Hour} {
		l.note(int64(lag))
	}
	for limit, want := range map[time.Duration]int64{time.Millisecond: 4, 2 * time.Millisecond: 3, 3 * time.Millisecond: 2, 5 * time.Millisecond: 1} {
		if got := l.over(limit); got != want {
			t.Errorf("%d surely over %v, want %d", got, limit, want)
		}
	}
}

func TestTimelineBurst(t *testing.T) {
	regular, bursts, once, fast := []came{}, []came{}, []came{}, []came{}
	for i := range int64(130) {
		regular = append(regular, came{at: 100 + 10*i, kind: text})
		bursts = append(bursts, came{at: 100 + 650*(i/65), kind: text})
		once = append(once, came{at: 1699, kind: text, read: 9})
		fast = append(fast, came{at: 100 + i, kind: text})
	}
	stalled := slices.Clone(regular)
	for i := 60; i < len(stalled); i++ {
		stalled[i].at += 2000 // one preemption
	}
	for _, c := range []struct {
		name   string
		events []came
		want   bool
	}{
		{"a token every 10 ms", regular, false},
		{"a token every millisecond", fast, false},
		{"one long stall", stalled, false},
		{"E138 a proxy buffers 65 chunks", bursts, true},
		{"E140 fake streaming, all at once", once, true},
		{"E140 fake streaming in one event", []came{{at: 0, kind: role}, {at: 1699, kind: text, running: 100}}, true},
		{"a short answer in one event", []came{{at: 50, kind: text, running: 15}}, false},
		{"too short to judge", once[:4], false},
	} {
		if got := answer(ended(backends.OK, -1), c.events...).bursty; got != c.want {
			t.Errorf("%s: bursty %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTimelineAllocatesNothing(t *testing.T) {
	tl := NewTimeline()
	defer tl.Release()
	e := backends.Event{Kind: text, Completion: -1, Text: []byte("x")}
	stream := func() {
		tl.Reset("r", base, 0)
		tl.Sent(base)
		tl.FirstByte(base + ms)
		for i := range 256 {
			e.At, e.Returned, e.Read = base+int64(i)*ms, base+int64(i)*ms+1000, uint64(i)
			tl.Event(e)
		}
		tl.Finish(ended(backends.OK, 256))
	}
	stream()
	if n := testing.AllocsPerRun(20, stream); n != 0 {
		t.Errorf("%v allocations a stream of 256 events, want 0", n)
	}
}

func BenchmarkTimelineEvent(b *testing.B) {
	tl := NewTimeline()
	tl.Reset("r", base, 0)
	tl.Sent(base)
	e := backends.Event{Kind: text, Completion: -1, Text: []byte("x")}
	b.ReportAllocs()
	for b.Loop() {
		e.At += ms
		e.Read++
		tl.Event(e)
		if e.Read%1024 == 0 {
			tl.Reset("r", base, 0)
			tl.Sent(base)
		}
	}
}
