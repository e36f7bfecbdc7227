package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-bench/headway/backends"
)

// TestLine holds one line to the contract's keys, in its order.
func TestLine(t *testing.T) {
	tl := answer(backends.Outcome{Usage: backends.Usage{Prompt: 12, Completion: 3, Cached: -1, Reasoning: -1}, Remote: "127.0.0.1:8000"},
		came{at: 100, kind: text, running: 1}, came{at: 110, kind: text, running: 3})
	tl.Rung, tl.Index, tl.InputAsked = 2, 7, 11
	want := `{"rung":2,"index":7,"request_id":"r","intended_ns":1000000000000,"sent_ns":1000000000000,` +
		`"first_byte_ns":1000100000000,"first_token_ns":1000100000000,"last_token_ns":1000110000000,"end_ns":1000110000000,` +
		`"input_tokens":12,"input_requested":11,"output_tokens":3,"token_source":"running_usage","chunks":[[1000100000000,1],[1000110000000,2]],` +
		`"class":"ok","remote":"127.0.0.1:8000"}` + "\n"
	if d := cmp.Diff(want, string(appendLine(nil, tl, true))); d != "" {
		t.Error(d)
	}
	bare := strings.Replace(want, `"chunks":[[1000100000000,1],[1000110000000,2]],`, "", 1)
	if d := cmp.Diff(bare, string(appendLine(nil, tl, false))); d != "" {
		t.Error(d)
	}
}

func TestLineUnknownIsNull(t *testing.T) {
	tl := new(Timeline)
	tl.Reset("never sent", base, 5)
	tl.Finish(backends.Outcome{Class: backends.Connect, Err: "dial: refused \"x\"\n\x01\xff", Usage: backends.NoUsage, End: base + 1})
	got := string(appendLine(nil, tl, true))
	for _, want := range []string{`"sent_ns":null`, `"first_byte_ns":null`, `"first_token_ns":null`, `"last_token_ns":null`,
		`"input_tokens":null`, `"input_requested":null`, `"output_tokens":null`, `"token_source":""`, `"chunks":[]`, `"class":"connect"`, `"error":"dial: refused \"x\"\u000a\u0001` + "\ufffd" + `"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	spread := answer(ended(backends.OK, 40), came{at: 1, kind: text}, came{at: 2, kind: text})
	if got := string(appendLine(nil, spread, true)); !strings.Contains(got, `"chunks":[[1000001000000,null],[1000002000000,null]]`) {
		t.Errorf("tokens an event are not known, yet: %s", got)
	}
}

func TestRequestLogRoundTrip(t *testing.T) {
	var b bytes.Buffer
	l := NewRequestLog(&b, true)
	good := answer(ended(backends.OK, 2), came{at: 5, kind: text}, came{at: 8, kind: text})
	cut := request{intended: 3, sent: 4, first: 9, gap: 1, tokens: 3, class: backends.Cancelled, censored: true}.timeline()
	for _, tl := range []*Timeline{good, cut} {
		if err := l.Add(tl); err != nil {
			t.Fatal(err)
		}
	}
	var got []RequestRecord
	for rec, err := range ReadRequests(&b) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rec)
	}
	at := func(v int64) *int64 { return &v }
	want := []RequestRecord{
		{RequestID: "r", IntendedNS: base, SentNS: at(base), FirstByteNS: at(base + 5*ms), FirstTokenNS: at(base + 5*ms), LastTokenNS: at(base + 8*ms),
			EndNS: at(base + 8*ms), OutputTokens: at(2), TokenSource: "usage", Class: "ok",
			Chunks: []Chunk{{base + 5*ms, Known(1)}, {base + 8*ms, Known(1)}}},
		{RequestID: "r", IntendedNS: base + 3*ms, SentNS: at(base + 4*ms), FirstByteNS: at(base + 9*ms), FirstTokenNS: at(base + 9*ms), LastTokenNS: at(base + 11*ms),
			EndNS: at(base + 11*ms), InputTokens: at(10), OutputTokens: at(3), TokenSource: "usage", Class: "cancelled", Censored: true, Remote: "127.0.0.1:8000",
			Chunks: []Chunk{{base + 9*ms, Known(1)}, {base + 10*ms, Known(1)}, {base + 11*ms, Known(1)}}},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b Value) bool { return a == b })); d != "" {
		t.Error(d)
	}
}

// fullDisk takes n writes.
type fullDisk struct{ n int }

var errFull = errors.New("no space left on device")

func (f *fullDisk) Write(b []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestRequestLogKeepsItsError(t *testing.T) {
	l := NewRequestLog(&fullDisk{n: 2}, false)
	tl := request{tokens: 1, first: 1}.timeline()
	for i := range 5 {
		err := l.Add(tl)
		if (err != nil) != (i >= 2) || err != nil && (!errors.Is(err, errFull) || !strings.Contains(err.Error(), "after 2 requests")) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if lines, lost := l.Written(); lines != 2 || lost != 3 {
		t.Errorf("%d lines, %d lost; want 2 and 3", lines, lost)
	}
}

func TestRequestLogAllocatesNothing(t *testing.T) {
	l := NewRequestLog(io.Discard, true)
	tl := request{tokens: 200, first: 10, gap: 1}.timeline()
	if n := testing.AllocsPerRun(50, func() { _ = l.Add(tl) }); n != 0 {
		t.Errorf("%v allocations a request, want 0", n)
	}
}

func TestReadRequestsBadLines(t *testing.T) {
	in := "{\"index\":1}\n\n{broken\n{\"index\":2,\"chunks\":[[null,1]]}\n{\"index\":3}\n"
	var index []int
	var errs []string
	for rec, err := range ReadRequests(strings.NewReader(in)) {
		if err != nil {
			errs = append(errs, err.Error())
			continue
		}
		index = append(index, rec.Index)
	}
	if d := cmp.Diff([]int{1, 3}, index); d != "" {
		t.Error(d)
	}
	if len(errs) != 2 || !strings.HasPrefix(errs[0], "requests.jsonl:3: ") || !strings.HasPrefix(errs[1], "requests.jsonl:4: ") {
		t.Errorf("errors %q", errs)
	}
	for range ReadRequests(strings.NewReader(in)) {
		break // a reader may stop
	}
}

func FuzzReadRequests(f *testing.F) {
	f.Add([]byte(`{"rung":0,"index":1,"request_id":"a","intended_ns":5,"sent_ns":null,"chunks":[[1,2],[3,null]],"class":"ok"}`))
	f.Add([]byte("{}\n[]\nnull\n\"x\"\n{\"chunks\":[[1]]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		for rec, err := range ReadRequests(bytes.NewReader(b)) {
			n++
			if err == nil && len(rec.Chunks) > len(b) {
				t.Fatalf("%d chunks out of %d bytes", len(rec.Chunks), len(b))
			}
		}
		if n > bytes.Count(b, []byte("\n"))+2 {
			t.Fatalf("%d records out of %q", n, b)
		}
	})
}

// FuzzLine holds every text to a line that the standard decoder reads back.
func FuzzLine(f *testing.F) {
	f.Add("id", "dial tcp: refused", "127.0.0.1:80")
	f.Add("\x00\"\\", "\xff\n\u2028", "[::1]:8000")
	f.Fuzz(func(t *testing.T, id, failure, remote string) {
		tl := new(Timeline)
		tl.Reset(id, base, 1)
		tl.Finish(backends.Outcome{Class: backends.Connect, Err: failure, Remote: remote, Usage: backends.NoUsage})
		line := appendLine(nil, tl, true)
		if bytes.Count(line, []byte("\n")) != 1 || !utf8.Valid(line) {
			t.Fatalf("not one line of UTF-8: %q", line)
		}
		var rec RequestRecord
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if valid := strings.ToValidUTF8(id, "\ufffd"); utf8.ValidString(id) && rec.RequestID != valid {
			t.Fatalf("id %q came back as %q", id, rec.RequestID)
		}
	})
}
