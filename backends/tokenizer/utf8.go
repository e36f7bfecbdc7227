package tokenizer

import "unicode/utf8"

// replaceInvalid returns text with each faulty UTF-8 sequence replaced by one
// U+FFFD: the longest start of a character that was broken off, or a single
// byte (Unicode 15, section 3.9, the practice that W3C recommends).
func replaceInvalid(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	out := make([]byte, 0, len(text)+8)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			size = broken(text)
		}
		out = utf8.AppendRune(out, r)
		text = text[size:]
	}
	return string(out)
}

// broken is the length of the faulty sequence that text begins with.
func broken(text []byte) int {
	n := 1
	for n < len(text) && n < utf8.UTFMax && starts(text[:n+1]) {
		n++
	}
	return n
}

// starts says whether text is the beginning of a longer character.
func starts(text []byte) bool { return !utf8.FullRune(text) }

// Stream decodes ids one at a time and holds back the bytes of a character
// until it is complete. It belongs to one goroutine.
type Stream struct {
	tokenizer *Tokenizer
	held      []byte
}

// NewStream starts to decode a sequence.
func (t *Tokenizer) NewStream() *Stream { return &Stream{tokenizer: t} }

// Push returns the text that id completes, "" when there is none yet. Bytes
// that can no longer become a character are replaced by U+FFFD.
func (s *Stream) Push(id int32) string {
	s.held = s.tokenizer.model.decode(s.held, id)
	end := len(s.held)
	for back := 1; back < utf8.UTFMax && back <= len(s.held); back++ {
		if starts(s.held[len(s.held)-back:]) {
			end = len(s.held) - back
			break
		}
	}
	text := replaceInvalid(s.held[:end])
	s.held = append(s.held[:0], s.held[end:]...)
	return text
}

// End returns what is held back, replaced by U+FFFD.
func (s *Stream) End() string {
	text := replaceInvalid(s.held)
	s.held = s.held[:0]
	return text
}
