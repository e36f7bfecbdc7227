package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"

	"github.com/headway-bench/headway/backends/internal/transport"
)

// pieces is a source that hands out one piece a read and stamps each with its
// number.
type pieces struct {
	pieces [][]byte
	reads  uint64
	err    error // at the end, nil for io.EOF
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.pieces) > 0 && len(p.pieces[0]) == 0 {
		p.pieces = p.pieces[1:]
	}
	if len(p.pieces) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		return 0, io.EOF
	}
	n := copy(b, p.pieces[0])
	p.pieces[0] = p.pieces[0][n:]
	p.reads++
	return n, nil
}

func (p *pieces) Stamp() transport.Stamp {
	return transport.Stamp{At: int64(p.reads), Returned: int64(p.reads), Read: p.reads}
}

// of splits s into pieces of size n.
func of(s string, n int) *pieces {
	var p pieces
	for len(s) > 0 {
		m := min(n, len(s))
		p.pieces = append(p.pieces, []byte(s[:m]))
		s = s[m:]
	}
	return &p
}

// got is an event as a test compares it.
type got struct {
	Type, Data   string
	Unterminated bool
}

func collect(events iter.Seq2[Event, error]) (list []got, err error) {
	for e, err := range events {
		if err != nil {
			return list, err
		}
		list = append(list, got{e.Type, string(e.Data), e.Unterminated})
	}
	return list, nil
}

var sseCases = []struct {
	name string
	in   string
	want []got
}{
	{"plain", "data: a\n\ndata: b\n\n", []got{{Data: "a"}, {Data: "b"}}},
	{"perf_analyzer#395 no blank after the colon", "data:{\"a\":1}\n\n", []got{{Data: `{"a":1}`}}},
	{"TensorRT-LLM blank before the newline", "data: {\"a\":1} \n\n", []got{{Data: `{"a":1} `}}},
	{"evalscope#1102 CRLF, two events at once", "data: a\r\n\r\ndata: b\r\n\r\n", []got{{Data: "a"}, {Data: "b"}}},
	{"CR alone", "data: a\r\rdata: b\r\r", []got{{Data: "a"}, {Data: "b"}}},
	{"mixed line ends", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []got{{Data: "a"}, {Data: "b"}, {Data: "c"}}},
	{"vm0#24687 byte order mark once", "\uFEFFdata: a\n\n\uFEFFdata: b\n\n", []got{{Data: "a"}}},
	{"BOM and CRLF", "\uFEFFdata: a\r\n\r\n", []got{{Data: "a"}}},
	{"lathe#131 the end without a blank line", "data: a\n\ndata: {\"usage\":{}}\n", []got{{Data: "a"}, {Data: `{"usage":{}}`, Unterminated: true}}},
	{"the end inside a line", "data: a\n\ndata: {\"u", []got{{Data: "a"}, {Data: `{"u`, Unterminated: true}}},
	{"the end after a CR", "data: a\r", []got{{Data: "a", Unterminated: true}}},
	{"evalscope#1474 other fields", "id: 7\nevent: message\nretry: 10\ndata: a\n\nid: 8\n\ndata: b\n\n", []got{{Type: "message", Data: "a"}, {Data: "b"}}},
	{"vllm bench ping and data in one block", ": ping\ndata: a\n\n", []got{{Data: "a"}}},
	{"comment after data", "data: a\n: ping\n\n", []got{{Data: "a"}}},
	{"pings between", ":\n\n: ping\n\ndata: a\n\n:\r\n\r\n", []got{{Data: "a"}}},
	{"blank lines between", "\n\n\ndata: a\n\n\n\n\r\n\r\ndata: b\n\n", []got{{Data: "a"}, {Data: "b"}}},
	{"elasticsearch#154632 several data lines", "data: {\"a\":\ndata: 1}\n\n", []got{{Data: "{\"a\":\n1}"}}},
	{"old llama.cpp error line", "error: {\"code\":500}\n\n", []got{{Type: "error", Data: ` {"code":500}`[1:]}}},
	{"error line with CRLF after data", "data: a\r\n\r\nerror: boom\r\n\r\n", []got{{Data: "a"}, {Type: "error", Data: "boom"}}},
	{"error line at the end", "data: a\n\nerror: boom", []got{{Data: "a"}, {Type: "error", Data: "boom", Unterminated: true}}},
	{"error event", "event: error\ndata: {}\n\n", []got{{Type: "error", Data: "{}"}}},
	{"error event without data", "event: error\n\n", []got{{Type: "error"}}},
	{"a field that only begins like one", "database: x\nerrors: y\n\ndata: a\n\n", []got{{Data: "a"}}},
	{"data without a value", "data\n\ndata:\n\ndata: a\n\n", []got{{Data: "a"}}},
	{"vllm#38717 characters of several bytes", "data: 中\U0001F600é\n\n", []got{{Data: "中\U0001F600é"}}},
	{"bytes that are not UTF-8", "data: a\xff\xfeb\n\n", []got{{Data: "a\xff\xfeb"}}},
	{"nothing", "", nil},
	{"blank lines only", "\r\n\r\n\n", nil},
}

// TestSSE reads each case at once, in halves at every boundary, and byte by
// byte (tau2-bench#503: a read is not a line): the events are the same.
func TestSSE(t *testing.T) {
	for _, c := range sseCases {
		t.Run(c.name, func(t *testing.T) {
			check := func(how string, src *pieces) {
				t.Helper()
				list, err := collect(SSE(src, 0))
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				if d := cmp.Diff(c.want, list); d != "" {
					t.Fatalf("%s (-want +got):\n%s", how, d)
				}
			}
			check("at once", of(c.in, 1<<20))
			check("byte by byte", of(c.in, 1))
			for i := range len(c.in) {
				check(fmt.Sprintf("split at %d", i), &pieces{pieces: [][]byte{[]byte(c.in[:i]), []byte(c.in[i:])}})
			}
		})
	}
}

func TestSSEStamps(t *testing.T) {
	src := &pieces{pieces: [][]byte{[]byte("data: a\n\ndata: b\n\nda"), []byte("ta: c\n"), []byte("\n"), []byte("data: d\r\n\r"), []byte("\ndata: e\n\n")}}
	var reads []uint64
	for e, err := range SSE(src, 0) {
		if err != nil {
			t.Fatal(err)
		}
		reads = append(reads, e.Read)
	}
	if want := []uint64{1, 1, 3, 4, 5}; !slices.Equal(reads, want) {
		t.Errorf("events came out of reads %v, want %v", reads, want)
	}
}

// TestSSELarge is openai-go#368 and its kind: readers of lines with a limit of
// 64 KiB or 1 MiB.
func TestSSELarge(t *testing.T) {
	for _, size := range []int{70_000, 1_100_000, 5_000_000} {
		data := strings.Repeat("x", size)
		list, err := collect(SSE(of("data: "+data+"\n\ndata: z\n\n", 1460), 0))
		if err != nil || len(list) != 2 || list[0].Data != data || list[1].Data != "z" {
			t.Errorf("%d bytes: %d events, error %v", size, len(list), err)
		}
	}
}

func TestLimit(t *testing.T) {
	const limit = 10_000
	fits := strings.Repeat("x", limit-len("data: "))
	readers := []struct {
		name  string
		read  func(Source, int) iter.Seq2[Event, error]
		event func(string) string
	}{
		{"SSE", SSE, func(s string) string { return "data: " + s + "\n\n" }},
		{"NDJSON", NDJSON, func(s string) string { return s + "\n" }},
	}
	for _, r := range readers {
		t.Run(r.name, func(t *testing.T) {
			list, err := collect(r.read(of(r.event(fits)+r.event("y"), 100), limit))
			if err != nil || len(list) != 2 {
				t.Errorf("an event of the limit: %d events, %v", len(list), err)
			}
			for _, n := range []int{1, 100, 1 << 20} {
				list, err = collect(r.read(of(r.event("a")+r.event(fits+"xxxxxxxxxxxxxxx"), n), limit))
				var tooLarge *TooLargeError
				if !errors.As(err, &tooLarge) || tooLarge.Limit != limit || len(list) != 1 {
					t.Errorf("over the limit, %d bytes a read: %d events, error %v", n, len(list), err)
				}
				if err != nil && !strings.Contains(err.Error(), "10000") {
					t.Errorf("%v does not name the limit", err)
				}
			}
		})
	}
}

// TestManyErrorLines: lines that take more room for the parser are over the
// limit, too, when they don't fit.
func TestManyErrorLines(t *testing.T) {
	list, err := collect(SSE(of(strings.Repeat("error:x\n", 1200)+"\n", 100), 10_000))
	if !errors.As(err, new(*TooLargeError)) || len(list) != 0 {
		t.Errorf("%d events, error %v", len(list), err)
	}
}

// endless is a source without a line end.
type endless struct{ pieces }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestEndlessLine(t *testing.T) {
	for name, read := range map[string]func(Source, int) iter.Seq2[Event, error]{"SSE": SSE, "NDJSON": NDJSON} {
		list, err := collect(read(&endless{}, 1<<20))
		if !errors.As(err, new(*TooLargeError)) || len(list) != 0 {
			t.Errorf("%s: %d events, error %v", name, len(list), err)
		}
	}
}

func TestNDJSON(t *testing.T) {
	cases := []struct {
		name, in string
		want     []got
	}{
		{"lines", "{\"a\":1}\n{\"b\":2}\n", []got{{Data: `{"a":1}`}, {Data: `{"b":2}`}}},
		{"CRLF, blanks, BOM", "\uFEFF{}\r\n\r\n \n {\"b\":2} \r\n", []got{{Data: "{}"}, {Data: `{"b":2}`}}},
		{"no newline at the end", "{}\n{\"b\"", []got{{Data: "{}"}, {Data: `{"b"`, Unterminated: true}}},
		{"nothing", "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for n := 1; n <= len(c.in)+1; n++ {
				list, err := collect(NDJSON(of(c.in, n), 0))
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(c.want, list); d != "" {
					t.Fatalf("%d bytes a read (-want +got):\n%s", n, d)
				}
			}
		})
	}
}

func TestCutStream(t *testing.T) {
	cut := errors.New("connection reset")
	for name, read := range map[string]func(Source, int) iter.Seq2[Event, error]{"SSE": SSE, "NDJSON": NDJSON} {
		src := &pieces{pieces: [][]byte{[]byte("data: a\n\ndata: b")}, err: cut}
		list, err := collect(read(src, 0))
		if !errors.Is(err, cut) || len(list) < 2 || !list[len(list)-1].Unterminated {
			t.Errorf("%s: %+v, error %v", name, list, err)
		}
	}
}

func FuzzSSE(f *testing.F) {
	for _, c := range sseCases {
		f.Add([]byte(c.in), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		whole, err := collect(SSE(of(string(in), len(in)+1), 1<<16))
		parts, err2 := collect(SSE(of(string(in), int(n)+1), 1<<16))
		if (err == nil) != (err2 == nil) {
			t.Fatalf("read at once: %v; in parts: %v", err, err2)
		}
		if d := cmp.Diff(whole, parts); err == nil && d != "" {
			t.Fatalf("parts of %d bytes (-whole +parts):\n%s", int(n)+1, d)
		}
		for _, e := range whole {
			if bytes.ContainsRune([]byte(e.Data), '\r') {
				t.Fatalf("a line end in %q", e.Data)
			}
		}
	})
}

// FuzzSingleLine holds the events that are yielded from where they lie to what
// go-sse makes of the same bytes.
func FuzzSingleLine(f *testing.F) {
	for _, c := range sseCases {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.Contains(in, []byte("error")) || bytes.HasPrefix(in, []byte("\uFEFF\uFEFF")) {
			return // not the standard's
		}
		var want []string
		for e, err := range sse.Read(bytes.NewReader(in), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
			if err != nil {
				return
			}
			if e.Data != "" {
				want = append(want, e.Data)
			}
		}
		var have []string
		for e, err := range SSE(of(string(in), 7), 1<<20) {
			if err != nil {
				t.Fatal(err)
			}
			if !e.Unterminated {
				have = append(have, string(e.Data))
			}
		}
		if !slices.Equal(want, have) {
			t.Fatalf("%q, want %q", have, want)
		}
	})
}

func TestBreak(t *testing.T) {
	for _, in := range []string{"data: a\n\ndata: b\n\n", "id: 1\ndata: a\n\ndata: b\n\n", "data: a"} {
		for range SSE(of(in, 100), 0) {
			break
		}
		for range NDJSON(of(in, 100), 0) {
			break
		}
	}
}

// TestAllocatesNothing: an event of one line of data costs no allocation.
func TestAllocatesNothing(t *testing.T) {
	read := func(n int) float64 {
		in := strings.Repeat("data: {\"a\":1}\n\n", n)
		return testing.AllocsPerRun(20, func() {
			for _, err := range SSE(&onePiece{rest: in}, 0) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if few, many := read(10), read(1000); many != few {
		t.Errorf("%v allocations for 10 events, %v for 1000", few, many)
	}
}

// onePiece is a source that does not allocate.
type onePiece struct{ rest string }

func (o *onePiece) Read(p []byte) (int, error) {
	if o.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

func (o *onePiece) Stamp() transport.Stamp { return transport.Stamp{} }

func FuzzNDJSON(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n\n{}"), uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		whole, err := collect(NDJSON(of(string(in), len(in)+1), 1<<16))
		parts, err2 := collect(NDJSON(of(string(in), int(n)+1), 1<<16))
		if (err == nil) != (err2 == nil) {
			t.Fatalf("read at once: %v; in parts: %v", err, err2)
		}
		if d := cmp.Diff(whole, parts); err == nil && d != "" {
			t.Fatalf("parts of %d bytes (-whole +parts):\n%s", int(n)+1, d)
		}
	})
}
