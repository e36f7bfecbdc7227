package connect_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/reference/sim"
	"github.com/headway-bench/headway/backends/tokenizer"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// late is how much later a slow start and a stall are than anything that a busy
// machine does to a request.
const late = 2 * time.Second

// faultTokens is the output asked for: enough to tell a burst, and few enough
// that a usage of twice the truth plus 7 is beyond belief.
const faultTokens = 20

// TestFaults has a simulated server do wrong to a tenth of its requests, one
// fault at a time, and holds the rung to the server's own account of which
// requests it did wrong: exactly those are in the class, the warning or the
// figure that the fault belongs to, and none is in another.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault   reference.Fault
		class   string        // of the failures, "" for none
		warning string        // that counts the requests, "" for none
		limits  record.Limits // that exactly the other requests keep
		short   int           // tokens that each answer lacks
		itl     time.Duration // 0 for 1 ms
	}{
		{fault: reference.SlowStart, limits: record.Limits{TTFT: late}},
		{fault: reference.StallMid, limits: record.Limits{E2E: late}},
		{fault: reference.ErrorMid, class: "stream_error"},
		{fault: reference.ErrorFirst, class: "stream_error"},
		{fault: reference.Truncate, class: "truncated"},
		{fault: reference.Cut, class: "truncated"},
		{fault: reference.HTTP429, class: "http_429"},
		{fault: reference.HTTP500, class: "http_5xx"},
		{fault: reference.NoOutput, class: "no_output"},
		{fault: reference.WrongUsage, warning: "usage_not_believed"},
		{fault: reference.EarlyEnd, warning: "ended_early", short: faultTokens / 2},
		{fault: reference.Buffered, warning: "buffered_answers", itl: 50 * time.Millisecond},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel()
			const requests = 200
			rung, lines, account := misbehave(t, c.fault, max(c.itl, time.Millisecond), requests, c.limits)
			hit := map[string]bool{}
			for _, l := range lines {
				switch fault, logged := account[l.RequestID]; {
				case !logged:
					t.Errorf("the server has no account of %s", l.RequestID)
				case fault == c.fault:
					hit[l.RequestID] = true
				case fault != reference.NoFault:
					t.Errorf("the server did %s to %s", fault, l.RequestID)
				}
			}
			n := int64(len(hit))
			if len(lines) != requests || n < requests/20 || n > requests/5 {
				t.Fatalf("the server did %s to %d of %d requests, of which %d were to be sent", c.fault, n, len(lines), requests)
			}
			failures := map[string]int64{}
			if c.class != "" {
				failures[c.class] = n
			}
			if !maps.Equal(rung.Requests.Failures, failures) || rung.Totals.Completed != requests-failures[c.class] || rung.Totals.Failed != failures[c.class] {
				t.Errorf("failures %v of totals %+v, want %v", rung.Requests.Failures, rung.Totals, failures)
			}
			for _, l := range lines {
				if failed := c.class != "" && hit[l.RequestID]; failed != (l.Class != "ok") || failed && l.Class != c.class {
					t.Errorf("%s is %s (%s), and the server's fault %q", l.RequestID, l.Class, l.Error, account[l.RequestID])
				}
			}
			told := map[string]int64{}
			codes := []string{"usage_not_believed", "ended_early", "not_streamed", "cut_after_end", "open_after_end"}
			if c.fault == reference.Buffered { // elsewhere a busy machine may read quick answers in bursts
				codes = append(codes, "buffered_answers", "buffered_stream")
			}
			for _, code := range codes {
				for _, w := range rung.Warnings {
					if w.Code == code {
						told[code] = int64(w.Value.Or(-1))
					}
				}
			}
			warnings := map[string]int64{}
			if c.warning != "" {
				warnings[c.warning] = n
			}
			if !maps.Equal(told, warnings) {
				t.Errorf("warnings %v, want %v", told, warnings)
			}
			if c.limits != (record.Limits{}) {
				kept := rung.GoodputReqPerS.Or(0) * (rung.Window.EndS - rung.Window.StartS)
				if missed := requests - kept; missed < float64(n)-1e-3 || missed > float64(n)+1e-3 {
					t.Errorf("%.3f requests miss the limit, want %d", missed, n)
				}
			}
			if tokens := faultTokens*(requests-failures[c.class]) - int64(c.short)*n; completedTokens(lines) != tokens || rung.OutputTokens.Count != requests-failures[c.class] {
				t.Errorf("%d output tokens of %d answers, want %d", completedTokens(lines), rung.OutputTokens.Count, tokens)
			}
			if good := requests - failures[c.class]; rung.TTFT.Count != good || rung.E2E.Count != good {
				t.Errorf("TTFT of %d requests and E2E of %d, want %d", rung.TTFT.Count, rung.E2E.Count, good)
			}
		})
	}
}

// completedTokens adds up the output of good requests.
func completedTokens(lines []record.RequestRecord) (n int64) {
	for _, l := range lines {
		if l.Class == "ok" && l.OutputTokens != nil {
			n += *l.OutputTokens
		}
	}
	return n
}

// misbehave offers requests to a simulated server with one fault, and returns
// what came of it and the fault of each request by the server's emission log.
func misbehave(t *testing.T, fault reference.Fault, itl time.Duration, requests int, limits record.Limits) (record.Rung, []record.RequestRecord, map[string]reference.Fault) {
	t.Helper()
	rule := fmt.Sprintf("%s=10%%", fault)
	if fault == reference.SlowStart || fault == reference.StallMid {
		rule += ":" + late.String()
	}
	faults, err := reference.ParseFaults(rule + ",seed=5")
	if err != nil {
		t.Fatal(err)
	}
	law, err := sim.ParseLaw(fmt.Sprintf("ttft=1ms,itl=%s", itl))
	if err != nil {
		t.Fatal(err)
	}
	shape, err := sim.Model("tiny-llama-3.1")
	if err != nil {
		t.Fatal(err)
	}
	info := shape.Info("tiny")
	var emitted bytes.Buffer
	server, err := reference.Start(reference.Config{Executor: sim.NewLaw(law, info), Tokenizer: tokenizer.Bytes(info.VocabSize),
		KV: reference.KVConfig{Blocks: 4096, BlockSize: 16}, Faults: faults, EmissionLog: &emitted})
	if err != nil {
		t.Fatal(err)
	}
	client, err := connect.Open(t.Context(), connect.Options{URL: server.URL(), Endpoint: "completions"})
	if err != nil {
		t.Fatal(err)
	}
	p := &profiles.Profile{
		Workload: profiles.Workload{InputTokens: profiles.Length{Kind: "fixed", Value: 8}, OutputTokens: profiles.Length{Kind: "fixed", Value: faultTokens},
			Prompt: "token-ids", Sampling: profiles.Sampling{ForceLength: true}},
		Load:  profiles.Load{Offline: &profiles.OfflineLoad{Requests: requests, MaxInFlight: 100}},
		Stage: profiles.Stage{Drain: profiles.Duration(time.Minute), Repeats: 1, Timeout: profiles.Duration(time.Minute)},
	}
	source, err := prompt.New(t.Context(), prompt.Config{Workload: &p.Workload, Client: client, Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := loadgen.NewPlan(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	g := &loadgen.Generator{Client: client, Source: source, Log: record.NewRequestLog(&log, false), RunID: "run", Limits: limits}
	rung, _, err := g.Run(t.Context(), plan.Rungs[0])
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	var lines []record.RequestRecord
	for line, err := range record.ReadRequests(&log) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return rung, lines, accountOf(t, &emitted)
}

// accountOf reads what a server did to each request from its emission log.
func accountOf(t *testing.T, log *bytes.Buffer) map[string]reference.Fault {
	t.Helper()
	account := map[string]reference.Fault{}
	scanner := bufio.NewScanner(log)
	scanner.Scan() // the head
	for scanner.Scan() {
		var e struct {
			RequestID string          `json:"request_id"`
			Fault     reference.Fault `json:"fault"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if _, twice := account[e.RequestID]; twice {
			t.Errorf("request %q stands twice in the log", e.RequestID)
		}
		account[e.RequestID] = e.Fault
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return account
}
