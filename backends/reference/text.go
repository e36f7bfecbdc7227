package reference

import (
	"strconv"
	"unicode/utf8"
)

// pieces holds the bytes of every id of a vocabulary, so that decoding one
// token is a lookup.
type pieces struct {
	bytes []byte
	start []uint32 // one more than ids
}

func newPieces(t Tokenizer, vocab int) *pieces {
	p := &pieces{start: make([]uint32, 1, vocab+1)}
	for id := range vocab {
		p.bytes = append(p.bytes, t.Decode([]int32{int32(id)})...)
		p.start = append(p.start, uint32(len(p.bytes)))
	}
	return p
}

// of returns the bytes of an id, none for one that is not in the vocabulary.
func (p *pieces) of(id int32) []byte {
	if id < 0 || int(id) >= len(p.start)-1 {
		return nil
	}
	return p.bytes[p.start[id]:p.start[id+1]]
}

// utf8Joiner makes text of the bytes of successive tokens: a character that
// two tokens share comes out with the second one, and bytes that are no UTF-8
// become U+FFFD.
type utf8Joiner struct {
	pending [utf8.UTFMax]byte
	n       int
}

// append adds to dst the text that piece completes.
func (j *utf8Joiner) append(dst, piece []byte) []byte {
	if j.n == 0 {
		ascii := true
		for _, b := range piece {
			ascii = ascii && b < utf8.RuneSelf
		}
		if ascii {
			return append(dst, piece...)
		}
	}
	for _, b := range piece {
		j.pending[j.n] = b
		j.n++
		for j.n > 0 && utf8.FullRune(j.pending[:j.n]) {
			r, size := utf8.DecodeRune(j.pending[:j.n])
			dst = utf8.AppendRune(dst, r)
			j.n = copy(j.pending[:], j.pending[size:j.n])
		}
	}
	return dst
}

// flush adds what is left of an unfinished character.
func (j *utf8Joiner) flush(dst []byte) []byte {
	if j.n > 0 {
		dst = utf8.AppendRune(dst, utf8.RuneError)
		j.n = 0
	}
	return dst
}

// appendQuoted appends text, which is UTF-8, as a JSON string.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, text)
	return append(dst, '"')
}

// appendEscaped appends text, which is UTF-8, as the inside of a JSON string.
func appendEscaped(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	start := 0
	for i, b := range text {
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		}
	}
	return append(dst, text[start:]...)
}

// appendIDs appends ids as a JSON array.
func appendIDs(dst []byte, ids []int32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}
