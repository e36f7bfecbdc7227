package tokenizer

// The ids of the byte tokenizer. Ids below 256 are the bytes of UTF-8 text.
// The specials follow. From ByteFirstWord on ids are made-up words: a space
// and two or three syllables of a consonant and a vowel, like " baki".
const (
	ByteBOS       = 256
	ByteEOS       = 257
	byteHeader    = 258 // opens the role of a turn
	byteHeaderEnd = 259
	ByteEndOfTurn = 260
	// ByteFirstWord is the first id that is a word; the ids between the
	// specials and it are unused specials.
	ByteFirstWord = 272
)

const (
	consonants = "bdfghjklmnprstvwyz"
	vowels     = "aeiou"
	syllables  = len(consonants) * len(vowels)
	shortWords = syllables * syllables
)

// Bytes returns the tokenizer of models without one of their own, for a
// vocabulary of the given size, between 272 and 737,372. Every byte of a prompt is one
// token, but for words of the vocabulary, which are one each: text that
// consists of words, as such a model's answers mostly do, has the same number
// of tokens when it is encoded again.
func Bytes(vocab int) *Tokenizer {
	return &Tokenizer{
		model: byteModel{vocab: vocab},
		vocab: vocab,
		bos:   ByteBOS, eos: ByteEOS,
		before: []int32{ByteBOS},
	}
}

// byteModel is the model behind Bytes.
type byteModel struct{ vocab int }

func (m byteModel) encode(ids []int32, text string) []int32 {
	for i := 0; i < len(text); {
		if id, n := m.word(text[i:]); n > 0 {
			ids = append(ids, id)
			i += n
			continue
		}
		ids = append(ids, int32(text[i]))
		i++
	}
	return ids
}

// word returns the id of the word that text starts with and its length; 0 when
// there is none. A word ends where its letters stop.
func (m byteModel) word(text string) (id int32, length int) {
	if len(text) < 5 || text[0] != ' ' {
		return 0, 0
	}
	index, count := 0, 0
	at := 1
	for ; at+1 < len(text); at += 2 {
		s, ok := syllable(text[at], text[at+1])
		if !ok {
			break
		}
		if index, count = index*syllables+s, count+1; count > 3 {
			return 0, 0
		}
	}
	if at < len(text) && 'a' <= text[at] && text[at] <= 'z' {
		return 0, 0
	}
	switch count {
	case 2:
	case 3:
		index += shortWords
	default:
		return 0, 0
	}
	if index += ByteFirstWord; index >= m.vocab {
		return 0, 0
	}
	return int32(index), at
}

// consonantOf and vowelOf map a letter to its place among its kind, plus 1.
var consonantOf, vowelOf = places(consonants), places(vowels)

func places(letters string) (p [256]uint8) {
	for i := range len(letters) {
		p[letters[i]] = uint8(i + 1)
	}
	return p
}

func syllable(c, v byte) (int, bool) {
	i, j := consonantOf[c], vowelOf[v]
	return (int(i)-1)*len(vowels) + int(j) - 1, i > 0 && j > 0
}

func (m byteModel) decode(out []byte, id int32) []byte {
	switch {
	case id < 0 || int(id) >= m.vocab:
		return out
	case id < 256:
		return append(out, byte(id))
	case id < ByteFirstWord:
		return out
	}
	index, count := int(id)-ByteFirstWord, 2
	if index >= shortWords {
		index, count = index-shortWords, 3
	}
	out = append(out, ' ')
	for place := count - 1; place >= 0; place-- {
		s := index
		for range place {
			s /= syllables
		}
		s %= syllables
		out = append(out, consonants[s/len(vowels)], vowels[s%len(vowels)])
	}
	return out
}

func (m byteModel) text(ids []int32) string {
	var out []byte
	for _, id := range ids {
		out = m.decode(out, id)
	}
	return replaceInvalid(out)
}

// chat frames each turn as Llama 3 does: header with the role, two line feeds,
// content, end of turn; then the header of the answer.
func (m byteModel) chat(messages []Message) ([]int32, error) {
	ids := []int32{ByteBOS}
	for _, msg := range messages {
		ids = m.header(ids, msg.Role)
		ids = m.encode(ids, msg.Content)
		ids = append(ids, ByteEndOfTurn)
	}
	return m.header(ids, "assistant"), nil
}

func (m byteModel) header(ids []int32, role string) []int32 {
	ids = m.encode(append(ids, byteHeader), role)
	return m.encode(append(ids, byteHeaderEnd), "\n\n")
}
