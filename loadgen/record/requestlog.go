package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	// flushEvery is how long a line may wait for the disk.
	flushEvery = time.Second
	// MaxLine bounds a line of requests.jsonl, in bytes: 1 MiB of text and a
	// chunk list of the longest answers.
	MaxLine = 64 << 20
)

// RequestLog writes requests.jsonl.zst while a run goes on: a line a request,
// compressed, handed to the writer every second. It is used by one goroutine.
// The first error is kept: it is returned by every later Write and by Close, so
// that a run can go on measuring and still say that its log is not whole.
type RequestLog struct {
	// Chunks writes the token events of each request.
	Chunks bool

	z       *zstd.Encoder
	line    []byte
	lines   int64
	lost    int64
	flushed int64
	err     error
}

// NewRequestLog writes to w, which stays the caller's to close.
func NewRequestLog(w io.Writer) (*RequestLog, error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("request log: %w", err)
	}
	return &RequestLog{z: z}, nil
}

// Write appends a finished timeline. It allocates nothing in steady state.
func (l *RequestLog) Write(t *Timeline) error {
	if l.err != nil {
		l.lost++
		return l.err
	}
	l.line = appendLine(l.line[:0], t, l.Chunks)
	if _, err := l.z.Write(l.line); err != nil {
		return l.fail(err)
	}
	l.lines++
	if t.end-l.flushed < int64(flushEvery) {
		return nil
	}
	l.flushed = t.end
	if err := l.z.Flush(); err != nil {
		return l.fail(err)
	}
	return nil
}

// fail keeps the first error.
func (l *RequestLog) fail(err error) error {
	l.lost++
	l.err = fmt.Errorf("request log stopped after %d requests: %w", l.lines, err)
	return l.err
}

// Lines is how many requests were written, Lost how many were not after an
// error.
func (l *RequestLog) Lines() int64 { return l.lines }

// Lost is how many requests are missing from the log after an error.
func (l *RequestLog) Lost() int64 { return l.lost }

// Err is the first error, nil when all is well.
func (l *RequestLog) Err() error { return l.err }

// Close ends the compressed stream.
func (l *RequestLog) Close() error {
	if err := l.z.Close(); err != nil && l.err == nil {
		l.err = fmt.Errorf("request log: %w", err)
	}
	return l.err
}

// Chunk is one token event: when it came, and its tokens when they are known.
type Chunk struct {
	At     int64
	Tokens Value
}

// UnmarshalJSON reads [t_ns, k].
func (c *Chunk) UnmarshalJSON(b []byte) error {
	var pair [2]*int64
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	if pair[0] == nil {
		return errors.New("a chunk needs its time")
	}
	*c = Chunk{At: *pair[0]}
	if pair[1] != nil {
		c.Tokens = Known(float64(*pair[1]))
	}
	return nil
}

// RequestRecord is one line of requests.jsonl. Stamps are nanoseconds on the
// run's monotonic clock; nil is not happened or not known.
type RequestRecord struct {
	Rung         int     `json:"rung"`
	Index        int     `json:"index"`
	RequestID    string  `json:"request_id"`
	IntendedNS   int64   `json:"intended_ns"`
	SentNS       *int64  `json:"sent_ns"`
	FirstByteNS  *int64  `json:"first_byte_ns"`
	FirstTokenNS *int64  `json:"first_token_ns"`
	LastTokenNS  *int64  `json:"last_token_ns"`
	EndNS        *int64  `json:"end_ns"`
	InputTokens  *int64  `json:"input_tokens"`
	OutputTokens *int64  `json:"output_tokens"`
	TokenSource  string  `json:"token_source"`
	Chunks       []Chunk `json:"chunks"`
	Class        string  `json:"class"`
	Censored     bool    `json:"censored"`
	Error        string  `json:"error"`
	Remote       string  `json:"remote"`
}

// ReadRequests reads requests.jsonl, already decompressed. A line that is not a
// record is an error with its number, and reading goes on; an error of the
// reader, or a line longer than MaxLine, ends it.
func ReadRequests(r io.Reader) iter.Seq2[RequestRecord, error] {
	return func(yield func(RequestRecord, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 64<<10), MaxLine)
		n := 0
		for lines.Scan() {
			n++
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			var rec RequestRecord
			err := json.Unmarshal(line, &rec)
			if err != nil {
				err = fmt.Errorf("requests.jsonl:%d: %w", n, err)
			}
			if !yield(rec, err) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(RequestRecord{}, fmt.Errorf("requests.jsonl:%d: %w", n+1, err))
		}
	}
}
