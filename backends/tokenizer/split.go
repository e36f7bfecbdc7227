package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitter cuts text into the words that merges stay within. It does what the
// regular expression of its pattern does; written out, because Go's regexp has
// no look-ahead, and a loop over runes is many times faster than engines that
// have.
type splitter struct {
	// digits is the longest run of digits in a word.
	digits int
}

// patterns are the expressions of the tokenizer.json files that use them: of
// Llama 3, and of its kin that keep digits apart.
var patterns = map[string]splitter{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: {digits: 3},
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:      {digits: 1},
}

// kind is what the pattern tells runes apart by.
type kind uint8

const (
	other kind = iota
	letter
	number
	space
)

func kindOf(r rune) kind {
	if r < utf8.RuneSelf {
		return ascii[r]
	}
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// ascii holds the kinds of the first runes.
var ascii = func() (k [utf8.RuneSelf]kind) {
	for r := range k {
		switch c := rune(r); {
		case unicode.IsLetter(c):
			k[r] = letter
		case unicode.IsNumber(c):
			k[r] = number
		case unicode.IsSpace(c):
			k[r] = space
		}
	}
	return k
}()

// next returns the length of the first word of text, which is not empty. The
// alternatives are tried in the order of the pattern.
func (s splitter) next(text string) int {
	if n := contraction(text); n > 0 {
		return n
	}
	r, size := utf8.DecodeRuneInString(text)
	k := kindOf(r)
	switch k {
	case letter:
		return run(text, letter)
	case number:
		return s.number(text)
	}
	if r != '\r' && r != '\n' {
		if n := run(text[size:], letter); n > 0 {
			return size + n
		}
	}
	if n := symbols(text); n > 0 {
		return n
	}
	return blanks(text)
}

// contraction matches an apostrophe and one of s, t, re, ve, m, ll, d in
// either case.
func contraction(text string) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	switch text[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if len(text) > 2 && text[2]|0x20 == 'e' {
			return 3
		}
	case 'l':
		if len(text) > 2 && text[2]|0x20 == 'l' {
			return 3
		}
	}
	if strings.HasPrefix(text[1:], longS) {
		return 1 + len(longS)
	}
	return 0
}

// longS is the one rune outside ASCII that folds to a letter of a contraction.
const longS = "\u017f"

// number matches the first digits of text.
func (s splitter) number(text string) int {
	at := 0
	for range s.digits {
		r, size := utf8.DecodeRuneInString(text[at:])
		if size == 0 || kindOf(r) != number {
			break
		}
		at += size
	}
	return at
}

// symbols matches a run of what is no blank, letter or digit, with a space
// before it and line ends after it.
func symbols(text string) int {
	at := 0
	if text[0] == ' ' {
		at = 1
	}
	n := run(text[at:], other)
	if n == 0 {
		return 0
	}
	at += n
	for at < len(text) && (text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// blanks matches blanks: up to the last line end of their run; else all of
// them at the end of the text; else all but the last, which goes with what
// follows, unless it is the only one.
func blanks(text string) int {
	end, lineEnd, last := 0, 0, 0
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		if kindOf(r) != space {
			break
		}
		end, last = end+size, size
		if r == '\r' || r == '\n' {
			lineEnd = end
		}
	}
	switch {
	case lineEnd > 0:
		return lineEnd
	case end == len(text) || end == last:
		return end
	}
	return end - last
}

// run is the length of the run of runes of kind k that text begins with.
func run(text string, k kind) int {
	at := 0
	for at < len(text) {
		r, size := rune(text[at]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[at:])
		}
		if kindOf(r) != k {
			break
		}
		at += size
	}
	return at
}
