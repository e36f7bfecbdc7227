package record

import (
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
)

// sound are facts that break no rule.
func sound() Facts {
	return Facts{Mode: Closed, Concurrency: 8, AutoWarmup: true, Steady: true, WatchedS: Known(60), WatchLimitS: Known(90), Sent: 400, Completed: 400, MinRequests: 200,
		SendLagMS: Known(0.2), SendLagAt: "p99", TTFTP50MS: Known(50), ReceiveLagMS: Known(0.1), ReceiveLagAt: "p99", ITLP50MS: Known(10), Stamps: "kernel",
		MergedRatio: Known(0), LateMergedRatio: Known(0), CPURatio: Known(0.3), MismatchRatio: Known(0),
		InFlightMean: Known(8), InFlightMax: Known(8), EndedPerS: Known(16), MeanTimeS: Known(0.5), Ended: 400,
		CachedTokens: Known(0), CachedAllowed: Known(16), BurstyRatio: Known(0), EstimatedRatio: Known(0), NoITLRatio: Known(0)}
}

// count sets the totals of the client, all completed, and of the server.
func (f *Facts) count(requests, tokens int64, serverRequests, serverTokens float64) {
	f.Totals = Totals{Sent: requests, Completed: requests, OutputTokens: tokens}
	f.ServerRequests, f.ServerOutputTokens = Known(serverRequests), Known(serverTokens)
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name    string
		breaks  func(*Facts)
		verdict Verdict
		code    string // "" is none
		warning string
	}{
		{"sound", func(*Facts) {}, Valid, "", ""},
		{"nothing is known", func(f *Facts) { *f = Facts{Mode: Open} }, Valid, "", ""},
		{"errors of the server are results", func(f *Facts) { f.Failed = 5000 }, Valid, "", "survivors"},
		{"A40 guidellm#982 63 % failed, percentiles of the rest look fine", func(f *Facts) { f.Completed, f.Failed = 571, 971 }, Valid, "", "survivors"},

		{"sent ratio", func(f *Facts) { f.Mode, f.Scheduled, f.Sent = Open, 1000, 989 }, Invalid, "sent_ratio", ""},
		{"sent ratio at its limit", func(f *Facts) { f.Mode, f.Scheduled, f.Sent = Open, 1000, 990 }, Valid, "", ""},
		{"limits of this machine", func(f *Facts) { f.Failed, f.ClientLimited = 20, 20 }, Invalid, "client_limit", ""},
		{"send lag", func(f *Facts) { f.SendLagMS = Known(5.1) }, Invalid, "send_lag", ""},
		{"send lag within a tenth of TTFT", func(f *Facts) { f.SendLagMS = Known(4.9) }, Valid, "", ""},
		{"send lag within a millisecond", func(f *Facts) { f.SendLagMS, f.TTFTP50MS = Known(0.9), Known(1) }, Valid, "", ""},
		{"send lag offline means nothing", func(f *Facts) { f.Mode, f.SendLagMS = Offline, Known(1e6) }, Valid, "", ""},
		{"receive lag", func(f *Facts) { f.ReceiveLagMS = Known(1.1) }, Invalid, "receive_lag", ""},
		{"receive lag within a tenth of ITL", func(f *Facts) { f.ReceiveLagMS, f.ITLP50MS = Known(1.9), Known(20) }, Valid, "", ""},
		{"merged by late reads", func(f *Facts) { f.MergedRatio, f.LateMergedRatio = Known(0.06), Known(0.06) }, Invalid, "merged_reads", ""},
		{"a chunking server is no late read", func(f *Facts) { f.MergedRatio = Known(0.7) }, Valid, "", "chunked_stream"},
		{"without kernel stamps it cannot be told", func(f *Facts) { f.MergedRatio, f.Stamps = Known(0.7), "user" }, Valid, "", "merged_reads"},
		{"without kernel stamps a busy client is to blame", func(f *Facts) { f.MergedRatio, f.Stamps, f.CPURatio = Known(0.7), "user", Known(0.9) }, Invalid, "merged_reads", ""},
		{"a busy client that is in time", func(f *Facts) { f.CPURatio = Known(0.9) }, Valid, "", "client_cpu"},
		{"a busy client that is late", func(f *Facts) { f.CPURatio, f.ReceiveLagMS = Known(0.9), Known(3) }, Invalid, "client_cpu", ""},
		{"token mismatch", func(f *Facts) { f.MismatchRatio = Known(0.051) }, Invalid, "token_mismatch", ""},
		{"token mismatch, small", func(f *Facts) { f.MismatchRatio = Known(0.011) }, Valid, "", "token_mismatch"},
		{"token mismatch, none", func(f *Facts) { f.MismatchRatio = Known(0.01) }, Valid, "", ""},
		{"D118 InferenceX#970 prefix cache that nobody asked for", func(f *Facts) { f.CachedTokens = Known(17) }, Invalid, "prefix_cache", ""},
		{"prefix cache within template and block", func(f *Facts) { f.CachedTokens = Known(16) }, Valid, "", ""},
		{"concurrency", func(f *Facts) { f.InFlightMax = Known(7) }, Invalid, "concurrency_not_reached", ""},
		{"concurrency where a server refuses at once", func(f *Facts) { f.InFlightMax, f.Failed = Known(7), 4000 }, Valid, "", "survivors"},
		{"concurrency with think time", func(f *Facts) { f.InFlightMax, f.ThinkTime = Known(7), true }, Valid, "", ""},
		{"a cap in open loop need not be reached", func(f *Facts) { f.InFlightMax, f.Mode = Known(7), Open }, Valid, "", ""},
		{"Little's law", func(f *Facts) { f.MeanTimeS = Known(0.47) }, Invalid, "little_law", ""},
		{"Little's law, small", func(f *Facts) { f.MeanTimeS = Known(0.48) }, Valid, "", ""},

		{"the server counts as many", func(f *Facts) { f.count(500, 5000, 500, 5050) }, Valid, "", ""},
		{"the server counts more requests", func(f *Facts) { f.count(500, 5000, 506, 5000) }, Valid, "", "server_requests"},
		{"the server counts fewer requests", func(f *Facts) { f.count(500, 5000, 494, 5000) }, Valid, "", "server_requests"},
		{"the server counts requests that were cut", func(f *Facts) { f.count(500, 5000, 520, 9000); f.Totals.Sent = 520 }, Valid, "", ""},
		{"the server counts more tokens", func(f *Facts) { f.count(500, 5000, 500, 5051) }, Valid, "", "server_output_tokens"},
		{"the server counts fewer tokens", func(f *Facts) { f.count(500, 5000, 500, 4949) }, Valid, "", "server_output_tokens"},
		{"telemetry with gaps", func(f *Facts) { f.ScrapeFailedRatio = Known(0.2) }, Valid, "", "telemetry_gaps"},
		{"speculation on random text", func(f *Facts) { f.RandomDraftAcceptance = Known(0.05) }, Valid, "", "speculative_decoding"},

		{"not converged", func(f *Facts) { f.Steady = false }, Inconclusive, "not_converged", ""},
		{"D126 dynamo#5287 few completions a user", func(f *Facts) { f.Ended = 159 }, Inconclusive, "little_law", ""},
		{"enough completions a user", func(f *Facts) { f.Ended = 160 }, Valid, "", ""},
		{"too few requests", func(f *Facts) { f.Completed = 199 }, Inconclusive, "too_few_requests", ""},
		{"too few for a percentile", func(f *Facts) { f.Need, f.Lacks = "ttft_p99", 459 }, Inconclusive, "too_few_requests", ""},
		{"invalid outweighs inconclusive", func(f *Facts) { f.Steady, f.InFlightMax = false, Known(7) }, Invalid, "not_converged", ""},

		{"E138 a buffered stream", func(f *Facts) { f.BurstyRatio = Known(0.6) }, Valid, "", "buffered_stream"},
		{"a tenth of the answers buffered", func(f *Facts) { f.BurstyRatio, f.Bursty = Known(0.1), 40 }, Valid, "", "buffered_answers"},
		{"one answer buffered", func(f *Facts) { f.BurstyRatio, f.Bursty = Known(0.01), 4 }, Valid, "", ""},
		{"A54 not streamed", func(f *Facts) { f.NotStreamed = 1 }, Valid, "", "not_streamed"},
		{"estimated tokens", func(f *Facts) { f.EstimatedRatio = Known(0.1) }, Valid, "", "tokens_estimated"},
		{"ITL unknown", func(f *Facts) { f.NoITLRatio = Known(1) }, Valid, "", "itl_unknown"},
		{"A30 gpustack#4560 prompts longer than asked", func(f *Facts) { f.InputMismatch = Known(0.08) }, Valid, "", "input_length"},
		{"estimated prompts a little longer than asked", func(f *Facts) { f.InputMismatch = Known(0.008) }, Valid, "", ""},
		{"one exact prompt that the server counts otherwise", func(f *Facts) { f.InputMismatch, f.InputWrong = Known(1e-6), 1 }, Valid, "", "input_length"},
		{"C88 guidellm#589 timeouts", func(f *Facts) { f.Failed, f.Timeouts = 3, 3 }, Valid, "", "timeouts"},
		{"censored", func(f *Facts) { f.Censored = 40 }, Valid, "", "censored"},
		{"not settled", func(f *Facts) { f.Unsettled, f.Spread = "ttft_p95", Known(0.2) }, Valid, "", "not_settled"},
		{"overflow", func(f *Facts) { f.Overflow = 1 }, Valid, "", "overflow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sound()
			c.breaks(&f)
			verdict, reasons, warnings := Judge(f)
			if verdict != c.verdict {
				t.Errorf("verdict %s for %+v, want %s", verdict, reasons, c.verdict)
			}
			if c.code == "" && len(reasons) > 0 || c.code != "" && !hasCode(reasons, c.code) {
				t.Errorf("reasons %+v, want %q", reasons, c.code)
			}
			if c.warning == "" && len(warnings) > 0 || c.warning != "" && !hasCode(warnings, c.warning) {
				t.Errorf("warnings %+v, want %q", warnings, c.warning)
			}
			for _, r := range append(reasons, warnings...) {
				if r.Message == "" || strings.Contains(r.Message, "%!") || !r.Value.OK() || !r.Limit.OK() {
					t.Errorf("a finding needs its message, value and limit: %+v", r)
				}
			}
		})
	}
}

// closedLoop is a rung of users that each send again as they are answered.
func closedLoop(users, rounds int64) []request {
	var all []request
	for i := range rounds {
		for u := range users {
			at := 100*i + u // staggered by a millisecond
			all = append(all, request{intended: at, sent: at, first: at + 50, gap: 10, tokens: 6, end: at + 100})
		}
	}
	return all
}

func TestRungVerdicts(t *testing.T) {
	cfg := fixed(1000, 4000)
	cfg.Concurrency, cfg.MinRequests = 4, 100
	run := func(e Evidence, change func(i int, tl *Timeline) *Timeline) Rung {
		r := NewRecorder(cfg)
		for i, q := range closedLoop(4, 60) {
			tl := q.timeline()
			if change != nil {
				tl = change(i, tl)
			}
			if tl != nil {
				r.Add(tl)
			}
		}
		r.Close(base + 6200*ms)
		rung, _ := r.Result(e)
		return rung
	}
	sound := run(Evidence{}, nil)
	if sound.Verdict != Valid || len(sound.Warnings) != 0 {
		t.Fatalf("a sound rung is %s: %+v, warnings %+v", sound.Verdict, sound.Reasons, sound.Warnings)
	}
	wantValue(t, "in flight", sound.InFlightMean, 4)
	for _, c := range []struct {
		name   string
		e      Evidence
		change func(i int, tl *Timeline) *Timeline
		want   Verdict
		code   string
	}{
		{"requests get lost", Evidence{}, func(i int, tl *Timeline) *Timeline {
			if i%2 == 0 {
				return nil
			}
			return tl
		}, Invalid, "concurrency_not_reached"},
		{"sent late", Evidence{}, func(_ int, tl *Timeline) *Timeline { tl.Intended -= 9 * ms; return tl }, Invalid, "send_lag"},
		{"one of many sent late", Evidence{}, func(i int, tl *Timeline) *Timeline {
			if i == 100 {
				tl.Intended -= 20 * ms
			}
			return tl
		}, Valid, ""},
		{"a connection that takes long to open is not late", Evidence{}, func(_ int, tl *Timeline) *Timeline { tl.Intended -= 9 * ms; tl.Outcome.Connect = 9e6; return tl }, Valid, ""},
		{"sent again is not late", Evidence{}, func(_ int, tl *Timeline) *Timeline { tl.Intended -= 9 * ms; tl.Outcome.Retries = 1; return tl }, Valid, ""},
		{"held back by the cap is not late", Evidence{}, func(_ int, tl *Timeline) *Timeline { tl.Due = tl.Intended; tl.Intended -= 9 * ms; return tl }, Valid, ""},
		{"read late", Evidence{}, func(_ int, tl *Timeline) *Timeline { tl.lags[0] = uint32(3 * ms); return tl }, Invalid, "receive_lag"},
		{"usage that is wrong", Evidence{}, func(_ int, tl *Timeline) *Timeline { tl.tokens.seen, tl.tokens.told = 6, 12; return tl }, Invalid, "token_mismatch"},
		{"cached prompts", Evidence{BlockSize: 4}, func(_ int, tl *Timeline) *Timeline { tl.Outcome.Usage.Cached = 5; return tl }, Invalid, "prefix_cache"},
		{"cached prompts by telemetry", Evidence{BlockSize: 4, Telemetry: &Telemetry{PrefixCacheHitRatio: Known(0.5)}}, nil, Invalid, "prefix_cache"},
		{"cached prompts that are wanted", Evidence{BlockSize: 4, ReuseWanted: true, Telemetry: &Telemetry{PrefixCacheHitRatio: Known(0.9)}}, nil, Valid, ""},
		{"cached prompts, shared on purpose", Evidence{BlockSize: 4, SharedTokens: 1, Telemetry: &Telemetry{PrefixCacheHitRatio: Known(0.5)}}, nil, Valid, ""},
		{"too few for p99.9", Evidence{Asked: []Asked{{"ttft", 0.999}}}, nil, Inconclusive, "too_few_requests"},
		{"a server that fails half of the time", Evidence{}, func(i int, tl *Timeline) *Timeline {
			if i%3 == 0 {
				tl.class = backends.HTTP5xx
			}
			return tl
		}, Valid, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rung := run(c.e, c.change)
			if rung.Verdict != c.want || c.code != "" && !hasCode(rung.Reasons, c.code) {
				t.Errorf("%s %+v, want %s for %q", rung.Verdict, rung.Reasons, c.want, c.code)
			}
		})
	}
}

func TestBufferedRungHasNoPace(t *testing.T) {
	r := NewRecorder(fixed(0, 4000))
	for i := range int64(40) {
		q := request{intended: 100 * i, sent: 100 * i, first: 100*i + 30, pause: 50, tokens: 32}
		r.Add(q.timeline())
	}
	r.Close(base + 4100*ms)
	rung, histograms := r.Result(Evidence{})
	if !hasCode(rung.Warnings, "buffered_stream") || rung.Blocks[0].ITLMeanMS.OK() || rung.Blocks[0].TPOTMeanMS.OK() || !rung.E2ETokensPerS.Mean.OK() {
		t.Errorf("%+v, warnings %+v", rung.Blocks[0], rung.Warnings)
	}
	for name, d := range map[string]Dist{"itl_ns": rung.ITL, "tpot_ns": rung.TPOT, "per_user_millitokens_per_s": rung.PerUserTokensPerS} {
		if d.Mean.OK() || d.Count != 40 || histograms[name] != nil {
			t.Errorf("%s is told: %+v", name, d)
		}
	}
}

func TestUnsentRequests(t *testing.T) {
	cfg := fixed(0, 1000)
	cfg.Mode = Open
	run := func(cfg Config) Rung {
		r := NewRecorder(cfg)
		for i := range int64(90) {
			r.Add(request{intended: i, sent: i, first: i + 5, gap: 1, tokens: 1}.timeline())
		}
		for i := range int64(10) {
			tl := new(Timeline)
			tl.Reset("r", base+(90+i)*ms, 1)
			tl.Censored = true
			tl.Finish(backends.Outcome{Class: backends.Cancelled, Usage: backends.NoUsage, End: base + 1000*ms})
			r.Add(tl)
		}
		r.Close(base + 1000*ms)
		rung, _ := r.Result(Evidence{Scheduled: 100})
		return rung
	}
	if rung := run(cfg); !hasCode(rung.Reasons, "sent_ratio") || rung.Requests.Sent != 90 || rung.Requests.Censored != 10 {
		t.Errorf("%+v %+v, want sent_ratio for 90 of 100", rung.Requests, rung.Reasons)
	}
	cfg.Concurrency = 4
	if rung := run(cfg); hasCode(rung.Reasons, "sent_ratio") {
		t.Errorf("%+v: they waited behind the cap that was asked for", rung.Reasons)
	}
}

func TestInputLength(t *testing.T) {
	// A30 gpustack#4560: 1024 asked, 1107 by the server, 64 of them cached (A49).
	r := NewRecorder(fixed(0, 1000))
	for i := range int64(10) {
		tl := request{intended: i, sent: i, first: i + 5, gap: 1, tokens: 2}.timeline()
		tl.InputAsked = 1024
		tl.Outcome.Usage.Prompt, tl.Outcome.Usage.Cached = 1107, 64
		r.Add(tl)
	}
	r.Close(base + sec)
	rung, _ := r.Result(Evidence{ReuseWanted: true})
	wantValue(t, "input length", rung.InputTokens.Mean, 1107)
	wantValue(t, "share of cached input", rung.Telemetry.PrefixCacheHitRatio, 64.0/1107)
	if !hasCode(rung.Warnings, "input_length") || rung.Totals.InputTokens != 11070 {
		t.Errorf("warnings %+v, totals %+v", rung.Warnings, rung.Totals)
	}
	wantValue(t, "mismatch", rung.Tokens.InputMismatchRatio, 83.0/1024)
}

// TestExactInputLength: where prompts were counted, one token too many is told,
// such as that of a second BOS, and where they were not it may be an estimate.
func TestExactInputLength(t *testing.T) {
	for _, c := range []struct {
		exact        bool
		asked, count int
		warned       bool
	}{{true, 1024, 1024, false}, {true, 1024, 1025, true}, {true, 1024, 1023, true}, {false, 1024, 1025, false}, {false, 1024, 1035, true}} {
		r := NewRecorder(fixed(0, 1000))
		tl := request{intended: 1, sent: 1, first: 6, gap: 1, tokens: 2}.timeline()
		tl.InputAsked, tl.InputExact, tl.Outcome.Usage.Prompt = c.asked, c.exact, c.count
		r.Add(tl)
		r.Close(base + sec)
		rung, _ := r.Result(Evidence{})
		if got := hasCode(rung.Warnings, "input_length"); got != c.warned {
			t.Errorf("exact %t, %d asked for, %d by the server: warned %t, want %t", c.exact, c.asked, c.count, got, c.warned)
		}
	}
}

func TestPercentileName(t *testing.T) {
	for a, want := range map[Asked]string{{"ttft", 0.99}: "ttft_p99", {"tps", 0.05}: "tps_p05", {"e2e", 0.999}: "e2e_p999", {"itl", 0.5}: "itl_p50"} {
		if got := percentileName(a); got != want {
			t.Errorf("%+v is %q, want %q", a, got, want)
		}
	}
}

func TestAdviceOfTooFewRequests(t *testing.T) {
	for _, c := range []struct {
		name         string
		breaks       func(*Facts)
		says, silent string
	}{
		{"all fail", func(f *Facts) { f.Completed, f.Failed = 0, 400 }, "400 requests failed", "longer"},
		{"all fail and a percentile is asked for", func(f *Facts) { f.Completed, f.Failed, f.Need, f.Lacks = 0, 400, "ttft_p99", 459 }, "400 requests failed", "longer"},
		{"all fail and nothing is steady", func(f *Facts) { f.Completed, f.Failed, f.Steady = 0, 400, false }, "400 requests failed", "warm-up"},
		{"a few fail", func(f *Facts) { f.Completed, f.Failed = 150, 20 }, "measure longer", "failed"},
		{"the queue of an open loop grows", func(f *Facts) { f.Mode, f.Steady = Open, false }, "where more comes than the server ends, and the queue grows all along, there is none; else measure longer", "failed"},
		{"few requests of an open loop", func(f *Facts) { f.Mode, f.Ended = Open, 9 }, "for each request in flight", "a user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sound()
			c.breaks(&f)
			_, reasons, _ := Judge(f)
			if len(reasons) == 0 {
				t.Fatal("no reason")
			}
			for _, r := range reasons {
				if !strings.Contains(r.Message, c.says) || strings.Contains(r.Message, c.silent) {
					t.Errorf("%s: %q, want %q in it and not %q", r.Code, r.Message, c.says, c.silent)
				}
			}
		})
	}
}
