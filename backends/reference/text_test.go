package reference

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestUTF8Joiner(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pieces []string
		want   []string // what each piece brings, then the flush
	}{
		{"plain", []string{"ab", "c"}, []string{"ab", "c", ""}},
		{"a character over two tokens", []string{"a\xc3", "\xa9b"}, []string{"a", "éb", ""}},
		{"a character over four tokens", []string{"\xf0", "\x9f", "\x98", "\x80"}, []string{"", "", "", "😀", ""}},
		{"an invalid byte", []string{"\xff", "x"}, []string{"\uFFFD", "x", ""}},
		{"a character that breaks off", []string{"\xe2\x82", "x"}, []string{"", "\uFFFD\uFFFDx", ""}},
		{"a character that never ends", []string{"\xe2"}, []string{"", "\uFFFD"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var j utf8Joiner
			for i, p := range tt.pieces {
				if got := string(j.append(nil, []byte(p))); got != tt.want[i] {
					t.Errorf("piece %d gave %q, want %q", i, got, tt.want[i])
				}
			}
			if got := string(j.flush(nil)); got != tt.want[len(tt.pieces)] {
				t.Errorf("flush gave %q, want %q", got, tt.want[len(tt.pieces)])
			}
		})
	}
}

func FuzzUTF8Joiner(f *testing.F) {
	f.Add([]byte("aé😀\xff\xe2\x82"), uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		var j utf8Joiner
		var joined []byte
		for rest := text; len(rest) > 0; {
			n := min(len(rest), 1+int(cut%5))
			joined = j.append(joined, rest[:n])
			rest = rest[n:]
		}
		joined = j.flush(joined)
		if !utf8.Valid(joined) {
			t.Fatalf("%q became %q, which is not UTF-8", text, joined)
		}
		if utf8.Valid(text) && string(joined) != string(text) {
			t.Fatalf("%q became %q", text, joined)
		}
		var back string
		if err := json.Unmarshal(appendQuoted(nil, joined), &back); err != nil || back != string(joined) {
			t.Fatalf("%q came back from JSON as %q: %v", joined, back, err)
		}
	})
}

func TestStopPrefix(t *testing.T) {
	stops := []string{"END", "E!"}
	for text, want := range map[string]int{"": 0, "x": 0, "xE": 1, "xEN": 2, "END": 0, "ENE": 1} {
		if got := stopPrefix([]byte(text), stops); got != want {
			t.Errorf("stopPrefix(%q) = %d, want %d", text, got, want)
		}
	}
	if at, stop := firstStop([]byte("aE!END"), stops); at != 1 || stop != "E!" {
		t.Errorf("firstStop = %d, %q, want 1, E!", at, stop)
	}
}
