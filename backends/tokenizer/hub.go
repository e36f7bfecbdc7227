package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hub is a tokenizer.json in use.
type hub struct {
	bpe     bpe
	pieces  []string // by id, as the file writes them
	bytes   []string // by id, what they stand for
	special []bool   // by id
	isAdded map[int32]bool
	added   addedSet

	// byteLevel says that pieces are made of bytes; else they are made of
	// characters, and fallback has the ids of those bytes whose characters are
	// not in the vocabulary.
	byteLevel   bool
	fallback    [256]int32 // -1 where there is none
	unknown     int32      // -1 when there is none
	fuseUnknown bool       // a run of unknown characters is one token

	prepend prepend
	spaces  bool                  // spaces are written as blank
	split   func(text string) int // length of the first word; nil when text is not split
	// stripped is the number of leading spaces that people do not see.
	stripped int

	template *template // nil when there is none
}

// prepend says where a blank is put before text.
type prepend uint8

const (
	never       prepend = iota
	always              // before each stretch between added tokens
	unlessThere         // the same, but not before one that begins with a blank
	first               // as unlessThere, before the first stretch only
)

// encode cuts text at added tokens and encodes what is between them.
func (h *hub) encode(ids []int32, text string) []int32 {
	for at := 0; at < len(text); {
		from, to, id := h.added.find(text, at)
		ids = h.stretch(ids, text[at:from], at == 0)
		if id >= 0 {
			ids = append(ids, id)
		}
		at = to
	}
	return ids
}

// stretch encodes text without added tokens.
func (h *hub) stretch(ids []int32, text string, atStart bool) []int32 {
	if text == "" {
		return ids
	}
	if h.spaces {
		text = strings.ReplaceAll(text, " ", blank)
	}
	switch h.prepend {
	case always:
		text = blank + text
	case unlessThere, first:
		if (h.prepend == unlessThere || atStart) && !strings.HasPrefix(text, blank) {
			text = blank + text
		}
	}
	symbols := make([]int32, 0, 64)
	for text != "" {
		n := len(text)
		if h.split != nil {
			n = h.split(text)
		}
		symbols = symbols[:0]
		ids, symbols = h.word(ids, symbols, text[:n])
		text = text[n:]
	}
	return ids
}

// word encodes one word; symbols is scratch memory.
func (h *hub) word(ids, symbols []int32, text string) (_, scratch []int32) {
	if h.bpe.whole {
		if id, ok := h.bpe.ids[text]; ok {
			return append(ids, id), symbols
		}
	}
	if h.byteLevel {
		for i := range len(text) {
			symbols = append(symbols, h.fallback[text[i]])
		}
	} else {
		symbols = h.characters(symbols, text)
	}
	return h.bpe.join(ids, symbols), symbols
}

// characters appends the ids of the characters of text; those that have none
// become bytes, or the unknown token.
func (h *hub) characters(symbols []int32, text string) []int32 {
	wasUnknown := false
	for text != "" {
		_, size := utf8.DecodeRuneInString(text)
		char := text[:size]
		text = text[size:]
		id, ok := h.bpe.ids[char]
		switch {
		case ok:
			symbols = append(symbols, id)
		case h.hasBytes(char):
			for i := range len(char) {
				symbols = append(symbols, h.fallback[char[i]])
			}
		case h.unknown >= 0:
			if !wasUnknown || !h.fuseUnknown {
				symbols = append(symbols, h.unknown)
			}
			wasUnknown = true
			continue
		}
		wasUnknown = false
	}
	return symbols
}

func (h *hub) hasBytes(char string) bool {
	for i := range len(char) {
		if h.fallback[char[i]] < 0 {
			return false
		}
	}
	return true
}

func (h *hub) decode(out []byte, id int32) []byte {
	if id < 0 || int(id) >= len(h.bytes) || h.special[id] {
		return out
	}
	return append(out, h.bytes[id]...)
}

// text joins the pieces. Bytes are replaced as the library does: by one
// U+FFFD a faulty sequence in a byte-level vocabulary, by one a byte for a run
// of byte tokens that is not valid as a whole in the other.
func (h *hub) text(ids []int32) string {
	var out, run []byte
	endRun := func() {
		if utf8.Valid(run) {
			out = append(out, run...)
		} else {
			out = append(out, strings.Repeat("\uFFFD", len(run))...)
		}
		run = run[:0]
	}
	for _, id := range ids {
		if id < 0 || int(id) >= len(h.bytes) || h.special[id] {
			continue
		}
		if _, ok := byteToken(h.pieces[id]); ok && !h.byteLevel {
			run = append(run, h.bytes[id]...)
			continue
		}
		endRun()
		out = append(out, h.bytes[id]...)
	}
	endRun()
	text := replaceInvalid(out)
	for range h.stripped {
		text = strings.TrimPrefix(text, " ")
	}
	return text
}

// nextBlank cuts text before each blank.
func nextBlank(text string) int {
	if i := strings.Index(text[1:], blank); i >= 0 {
		return i + 1
	}
	return len(text)
}

// orWhole is split, or, when it is nil, one that takes the text as one word.
func orWhole(split func(string) int) func(string) int {
	if split != nil {
		return split
	}
	return func(text string) int { return len(text) }
}

// addedSet finds added tokens in text: the leftmost, and the longest of those
// that start there.
type addedSet struct {
	byFirst [256][]addedToken // falling length
}

func (s *addedSet) add(a addedToken) {
	list := append(s.byFirst[a.Content[0]], a)
	slices.SortStableFunc(list, func(a, b addedToken) int { return len(b.Content) - len(a.Content) })
	s.byFirst[a.Content[0]] = list
}

// find returns the first added token at or after at, with the bytes it covers;
// id is -1 and the place the end of text when there is none.
func (s *addedSet) find(text string, at int) (from, to int, id int32) {
	for i := at; i < len(text); i++ {
		for _, a := range s.byFirst[text[i]] {
			if strings.HasPrefix(text[i:], a.Content) {
				return a.cover(text, at, i)
			}
		}
	}
	return len(text), len(text), -1
}

// cover widens a token found at i over the blanks that it takes with it.
func (a *addedToken) cover(text string, at, i int) (from, to int, id int32) {
	from, to = i, i+len(a.Content)
	if a.LStrip {
		from = at + len(strings.TrimRightFunc(text[at:i], unicode.IsSpace))
	}
	if a.RStrip {
		to = len(text) - len(strings.TrimLeftFunc(text[to:], unicode.IsSpace))
	}
	return from, to, a.ID
}

// byteOf maps the runes that byte-level vocabularies write bytes as to the
// bytes: printable Latin-1 stands for itself, the other bytes for the runes
// from U+0100 on, in order (GPT-2).
var byteOf = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !('!' <= r && r <= '~' || '¡' <= r && r <= '¬' || '®' <= r && r <= 'ÿ') {
			r = next
			next++
		}
		m[r] = byte(b)
	}
	return m
}()

// fromByteLevel returns the bytes of a piece; one with runes outside the
// alphabet stands for itself.
func fromByteLevel(piece string) string {
	out := make([]byte, 0, len(piece))
	for _, r := range piece {
		b, ok := byteOf[r]
		if !ok {
			return piece
		}
		out = append(out, b)
	}
	return string(out)
}
