package record

import (
	"fmt"
	"strings"
	"time"
)

// The limits of the validity rules.
const (
	minSentRatio   = 0.99
	maxClientLimit = 0.01
	lagFloor       = time.Millisecond // a lag below it harms no figure
	lagShare       = 0.1              // of TTFT p50 or ITL p50
	maxMergedRatio = 0.05
	maxCPURatio    = 0.85
	warnMismatch   = 0.01
	maxMismatch    = 0.05
	maxLittle      = 0.05
	maxReconcile   = 0.01
	maxScrapeGaps  = 0.1
	littlePerUser  = 20 // completions a user, below which Little's law cannot be judged
	burstRatio     = 0.5
	warnBurst      = 0.01
	censoredShare  = 0.05
	survivorShare  = 0.05
	defaultBlock   = 16 // tokens of a KV block, where the server does not tell
)

// Facts are what the rules of validity look at. Times are milliseconds;
// unknown is never a violation.
type Facts struct {
	Mode        Mode
	Concurrency int
	ThinkTime   bool
	Steady      bool
	AutoWarmup  bool
	// WatchedS is how long the rung was watched for a steady state, in
	// seconds, and WatchLimitS how long it may be.
	WatchedS, WatchLimitS Value

	Scheduled, Sent, Completed, Failed, Censored int64
	Timeouts, ClientLimited                      int64
	MinRequests                                  int
	// Need names the percentile with the most samples asked for, and Lacks
	// those that it takes; "" when none lacks any.
	Need  string
	Lacks int64
	// Unsettled names a percentile that was to settle and had not when the rung
	// ended, and Spread is that of its interval; "" when all had.
	Unsettled string
	Spread    Value

	// The lags are p99, or the highest percentile that the samples bear, whose
	// name is beside them.
	SendLagMS, ReceiveLagMS      Value
	SendLagAt, ReceiveLagAt      string
	TTFTP50MS, ITLP50MS          Value
	Stamps                       string
	MergedRatio, LateMergedRatio Value
	CPURatio                     Value
	MismatchRatio                Value
	InFlightMean, InFlightMax    Value
	// EndedPerS and MeanTimeS are X and R of Little's law over all requests
	// that ended in the window, sent to end; Ended is their number.
	EndedPerS, MeanTimeS Value
	Ended                int64
	// CachedTokens is the mean number of prompt tokens that came from a prefix
	// cache, CachedAllowed what was asked for plus template and block.
	CachedTokens, CachedAllowed Value
	BurstyRatio                 Value // of the answers long enough to be judged
	Bursty                      int64
	EstimatedRatio              Value // requests whose tokens are counted as events
	NoITLRatio                  Value
	InputMismatch               Value // of prompt lengths, asked for and told by the server
	InputWrong                  int64 // prompts of exact length that the server counts otherwise
	NotStreamed                 int64
	Overflow                    int64

	// Totals are the client's own, and the next two what the server's counters
	// grew by meanwhile.
	Totals                             Totals
	ServerRequests, ServerOutputTokens Value
	// ScrapeFailedRatio is the share of telemetry scrapes that failed.
	ScrapeFailedRatio Value
	// RandomDraftAcceptance is the share of speculated tokens that were
	// accepted, when prompts are random text; else unknown.
	RandomDraftAcceptance Value
}

// findings gathers the reasons by their weight.
type findings struct{ invalid, inconclusive, warnings []Reason }

// Judge holds a rung to the rules of validity. Reasons are those of the
// verdict, every one of them; warnings change no verdict. Failures of the
// server are results and not reasons.
func Judge(f Facts) (v Verdict, reasons, warnings []Reason) {
	var out findings
	out.load(f)
	out.lags(f)
	out.tokens(f)
	out.window(f)
	out.little(f)
	out.inputs(f)
	out.notes(f)
	out.server(f)
	v = Valid
	switch {
	case len(out.invalid) > 0:
		v = Invalid
	case len(out.inconclusive) > 0:
		v = Inconclusive
	}
	return v, append(append([]Reason{}, out.invalid...), out.inconclusive...), append([]Reason{}, out.warnings...)
}

// reason makes one finding.
func reason(code string, value, limit Value, format string, args ...any) Reason {
	return Reason{Code: code, Message: fmt.Sprintf(format, args...), Value: value, Limit: limit}
}

// load asks whether the load that was asked for was offered.
func (out *findings) load(f Facts) {
	if f.Scheduled > 0 {
		if ratio := float64(f.Sent) / float64(f.Scheduled); ratio < minSentRatio {
			out.invalid = append(out.invalid, reason("sent_ratio", Known(ratio), Known(minSentRatio),
				"%d of %d scheduled requests were sent: this machine cannot offer the load; lower the rate or use a faster client", f.Sent, f.Scheduled))
		}
	}
	if all := f.Completed + f.Failed; all > 0 && float64(f.ClientLimited)/float64(all) > maxClientLimit {
		out.invalid = append(out.invalid, reason("client_limit", Known(float64(f.ClientLimited)/float64(all)), Known(maxClientLimit),
			"%d requests failed for a limit of this machine, such as file descriptors or ports", f.ClientLimited))
	}
	// A server that refuses at once is never found busy by all users: its
	// errors are results.
	refused := f.Failed > f.Completed
	if most, ok := f.InFlightMax.Float(); ok && f.Mode == Closed && !f.ThinkTime && !refused && most < float64(f.Concurrency) {
		out.invalid = append(out.invalid, reason("concurrency_not_reached", f.InFlightMax, Known(float64(f.Concurrency)),
			"at most %.0f requests were in flight of %d asked for", most, f.Concurrency))
	}
}

// lags asks whether this machine sent and read in time.
func (out *findings) lags(f Facts) {
	late := false
	if lag, limit, over := overLag(f.SendLagMS, f.TTFTP50MS); over && f.Mode != Offline {
		late = true
		out.invalid = append(out.invalid, reason("send_lag", f.SendLagMS, Known(limit),
			"requests left late: send lag %s is %.3g ms", f.SendLagAt, lag))
	}
	if lag, limit, over := overLag(f.ReceiveLagMS, f.ITLP50MS); over {
		late = true
		out.invalid = append(out.invalid, reason("receive_lag", f.ReceiveLagMS, Known(limit),
			"answers were read late: receive lag %s is %.3g ms", f.ReceiveLagAt, lag))
	}
	busy := f.CPURatio.Or(0) > maxCPURatio
	merged := f.MergedRatio.Or(0) > maxMergedRatio
	switch {
	case f.LateMergedRatio.Or(0) > maxMergedRatio:
		late = true
		out.invalid = append(out.invalid, reason("merged_reads", f.LateMergedRatio, Known(maxMergedRatio),
			"late reads merged events, so that gaps between tokens are lost"))
	case merged && busy && f.Stamps != "kernel":
		late = true
		out.invalid = append(out.invalid, reason("merged_reads", f.MergedRatio, Known(maxMergedRatio),
			"events were read several at once by a client that had no time, so that gaps between tokens are lost"))
	case merged && f.Stamps == "kernel":
		out.warnings = append(out.warnings, reason("chunked_stream", f.MergedRatio, Known(maxMergedRatio),
			"events arrive several at once and are read in time: the server or a proxy sends them together"))
	case merged:
		out.warnings = append(out.warnings, reason("merged_reads", f.MergedRatio, Known(maxMergedRatio),
			"events were read several at once; without kernel stamps it cannot be told whether the server sent them so"))
	}
	if !busy {
		return
	}
	r := reason("client_cpu", f.CPURatio, Known(maxCPURatio), "the client used %.0f %% of this machine", 100*f.CPURatio.Or(0))
	if late {
		out.invalid = append(out.invalid, r)
	} else {
		out.warnings = append(out.warnings, r)
	}
}

// overLag holds a lag to the larger of one millisecond and a tenth of the
// figure that it distorts.
func overLag(lag, figure Value) (ms, limit float64, over bool) {
	ms, ok := lag.Float()
	limit = lagLimit(figure).Seconds() * 1e3
	return ms, limit, ok && ms > limit
}

// lagLimit is how late is too late for a figure in milliseconds.
func lagLimit(figure Value) time.Duration {
	return max(lagFloor, time.Duration(lagShare*figure.Or(0)*float64(time.Millisecond)))
}

// tokens asks whether the counts of the tokens can be believed.
func (out *findings) tokens(f Facts) {
	if m, ok := f.MismatchRatio.Float(); ok && m > warnMismatch {
		r := reason("token_mismatch", f.MismatchRatio, Known(maxMismatch),
			"the client's count of output tokens and the server's usage differ by %.2g %%", 100*m)
		if m > maxMismatch {
			out.invalid = append(out.invalid, r)
		} else {
			r.Limit = Known(warnMismatch)
			out.warnings = append(out.warnings, r)
		}
	}
	hit, okHit := f.CachedTokens.Float()
	allowed, okAllowed := f.CachedAllowed.Float()
	if okHit && okAllowed && hit > allowed {
		out.invalid = append(out.invalid, reason("prefix_cache", f.CachedTokens, f.CachedAllowed,
			"%.0f prompt tokens a request came from the prefix cache, which nobody asked for; use unique prompts, a new salt, or reset the cache", hit))
	}
}

// window asks whether the window shows a steady state with enough requests.
// Where most requests fail, time is not what it lacks.
func (out *findings) window(f Facts) {
	advice, warmup := "measure longer", " or set a fixed warm-up"
	if f.Failed > f.Completed {
		advice, warmup = fmt.Sprintf("%d requests failed, which is why: see the failures", f.Failed), ""
	}
	beyond := ""
	if f.Mode == Open && f.Failed <= f.Completed {
		beyond = "where more comes than the server ends, and the queue grows all along, there is none; else "
	}
	if f.AutoWarmup && !f.Steady {
		out.inconclusive = append(out.inconclusive, reason("not_converged", f.WatchedS, f.WatchLimitS,
			"no steady state was found in %.3g s; %s%s%s", f.WatchedS.Or(0), beyond, advice, warmup))
	}
	if f.Completed < int64(f.MinRequests) {
		out.inconclusive = append(out.inconclusive, reason("too_few_requests", Known(float64(f.Completed)), Known(float64(f.MinRequests)),
			"%d requests completed of %d asked for; %s", f.Completed, f.MinRequests, advice))
	}
	if f.Need != "" {
		out.inconclusive = append(out.inconclusive, reason("too_few_requests", Known(float64(f.Completed)), Known(float64(f.Lacks)),
			"%s needs %d requests and has %d; %s", f.Need, f.Lacks, f.Completed, advice))
	}
}

// little holds the rung to Little's law, N = X * R, which any bookkeeping that
// loses or doubles a request breaks.
func (out *findings) little(f Facts) {
	n, okN := f.InFlightMean.Float()
	if f.Mode == Offline || !okN || n <= 0 {
		return
	}
	if per := float64(f.Ended) / n; per < littlePerUser {
		unit := "a user"
		if f.Mode == Open {
			unit = "for each request in flight"
		}
		out.inconclusive = append(out.inconclusive, reason("little_law", Known(per), Known(littlePerUser),
			"%.3g completions %s are too few to hold the rung to Little's law; measure longer", per, unit))
		return
	}
	x, okX := f.EndedPerS.Float()
	r, okR := f.MeanTimeS.Float()
	if !okX || !okR {
		return
	}
	if off := max(n-x*r, x*r-n) / n; off > maxLittle {
		out.invalid = append(out.invalid, reason("little_law", Known(off), Known(maxLittle),
			"%.4g in flight do not agree with %.4g requests/s of %.4g s each", n, x, r))
	}
}

// inputs asks whether the server counts the prompts as long as they were asked
// for: to the token where they were counted, about as long where they were
// estimated. Figures are of the server's count, and so no less valid.
func (out *findings) inputs(f Facts) {
	switch off := f.InputMismatch.Or(0); {
	case f.InputWrong > 0:
		out.warnings = append(out.warnings, reason("input_length", Known(float64(f.InputWrong)), Known(0),
			"the server counts %d prompts otherwise than they were counted here, by %.2g %% of the tokens in all: its tokenizer or chat template "+
				"is another; check --tokenizer", f.InputWrong, 100*off))
	case off > warnMismatch:
		out.warnings = append(out.warnings, reason("input_length", f.InputMismatch, Known(warnMismatch),
			"prompts have not the length asked for: by the server's count they differ by %.3g %%", 100*off))
	}
}

// notes are worth knowing and change no verdict.
func (out *findings) notes(f Facts) {
	note := func(on bool, r Reason) {
		if on {
			out.warnings = append(out.warnings, r)
		}
	}
	note(f.BurstyRatio.Or(0) > burstRatio, reason("buffered_stream", f.BurstyRatio, Known(burstRatio),
		"the stream is buffered on its way, or not a stream at all: tokens come in bursts after silence; ITL, TPOT and the speed of a user are not known"))
	note(f.BurstyRatio.Or(0) > warnBurst && f.BurstyRatio.Or(0) <= burstRatio, reason("buffered_answers", Known(float64(f.Bursty)), Known(0),
		"%d answers came in bursts after silence, as if they were buffered on their way: their gaps are in ITL", f.Bursty))
	note(f.NotStreamed > 0, reason("not_streamed", Known(float64(f.NotStreamed)), Known(0),
		"%d answers came at once although a stream was asked for; they have no TTFT", f.NotStreamed))
	note(f.EstimatedRatio.Or(0) > 0, reason("tokens_estimated", f.EstimatedRatio, Known(0),
		"output tokens are estimated as one an event; let the server report usage or name a tokenizer"))
	note(f.NoITLRatio.Or(0) > 0, reason("itl_unknown", f.NoITLRatio, Known(0),
		"tokens an event are not known for %.0f %% of the streams: they have no ITL, and their TPOT takes the first event as one token", 100*f.NoITLRatio.Or(0)))
	if all := f.Completed + f.Failed; all > 0 {
		share := float64(f.Failed) / float64(all)
		note(share > survivorShare, reason("survivors", Known(share), Known(survivorShare),
			"%d of %d requests failed: every latency is of those that survived", f.Failed, all))
	}
	note(f.Timeouts > 0, reason("timeouts", Known(float64(f.Timeouts)), Known(0),
		"%d requests ran into their time limit and are in no percentile: the true tail is longer", f.Timeouts))
	if all := f.Completed + f.Censored; all > 0 {
		share := float64(f.Censored) / float64(all)
		note(share > censoredShare, reason("censored", Known(share), Known(censoredShare),
			"%.0f %% of the requests were cut by the drain: latencies lean to the short ones; drain longer", 100*share))
	}
	note(f.Unsettled != "" && f.Spread.OK(), reason("not_settled", f.Spread, Known(maxSpread),
		"%s had not settled when the rung ended: its 95 %% interval spans %.2g %% of it; raise stage.max_duration", f.Unsettled, 100*f.Spread.Or(0)))
	note(f.Overflow > 0, reason("overflow", Known(float64(f.Overflow)), Known(0),
		"%d values were beyond the range of the histograms", f.Overflow))
}

// server holds the client's totals to the server's own counters and notes what
// its telemetry says of the measurement.
func (out *findings) server(f Facts) {
	t := f.Totals
	if n, ok := f.ServerRequests.Float(); ok {
		// Those that failed or were cut may or may not be in the server's count.
		off := max(float64(t.Completed)-n, n-float64(t.Sent)) / max(float64(t.Completed), 1)
		if off > maxReconcile {
			out.warnings = append(out.warnings, reason("server_requests", f.ServerRequests, Known(float64(t.Completed)),
				"the server counted %.0f requests over the rung and this client %d: another client uses it, or one of the two counts wrongly", n, t.Completed))
		}
	}
	// A request that failed or was cut has tokens that only the server counts.
	if n, ok := f.ServerOutputTokens.Float(); ok && t.Completed == t.Sent {
		off := max(float64(t.OutputTokens)-n, n-float64(t.OutputTokens)) / max(float64(t.OutputTokens), 1)
		if off > maxReconcile {
			out.warnings = append(out.warnings, reason("server_output_tokens", f.ServerOutputTokens, Known(float64(t.OutputTokens)),
				"the server counted %.0f output tokens over the rung and this client %d: another client uses it, or one of the two counts wrongly", n, t.OutputTokens))
		}
	}
	if gaps, ok := f.ScrapeFailedRatio.Float(); ok && gaps > maxScrapeGaps {
		out.warnings = append(out.warnings, reason("telemetry_gaps", f.ScrapeFailedRatio, Known(maxScrapeGaps),
			"%.0f %% of the scrapes of the server's telemetry failed: its figures have gaps", 100*gaps))
	}
	if accepted, ok := f.RandomDraftAcceptance.Float(); ok {
		out.warnings = append(out.warnings, reason("speculative_decoding", f.RandomDraftAcceptance, Known(0),
			"the server speculates and %.0f %% of its draft tokens were accepted: random prompts make speculative decoding look bad; use a data set", 100*accepted))
	}
}

// percentileName writes an asked percentile as SLOs do: "ttft_p99", "tps_p05",
// "e2e_p999".
func percentileName(a Asked) string {
	digits := fmt.Sprintf("%04.1f", 100*a.Quantile)
	return a.Metric + "_p" + strings.Replace(strings.TrimSuffix(digits, ".0"), ".", "", 1)
}
