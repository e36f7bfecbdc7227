package record

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
)

// request is one scripted request, times in milliseconds from the rung's
// start.
type request struct {
	intended, sent int64
	first, gap     int64 // first token, and the gaps after it
	pause          int64 // before the second half of the tokens
	tokens         int
	class          backends.Class
	end            int64 // 0 is the last token
	censored       bool
}

// timeline plays the request, one event a token, with a final usage.
func (r request) timeline() *Timeline {
	t := new(Timeline)
	t.Reset("r", base+r.intended*ms, r.tokens)
	t.Sent(base + r.sent*ms)
	for i := range r.tokens {
		at := base + (r.first+int64(i)*r.gap)*ms
		if i >= r.tokens/2 {
			at += r.pause * ms
		}
		if i == 0 {
			t.FirstByte(at)
		}
		t.Event(backends.Event{At: at, Returned: at + 1000, Read: uint64(i), Kind: text, Completion: -1})
	}
	o := backends.Outcome{Class: r.class, Stamps: "kernel", Remote: "127.0.0.1:8000", End: base + r.end*ms,
		Usage: backends.Usage{Prompt: 10, Completion: r.tokens, Cached: -1, Reasoning: -1}}
	t.Censored = r.censored
	t.Finish(o)
	return t
}

// fixed is a rung with a known window, in milliseconds from its start.
func fixed(warmup, measure int64) Config {
	return Config{Mode: Closed, Start: base, Warmup: time.Duration(warmup * ms), Measure: time.Duration(measure * ms)}
}

// recorded feeds requests in the order given and closes the rung.
func recorded(c Config, requests ...request) (Rung, *Recorder) {
	r := NewRecorder(c)
	last := int64(0)
	for _, q := range requests {
		t := q.timeline()
		r.Began()
		r.Add(t)
		last = max(last, t.EndAt())
	}
	r.Close(max(last, c.Start+int64(c.Warmup+c.Measure)))
	rung, _ := r.Result(Evidence{})
	return rung, r
}

func wantValue(t *testing.T, name string, got Value, want float64) {
	t.Helper()
	if v, ok := got.Float(); !ok || math.Abs(v-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s = %v (known %v), want %v", name, v, ok, want)
	}
}

// near allows for the three digits of a histogram.
func near(t *testing.T, name string, got Value, want float64) {
	t.Helper()
	if v, ok := got.Float(); !ok || math.Abs(v-want) > 0.0015*math.Abs(want) {
		t.Errorf("%s = %v (known %v), want %v within three digits", name, v, ok, want)
	}
}

func TestWorkedFigures(t *testing.T) {
	t.Run("240 requests and 30,000 tokens in 60 s", func(t *testing.T) {
		var all []request
		for i := range int64(240) { // one every 250 ms, each of 125 tokens within 200 ms
			at := 250 * i
			all = append(all, request{intended: at, sent: at, first: at + 76, gap: 1, tokens: 125})
		}
		rung, _ := recorded(fixed(0, 60000), all...)
		wantValue(t, "request throughput", rung.RequestThroughputPerS, 4)
		wantValue(t, "output-token throughput", rung.OutputTokenThroughputPerS, 500)
		wantValue(t, "total-token throughput", rung.TotalTokenThroughputPerS, 540)
		wantValue(t, "in flight", rung.InFlightMean, 0.8)
		if rung.Totals != (Totals{Sent: 240, Completed: 240, InputTokens: 2400, OutputTokens: 30000}) {
			t.Errorf("totals %+v", rung.Totals)
		}
	})
	t.Run("5,000 tok/s over 100 users who are all decoding", func(t *testing.T) {
		var all []request
		for range 100 { // a token every 20 ms all through the window of 10 s, begun before it and cut after it
			all = append(all, request{intended: 0, sent: 0, first: 10, gap: 20, tokens: 800})
		}
		rung, _ := recorded(fixed(2000, 10000), all...)
		wantValue(t, "output-token throughput", rung.OutputTokenThroughputPerS, 5000)
		wantValue(t, "in flight", rung.InFlightMean, 100)
		wantValue(t, "most in flight", rung.InFlightMax, 100)
		if rung.PerUserTokensPerS.Count != 0 {
			t.Errorf("%d requests were wanted in the window, want none", rung.PerUserTokensPerS.Count)
		}
		inside := all
		for i := range inside {
			inside[i] = request{intended: 2000, sent: 2000, first: 2010, gap: 20, tokens: 500}
		}
		rung, _ = recorded(fixed(2000, 10000), inside...)
		wantValue(t, "output-token throughput", rung.OutputTokenThroughputPerS, 5000)
		near(t, "per-user TPS p50", rung.PerUserTokensPerS.P50, 50)
		wantValue(t, "per-user TPS mean", rung.PerUserTokensPerS.Mean, 50)
	})
}

func TestWindow(t *testing.T) {
	late := request{intended: 9900, sent: 9900, first: 9950, gap: 20, tokens: 10} // tokens 9950..10130
	for _, c := range []struct {
		name      string
		requests  []request
		completed float64 // req/s
		tokens    float64 // tok/s
		failed    float64 // tok/s of failed requests
		latencies int64
		requestsN Requests
	}{
		{"inside", []request{{intended: 1000, sent: 1000, first: 1100, gap: 10, tokens: 10}}, 0.1, 1, 0, 1, Requests{Sent: 1, Completed: 1}},
		{"followed through the drain: latency counts, late tokens do not", []request{late}, 0, 0.3, 0, 1, Requests{Sent: 1, Completed: 1}},
		{"begun in the warm-up: tokens and completion count, latency does not",
			[]request{{intended: -100, sent: -100, first: -50, gap: 20, tokens: 10}}, 0.1, 0.7, 0, 0, Requests{}},
		{"cut by the drain: its tokens count", []request{{intended: 9000, sent: 9000, first: 9010, gap: 100, tokens: 30, class: backends.Cancelled, censored: true}},
			0, 1, 0, 0, Requests{Sent: 1, Censored: 1}},
		{"failed: its tokens stand apart", []request{{intended: 1000, sent: 1000, first: 1010, gap: 10, tokens: 5, class: backends.Truncated}},
			0, 0, 0.5, 0, Requests{Sent: 1, Failed: 1}},
		{"cancelled on purpose is neither completed nor failed", []request{{intended: 1000, sent: 1000, first: 1010, gap: 10, tokens: 5, class: backends.Cancelled}},
			0, 0, 0.5, 0, Requests{Sent: 1, Cancelled: 1}},
		{"D108 perf_analyzer#195 the next rung's warm-up is none of this one's", []request{{intended: 10000, sent: 10000, first: 10010, gap: 10, tokens: 5}},
			0, 0, 0, 0, Requests{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := fixed(1000, 10000)
			for i := range c.requests { // scripted from the window's start
				q := &c.requests[i]
				q.intended, q.sent, q.first = q.intended+1000, q.sent+1000, q.first+1000
			}
			rung, _ := recorded(cfg, c.requests...)
			wantValue(t, "request throughput", rung.RequestThroughputPerS, c.completed)
			wantValue(t, "output-token throughput", rung.OutputTokenThroughputPerS, c.tokens)
			wantValue(t, "failed-token throughput", rung.FailedTokenThroughputPerS, c.failed)
			if rung.E2E.Count != c.latencies {
				t.Errorf("%d latencies, want %d", rung.E2E.Count, c.latencies)
			}
			got := rung.Requests
			got.Failures = nil
			if got.Sent != c.requestsN.Sent || got.Completed != c.requestsN.Completed || got.Failed != c.requestsN.Failed ||
				got.Cancelled != c.requestsN.Cancelled || got.Censored != c.requestsN.Censored {
				t.Errorf("requests %+v, want %+v", got, c.requestsN)
			}
			if got.Sent != got.Completed+got.Failed+got.Cancelled+got.Censored {
				t.Errorf("requests do not add up: %+v", got)
			}
			if rung.Window.StartS != 1 || rung.Window.EndS != 11 {
				t.Errorf("window %+v, want 1 to 11 s", rung.Window)
			}
		})
	}
}

func TestWindowEnd(t *testing.T) {
	one := func(at int64) request { return request{intended: at, sent: at, first: at + 10, gap: 1, tokens: 2} }
	t.Run("goes on in tenths until enough have completed", func(t *testing.T) {
		c := fixed(0, 1000)
		c.MinRequests = 12
		r := NewRecorder(c)
		for i := range int64(20) { // one every 110 ms
			r.Add(one(110 * i).timeline())
			if r.Over(base + (110*i+20)*ms) {
				t.Logf("over after %d requests", i+1)
				break
			}
		}
		_, end, final, _ := r.Window()
		if !final || end != base+1300*ms { // the 12th completes at 1221 ms
			t.Errorf("window ends at %d ms (final %v), want 1300", (end-base)/ms, final)
		}
	})
	t.Run("ends at max_duration", func(t *testing.T) {
		c := fixed(0, 1000)
		c.MinRequests, c.MaxDuration = 100, 1750*time.Millisecond
		r := NewRecorder(c)
		if r.Over(base + 1749*ms) {
			t.Error("over before max_duration")
		}
		if !r.Over(base + 1750*ms) {
			t.Error("not over at max_duration")
		}
		if _, end, _, _ := r.Window(); end != base+1750*ms {
			t.Errorf("window ends at %d ms, want 1750", (end-base)/ms)
		}
	})
	t.Run("a rung in which all fail needs no more time", func(t *testing.T) {
		c := fixed(0, 1000)
		c.MinRequests = 3
		r := NewRecorder(c)
		for i := range int64(3) {
			r.Add(request{intended: i, sent: i, end: i + 5, class: backends.HTTP5xx}.timeline())
		}
		if !r.Over(base + 1000*ms) {
			t.Error("not over although nothing will complete")
		}
	})
	t.Run("a rung in which all fail waits for no percentile", func(t *testing.T) {
		c := fixed(0, 1000)
		c.MinRequests, c.Until = 3, []Asked{{"ttft", 0.95}}
		r := NewRecorder(c)
		for i := range int64(3) {
			r.Add(request{intended: i, sent: i, end: i + 5, class: backends.HTTP5xx}.timeline())
		}
		if r.Over(base + 900*ms) {
			t.Error("over before its measured time")
		}
		if !r.Over(base + 1000*ms) {
			t.Error("not over although nothing will settle")
		}
	})
	t.Run("ends early when what is asked has settled", func(t *testing.T) {
		c := fixed(0, 100000)
		c.Until = []Asked{{"ttft", 0.95}}
		r := NewRecorder(c)
		over := int64(0)
		for i := range int64(2000) {
			at := 50 * i
			r.Add(one(at).timeline())
			if r.Over(base + at*ms) {
				over = at
				break
			}
		}
		if over != 10000 { // 200 equal values after the first tenth
			t.Errorf("over at %d ms, want 10000", over)
		}
		// Those that end in the drain take far longer, and are counted.
		for i := range int64(20) {
			r.Add(request{intended: 9000 + i, sent: 9000 + i, first: 14000 + 500*i, tokens: 1}.timeline())
		}
		rung, _ := r.Result(Evidence{Asked: c.Until})
		if hasCode(rung.Warnings, "not_settled") || rung.Requests.Completed != 220 {
			t.Errorf("warnings %+v of %d requests", rung.Warnings, rung.Requests.Completed)
		}
	})
	t.Run("goes on while what is asked has not settled, to its limit", func(t *testing.T) {
		c := fixed(0, 2000)
		c.Until, c.MaxDuration = []Asked{{"ttft", 0.95}}, 9*time.Second
		r := NewRecorder(c)
		over := int64(0)
		for i := range int64(2000) { // first tokens come ever later
			at := 50 * i
			r.Add(request{intended: at, sent: at, first: at + 10 + i*i, tokens: 1}.timeline())
			if r.Over(base + at*ms) {
				over = at
				break
			}
		}
		if over != 9000 {
			t.Errorf("over at %d ms, want 9000", over)
		}
		rung, _ := r.Result(Evidence{Asked: c.Until})
		if !hasCode(rung.Warnings, "not_settled") || rung.Window.EndS != 9 {
			t.Errorf("window %+v, warnings %+v", rung.Window, rung.Warnings)
		}
	})
	t.Run("an interrupted rung ends where it is", func(t *testing.T) {
		r := NewRecorder(fixed(0, 10000))
		r.Add(one(0).timeline())
		r.Close(base + 2000*ms)
		rung, _ := r.Result(Evidence{})
		wantValue(t, "request throughput", rung.RequestThroughputPerS, 0.5)
	})
	t.Run("interrupted in the warm-up: nothing was measured", func(t *testing.T) {
		r := NewRecorder(fixed(5000, 10000))
		r.Add(one(0).timeline())
		r.Close(base + 2000*ms)
		rung, _ := r.Result(Evidence{})
		if rung.RequestThroughputPerS.OK() || rung.InFlightMean.OK() || rung.Totals.Completed != 1 {
			t.Errorf("throughput %v, in flight %v, totals %+v", rung.RequestThroughputPerS, rung.InFlightMean, rung.Totals)
		}
	})
	t.Run("offline: from the start to the last end", func(t *testing.T) {
		r := NewRecorder(Config{Mode: Offline, Start: base})
		for i := range int64(10) {
			r.Add(request{intended: 0, sent: 0, first: 100 + i*100, gap: 1, tokens: 1}.timeline())
		}
		r.Close(base + 9000*ms)
		rung, _ := r.Result(Evidence{})
		near(t, "request throughput", rung.RequestThroughputPerS, 10)
		if rung.Window.Method != "none" || rung.Requests.Completed != 10 {
			t.Errorf("window %+v, requests %+v", rung.Window, rung.Requests)
		}
	})
}

func TestAutoWarmup(t *testing.T) {
	c := fixed(0, 10000)
	c.AutoWarmup = true
	r := NewRecorder(c)
	over := int64(0)
	for i := range int64(4000) { // 100 req/s; the first second is ten times slower to answer
		at := 10 * i
		first := at + 20
		if at < 1000 {
			first = at + 200
		}
		if at > 1500 || i%4 == 0 {
			r.Add(request{intended: at, sent: at, first: first, gap: 1, tokens: 10}.timeline())
		}
		if r.Over(base + at*ms) {
			over = at
			break
		}
	}
	start, end, final, _ := r.Window()
	from, to := (start-base)/ms, (end-base)/ms
	if !final || from < 1000 || from > 2000 || to != from+10000 || over != to {
		t.Fatalf("window %d to %d ms, final %v, over at %d; want a start from 1000 to 2000 and 10 s of it", from, to, final, over)
	}
	rung, _ := r.Result(Evidence{})
	if !rung.Window.Steady || rung.Window.Method != "mser5" {
		t.Errorf("window %+v", rung.Window)
	}
	wantValue(t, "request throughput", rung.RequestThroughputPerS, 100)
	if rung.TTFT.Count != 1000 {
		t.Errorf("%d latencies, want the 1000 of the window, those before its detection included", rung.TTFT.Count)
	}
	near(t, "TTFT max", rung.TTFT.Max, 20)
}

func TestAutoWarmupNeverSteady(t *testing.T) {
	c := fixed(0, 1000)
	c.AutoWarmup = true
	r := NewRecorder(c)
	over := int64(0)
	for at := int64(0); at < 10000; at += 2 { // answers slow down for ever
		r.Add(request{intended: at, sent: at, first: at + 5 + at/10, gap: 1, tokens: 1}.timeline())
		if r.Over(base + at*ms) {
			over = at
			break
		}
	}
	start, end, _, _ := r.Window()
	if over != 3000 || start != base+2000*ms || end != base+3000*ms {
		t.Errorf("over at %d, window %d to %d ms; want 3000, and the last 1000", over, (start-base)/ms, (end-base)/ms)
	}
	rung, _ := r.Result(Evidence{})
	if !hasCode(rung.Reasons, "not_converged") || rung.Window.Steady {
		t.Errorf("reasons %+v, window %+v", rung.Reasons, rung.Window)
	}
}

func TestWaitingIsBounded(t *testing.T) {
	var w waiting
	q := request{tokens: 2000, first: 1, gap: 1}.timeline()
	for i := range int64(6000) {
		q.end = base + i
		w.add(q)
		if w.bytes > keepLimit+1<<20 {
			t.Fatalf("%d bytes are kept, over the limit of %d", w.bytes, keepLimit)
		}
	}
	if w.floor == 0 || w.list[0].timeline.end <= w.floor {
		t.Errorf("floor %d, oldest kept %d: a window could begin within what was dropped", w.floor, w.list[0].timeline.end)
	}
	if n := w.list[0].size() / 2000; n > 9 {
		t.Errorf("%d bytes a token", n)
	}
}

func TestPackedTimeline(t *testing.T) {
	var w waiting
	for n := range 4 {
		tl := request{intended: 5, sent: 7, first: 50, gap: 13, tokens: n}.timeline()
		tl.warn("odd")
		w.add(tl)
	}
	n := 0
	w.empty(func(got *Timeline) {
		want := request{intended: 5, sent: 7, first: 50, gap: 13, tokens: n}.timeline()
		same := got.Intended == want.Intended && got.sent == want.sent && got.end == want.end && got.class == want.class &&
			got.tokens == want.tokens && slices.Equal(got.lags, want.lags) && slices.Equal(got.warnings, []string{"odd"})
		type event struct {
			at int64
			k  int
		}
		list := func(t *Timeline) (out []event) {
			t.Arrivals(func(at int64, k int) { out = append(out, event{at, k}) })
			return out
		}
		if !same || !slices.Equal(list(got), list(want)) || !slices.Equal(gapsPerToken(got), gapsPerToken(want)) {
			t.Errorf("%d tokens came back as %+v, were %+v", n, got, want)
		}
		n++
	})
	if n != 4 || len(w.list) != 0 || w.bytes != 0 {
		t.Errorf("%d came back, %d are left of %d bytes", n, len(w.list), w.bytes)
	}
}

func hasCode(rs []Reason, code string) bool {
	for _, r := range rs {
		if r.Code == code {
			return true
		}
	}
	return false
}

func TestFlight(t *testing.T) {
	for _, c := range []struct {
		name string
		span [][2]int64
		want float64
	}{
		{"none", nil, -1},
		{"one", [][2]int64{{0, 10}}, 1},
		{"D27 guidellm#266 two end at one instant", [][2]int64{{0, 10}, {0, 10}, {10, 20}}, 2},
		{"a user that sends again at its end is one", [][2]int64{{0, 10}, {10, 20}, {20, 30}}, 1},
		{"out of order", [][2]int64{{50, 60}, {0, 55}, {54, 70}, {1, 2}}, 3},
		{"empty", [][2]int64{{5, 5}}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f flight
			for _, s := range c.span {
				f.add(s[0], s[1])
			}
			if got := f.max().Or(-1); got != c.want {
				t.Errorf("most in flight %v, want %v", got, c.want)
			}
		})
	}
}

func TestFlightFolds(t *testing.T) {
	f := flight{horizon: 1000}
	for i := range int64(300_000) { // three in flight at any time, four once
		f.add(i*10, i*10+30)
		if i == 100_000 {
			f.add(i*10+1, i*10+20)
		}
	}
	if len(f.changes) > foldAt+2 {
		t.Errorf("%d changes are kept", len(f.changes))
	}
	wantValue(t, "most in flight", f.max(), 4)
}

func TestInFlightExact(t *testing.T) {
	// 2 s of a 10 s window, twice, and one that spans all of it and more.
	rung, _ := recorded(fixed(1000, 10000),
		request{intended: 2000, sent: 2000, first: 3000, gap: 500, tokens: 3},
		request{intended: 2000, sent: 2000, first: 3000, gap: 500, tokens: 3},
		request{intended: 0, sent: 500, first: 600, gap: 1400, tokens: 9})
	wantValue(t, "in flight", rung.InFlightMean, (2+2+10)/10.0)
	wantValue(t, "most", rung.InFlightMax, 3)
	if len(rung.Blocks) != 10 {
		t.Fatalf("%d blocks, want 10", len(rung.Blocks))
	}
	wantValue(t, "in flight in the second block", rung.Blocks[1].InFlightMean, 3)
	wantValue(t, "in flight in the last block", rung.Blocks[9].InFlightMean, 1)
}

func TestITLIsWeighted(t *testing.T) {
	one := newLatency()
	two := newLatency()
	one.weigh(2*ms, 2)
	two.weigh(2*ms, 1)
	two.weigh(2*ms, 1)
	if !one.hdr.Equals(two.hdr) || one.mean() != two.mean() || one.hdr.StdDev() != two.hdr.StdDev() || one.min != two.min || one.max != two.max {
		t.Error("a value recorded twice at once differs from twice recorded")
	}
	// Three tokens every 9 ms are an ITL of 3 ms and an ICL of 9 ms.
	r := NewRecorder(fixed(0, 1000))
	var events []came
	for i := range int64(20) {
		events = append(events, came{at: 9 * i, kind: text, running: 3 + 3*int(i)})
	}
	r.Add(answer(ended(backends.OK, 60), events...))
	r.Close(base + sec)
	rung, h := r.Result(Evidence{})
	wantValue(t, "mean ITL", rung.ITL.Mean, 3)
	wantValue(t, "mean ICL", rung.ICL.Mean, 9)
	wantValue(t, "mean TPOT", rung.TPOT.Mean, 3)
	if n := h["itl_ns"].TotalCount(); n != 57 || rung.ITL.Count != 1 {
		t.Errorf("%d gaps of %d requests, want 57 of 1", n, rung.ITL.Count)
	}
}

func TestGoodput(t *testing.T) {
	base := request{intended: 100, sent: 200, first: 300, gap: 10, tokens: 11} // TTFT 100, response 200, E2E 200, response 300
	for _, c := range []struct {
		name   string
		mode   Mode
		limits Limits
		want   float64
	}{
		{"all kept", Closed, Limits{TTFT: 100 * time.Millisecond, TPOT: 10 * time.Millisecond, ITL: 10 * time.Millisecond, E2E: 200 * time.Millisecond}, 1},
		{"TTFT missed", Closed, Limits{TTFT: 99 * time.Millisecond}, 0},
		{"TPOT missed", Closed, Limits{TPOT: 9 * time.Millisecond}, 0},
		{"ITL missed", Closed, Limits{ITL: 9 * time.Millisecond}, 0},
		{"E2E missed", Closed, Limits{E2E: 199 * time.Millisecond}, 0},
		{"open loop takes the response time", Open, Limits{TTFT: 150 * time.Millisecond}, 0},
		{"open loop, kept", Open, Limits{TTFT: 200 * time.Millisecond, E2E: 300 * time.Millisecond}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := fixed(0, 1000)
			cfg.Mode, cfg.Limits = c.mode, c.limits
			rung, _ := recorded(cfg, base)
			wantValue(t, "goodput", rung.GoodputReqPerS, c.want)
			wantValue(t, "goodput in tokens", rung.GoodputTokensPerS, 11*c.want)
		})
	}
	rung, _ := recorded(fixed(0, 1000), base)
	if rung.GoodputReqPerS.OK() {
		t.Error("goodput without limits is known")
	}
	one := request{intended: 100, sent: 100, first: 150, tokens: 1}
	cfg := fixed(0, 1000)
	cfg.Limits = Limits{TPOT: time.Millisecond, ITL: time.Millisecond}
	rung, _ = recorded(cfg, one)
	wantValue(t, "goodput of one token", rung.GoodputReqPerS, 1)
}

func TestQueueCounts(t *testing.T) {
	// D101 vllm#54101: rate 10/s, cap 1, service 0.5 s, 8 requests: the wait at
	// the client is in the response time.
	cfg := fixed(0, 5000)
	cfg.Mode, cfg.Concurrency = Open, 1
	var all []request
	for i := range int64(8) {
		all = append(all, request{intended: 100 * i, sent: 500 * i, first: 500*i + 250, gap: 250, tokens: 2})
	}
	rung, _ := recorded(cfg, all...)
	near(t, "queue mean", rung.SendLag.Mean, 1400)
	near(t, "E2E from the schedule, mean", rung.E2EResponse.Mean, 1900)
	near(t, "E2E from the schedule, max", rung.E2EResponse.Max, 3300)
	near(t, "service time", rung.E2E.Mean, 500)
}

func TestEmptyRungIsNull(t *testing.T) {
	// A15, A16, D123: nothing succeeded; strict JSON, null and no NaN.
	var all []request
	for i := range int64(10) {
		all = append(all, request{intended: i, sent: i, end: i + 1, class: backends.HTTP5xx})
	}
	rung, _ := recorded(fixed(0, 1000), all...)
	b, err := json.Marshal(rung)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"failures":{"http_5xx":10}`, `"ttft_ms":{"count":0,"mean":null`, `"request_throughput_per_s":0`, `"goodput_req_per_s":null`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the rung lacks %s:\n%s", want, b)
		}
	}
	if strings.Contains(string(b), "NaN") || strings.Contains(string(b), "Inf") {
		t.Errorf("not JSON: %s", b)
	}
}

func TestTokensOverTime(t *testing.T) {
	// Only a final usage of 40 for 10 chunks: the tokens spread over the chunks.
	r := NewRecorder(fixed(0, 1000))
	var events []came
	for i := range int64(10) {
		events = append(events, came{at: 550 + 100*i, kind: text})
	}
	r.Add(answer(ended(backends.OK, 40), events...))
	r.Close(base + 2000*ms)
	rung, _ := r.Result(Evidence{})
	wantValue(t, "output-token throughput", rung.OutputTokenThroughputPerS, 20)
	if rung.ITL.Count != 0 || rung.ITL.Mean.OK() || rung.ICL.Count != 1 {
		t.Errorf("ITL %+v, ICL %+v: ITL cannot be known", rung.ITL, rung.ICL)
	}
	if !hasCode(rung.Warnings, "itl_unknown") || rung.Tokens.Source != "usage" {
		t.Errorf("warnings %+v, source %q", rung.Warnings, rung.Tokens.Source)
	}
}

func TestBlocksDouble(t *testing.T) {
	b := blocks{width: 10}
	for i := range int64(1000) {
		b.at(i).completed++
		b.inFlight(i, i+1)
	}
	total, area := int64(0), int64(0)
	for _, p := range b.list {
		total += p.completed
		area += p.area
	}
	if len(b.list) > maxBlocks || total != 1000 || area != 1000 || b.width != 80 {
		t.Errorf("%d blocks of %d ns, %d completed, area %d", len(b.list), b.width, total, area)
	}
}

func TestMerge(t *testing.T) {
	a, b := newLatency(), newLatency()
	a.record(5 * ms)
	b.record(7 * ms)
	b.record(2 * int64(time.Hour))
	into := Histograms{"ttft_ns": a.hdr}
	if lost := into.Merge(Histograms{"ttft_ns": b.hdr, "itl_ns": b.hdr}); lost != 0 || into["ttft_ns"].TotalCount() != 3 || into["itl_ns"].TotalCount() != 2 {
		t.Errorf("lost %d, counts %d and %d", lost, into["ttft_ns"].TotalCount(), into["itl_ns"].TotalCount())
	}
	if lost := (Histograms{"ttft_ns": newBlockLatency().hdr}).Merge(Histograms{"ttft_ns": b.hdr}); lost != 0 {
		t.Errorf("lost %d", lost)
	}
	if small := newDistribution(1, 1000, 3, 1); small.merge(b) != 2 {
		t.Error("values beyond the range are not reported as lost")
	}
}

// TestLiveTellsWhatAWindowWaitsFor takes a window past the time asked for.
func TestLiveTellsWhatAWindowWaitsFor(t *testing.T) {
	for _, c := range []struct {
		name     string
		min      int
		until    []Asked
		missing  int64
		settling bool
	}{
		{"requests", 100, nil, 70, false},
		{"percentiles", 0, []Asked{{Metric: "ttft", Quantile: 0.99}}, 0, true},
		{"requests first", 100, []Asked{{Metric: "ttft", Quantile: 0.99}}, 70, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := fixed(0, 2000)
			config.MinRequests, config.Until, config.MaxDuration = c.min, c.until, time.Minute
			r := NewRecorder(config)
			for i := range int64(30) { // one each 100 ms
				q := request{intended: 100 * i, sent: 100 * i, first: 100*i + 20, gap: 1, tokens: 10}
				if l := r.Live(base + q.sent*ms); i < 2 && (l.Missing != 0 || l.Settling) {
					t.Errorf("as it begins: %+v", l)
				}
				r.Began()
				r.Add(q.timeline())
			}
			r.Over(base + 3000*ms)
			if l := r.Live(base + 3000*ms); l.Missing != c.missing || l.Settling != c.settling {
				t.Errorf("missing %d, settling %v; want %d, %v", l.Missing, l.Settling, c.missing, c.settling)
			}
		})
	}
}

func TestLive(t *testing.T) {
	r := NewRecorder(fixed(0, 10000))
	for i := range int64(300) { // 100 req/s of ten tokens; every tenth fails
		q := request{intended: 10 * i, sent: 10 * i, first: 10*i + 20, gap: 1, tokens: 10}
		if i%10 == 9 {
			q.class = backends.HTTP5xx
		}
		r.Began()
		r.Add(q.timeline())
	}
	r.Began()
	l := r.Live(base + 3000*ms)
	if l.InFlight != 1 || l.Completed != 270 || l.Failed != 30 || l.Failures["http_5xx"] != 30 || !l.Measuring || l.Left != 7*time.Second {
		t.Errorf("%+v", l)
	}
	if math.Abs(l.RequestsPerS-90) > 5 || math.Abs(l.OutputTokPerS-900) > 50 {
		t.Errorf("%v req/s and %v tok/s, want about 90 and 900", l.RequestsPerS, l.OutputTokPerS)
	}
	if v := l.TTFTP95MS.Or(0); math.Abs(v-20) > 0.5 {
		t.Errorf("TTFT p95 %v ms, want 20", v)
	}
	if l = r.Live(base + 60*sec); l.RequestsPerS != 0 || l.TTFTP95MS.OK() {
		t.Errorf("a minute later: %+v", l)
	}
}

func TestRecorderFromManyGoroutines(t *testing.T) {
	c := fixed(0, 1000)
	c.AutoWarmup = true
	r := NewRecorder(c)
	var wg sync.WaitGroup
	for u := range int64(8) {
		wg.Go(func() {
			for at := u; !r.Over(base + at*ms); at += 8 {
				r.Began()
				r.Add(request{intended: at, sent: at, first: at + 4, gap: 1, tokens: 4}.timeline())
				if at%100 == 0 {
					r.Live(base + at*ms)
				}
			}
		})
	}
	wg.Wait()
	r.Close(base + 5000*ms)
	rung, _ := r.Result(Evidence{})
	if l := r.Live(base); l.InFlight != 0 || l.Completed != rung.Totals.Completed {
		t.Errorf("%+v after all have ended, totals %+v", l, rung.Totals)
	}
	// The first answers end 7 ms after the start, which may be in the window.
	if v := rung.RequestThroughputPerS.Or(0); v < 993 || v > 1000 {
		t.Errorf("request throughput %v, want 993 to 1000", v)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	r := NewRecorder(fixed(0, 1000))
	tl := request{intended: 10, sent: 10, first: 50, gap: 1, tokens: 500}.timeline()
	for range 600 {
		r.Add(tl)
	}
	if n := testing.AllocsPerRun(50, func() { r.Add(tl) }); n >= 1 {
		t.Errorf("%v allocations a request of 500 tokens, want none", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	c := fixed(0, 1000)
	c.Longest = time.Second
	r := NewRecorder(c)
	tl := request{intended: 10, sent: 10, first: 50, gap: 1, tokens: 128}.timeline()
	b.ReportAllocs()
	for b.Loop() {
		r.Began()
		r.Add(tl)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/128, "ns/token")
}

func TestArrivalsByEvent(t *testing.T) {
	// Of ten tokens one comes within the first half and nine at its end.
	r := NewRecorder(fixed(0, 1000))
	r.Add(answer(ended(backends.OK, 10), came{at: 100, kind: text, running: 1}, came{at: 1100, kind: text, running: 10}))
	r.Close(base + 2000*ms)
	rung, _ := r.Result(Evidence{})
	wantValue(t, "output-token throughput", rung.OutputTokenThroughputPerS, 1)
}

func TestBlocksInOpenLoopTakeResponseTimes(t *testing.T) {
	cfg := fixed(0, 1000)
	cfg.Mode = Open
	rung, _ := recorded(cfg, request{intended: 100, sent: 150, first: 200, gap: 10, tokens: 3})
	wantValue(t, "TTFT in the second block", rung.Blocks[1].TTFTMeanMS, 100)
	wantValue(t, "E2E in the second block", rung.Blocks[1].E2EMeanMS, 120)
	wantValue(t, "TPOT in the second block", rung.Blocks[1].TPOTMeanMS, 10)
	if rung.Blocks[0].TTFTMeanMS.OK() {
		t.Error("a block without a request has a TTFT")
	}
}
