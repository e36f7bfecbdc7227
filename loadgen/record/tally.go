package record

import (
	"time"

	"github.com/headway-bench/headway/backends"
)

// tally is what a window has counted so far.
type tally struct {
	cfg    Config
	blocks blocks
	flight flight

	requests Requests
	unsent   int64 // of the censored, those that were never sent

	completed       int64 // ended well within the window, whenever intended
	ended           int64 // ended within the window, well or not
	endedTime       int64 // their time from sent to end
	area            int64 // request-nanoseconds in flight
	input           int64 // tokens of completed
	requested       int64
	arrived, failed int64 // output tokens that arrived, of good and of failed requests
	goodRequests    int64 // met every limit
	goodTokens      int64

	sources        [sources]int64
	told, differ   int64 // output tokens by the server's usage, and how many this client did not see so
	judged, bursty int64 // streams long enough to be judged for bursts
	noITL          int64 // good requests whose tokens an event are unknown
	notStreamed    int64
	cached, prompt int64 // prompt tokens from a prefix cache, of those told
	// inputAsked are prompt tokens asked for where the server told its count,
	// inputDiffer by how many those differ, inputWrong the prompts of exact
	// length that the server counts otherwise.
	inputAsked, inputDiffer, inputWrong int64
	raw, merged                         int64
	late                                lateness // of the merged
	kernel, user                        int64    // requests by who stamped their arrivals
	warnings                            map[string]int64
	remotes                             map[string]int64
	connections                         int64

	ttft, ttftResponse, ttfo, itl, icl, tpot, e2e, e2eResponse, sendLag, dueLag, receiveLag, connect *distribution
	perUser, e2eSpeed, inputTokens, outputTokens                                                     *distribution
}

// maxRemotes bounds the distinct addresses that are counted.
const maxRemotes = 4096

func newTally(c Config) *tally {
	return &tally{cfg: c, flight: flight{horizon: int64(c.Longest)},
		requests: Requests{Failures: map[string]int64{}}, warnings: map[string]int64{}, remotes: map[string]int64{},
		ttft: newLatency(), ttftResponse: newLatency(), ttfo: newLatency(), itl: newLatency(), icl: newLatency(),
		tpot: newLatency(), e2e: newLatency(), e2eResponse: newLatency(), sendLag: newLatency(), dueLag: newLatency(),
		receiveLag: newLatency(), connect: newLatency(), perUser: newSpeed(), e2eSpeed: newSpeed(),
		inputTokens: newCount(), outputTokens: newCount()}
}

// open sets where the window starts and the first length of its blocks.
func (y *tally) open(start, width int64) { y.blocks.start, y.blocks.width = start, width }

// add counts a finished request against the window [start, end).
func (y *tally) add(t *Timeline, start, end int64) {
	y.overlap(t, start, end)
	y.tokens(t, start, end)
	if t.Intended >= start && t.Intended < end {
		y.request(t)
	}
	if t.end >= start && t.end < end {
		y.end(t)
	}
}

// overlap counts the time in flight within the window.
func (y *tally) overlap(t *Timeline, start, end int64) {
	if t.sent == 0 {
		return
	}
	from, to := max(t.sent, start), min(t.end, end)
	if from >= to {
		return
	}
	y.area += to - from
	y.flight.add(from, to)
	y.blocks.inFlight(from, to)
}

// tokens counts the output tokens that arrived within the window.
func (y *tally) tokens(t *Timeline, start, end int64) {
	good := t.Good() || t.Censored
	t.Arrivals(func(at int64, n int) {
		switch {
		case at < start || at >= end:
		case good:
			y.arrived += int64(n)
			y.blocks.at(at).tokens += int64(n)
		default:
			y.failed += int64(n)
		}
	})
}

// request counts a request that was wanted within the window.
func (y *tally) request(t *Timeline) {
	r := &y.requests
	if t.unsent() {
		y.unsent++
	} else {
		r.Sent++
	}
	r.Reconnects += int64(t.Outcome.Reconnects)
	r.Retries += int64(t.Outcome.Retries)
	switch {
	case t.Censored:
		r.Censored++
	case t.Good():
		r.Completed++
		y.latencies(t)
	case t.class == backends.Cancelled:
		r.Cancelled++
		r.fail(t)
	default:
		r.Failed++
		r.fail(t)
	}
	y.sendLag.duration(t.SendLag())
	if y.cfg.Mode != Open || y.cfg.Concurrency == 0 || t.Due > 0 { // else the cap may have held it back
		y.dueLag.duration(t.dueLag())
	}
	for _, l := range t.lags {
		y.receiveLag.record(int64(l))
	}
	y.raw += int64(t.raw)
	y.merged += int64(t.merged)
	for i, n := range t.late {
		y.late[i] += n
	}
	y.origin(t)
	for _, w := range t.warnings {
		y.warnings[w]++
	}
}

// origin counts who answered, over what, and who stamped it.
func (y *tally) origin(t *Timeline) {
	if t.Outcome.Connect > 0 {
		y.connections++
		y.connect.record(int64(t.Outcome.Connect))
	}
	if a := t.Outcome.Remote; a != "" && (y.remotes[a] > 0 || len(y.remotes) < maxRemotes) {
		y.remotes[a]++
	}
	switch t.Outcome.Stamps {
	case "kernel":
		y.kernel++
	case "user":
		y.user++
	}
}

// latencies records the figures of a good request.
func (y *tally) latencies(t *Timeline) {
	part := y.blocks.at(t.Intended)
	ttft, e2e := t.TTFT, t.E2E
	if y.cfg.Mode == Open {
		ttft, e2e = t.TTFTResponse, t.E2EResponse
	}
	part.ttft.duration(ttft())
	part.e2e.duration(e2e())
	y.ttft.duration(t.TTFT())
	y.ttftResponse.duration(t.TTFTResponse())
	y.ttfo.duration(t.TTFO())
	y.e2e.duration(t.E2E())
	y.e2eResponse.duration(t.E2EResponse())
	if d, ok := t.TPOT(); ok {
		y.tpot.record(int64(d))
		part.tpotSum += int64(d)
		part.tpotNo++
	}
	speed(y.perUser, t.PerUserTPS)
	speed(y.e2eSpeed, t.E2ETPS)
	if n, ok := t.InputTokens(); ok {
		y.inputTokens.record(int64(n))
	}
	if n, ok := t.OutputTokens(); ok {
		y.outputTokens.record(int64(n))
	}
	y.sources[t.tokens.source]++
	y.gaps(t, part)
	y.counts(t)
}

// gaps records the gaps between token events (ICL) and between tokens (ITL): a
// gap before k tokens is k gaps of a k-th.
func (y *tally) gaps(t *Timeline, part *block) {
	if len(t.events) < 2 {
		return
	}
	y.icl.samples++
	if t.tokens.perEvent {
		y.itl.samples++
		part.itl.samples++
	} else {
		y.noITL++
	}
	since := time.Duration(0)
	t.Gaps(func(gap time.Duration, k int) {
		y.icl.weigh(int64(gap), 1)
		since += gap
		if k > 0 && t.tokens.perEvent {
			y.itl.weigh(int64(since)/int64(k), int64(k))
			part.itl.weigh(int64(since)/int64(k), int64(k))
			since = 0
		}
	})
}

// counts notes what the validity rules ask of a good request.
func (y *tally) counts(t *Timeline) {
	if t.tokens.seen >= 0 && t.tokens.told >= 0 {
		y.told += int64(t.tokens.told)
		y.differ += apart(t.tokens.seen, t.tokens.told)
	}
	if t.judgeable() {
		y.judged++
		if t.bursty {
			y.bursty++
		}
	}
	if t.Outcome.NotStreamed {
		y.notStreamed++
	}
	if n := t.Outcome.Usage.Prompt; n > 0 && t.InputAsked > 0 {
		y.inputAsked += int64(t.InputAsked)
		y.inputDiffer += apart(n, t.InputAsked)
		if t.InputExact && n != t.InputAsked {
			y.inputWrong++
		}
	}
	if u := t.Outcome.Usage; u.Cached >= 0 && u.Prompt > 0 {
		y.cached += int64(u.Cached)
		y.prompt += int64(u.Prompt)
	}
}

// apart is the distance of two counts.
func apart(a, b int) int64 { return int64(max(a-b, b-a)) }

// end counts a request that ended within the window.
func (y *tally) end(t *Timeline) {
	if t.sent > 0 {
		y.ended++
		y.endedTime += t.end - t.sent
	}
	if !t.Good() {
		return
	}
	y.completed++
	y.blocks.at(t.end).completed++
	if n, ok := t.InputTokens(); ok {
		y.input += int64(n)
	}
	y.requested += int64(t.Asked)
	if y.cfg.Limits.met(t, y.cfg.Mode) {
		y.goodRequests++
		y.goodTokens += int64(max(t.tokens.output, 0))
	}
}

// met says whether the request kept every limit by its own figures. A TPOT or
// ITL that one token leaves undefined breaks no limit; a TTFT or E2E that is
// not known meets none. Where the tokens of each event are unknown TPOT stands
// for the mean ITL.
func (l Limits) met(t *Timeline, m Mode) bool {
	ttft, e2e := t.TTFT, t.E2E
	if m == Open {
		ttft, e2e = t.TTFTResponse, t.E2EResponse
	}
	within := func(limit time.Duration, f func() (time.Duration, bool), unknown bool) bool {
		if limit <= 0 {
			return true
		}
		d, ok := f()
		return ok && d <= limit || !ok && unknown
	}
	return within(l.TTFT, ttft, false) && within(l.E2E, e2e, false) &&
		within(l.TPOT, t.TPOT, true) && within(l.ITL, t.TPOT, true)
}

// speed records tokens per second in thousandths, when known.
func speed(d *distribution, f func() (float64, bool)) {
	if v, ok := f(); ok {
		d.record(int64(v*1000 + 0.5))
	}
}

// unsettled returns the first of the percentiles that has not settled.
func (y *tally) unsettled(asked []Asked, m Mode) (Asked, bool) {
	for _, a := range asked {
		if d := y.metric(a.Metric, m); d != nil && !d.settled(a.Quantile) {
			return a, true
		}
	}
	return Asked{}, false
}

// metric returns the distribution that an SLO names, nil for a name that has
// none.
func (y *tally) metric(name string, m Mode) *distribution {
	switch name {
	case "ttft":
		if m == Open {
			return y.ttftResponse
		}
		return y.ttft
	case "e2e":
		if m == Open {
			return y.e2eResponse
		}
		return y.e2e
	case "ttfo":
		return y.ttfo
	case "itl":
		return y.itl
	case "icl":
		return y.icl
	case "tpot":
		return y.tpot
	case "tps":
		return y.perUser
	}
	return nil
}
