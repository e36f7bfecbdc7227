package arrival

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Trace is a recorded load: arrivals with token counts. It is immutable.
type Trace struct {
	requests []TraceRequest
	// Skipped counts requests of the file that generated nothing, which
	// cannot be asked for again.
	Skipped int
}

// TraceRequest is one recorded request.
type TraceRequest struct {
	At     time.Duration // from the first request, speed applied
	Input  int           // tokens
	Output int           // tokens
	// Blocks names the request's prompt in blocks of 512 tokens, where the
	// trace does (Mooncake): equal names are equal tokens.
	Blocks []int64
}

// TraceOptions say how a trace is read.
type TraceOptions struct {
	// Format is "mooncake", "azure" or "burstgpt"; "" and "auto" tell it from
	// the first line.
	Format string
	// Speed divides the gaps: 2 replays twice as fast. 0 is 1.
	Speed float64
	// Limit keeps so many requests, 0 all.
	Limit int
}

// maxLine bounds a line of a trace in bytes; Mooncake's lines list their
// blocks.
const maxLine = 4 << 20

// ReadTraceFile reads a trace from a file.
func ReadTraceFile(name string, o TraceOptions) (*Trace, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadTrace(f, filepath.Base(name), o)
}

// ReadTrace reads a trace in one of three public forms:
//
//   - Mooncake (github.com/kvcache-ai/Mooncake, JSON lines): timestamp in
//     milliseconds, input_length, output_length, hash_ids;
//   - Azure LLM inference (github.com/Azure/AzurePublicDataset, CSV): TIMESTAMP
//     as date and time, ContextTokens, GeneratedTokens;
//   - BurstGPT (github.com/HPMLL/BurstGPT, CSV): Timestamp in seconds, Request
//     tokens, Response tokens.
//
// Reading is strict: a line that does not hold what its form asks for, or that
// goes back in time, is an error that begins with name:line.
func ReadTrace(r io.Reader, name string, o TraceOptions) (*Trace, error) {
	if o.Speed == 0 {
		o.Speed = 1
	}
	if !(o.Speed > 0 && !math.IsInf(o.Speed, 0)) {
		return nil, fmt.Errorf("%s: a speed of %v replays nothing; use a number above 0", name, o.Speed)
	}
	b := bufio.NewReader(r)
	lines, err := newLines(b, name, o.Format)
	if err != nil {
		return nil, err
	}
	t := &Trace{}
	var first, last float64
	for n := 0; o.Limit == 0 || len(t.requests) < o.Limit; n++ {
		l, line, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if err := l.check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if n == 0 {
			first = l.seconds
		} else if l.seconds < last {
			return nil, fmt.Errorf("%s:%d: goes back in time by %.3f s; sort the trace by its time", name, line, last-l.seconds)
		}
		last = l.seconds
		if l.output == 0 {
			t.Skipped++
			continue
		}
		at := math.Round((l.seconds - first) / o.Speed * 1e9)
		if at > math.MaxInt64/2 {
			return nil, fmt.Errorf("%s:%d: %.0f s after the first request is out of range", name, line, l.seconds-first)
		}
		t.requests = append(t.requests, TraceRequest{At: time.Duration(at), Input: l.input, Output: l.output, Blocks: l.blocks})
	}
	if len(t.requests) == 0 {
		return nil, fmt.Errorf("%s: holds no request", name)
	}
	return t, nil
}

// Len is the number of requests.
func (t *Trace) Len() int { return len(t.requests) }

// Request returns request k, counted from 0; past the end it begins again.
func (t *Trace) Request(k int) TraceRequest { return t.requests[k%len(t.requests)] }

// Duration is the time from the first request to the last.
func (t *Trace) Duration() time.Duration { return t.requests[len(t.requests)-1].At }

// Rate is the mean rate in requests per second, 0 for a trace of no duration.
func (t *Trace) Rate() float64 {
	if d := t.Duration(); d > 0 {
		return float64(len(t.requests)-1) / d.Seconds()
	}
	return 0
}

// Schedule returns the trace's arrivals from the start.
func (t *Trace) Schedule() Schedule { return &replay{requests: t.requests} }

type replay struct {
	requests []TraceRequest
	i        int
}

func (r *replay) Next() (time.Duration, bool) {
	if r.i >= len(r.requests) {
		return 0, false
	}
	r.i++
	return r.requests[r.i-1].At, true
}

// traced is one line of a trace in the file's own time.
type traced struct {
	seconds       float64
	input, output int
	blocks        []int64
}

func (l traced) check() error {
	const most = 1 << 27
	switch {
	case math.IsNaN(l.seconds) || math.IsInf(l.seconds, 0) || math.Abs(l.seconds) > 1e12:
		return fmt.Errorf("the time %v is out of range", l.seconds)
	case l.input < 1 || l.input > most:
		return fmt.Errorf("%d input tokens are out of range; a request needs 1 or more", l.input)
	case l.output < 0 || l.output > most:
		return fmt.Errorf("%d output tokens are out of range", l.output)
	}
	return nil
}

// lines reads a trace line by line; io.EOF ends it.
type lines interface {
	next() (l traced, line int, err error)
}

// newLines picks the reader of a format.
func newLines(b *bufio.Reader, name, format string) (lines, error) {
	if format == "mooncake" || (format == "" || format == "auto") && startsObject(b) {
		s := bufio.NewScanner(b)
		s.Buffer(nil, maxLine)
		return &mooncake{s: s}, nil
	}
	c := csv.NewReader(b)
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("%s:1: no header: %w", name, err)
	}
	columns := map[string]int{}
	for i, h := range header {
		columns[strings.ToLower(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")))] = i
	}
	if format == "" || format == "auto" {
		switch {
		case has(columns, "contexttokens"):
			format = "azure"
		case has(columns, "request tokens"):
			format = "burstgpt"
		default:
			return nil, fmt.Errorf("%s:1: neither a Mooncake, Azure nor BurstGPT trace; its columns are %s",
				name, strings.Join(header, ", "))
		}
	}
	t := &table{csv: c}
	var want [3]string
	switch format {
	case "azure":
		want, t.seconds = [3]string{"timestamp", "contexttokens", "generatedtokens"}, dateSeconds
	case "burstgpt":
		want, t.seconds = [3]string{"timestamp", "request tokens", "response tokens"}, plainSeconds
	default:
		return nil, fmt.Errorf("trace format %q is unknown; use auto, mooncake, azure or burstgpt", format)
	}
	for i, w := range want {
		if !has(columns, w) {
			return nil, fmt.Errorf("%s:1: no column %q; its columns are %s", name, w, strings.Join(header, ", "))
		}
		t.column[i] = columns[w]
	}
	return t, nil
}

func has(columns map[string]int, name string) bool {
	_, ok := columns[name]
	return ok
}

// startsObject says that the first byte that is no space opens an object.
func startsObject(b *bufio.Reader) bool {
	head, _ := b.Peek(512)
	return strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(string(head), "\ufeff"), " \t\r\n"), "{")
}

// mooncake reads JSON lines.
type mooncake struct {
	s    *bufio.Scanner
	line int
}

func (m *mooncake) next() (traced, int, error) {
	for m.s.Scan() {
		m.line++
		text := strings.TrimSpace(strings.TrimPrefix(m.s.Text(), "\ufeff"))
		if text == "" {
			continue
		}
		var l struct {
			Timestamp *float64 `json:"timestamp"`
			Input     *int     `json:"input_length"`
			Output    *int     `json:"output_length"`
			Blocks    []int64  `json:"hash_ids"`
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return traced{}, m.line, err
		}
		if l.Timestamp == nil || l.Input == nil || l.Output == nil {
			return traced{}, m.line, errors.New("timestamp, input_length or output_length is missing")
		}
		return traced{*l.Timestamp / 1e3, *l.Input, *l.Output, l.Blocks}, m.line, nil
	}
	if err := m.s.Err(); err != nil {
		return traced{}, m.line + 1, fmt.Errorf("a line of more than %d bytes, or unreadable: %w", maxLine, err)
	}
	return traced{}, m.line, io.EOF
}

// table reads CSV rows by column: time, input, output.
type table struct {
	csv     *csv.Reader
	column  [3]int
	seconds func(string) (float64, error)
}

func (t *table) next() (traced, int, error) {
	row, err := t.csv.Read()
	if err != nil {
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			return traced{}, syntax.Line, syntax.Err
		}
		return traced{}, 0, err
	}
	line, _ := t.csv.FieldPos(0)
	seconds, err := t.seconds(strings.TrimSpace(row[t.column[0]]))
	if err != nil {
		return traced{}, line, err
	}
	input, err := count(row[t.column[1]])
	if err != nil {
		return traced{}, line, err
	}
	output, err := count(row[t.column[2]])
	return traced{seconds: seconds, input: input, output: output}, line, err
}

// count reads a whole number, which some exports write as "12.0".
func count(s string) (int, error) {
	s = strings.TrimSpace(s)
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<40 {
		return 0, fmt.Errorf("%q is no token count", s)
	}
	return int(v), nil
}

func plainSeconds(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no time in seconds", s)
	}
	return v, nil
}

// dateSeconds reads a date with or without a zone, to seconds from 2020.
func dateSeconds(s string) (float64, error) {
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", time.RFC3339Nano} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.Sub(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds(), nil
		}
	}
	return 0, fmt.Errorf("%q is no date and time like 2023-11-16 18:15:46.6805900", s)
}
