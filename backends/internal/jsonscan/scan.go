// Package jsonscan reads JSON (RFC 8259) where it lies, without allocating:
// the caller walks objects and arrays and takes the values it knows. It is
// more lenient than the grammar in two ways, since what a model generates is
// data: bytes that are not UTF-8, and control characters, may stand in
// strings.
package jsonscan

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// maxDepth bounds how deep skipped values may nest.
const maxDepth = 256

// shortString is the length up to which strings are searched byte by byte.
const shortString = 16

// ErrSyntax says that the bytes are not JSON.
var ErrSyntax = errors.New("not valid JSON")

// Scanner walks one JSON text. Once Err is not nil every method returns
// zero values and loops end.
//
//	s.Reset(data)
//	for s.Object(); s.More('}'); {
//		switch key := s.Key(); string(key) {
//		case "text":
//			raw := s.String()
//		default:
//			s.Skip()
//		}
//	}
//	err := s.End()
type Scanner struct {
	data  []byte
	pos   int
	first bool // nothing of the innermost container was read
	err   error
}

// Reset starts anew on data, which is only read.
func (s *Scanner) Reset(data []byte) { *s = Scanner{data: data} }

// Err is ErrSyntax once the text proved not to be JSON.
func (s *Scanner) Err() error { return s.err }

// Pos is the place of the next byte to be read.
func (s *Scanner) Pos() int { return s.pos }

// Peek returns the first byte of the next value: one of { [ " t f n, a digit
// or -, or 0 at the end or after an error.
func (s *Scanner) Peek() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos] // the common case, inlined
	}
	return s.peekPastSpace()
}

func (s *Scanner) peekPastSpace() byte {
	s.space()
	if s.err != nil || s.pos >= len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// Object enters an object. It is an error when the next value is none.
func (s *Scanner) Object() { s.open('{') }

// Array enters an array. It is an error when the next value is none.
func (s *Scanner) Array() { s.open('[') }

func (s *Scanner) open(c byte) {
	if s.Peek() != c {
		s.fail()
		return
	}
	s.pos++
	s.first = true
}

// More steps to the next member of the container that closes with the given
// byte, and leaves the container when there is none.
func (s *Scanner) More(closing byte) bool {
	c := s.Peek()
	if c == 0 {
		s.fail()
		return false
	}
	if c == closing {
		s.pos++
		s.first = false
		return false
	}
	if s.first {
		s.first = false
		return true
	}
	if c != ',' {
		s.fail()
		return false
	}
	s.pos++
	if s.Peek() == closing {
		s.fail()
	}
	return s.err == nil
}

// Key reads a member's name and the colon after it, as it stands in the text.
func (s *Scanner) Key() []byte {
	key := s.String()
	if s.Peek() != ':' {
		s.fail()
		return nil
	}
	s.pos++
	return key
}

// String reads a string and returns what stands between its quotes, escapes
// and all; Unescape decodes it.
func (s *Scanner) String() []byte {
	if s.Peek() != '"' {
		s.fail()
		return nil
	}
	begin := s.pos + 1
	// Most strings are short: a call to search them costs more than a look at
	// each byte.
	near := s.data[begin:min(begin+shortString, len(s.data))]
	for i, c := range near {
		if c == '"' {
			s.pos = begin + i + 1
			return near[:i]
		}
		if c == '\\' {
			break
		}
	}
	for i := begin; ; {
		n := bytes.IndexByte(s.data[i:], '"')
		if n < 0 {
			s.fail()
			return nil
		}
		end := i + n
		back := bytes.IndexByte(s.data[i:end], '\\')
		if back < 0 {
			s.pos = end + 1
			return s.data[begin:end]
		}
		i += back + 2 // past the escaped byte
		if i > len(s.data) {
			s.fail()
			return nil
		}
	}
}

// Null consumes a null and says whether there was one.
func (s *Scanner) Null() bool {
	if s.Peek() != 'n' {
		return false
	}
	s.literal("null")
	return s.err == nil
}

// Number reads a number. ok is false when the next value is none, and that
// value is skipped.
func (s *Scanner) Number() (v float64, ok bool) {
	c := s.Peek()
	if c != '-' && (c < '0' || c > '9') {
		s.Skip()
		return 0, false
	}
	raw := s.number()
	if s.err != nil {
		return 0, false
	}
	if n, ok := smallInt(raw); ok {
		return n, true
	}
	v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(raw), len(raw)), 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// smallInt parses up to 15 digits, which a float64 holds exactly.
func smallInt(raw []byte) (float64, bool) {
	if len(raw) > 15 {
		return 0, false
	}
	n := 0
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return float64(n), true
}

// number passes over a number of JSON's grammar.
func (s *Scanner) number() []byte {
	begin := s.pos
	if s.at('-') {
		s.pos++
	}
	switch {
	case s.at('0'):
		s.pos++
	case s.digits() == 0:
		s.fail()
		return nil
	}
	if s.at('.') {
		s.pos++
		if s.digits() == 0 {
			s.fail()
			return nil
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if s.digits() == 0 {
			s.fail()
			return nil
		}
	}
	return s.data[begin:s.pos]
}

func (s *Scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

func (s *Scanner) digits() int {
	begin := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - begin
}

// Bool reads true or false; any other value is skipped and is false.
func (s *Scanner) Bool() bool {
	if s.Peek() == 't' {
		s.literal("true")
		return s.err == nil
	}
	s.Skip()
	return false
}

// Skip passes over the next value, whatever it is.
func (s *Scanner) Skip() { s.skip(0) }

func (s *Scanner) skip(depth int) {
	if depth > maxDepth {
		s.fail()
		return
	}
	switch c := s.Peek(); {
	case c == '{':
		for s.Object(); s.More('}'); {
			s.Key()
			s.skip(depth + 1)
		}
	case c == '[':
		for s.Array(); s.More(']'); {
			s.skip(depth + 1)
		}
	case c == '"':
		s.String()
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	case c == '-' || c >= '0' && c <= '9':
		s.number()
	default:
		s.fail()
	}
}

// Raw passes over the next value and returns its text.
func (s *Scanner) Raw() []byte {
	s.space()
	begin := s.pos
	s.Skip()
	if s.err != nil {
		return nil
	}
	return s.data[begin:s.pos]
}

// Count passes over an array and returns how many elements it has, 0 for
// another value.
func (s *Scanner) Count() int {
	if s.Peek() != '[' {
		s.Skip()
		return 0
	}
	n := 0
	for s.Array(); s.More(']'); n++ {
		s.Skip()
	}
	return n
}

// End says whether the text held one value, read to its end, and nothing
// after it.
func (s *Scanner) End() error {
	s.space()
	if s.err == nil && s.pos < len(s.data) {
		s.fail()
	}
	return s.err
}

func (s *Scanner) literal(word string) {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		s.fail()
		return
	}
	s.pos += len(word)
}

func (s *Scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *Scanner) fail() {
	if s.err == nil {
		s.err = ErrSyntax
	}
	s.pos = len(s.data)
}

// Unescape appends the string that raw, the inside of a JSON string, stands
// for. Halves of a surrogate pair without the other, and escapes that JSON
// does not have, become U+FFFD.
func Unescape(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			var r rune
			r, raw = escapedRune(raw)
			dst = utf8.AppendRune(dst, r)
		default:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
	}
}

// escapedRune reads the four digits after \u, and the second half of a
// surrogate pair when there is one.
func escapedRune(raw []byte) (rune, []byte) {
	r, ok := hex4(raw)
	if !ok {
		return utf8.RuneError, raw
	}
	raw = raw[4:]
	if !utf16.IsSurrogate(r) {
		return r, raw
	}
	if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
		if low, ok := hex4(raw[2:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, raw[6:]
			}
		}
	}
	return utf8.RuneError, raw
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
