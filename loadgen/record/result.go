package record

import (
	"maps"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/headway-bench/headway/backends/clock"
)

// Histograms are the distributions of a rung by metric and unit of the recorded
// values: "ttft_ns", "per_user_millitokens_per_s", "output_tokens".
type Histograms map[string]*hdrhistogram.Histogram

// Evidence is what others know of a rung.
type Evidence struct {
	// Scheduled is how many requests the schedule had in the window; 0 in a
	// closed loop.
	Scheduled int64
	Client    ClientHealth
	Telemetry *Telemetry
	// SharedTokens are prompt tokens that are shared on purpose;
	// TemplateTokens those that a chat template adds to each prompt; BlockSize
	// is the server's KV block, 16 when 0.
	SharedTokens, TemplateTokens, BlockSize int
	// ReuseWanted says that cache hits are asked for, as in conversations.
	ReuseWanted bool
	// RandomText says that prompts are made up rather than taken from a file.
	RandomText bool
	// Asked are the percentiles that SLOs ask for; each needs its samples.
	Asked []Asked
}

// Result reports the rung and its histograms, which the recorder must not be
// used after. Call it when the window is final and the drain is over.
func (r *Recorder) Result(e Evidence) (Rung, Histograms) {
	r.mu.Lock()
	defer r.mu.Unlock()
	y, c := r.tally, r.cfg
	s := seconds(r.end - r.start)
	rate := func(n int64) Value {
		if s <= 0 { // interrupted before the window began
			return Value{}
		}
		return Known(float64(n) / s)
	}
	out := Rung{
		Index: c.Index, Mode: c.Mode, Concurrency: c.Concurrency, Repeat: c.Repeat, Refined: c.Refined,
		StartUnixNS: clock.Wall(c.Start).UnixNano(), Window: r.window(), Requests: y.requests, Totals: r.totals,
		Tokens: Tokens{Input: y.input, Output: y.arrived, OutputRequested: y.requested, Source: y.source().String(),
			MismatchRatio: ratio(y.differ, y.told), InputMismatchRatio: ratio(y.inputDiffer, y.inputAsked)},
		InputTokens: y.inputTokens.dist(), OutputTokens: y.outputTokens.dist(),
		InFlightMean: ratio(y.area, r.end-r.start), InFlightMax: y.flight.max(),

		RequestThroughputPerS: rate(y.completed), OutputTokenThroughputPerS: rate(y.arrived),
		InputTokenThroughputPerS: rate(y.input), TotalTokenThroughputPerS: rate(y.input + y.arrived),
		FailedTokenThroughputPerS: rate(y.failed),

		PerUserTokensPerS: y.perUser.dist(), E2ETokensPerS: y.e2eSpeed.dist(),
		TTFT: y.ttft.dist(), TTFTResponse: y.ttftResponse.dist(), TTFO: y.ttfo.dist(), ITL: y.itl.dist(),
		ICL: y.icl.dist(), TPOT: y.tpot.dist(), E2E: y.e2e.dist(), E2EResponse: y.e2eResponse.dist(),
		SendLag: y.sendLag.dist(), ReceiveLag: y.receiveLag.dist(), Connect: y.connect.dist(),

		Stamps: y.stamps(), MergedReadRatio: ratio(y.merged, y.raw), Client: e.Client, Telemetry: y.telemetry(e.Telemetry),
		Blocks: y.blocks.result(c.Start, r.end),
	}
	if c.RatePerS > 0 {
		out.RatePerS = Known(c.RatePerS)
	}
	if c.Limits != (Limits{}) {
		out.GoodputReqPerS, out.GoodputTokensPerS = rate(y.goodRequests), rate(y.goodTokens)
	}
	out.Client.RemoteAddresses, out.Client.Connections = len(y.remotes), y.connections
	facts := r.facts(&out, e)
	buffered := facts.BurstyRatio.Or(0) > burstRatio
	if buffered {
		out.withholdPace()
	}
	out.Verdict, out.Reasons, out.Warnings = Judge(facts)
	for _, code := range slices.Sorted(maps.Keys(y.warnings)) {
		n := y.warnings[code]
		out.Warnings = append(out.Warnings, reason(code, Known(float64(n)), Known(0), "%d requests", n))
	}
	histograms := y.histograms()
	if buffered {
		for _, name := range paceHistograms {
			delete(histograms, name)
		}
	}
	return out, histograms
}

// withholdPace takes out what tells how fast tokens followed each other: behind
// a buffer that is the buffer's pace.
func (g *Rung) withholdPace() {
	for _, d := range []*Dist{&g.ITL, &g.TPOT, &g.PerUserTokensPerS} {
		*d = Dist{Count: d.Count}
	}
	for i := range g.Blocks {
		b := &g.Blocks[i]
		b.ITLMeanMS, b.ITLP95MS, b.TPOTMeanMS = Value{}, Value{}, Value{}
	}
}

// window reports where the window lies.
func (r *Recorder) window() Window {
	method := "fixed"
	switch {
	case r.cfg.Mode == Offline:
		method = "none"
	case r.cfg.AutoWarmup:
		method = "mser5"
	case r.cfg.Warmup == 0:
		method = "none"
	}
	return Window{StartS: seconds(r.start - r.cfg.Start), EndS: seconds(r.end - r.cfg.Start), Steady: r.cfg.AutoWarmup && r.found, Method: method}
}

// facts gathers what the rules of validity look at.
func (r *Recorder) facts(out *Rung, e Evidence) Facts {
	y, c := r.tally, r.cfg
	ttft := y.metric("ttft", c.Mode)
	f := Facts{
		Mode: c.Mode, Concurrency: c.Concurrency, ThinkTime: c.ThinkTime, Steady: r.found, AutoWarmup: c.AutoWarmup && c.Mode != Offline,
		WatchedS: Known(seconds(r.end - c.Start)), WatchLimitS: Known(3 * c.Measure.Seconds()),
		Scheduled: e.Scheduled, Sent: y.requests.Sent - y.requests.Failures["client_limit"],
		Completed: y.requests.Completed, Failed: y.requests.Failed, Censored: y.requests.Censored,
		ClientLimited: y.requests.Failures["client_limit"], Timeouts: y.requests.Failures["timeout"], MinRequests: c.MinRequests,
		TTFTP50MS: ttft.quantile(0.5), ITLP50MS: y.itl.quantile(0.5),
		Stamps: out.Stamps, MergedRatio: out.MergedReadRatio, LateMergedRatio: ratio(y.late.over(lagLimit(y.itl.quantile(0.5))), y.raw),
		CPURatio: e.Client.CPURatio, MismatchRatio: out.Tokens.MismatchRatio,
		InFlightMean: out.InFlightMean, InFlightMax: out.InFlightMax,
		EndedPerS: ratio(y.ended, r.end-r.start).Scale(1e9),
		MeanTimeS: ratio(y.endedTime, y.ended).Scale(1e-9), Ended: y.ended,
		BurstyRatio: ratio(y.bursty, y.judged), Bursty: y.bursty, EstimatedRatio: ratio(y.sources[EventCount], y.requests.Completed),
		NoITLRatio: ratio(y.noITL, y.icl.samples), InputMismatch: out.Tokens.InputMismatchRatio, InputWrong: y.inputWrong, NotStreamed: y.notStreamed, Overflow: y.overflow(),
	}
	f.SendLagMS, f.SendLagAt = y.dueLag.tail()
	f.ReceiveLagMS, f.ReceiveLagAt = y.receiveLag.tail()
	if c.Mode == Open && c.Concurrency > 0 {
		f.Sent += y.unsent // they waited behind the cap that was asked for
	}
	f.Need, f.Lacks = y.lacking(e.Asked, c.Mode)
	if a, ok := y.unsettled(c.Until, c.Mode); ok && !r.settled {
		f.Unsettled, f.Spread = percentileName(a), y.metric(a.Metric, c.Mode).spread(a.Quantile)
	}
	f.Totals = out.Totals
	if e.Telemetry != nil {
		f.ServerRequests, f.ServerOutputTokens = e.Telemetry.ServerRequests, e.Telemetry.ServerOutputTokens
		f.ScrapeFailedRatio = ratio(e.Telemetry.ScrapeFailures, e.Telemetry.Scrapes)
		if e.RandomText {
			f.RandomDraftAcceptance = e.Telemetry.SpecDecodeAcceptance
		}
	}
	if !e.ReuseWanted {
		f.CachedTokens, f.CachedAllowed = y.cachedTokens(e)
	}
	return f
}

// telemetry adds to the server's telemetry the prefix-cache hits that its usage
// told, where the telemetry itself has none.
func (y *tally) telemetry(t *Telemetry) *Telemetry {
	hit := ratio(y.cached, y.prompt)
	if !hit.OK() || t != nil && t.PrefixCacheHitRatio.OK() {
		return t
	}
	out := Telemetry{Source: "usage"}
	if t != nil {
		out = *t
	}
	out.PrefixCacheHitRatio = hit
	return &out
}

// cachedTokens is the mean number of cached prompt tokens and what is allowed:
// from the requests' own usage, or from the server's telemetry.
func (y *tally) cachedTokens(e Evidence) (cached, allowed Value) {
	block := e.BlockSize
	if block == 0 {
		block = defaultBlock
	}
	allowed = Known(float64(e.SharedTokens + e.TemplateTokens + block))
	hit, prompt := ratio(y.cached, y.prompt), y.inputTokens.mean()
	if !hit.OK() && e.Telemetry != nil {
		hit = e.Telemetry.PrefixCacheHitRatio
	}
	if h, ok := hit.Float(); ok && prompt.OK() {
		cached = prompt.Scale(h)
	}
	return cached, allowed
}

// lacking names the asked percentile that needs the most samples beyond those
// there are.
func (y *tally) lacking(asked []Asked, m Mode) (name string, need int64) {
	for _, a := range asked {
		d := y.metric(a.Metric, m)
		if n := Need(a.Quantile); d != nil && d.samples < n && n > need {
			name, need = percentileName(a), n
		}
	}
	return name, need
}

// source is the one that counted most requests.
func (y *tally) source() Source {
	best := NoSource
	for s := RunningUsage; s < sources; s++ {
		if y.sources[s] > y.sources[best] {
			best = s
		}
	}
	return best
}

// stamps says who stamped the arrivals: "kernel" only when it was all of them.
func (y *tally) stamps() string {
	if y.kernel > 0 && y.user == 0 {
		return "kernel"
	}
	return "user"
}

// histogramNames name the distributions, in the order of all.
var histogramNames = []string{"ttft_ns", "ttft_response_ns", "ttfo_ns", "itl_ns", "icl_ns", "tpot_ns", "e2e_ns",
	"e2e_response_ns", "send_lag_ns", "receive_lag_ns", "connect_ns", "per_user_millitokens_per_s",
	"e2e_millitokens_per_s", "input_tokens", "output_tokens"}

// paceHistograms are those of withholdPace.
var paceHistograms = []string{"itl_ns", "tpot_ns", "per_user_millitokens_per_s"}

// all lists the distributions in the order of histogramNames.
func (y *tally) all() []*distribution {
	return []*distribution{y.ttft, y.ttftResponse, y.ttfo, y.itl, y.icl, y.tpot, y.e2e, y.e2eResponse,
		y.sendLag, y.receiveLag, y.connect, y.perUser, y.e2eSpeed, y.inputTokens, y.outputTokens}
}

// histograms names the distributions that have values.
func (y *tally) histograms() Histograms {
	out := Histograms{}
	for i, d := range y.all() {
		if d.hdr.TotalCount() > 0 {
			d.hdr.SetTag(histogramNames[i])
			out[histogramNames[i]] = d.hdr
		}
	}
	return out
}

// overflow counts the values beyond the range of their histogram.
func (y *tally) overflow() int64 {
	n := int64(0)
	for _, d := range y.all() {
		n += d.overflow
	}
	return n
}

// Merge adds the histograms of o to those of h, by name, and returns how many
// values did not fit, which is 0 for histograms of this package.
func (h Histograms) Merge(o Histograms) (lost int64) {
	for name, from := range o {
		if into, ok := h[name]; ok {
			lost += into.Merge(from)
		} else {
			h[name] = from.Clone()
		}
	}
	return lost
}

// seconds are those of a number of nanoseconds, rounded once.
func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// ratio is unknown over nothing.
func ratio(a, b int64) Value {
	if b == 0 {
		return Value{}
	}
	return Known(float64(a) / float64(b))
}
