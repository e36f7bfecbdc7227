package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
)

// MaxLine bounds a line of requests.jsonl, in bytes.
const MaxLine = 64 << 20

// RequestLog writes requests.jsonl as requests end, a line and one Write each;
// who gives it the writer compresses and flushes. It is safe for concurrent
// use. The first error is kept and returned by every later Add, so that a run
// can go on measuring and still say that its log is not whole.
type RequestLog struct {
	w      io.Writer
	chunks bool

	mu    sync.Mutex
	line  []byte
	lines int64
	lost  int64
	err   error
}

// NewRequestLog writes to w, with the token events of each request when chunks
// is set.
func NewRequestLog(w io.Writer, chunks bool) *RequestLog { return &RequestLog{w: w, chunks: chunks} }

// Add writes a finished timeline down. In steady state it allocates nothing.
func (l *RequestLog) Add(t *Timeline) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.line = appendLine(l.line[:0], t, l.chunks)
		_, err := l.w.Write(l.line)
		if err == nil {
			l.lines++
			return nil
		}
		l.err = fmt.Errorf("requests.jsonl ends after %d requests: %w", l.lines, err)
	}
	l.lost++
	return l.err
}

// Written is how many requests the log has, and lost how many it lacks since
// its first error.
func (l *RequestLog) Written() (lines, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines, l.lost
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
	Rung           int     `json:"rung"`
	Index          int     `json:"index"`
	RequestID      string  `json:"request_id"`
	IntendedNS     int64   `json:"intended_ns"`
	SentNS         *int64  `json:"sent_ns"`
	FirstByteNS    *int64  `json:"first_byte_ns"`
	FirstTokenNS   *int64  `json:"first_token_ns"`
	LastTokenNS    *int64  `json:"last_token_ns"`
	EndNS          *int64  `json:"end_ns"`
	InputTokens    *int64  `json:"input_tokens"` // by the server's usage, or as asked for where it told none
	InputRequested *int64  `json:"input_requested"`
	OutputTokens   *int64  `json:"output_tokens"`
	TokenSource    string  `json:"token_source"`
	Chunks         []Chunk `json:"chunks"`
	Class          string  `json:"class"`
	Censored       bool    `json:"censored"`
	Error          string  `json:"error"`
	Body           string  `json:"body"` // the head of a failed answer, secrets removed
	Remote         string  `json:"remote"`
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
