package connect_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/internal/wiretest"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// piece is a part of an answer, written in one go. The next one is not written
// before the client has reported the events that this one brings.
type piece struct {
	bytes  string
	events int
}

// script is the answer to one request. The connection closes after it when
// closes says so, and stays open and silent when hangs does.
type script struct {
	pieces []piece
	closes bool
	hangs  bool
	// together holds the answer back until so many requests are there.
	together int
}

// framed is a stream of chunks, a piece each, and what ends the body.
func framed(pieces ...piece) script {
	all := []piece{{bytes: wiretest.Head}}
	for _, p := range pieces {
		all = append(all, piece{wiretest.Chunk(p.bytes), p.events})
	}
	return script{pieces: append(all, piece{bytes: wiretest.End})}
}

// at once is an answer in one piece.
func atOnce(answer string, events int) script { return script{pieces: []piece{{answer, events}}} }

// observed is a rung as its result tells it and as the server saw it.
type observed struct {
	record.Rung
	lines []record.RequestRecord
	wrote [][]int64 // of each request, when each piece was about to be written
}

// experiment is one rung against scripted answers, one request after the other.
type experiment struct {
	dialect, endpoint string
	input             int // tokens of the prompt; 0 for 8
	asked             int // output tokens
	scripts           []script
	timeout           time.Duration // of a request; 0 for half a minute
	inFlight          int           // 0 for one
}

// run plays the experiment from the raw bytes of a socket to the rung's result.
func (x experiment) run(t *testing.T) observed {
	t.Helper()
	var mu sync.Mutex
	reported := make(chan struct{}, 1<<16)
	over, gathered := make(chan struct{}), make(chan struct{})
	wrote := make([][]int64, len(x.scripts))
	number := 0
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		if c.Request.Method == http.MethodGet || !generates(c.Request.URL.Path) {
			answer := wiretest.Plain(404, "application/json", `{"detail":"Not Found"}`)
			if page, ok := pages[c.Request.URL.Path]; ok {
				answer = wiretest.Plain(200, "application/json", page)
			}
			_, err := io.WriteString(c, answer)
			return err == nil
		}
		mu.Lock()
		n := number
		number++
		mu.Unlock()
		if n >= len(x.scripts) {
			t.Errorf("request %d was not expected", n)
			return false
		}
		if n+1 == x.scripts[n].together {
			close(gathered)
		} else if x.scripts[n].together > 0 {
			<-gathered
		}
		for _, p := range x.scripts[n].pieces {
			mu.Lock()
			wrote[n] = append(wrote[n], clock.Now())
			mu.Unlock()
			if _, err := io.WriteString(c, p.bytes); err != nil {
				return false
			}
			for range p.events {
				select {
				case <-reported:
				case <-over:
					return false
				}
			}
		}
		if x.scripts[n].hangs {
			<-over
		}
		return !x.scripts[n].closes
	})
	client, err := connect.Open(t.Context(), connect.Options{URL: s.URL, Dialect: x.dialect, Endpoint: x.endpoint, Model: "m", UserStamps: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	t.Cleanup(func() { close(over) })
	result := x.offer(t, reporting{client, reported})
	mu.Lock()
	defer mu.Unlock()
	result.wrote = wrote
	if number != len(x.scripts) {
		t.Errorf("the server was asked %d times, want %d", number, len(x.scripts))
	}
	return result
}

// pages are what every server of these tests tells of itself.
var pages = map[string]string{
	"/v1/models":       `{"data":[{"id":"m"}]}`,
	"/v2":              `{"name":"triton","version":"2.51.0"}`,
	"/v2/health/ready": "",
	"/v2/models/m": `{"name":"m","versions":["1"],"platform":"python",
		"inputs":[{"name":"text_input","datatype":"BYTES"},{"name":"max_tokens","datatype":"INT32"}],
		"outputs":[{"name":"text_output","datatype":"BYTES"},{"name":"token_id","datatype":"INT32"},{"name":"sequence_end","datatype":"BOOL"}]}`,
}

// generates says whether a route makes tokens.
func generates(path string) bool {
	for _, end := range []string{"completions", "/messages", "/completion", "/api/chat", "/api/generate", "/generate_stream"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// offer sends the requests of the rung.
func (x experiment) offer(t *testing.T, client backends.Client) observed {
	t.Helper()
	span := func(d time.Duration) profiles.Duration { return profiles.Duration(d) }
	p := &profiles.Profile{
		Workload: profiles.Workload{
			InputTokens: profiles.Length{Kind: "fixed", Value: cmp.Or(x.input, 8)}, OutputTokens: profiles.Length{Kind: "fixed", Value: x.asked}, Prompt: "text",
		},
		Load:  profiles.Load{Offline: &profiles.OfflineLoad{Requests: len(x.scripts), MaxInFlight: max(1, x.inFlight)}},
		Stage: profiles.Stage{Drain: span(time.Minute), Repeats: 1, Timeout: span(cmp.Or(x.timeout, 30*time.Second))},
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
	g := &loadgen.Generator{Client: client, Source: source, Log: record.NewRequestLog(&log, true), RunID: "run"}
	rung, _, err := g.Run(t.Context(), plan.Rungs[0])
	if err != nil {
		t.Fatal(err)
	}
	result := observed{Rung: rung}
	for line, err := range record.ReadRequests(&log) {
		if err != nil {
			t.Fatal(err)
		}
		result.lines = append(result.lines, line)
	}
	return result
}

// reporting is a client that says so when it has handed an event on.
type reporting struct {
	backends.Client
	reported chan<- struct{}
}

func (r reporting) Stream(ctx context.Context, q *backends.Request, sink backends.Sink) backends.Outcome {
	return r.Client.Stream(ctx, q, reportingSink{sink, r.reported})
}

type reportingSink struct {
	backends.Sink
	reported chan<- struct{}
}

func (r reportingSink) Event(e backends.Event) {
	r.Sink.Event(e)
	r.reported <- struct{}{}
}

// tokens is a token event that a case wants: the piece it came in, and its
// tokens, -1 where they can't be known.
type tokens struct{ piece, k int }

// truth is what a case asserts of a rung of one request.
type truth struct {
	class    string // "" for ok
	err      string // part of the error
	output   int64  // tokens, -1 for unknown
	source   string
	events   []tokens
	noTTFT   bool
	answer   int // piece of the first answer token, where it is not the first event's
	warnings string
}

// check holds result and request log to the truth. Every time is held to what
// the server wrote: an event arrived after its piece was written and before
// the next one was.
func (w truth) check(t *testing.T, got observed) {
	t.Helper()
	if len(got.lines) != 1 {
		t.Fatalf("%d requests", len(got.lines))
	}
	line := got.lines[0]
	w.checkCounts(t, got, line)
	if len(line.Chunks) != len(w.events) {
		t.Fatalf("%d token events, want %d: %+v", len(line.Chunks), len(w.events), line.Chunks)
	}
	wrote := append(got.wrote[0], math.MaxInt64)
	for i, e := range w.events {
		c := line.Chunks[i]
		if c.At < wrote[e.piece] || c.At > wrote[e.piece+1] {
			t.Errorf("token event %d came at %d, its piece was written from %d to %d", i, c.At, wrote[e.piece], wrote[e.piece+1])
		}
		if k, ok := c.Tokens.Float(); ok != (e.k >= 0) || ok && int(k) != e.k {
			t.Errorf("token event %d has %v tokens, want %d", i, c.Tokens, e.k)
		}
	}
	if w.class == "" {
		w.checkLatencies(t, got, line)
		return
	}
	for name, d := range map[string]record.Dist{"ttft": got.TTFT, "itl": got.ITL, "icl": got.ICL, "tpot": got.TPOT, "e2e": got.E2E, "tps": got.PerUserTokensPerS} {
		if d.Count != 0 {
			t.Errorf("a failed request is in %s", name)
		}
	}
}

func (w truth) checkCounts(t *testing.T, got observed, line record.RequestRecord) {
	t.Helper()
	class := w.class
	if class == "" {
		class = "ok"
	}
	if line.Class != class || !strings.Contains(line.Error, w.err) {
		t.Errorf("class %s, error %q; want %s, %q", line.Class, line.Error, class, w.err)
	}
	good, failed := int64(1), int64(0)
	if w.class != "" {
		good, failed = 0, 1
	}
	if got.Totals.Sent != 1 || got.Totals.Completed != good || got.Totals.Failed != failed || got.Requests.Completed != good || got.Requests.Failed != failed {
		t.Errorf("totals %+v, requests %+v", got.Totals, got.Requests)
	}
	if failed == 1 && got.Requests.Failures[class] != 1 {
		t.Errorf("failures %v, want one %s", got.Requests.Failures, class)
	}
	output := int64(-1)
	if line.OutputTokens != nil {
		output = *line.OutputTokens
	}
	if output != w.output || line.TokenSource != w.source {
		t.Errorf("%d output tokens by %q, want %d by %q", output, line.TokenSource, w.output, w.source)
	}
	if want := max(0, w.output); got.Totals.OutputTokens != want {
		t.Errorf("%d output tokens in total, want %d", got.Totals.OutputTokens, want)
	}
	if codes := warned(got.Rung); w.warnings != "" && !strings.Contains(codes, w.warnings) {
		t.Errorf("warnings %s, want %s", codes, w.warnings)
	}
}

// warned joins the codes of a rung's warnings.
func warned(r record.Rung) string {
	var codes []string
	for _, w := range append(r.Warnings, r.Reasons...) {
		codes = append(codes, w.Code)
	}
	return strings.Join(codes, " ")
}

// checkLatencies works the latencies of a good request out by hand.
func (w truth) checkLatencies(t *testing.T, got observed, line record.RequestRecord) {
	t.Helper()
	if w.noTTFT || len(w.events) == 0 {
		for name, d := range map[string]record.Dist{"ttft": got.TTFT, "itl": got.ITL, "tpot": got.TPOT} {
			if _, ok := d.Mean.Float(); ok || d.Count != 0 {
				t.Errorf("%s has %d samples, want none", name, d.Count)
			}
		}
		return
	}
	first, last := line.Chunks[0].At, line.Chunks[len(line.Chunks)-1].At
	same(t, "ttft", got.TTFT, float64(first-*line.SentNS))
	same(t, "e2e", got.E2E, float64(last-*line.SentNS))
	after, known := 0, true
	for _, e := range w.events[1:] {
		after += e.k
	}
	for _, e := range w.events {
		known = known && e.k >= 0
	}
	if len(w.events) > 1 {
		same(t, "icl", got.ICL, float64(last-first)/float64(len(w.events)-1))
	}
	switch {
	case len(w.events) < 2:
		absent(t, "tpot", got.TPOT)
		absent(t, "itl", got.ITL)
	case known && after > 0:
		same(t, "itl", got.ITL, float64(last-first)/float64(after))
		same(t, "tpot", got.TPOT, float64(last-first)/float64(after))
	case !known:
		absent(t, "itl", got.ITL)
		same(t, "tpot", got.TPOT, float64(last-first)/float64(w.output-1))
	}
	if w.answer > 0 {
		ttfo, ok := got.TTFO.Mean.Float()
		if at := float64(*line.SentNS) + ttfo*1e6; !ok || at < float64(got.wrote[0][w.answer])*(1-1e-9)-2e4 {
			t.Errorf("the first answer token came at %.0f, its piece was written at %d", at, got.wrote[0][w.answer])
		}
	}
}

// same says when a distribution of one value is not that value, in
// nanoseconds, by more than a histogram rounds.
func same(t *testing.T, name string, d record.Dist, ns float64) {
	t.Helper()
	if mean, ok := d.Mean.Float(); !ok || math.Abs(mean*1e6-ns) > 0.01*ns+2000 {
		t.Errorf("%s is %v ms, want %v ns", name, d.Mean, ns)
	}
}

func absent(t *testing.T, name string, d record.Dist) {
	t.Helper()
	if _, ok := d.Mean.Float(); ok {
		t.Errorf("%s is %v ms, want none", name, d.Mean)
	}
}
