package tokenizer

import (
	"regexp"
	"testing"
	"unicode/utf8"
)

func words(s splitter, text string) (out []string) {
	for text != "" {
		n := s.next(text)
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

// The alternatives of the Llama 3 pattern that need no look-ahead, for Go's
// regexp: at every cut the word must be what the first matching one takes.
var (
	beforeBlanks = regexp.MustCompile(`^(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\pL\pN]?\pL+|\pN{1,3}| ?[^\pZ\t\n\v\f\r\x{85}\pL\pN]+[\r\n]*)`)
	lineEnds     = regexp.MustCompile(`^[\pZ\t\n\v\f\r\x{85}]*[\r\n]+`)
	blankRun     = regexp.MustCompile(`^[\pZ\t\n\v\f\r\x{85}]+`)
)

// byRegexp is the length of the first word by those expressions; look-ahead is
// what is left: a run of blanks leaves its last to what follows.
func byRegexp(text string) int {
	if m := beforeBlanks.FindString(text); m != "" {
		return len(m)
	}
	if m := lineEnds.FindString(text); m != "" {
		return len(m)
	}
	m := blankRun.FindString(text)
	_, last := utf8.DecodeLastRuneInString(m)
	if len(m) == len(text) || len(m) == last {
		return len(m)
	}
	return len(m) - last
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"It's WE'LL 12345 ... \r\n\n  x", "a\u00a0\u00a0b\u2028 c\x85d", "'ſ 'ſt", " \t\n \t", "½²x 日本 e\u0301", "''s\n'", "x'RE'", "\v\f \x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip("the expressions are for valid text")
		}
		s := splitter{digits: 3}
		for text != "" {
			got, want := s.next(text), byRegexp(text)
			if got != want {
				t.Fatalf("of %q the first word is %q, want %q", text, text[:got], text[:want])
			}
			text = text[got:]
		}
	})
}

func TestSplitDigitsApart(t *testing.T) {
	got := words(splitter{digits: 1}, "v12 3")
	want := []string{"v", "1", "2", " ", "3"}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}
