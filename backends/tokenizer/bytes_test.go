package tokenizer

import (
	"slices"
	"testing"
	"unicode/utf8"
)

func TestByteTokenizer(t *testing.T) {
	tok := Bytes(8192)
	for _, c := range []struct {
		name, text string
		want       []int32
	}{
		{"empty", "", []int32{}},
		{"letters", "Hi!", []int32{'H', 'i', '!'}},
		{"UTF-8 bytes", "é", []int32{0xc3, 0xa9}},
		{"first word", " baba", []int32{ByteFirstWord}},
		{"second word", " babe", []int32{ByteFirstWord + 1}},
		{"words side by side", " babe baba", []int32{ByteFirstWord + 1, ByteFirstWord}},
		{"word before a comma", " baba,", []int32{ByteFirstWord, ','}},
		{"word without its space", "baba", []int32{'b', 'a', 'b', 'a'}},
		{"letters go on", " babax", []int32{' ', 'b', 'a', 'b', 'a', 'x'}},
		{"syllables past the longest word", " babababa", []int32{' ', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a'}},
		{"word past the vocabulary", " zuzu", []int32{' ', 'z', 'u', 'z', 'u'}},
	} {
		if got := tok.Encode(c.text, false); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := string(tok.Decode(c.want)); got != c.text {
			t.Errorf("%s: decoded to %q, want %q", c.name, got, c.text)
		}
	}
	if got := tok.Encode("a", true); !slices.Equal(got, []int32{ByteBOS, 'a'}) {
		t.Errorf("with specials: %v", got)
	}
	if got := tok.Decode([]int32{ByteBOS, 'a', ByteEOS, -1, 8192, ByteEndOfTurn}); string(got) != "a" {
		t.Errorf("specials and unknown ids decode to %q, want nothing", got)
	}
}

// What a model says in words has as many tokens when it is read again,
// whatever the size of its vocabulary.
func TestByteWordsRoundTrip(t *testing.T) {
	for _, vocab := range []int{512, 4096, 8192, 32768, 128256} {
		tok := Bytes(vocab)
		var ids []int32
		for id := int32(ByteFirstWord); int(id) < vocab; id++ {
			ids = append(ids, id)
		}
		text := tok.Decode(ids)
		if !utf8.Valid(text) {
			t.Fatalf("vocabulary of %d: text is no UTF-8", vocab)
		}
		if got := tok.Encode(string(text), false); !slices.Equal(got, ids) {
			t.Errorf("vocabulary of %d: ids differ after a round trip", vocab)
		}
	}
}

func TestByteChat(t *testing.T) {
	ids, err := Bytes(512).Chat([]Message{{"user", "Hi"}})
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(
		[]int32{ByteBOS, byteHeader}, raw("user"), []int32{byteHeaderEnd}, raw("\n\nHi"), []int32{ByteEndOfTurn},
		[]int32{byteHeader}, raw("assistant"), []int32{byteHeaderEnd}, raw("\n\n"))
	if !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
}

func raw(text string) (ids []int32) {
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids
}

func FuzzByteTokenizer(f *testing.F) {
	f.Add(" baba babe, Hi\xff é")
	f.Fuzz(func(t *testing.T, text string) {
		tok := Bytes(8192)
		if got := string(tok.Decode(tok.Encode(text, false))); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
	})
}
