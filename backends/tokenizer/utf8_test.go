package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestReplaceInvalid(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"valid", "aé日🙂", "aé日🙂"},
		{"lone continuation bytes", "\x80\x80", "��"},
		{"three of four bytes", "\xf0\x9f\x99a", "�a"},
		{"two of three bytes at the end", "a\xe6\x97", "a�"},
		{"surrogate", "\xed\xa0\x80", "���"},
		{"overlong", "\xc0\xaf", "��"},
		{"past the last rune", "\xf4\x90\x80\x80", "����"},
		{"a start and another", "\xe6\xe6\x97\xa5", "�日"},
	} {
		if got := replaceInvalid([]byte(c.in)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestStreamHoldsBackPartsOfCharacters(t *testing.T) {
	s := Bytes(512).NewStream()
	var got []string
	for _, b := range []byte("a🙂é\xffb\xe6\x97") {
		got = append(got, s.Push(int32(b)))
	}
	got = append(got, s.End(), s.End())
	want := []string{"a", "", "", "", "🙂", "", "é", "�", "b", "", "", "�", ""}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("a🙂\xf0\x9f\x99é\xff\xe6\x97"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := Bytes(512).NewStream()
		var out strings.Builder
		for _, b := range data {
			piece := s.Push(int32(b))
			if !utf8.ValidString(piece) {
				t.Fatalf("piece %q is no UTF-8", piece)
			}
			out.WriteString(piece)
		}
		out.WriteString(s.End())
		if want := replaceInvalid(data); out.String() != want {
			t.Errorf("%q streamed as %q, want %q", data, out.String(), want)
		}
	})
}
