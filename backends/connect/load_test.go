package connect_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/internal/wiretest"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// climb is a ladder against a server that writes each answer whole. number
// counts the requests of a rung from 0.
type climb struct {
	load   profiles.Load
	stage  profiles.Stage
	answer func(rung, number int) string
}

// climbed is what the rungs of a ladder say, and what the server saw of each.
type climbed struct {
	tried
	good map[int]int64 // answers under 200
	bad  map[int]int64 // the others
}

// run climbs from the raw bytes of a socket to the rungs' results.
func (x climb) run(t *testing.T) climbed {
	t.Helper()
	var mu sync.Mutex
	out := climbed{good: map[int]int64{}, bad: map[int]int64{}}
	out.tried = trial{asked: 2, answer: func(a asked) script {
		mu.Lock()
		defer mu.Unlock()
		answer := x.answer(a.rung, int(out.good[a.rung]+out.bad[a.rung]))
		if strings.HasPrefix(answer, "HTTP/1.1 200") {
			out.good[a.rung]++
		} else {
			out.bad[a.rung]++
		}
		return atOnce(answer, 0)
	}, edit: func(p *profiles.Profile) {
		drain, timeout := p.Stage.Drain, p.Stage.Timeout
		p.Load, p.Stage = x.load, x.stage
		p.Stage.Drain, p.Stage.Timeout = drain, timeout
	}}.run(t)
	return out
}

var (
	twoTokens = wiretest.Stream(data(word("a")), data(word("b")), data(length, usage(2), done))
	busy      = wiretest.Plain(503, "application/json", `{"error":{"message":"The queue is full.","code":503}}`)
)

func users(n ...int) profiles.Load {
	return profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: n}}
}

// TestEveryLoadIsReported is InferenceX#1020: the highest loads, which the
// server refuses, are rungs of the result as the others are, and those that are
// left out after them are named.
func TestEveryLoadIsReported(t *testing.T) {
	stage := profiles.Stage{Measure: profiles.Duration(50 * time.Millisecond), MaxDuration: profiles.Duration(200 * time.Millisecond), Repeats: 1}
	for _, c := range []struct {
		name         string
		asked, rungs []int
		failsFrom    int // the first rung of which every request is refused
		note         string
	}{
		{"the highest fails", []int{1, 2, 8}, []int{1, 2, 8}, 2, ""},
		{"two fail and the rest is left out", []int{1, 2, 4, 8, 16}, []int{1, 2, 4, 8}, 2, "loads of 4 and above are left out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := climb{load: users(c.asked...), stage: stage, answer: func(rung, _ int) string {
				if rung >= c.failsFrom {
					return busy
				}
				return twoTokens
			}}.run(t)
			var loads []int
			for i, r := range got.rungs {
				loads = append(loads, r.Concurrency)
				if r.Totals.Completed != got.good[i] || r.Totals.Failed != got.bad[i] || r.Totals.Sent != got.good[i]+got.bad[i] {
					t.Errorf("rung %d: totals %+v, and the server answered %d well and %d not", i, r.Totals, got.good[i], got.bad[i])
				}
				if r.Totals.OutputTokens != 2*got.good[i] {
					t.Errorf("rung %d: %d output tokens of %d answers", i, r.Totals.OutputTokens, got.good[i])
				}
				if i >= c.failsFrom && (r.Requests.Failures["http_5xx"] != r.Requests.Failed || r.Requests.Failed == 0 || r.TTFT.Mean.OK() || r.E2E.Mean.OK()) {
					t.Errorf("rung %d: requests %+v, TTFT %+v", i, r.Requests, r.TTFT)
				}
				if i < c.failsFrom && (r.Requests.Failed != 0 || !r.TTFT.Mean.OK()) {
					t.Errorf("rung %d: requests %+v, TTFT %+v", i, r.Requests, r.TTFT)
				}
			}
			if !slices.Equal(loads, c.rungs) {
				t.Errorf("rungs of %v users, want %v", loads, c.rungs)
			}
			said := ""
			for _, n := range got.notes {
				said += n.Message
			}
			if (said == "") != (c.note == "") || !strings.Contains(said, c.note) {
				t.Errorf("it is said that %q, want %q", said, c.note)
			}
		})
	}
}

// TestWarmupIsInNoFigure is vllm#42457: the requests of the warm-up succeed and
// those of the window name a model that is not there. Only the latter count, and
// what the server said of them is told. The first of all, which makes a server
// ready for a feature (vLLM's logprobs took 21 s once), is in no latency.
func TestWarmupIsInNoFigure(t *testing.T) {
	t.Parallel()
	const warmup = 200 * time.Millisecond
	missing := wiretest.Plain(404, "application/json", `{"error":{"message":"The model m does not exist.","type":"NotFoundError","code":404}}`)
	began := clock.Now()
	got := climb{
		load: users(1),
		stage: profiles.Stage{Warmup: profiles.Warmup{Fixed: profiles.Duration(warmup)}, Measure: profiles.Duration(50 * time.Millisecond),
			MinRequests: 1, MaxDuration: profiles.Duration(time.Minute), Repeats: 1}, // until one of the window has failed
		answer: func(_, number int) string {
			if number < 4 {
				return twoTokens
			}
			if number == 4 { // which outlasts the warm-up
				<-time.After(warmup)
				return twoTokens
			}
			return missing
		},
	}.run(t)
	r := got.rungs[0]
	var sent, completed, failed int64
	for _, line := range got.lines {
		switch inWindow := float64(clock.Wall(line.IntendedNS).UnixNano()-r.StartUnixNS) >= r.Window.StartS*1e9; {
		case inWindow && line.Class == "ok":
			sent, completed = sent+1, completed+1
		case inWindow:
			sent, failed = sent+1, failed+1
		}
	}
	if r.Window.StartS < warmup.Seconds() || clock.Now()-began < int64(warmup) {
		t.Errorf("the window begins after %v s", r.Window.StartS)
	}
	if q := r.Requests; failed == 0 || q.Sent != sent || q.Completed != completed || q.Failed != failed || q.Failures["http_4xx"] != failed {
		t.Errorf("requests %+v, want %d sent, %d completed and %d failed", q, sent, completed, failed)
	}
	if r.TTFT.Count != completed || r.OutputTokens.Count != completed {
		t.Errorf("%d TTFT and %d lengths of %d completed requests", r.TTFT.Count, r.OutputTokens.Count, completed)
	}
	if r.Totals.Completed != got.good[0] || r.Totals.Failed != got.bad[0] {
		t.Errorf("totals %+v, and the server answered %d well and %d not", r.Totals, got.good[0], got.bad[0])
	}
	if said := r.Requests.FailureText(); !strings.Contains(said, "HTTP 404 Not Found: The model m does not exist.") {
		t.Errorf("the failures say %q", said)
	}
}

// TestOddPercentiles is fortio#606: 0, 100 and what lies beyond are no
// percentiles. A rung of a hundred answers has none of them, cannot be asked for
// one, and is not valid where one is asked for all the same.
func TestOddPercentiles(t *testing.T) {
	scripts := make([]script, 100)
	for i := range scripts {
		scripts[i] = atOnce(twoTokens, 0)
	}
	for _, quantile := range []float64{0, 1, -0.5, 1.01, math.NaN()} {
		got := experiment{dialect: "vllm", asked: 2, scripts: scripts, settle: []record.Asked{{Metric: "ttft", Quantile: quantile}}}.run(t)
		if got.Totals.Completed != 100 || got.Verdict == record.Valid || !strings.Contains(warned(got.Rung), "too_few_requests") {
			t.Errorf("asked for the quantile %v: %d completed, %s for %s", quantile, got.Totals.Completed, got.Verdict, warned(got.Rung))
		}
	}
	got := experiment{dialect: "vllm", asked: 2, scripts: scripts}.run(t)
	if d := got.TTFT; d.Count != 100 || !d.P50.OK() || !d.P95.OK() || d.P99.OK() || d.P999.OK() {
		t.Errorf("a hundred answers give %+v", d)
	}
	for _, stat := range []string{"p0", "p00", "p100", "p101", "p-5", "p1000", "p"} {
		if got.TTFT.Stat(stat) != nil {
			t.Errorf("there is a %s", stat)
		}
		if _, err := profiles.ParseSLOs("ttft_" + stat + "=1s"); err == nil || !strings.Contains(err.Error(), "ttft_"+stat) {
			t.Errorf("a limit of ttft_%s: %v", stat, err)
		}
	}
}

// TestRatesThatAreNoNumber is evalscope#1503: a load without end is the offline
// mode, whose rate is null in strict JSON and no number anywhere, and a rate
// that is no number is refused before the server hears of it.
func TestRatesThatAreNoNumber(t *testing.T) {
	got := experiment{dialect: "vllm", asked: 2, scripts: []script{atOnce(twoTokens, 0), atOnce(twoTokens, 0)}}.run(t)
	text, err := json.Marshal(got.Rung)
	if err != nil {
		t.Fatal(err)
	}
	var rung map[string]any
	if err := json.Unmarshal(text, &rung); err != nil {
		t.Fatal(err)
	}
	rate, told := rung["rate_req_per_s"]
	if rung["mode"] != "offline" || !told || rate != nil || got.Totals.Completed != 2 || got.Totals.OutputTokens != 4 {
		t.Errorf("mode %v, rate %v (told %v), totals %+v", rung["mode"], rate, told, got.Totals)
	}
	for _, rate := range []float64{-1, 0, math.Inf(1), math.Inf(-1), math.NaN()} {
		p := &profiles.Profile{Load: profiles.Load{Open: &profiles.OpenLoad{Rate: []float64{rate}}},
			Stage: profiles.Stage{Measure: profiles.Duration(time.Second), MaxDuration: profiles.Duration(time.Second), Repeats: 1}}
		if _, err := loadgen.NewPlan(p, 1); err == nil || !strings.Contains(err.Error(), "rate") {
			t.Errorf("%v requests per second: %v", rate, err)
		}
	}
}

// TestSomeTimeOut is inference-perf#555: requests that the server never answers
// end by their time limit, one after the other, and the rung with them.
func TestSomeTimeOut(t *testing.T) {
	t.Parallel()
	hangs := script{hangs: true}
	good := framed(say(word("a")), say(word("b")), say(stop, usage(2), done))
	got := experiment{dialect: "vllm", asked: 16, timeout: 300 * time.Millisecond, scripts: []script{hangs, good, hangs, hangs, good}}.run(t)
	if got.Totals.Completed != 2 || got.Totals.Failed != 3 || got.Requests.Failures["timeout"] != 3 || got.Totals.OutputTokens != 4 || got.TTFT.Count != 2 {
		t.Errorf("totals %+v, failures %v, %d TTFT", got.Totals, got.Requests.Failures, got.TTFT.Count)
	}
	if codes := warned(got.Rung); !strings.Contains(codes, "timeouts") {
		t.Errorf("warnings %s", codes)
	}
}

// TestRetriesOfARung are empirical#166 and llm-d-async#122: a refusal is asked
// again when that was asked for, not before the server wants it, and neither the
// waiting nor the refusal is in a latency.
func TestRetriesOfARung(t *testing.T) {
	t.Parallel()
	const wait = 50 * time.Millisecond
	slowDown := atOnce(wiretest.Plain(429, "application/json", `{"error":{"message":"slow down"}}`, "retry-after-ms: 50"), 0)
	good := framed(say(word("a")), say(word("b")), say(stop, usage(2), done))
	retries := func(n int) func(*connect.Options) { return func(o *connect.Options) { o.Retries = n } }

	got := experiment{dialect: "vllm", asked: 16, requests: 1, options: retries(2), scripts: []script{slowDown, slowDown, good}}.run(t)
	truth{output: 2, source: "usage", events: []tokens{{1, 1}, {2, 1}}}.check(t, got)
	if got.Requests.Retries != 2 || got.Totals.Sent != 1 {
		t.Errorf("requests %+v, totals %+v", got.Requests, got.Totals)
	}
	line := got.lines[0]
	for i := 1; i < 3; i++ {
		if waited := time.Duration(got.wrote[i][0] - got.wrote[i-1][0]); waited < wait {
			t.Errorf("asked again after %v, want %v", waited, wait)
		}
	}
	if wanted := time.Duration(*line.SentNS - line.IntendedNS); wanted < 2*wait {
		t.Errorf("the latencies begin %v after the request was wanted, and %v were waited", wanted, 2*wait)
	}

	got = experiment{dialect: "vllm", asked: 16, requests: 1, options: retries(1), scripts: []script{slowDown, slowDown}}.run(t)
	truth{class: "http_429", err: "slow down", output: -1}.check(t, got)
	if got.Requests.Retries != 1 {
		t.Errorf("requests %+v", got.Requests)
	}

	overloaded := framed(say(word("a")), piece{data(`{"error":{"message":"Overloaded"}}`), 0})
	got = experiment{dialect: "vllm", asked: 16, options: retries(2), scripts: []script{overloaded}}.run(t)
	truth{class: "stream_error", err: "Overloaded", output: 1, source: "events", events: []tokens{{1, 1}}}.check(t, got)
	if got.Requests.Retries != 0 {
		t.Errorf("requests %+v after a token was seen", got.Requests)
	}
}

// TestOnePath is Rapid-MLX#1669: however the target is written, each request of
// the rung asks for the same path.
func TestOnePath(t *testing.T) {
	for _, suffix := range []string{"", "/", "//", "/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/"} {
		got := experiment{dialect: "vllm", asked: 2, scripts: []script{atOnce(twoTokens, 0)},
			options: func(o *connect.Options) { o.URL += suffix }}.run(t)
		if want := []string{"/v1/chat/completions"}; !slices.Equal(got.paths, want) || got.Totals.Completed != 1 || got.Totals.OutputTokens != 2 {
			t.Errorf("%q asks for %v, totals %+v", suffix, got.paths, got.Totals)
		}
	}
}
