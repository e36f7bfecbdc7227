package bundle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"path/filepath"
	"strconv"

	"github.com/klauspost/compress/zstd"
)

// maxLine bounds one line of requests.jsonl: an answer of a million events.
const maxLine = 64 << 20

// What requests.jsonl may have at most once unpacked: maxUnpacked bytes, and
// maxRatio more for each byte of the file. Lines of requests, alike as they may
// be, shrink to a hundredth.
const (
	maxUnpacked = 64 << 20
	maxRatio    = 1000
)

// Request is one line of requests.jsonl without its chunks. Times are
// nanoseconds on the clock whose zero is Result.EpochUnixNS; a time that is
// not known is 0, a count that is not known -1.
type Request struct {
	Rung         int
	Index        int64
	IntendedNS   int64
	SentNS       int64
	FirstByteNS  int64
	FirstTokenNS int64
	LastTokenNS  int64
	EndNS        int64
	InputTokens  int64
	OutputTokens int64
	Class        string
}

// OK says that the request completed.
func (r *Request) OK() bool { return r.Class == "ok" }

// Requests reads the requests of the bundle one by one, in the order they
// ended. Memory is bounded by the longest line. The sequence ends after the
// first error; a bundle without requests gives none.
func (b *Bundle) Requests() iter.Seq2[Request, error] {
	return func(yield func(Request, error) bool) {
		if b.Dir == "" {
			return
		}
		f, err := openPart(filepath.Join(b.Dir, RequestsFile))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Request{}, err)
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			yield(Request{}, err)
			return
		}
		z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(64<<20), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(2))
		if err != nil {
			yield(Request{}, fmt.Errorf("%s: %w", RequestsFile, err))
			return
		}
		defer z.Close()
		eachRequest(&bounded{z, maxUnpacked + maxRatio*info.Size()}, yield)
	}
}

// bounded reads no more than the bytes left.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("unpacks to far more than requests do")
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// eachRequest reads the lines of requests.jsonl.
func eachRequest(r io.Reader, yield func(Request, error) bool) {
	lines := bufio.NewReaderSize(r, 256<<10)
	var long []byte // a line that the buffer does not hold
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], line...)
			for errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxLine {
				line, err = lines.ReadSlice('\n')
				long = append(long, line...)
			}
			line = long
		}
		if len(line) > maxLine {
			yield(Request{}, fmt.Errorf("%s:%d: a line of more than %d MiB", RequestsFile, n, maxLine>>20))
			return
		}
		if err != nil && !errors.Is(err, io.EOF) {
			yield(Request{}, fmt.Errorf("%s:%d: %w", RequestsFile, n, err))
			return
		}
		if len(bytes.TrimSpace(line)) > 0 {
			req, perr := parseRequest(line)
			if perr != nil {
				yield(Request{}, fmt.Errorf("%s:%d: %w", RequestsFile, n, perr))
				return
			}
			if !yield(req, nil) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// parseRequest reads the figures of one line and passes over all else. It does
// by hand what encoding/json does in general: a bundle has a million lines,
// and most of each is chunks that no report needs.
func parseRequest(line []byte) (Request, error) {
	r := Request{Rung: -1, InputTokens: -1, OutputTokens: -1}
	s := scanner{b: line}
	if !s.take('{') {
		return r, s.wrong("an object")
	}
	if s.take('}') {
		return r, errors.New("an object without keys")
	}
	for {
		key, ok := s.str()
		if !ok || !s.take(':') {
			return r, s.wrong("a key")
		}
		if !s.field(&r, key) {
			return r, s.wrong("a value of " + strconv.Quote(string(key)))
		}
		if s.take(',') {
			continue
		}
		if !s.take('}') {
			return r, s.wrong("a comma or the end of the object")
		}
		if s.space(); s.at != len(s.b) {
			return r, s.wrong("the end of the line")
		}
		return r, nil
	}
}

// field reads the value of one key.
func (s *scanner) field(r *Request, key []byte) bool {
	switch string(key) {
	case "rung":
		n, ok := s.count()
		if n < math.MinInt32 || n > math.MaxInt32 {
			return false
		}
		r.Rung = int(n)
		return ok
	case "index":
		return s.number(&r.Index, 0)
	case "intended_ns":
		return s.number(&r.IntendedNS, 0)
	case "sent_ns":
		return s.number(&r.SentNS, 0)
	case "first_byte_ns":
		return s.number(&r.FirstByteNS, 0)
	case "first_token_ns":
		return s.number(&r.FirstTokenNS, 0)
	case "last_token_ns":
		return s.number(&r.LastTokenNS, 0)
	case "end_ns":
		return s.number(&r.EndNS, 0)
	case "input_tokens":
		return s.number(&r.InputTokens, -1)
	case "output_tokens":
		return s.number(&r.OutputTokens, -1)
	case "class":
		b, ok := s.str()
		r.Class = className(b)
		return ok
	default:
		return s.skip()
	}
}

// className returns b as a string without allocating for the usual one.
func className(b []byte) string {
	if string(b) == "ok" {
		return "ok"
	}
	return string(b)
}

// scanner walks over one line of JSON.
type scanner struct {
	b  []byte
	at int
}

func (s *scanner) wrong(want string) error {
	return fmt.Errorf("column %d: %s is expected", s.at+1, want)
}

func (s *scanner) space() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// take passes over c after white space, when it is next.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

// str reads a string and returns its raw inside.
func (s *scanner) str() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	start := s.at
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case '"':
			s.at++
			return s.b[start : s.at-1], true
		case '\\':
			s.at++
		}
		s.at++
	}
	s.at = len(s.b)
	return nil, false
}

// number reads a whole number into v, or unknown for null.
func (s *scanner) number(v *int64, unknown int64) bool {
	s.space()
	if bytes.HasPrefix(s.b[s.at:], []byte("null")) {
		s.at += len("null")
		*v = unknown
		return true
	}
	n, ok := s.count()
	*v = n
	return ok
}

// count reads a whole number.
func (s *scanner) count() (int64, bool) {
	s.space()
	start := s.at
	for s.at < len(s.b) && (s.b[s.at] == '-' || s.b[s.at] >= '0' && s.b[s.at] <= '9') {
		s.at++
	}
	n, err := strconv.ParseInt(string(s.b[start:s.at]), 10, 64)
	return n, err == nil
}

// skip passes over any value: brackets are counted, strings stepped over.
func (s *scanner) skip() bool {
	depth := 0
	for {
		s.space()
		if s.at == len(s.b) {
			return false
		}
		switch s.b[s.at] {
		case '"':
			if _, ok := s.str(); !ok {
				return false
			}
		case '[', '{':
			depth++
			s.at++
		case ']', '}':
			depth--
			s.at++
		case ',', ':':
			if depth == 0 {
				return false
			}
			s.at++
			continue
		default:
			start := s.at
			for s.at < len(s.b) && bytes.IndexByte([]byte(",:[]{}\" \t\r\n"), s.b[s.at]) < 0 {
				s.at++
			}
			if s.at == start {
				return false
			}
		}
		if depth < 0 {
			return false
		}
		if depth == 0 {
			return true
		}
	}
}
