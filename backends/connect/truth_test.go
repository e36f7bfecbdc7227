package connect_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/loadgen/record"
)

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
	text     string        // "" is not looked at
	input    int64         // tokens of the prompt, 0 is not looked at
	lasts    time.Duration // at least
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
	if got := got.heard[line.RequestID].text; w.text != "" && got != w.text {
		t.Errorf("text %.80q, want %.80q", got, w.text)
	}
	wrote := append(got.wrote[len(got.wrote)-1], math.MaxInt64)
	if line.FirstByteNS != nil && (*line.SentNS > wrote[0] || *line.FirstByteNS < wrote[0]) {
		t.Errorf("sent at %d, first byte at %d, and the server began to write at %d", *line.SentNS, *line.FirstByteNS, wrote[0])
	}
	if took := time.Duration(*line.EndNS - line.IntendedNS); took < w.lasts {
		t.Errorf("the request lasted %v, want %v or more", took, w.lasts)
	}
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
	if n := line.InputTokens; w.input != 0 && (n == nil || *n != w.input || got.Totals.InputTokens != w.input) {
		t.Errorf("prompt of %v tokens, %d in total, want %d", n, got.Totals.InputTokens, w.input)
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
	wrote := got.wrote[len(got.wrote)-1]
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
		longest := int64(0)
		for i, c := range line.Chunks[1:] {
			longest = max(longest, c.At-line.Chunks[i].At)
		}
		if most, ok := got.ICL.Max.Float(); !ok || math.Abs(most*1e6-float64(longest)) > 0.01*float64(longest)+2000 {
			t.Errorf("the longest gap is %v ms, want %d ns", got.ICL.Max, longest)
		}
	}
	switch {
	case strings.Contains(warned(got.Rung), "buffered_stream"):
		absent(t, "tpot", got.TPOT)
		absent(t, "itl", got.ITL)
		absent(t, "tps", got.PerUserTokensPerS)
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
		if at := float64(*line.SentNS) + ttfo*1e6; !ok || at < float64(wrote[w.answer])*(1-1e-9)-2e4 {
			t.Errorf("the first answer token came at %.0f, its piece was written at %d", at, wrote[w.answer])
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
