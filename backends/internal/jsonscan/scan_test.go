package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// texts are valid JSON texts, and seeds of the fuzz targets.
var texts = []string{
	`null`, ` true `, `false`, `0`, `-0.5e+10`, `12345678901234567890`, `""`, `"a"`, `"\u4e2d\ud83d\ude00\n\"\\\/"`,
	`"\ud83d"`, `"\ude00\ud83d"`, `[]`, `[1,[2,{}],"x"]`, `{}`, `{"a":{"b":[null,true]},"c":"\\"}`, "\t{ \"a\" : 1 , \"b\" : [ ] }\r\n",
	`{"choices":[{"index":0,"delta":{"content":"Hi","tool_calls":null},"finish_reason":null}],"usage":{"completion_tokens":2}}`,
}

// invalid are texts that are no JSON.
var invalid = []string{
	``, ` `, `nul`, `nullx`, `tru`, `01`, `-`, `1.`, `1e`, `.5`, `+1`, `"`, `"a`, `"a\`, `"\"`, `[`, `[1`, `[1,]`, `[,1]`, `[1 2]`,
	`{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1}}`, `1 2`, `]`, `'a'`, `{"a":undefined}`,
}

func TestSkip(t *testing.T) {
	for _, in := range texts {
		var s Scanner
		s.Reset([]byte(in))
		s.Skip()
		if err := s.End(); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, in := range invalid {
		var s Scanner
		s.Reset([]byte(in))
		s.Skip()
		if s.End() == nil {
			t.Errorf("%s passes as JSON", in)
		}
	}
}

func TestDepthIsBounded(t *testing.T) {
	var s Scanner
	s.Reset([]byte(strings.Repeat("[", 1<<20)))
	s.Skip()
	if s.End() == nil {
		t.Error("a million open brackets pass as JSON")
	}
}

func TestNumber(t *testing.T) {
	for in, want := range map[string]float64{"0": 0, "17": 17, "-3": -3, "1.5e3": 1500, "999999999999999": 999999999999999, "1e18": 1e18} {
		var s Scanner
		s.Reset([]byte(in))
		if v, ok := s.Number(); !ok || v != want || s.End() != nil {
			t.Errorf("%s: %v, %v", in, v, ok)
		}
	}
	for _, in := range []string{`"12"`, "null", "[1]", "1e999"} {
		var s Scanner
		s.Reset([]byte(in))
		if v, ok := s.Number(); ok || s.End() != nil {
			t.Errorf("%s: %v is taken for a number, or the scan breaks off: %v", in, v, s.End())
		}
	}
}

func TestWalk(t *testing.T) {
	var s Scanner
	s.Reset([]byte(`{"skip":{"a":[1,2]},"list":[{"n":1},{"n":2}],"n":null,"text":"a\tb","ids":[1,2,3],"yes":true}`))
	sum, text, ids, yes := 0.0, "", 0, false
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "list":
			for s.Array(); s.More(']'); {
				for s.Object(); s.More('}'); {
					s.Key()
					n, _ := s.Number()
					sum += n
				}
			}
		case "n":
			if !s.Null() {
				t.Error("null is not seen")
			}
		case "text":
			text = string(Unescape(nil, s.String()))
		case "ids":
			ids = s.Count()
		case "yes":
			yes = s.Bool()
		default:
			s.Skip()
		}
	}
	if err := s.End(); err != nil || sum != 3 || text != "a\tb" || ids != 3 || !yes {
		t.Errorf("sum %v, text %q, %d ids, %v, error %v", sum, text, ids, yes, err)
	}
}

// scanString is what the scanner makes of a text that is one string.
func scanString(in []byte) (string, bool) {
	var s Scanner
	s.Reset(in)
	raw := s.String()
	if s.End() != nil {
		return "", false
	}
	return string(Unescape(nil, raw)), true
}

// FuzzScan holds the scanner to encoding/json: what that accepts is accepted
// with the same strings, and what a scan accepts it accepts, but for the two
// liberties with strings.
func FuzzScan(f *testing.F) {
	for _, in := range append(texts, invalid...) {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var s Scanner
		s.Reset(in)
		s.Skip()
		ok := s.End() == nil
		if json.Valid(in) && !ok && bytes.Count(in, []byte("["))+bytes.Count(in, []byte("{")) < maxDepth {
			t.Fatalf("%q is JSON", in)
		}
		if ok && !json.Valid(in) && !bytes.ContainsAny(in, "\\") && !hasControl(in) {
			t.Fatalf("%q is no JSON", in)
		}
		var want string
		if json.Unmarshal(in, &want) == nil && bytes.HasPrefix(bytes.TrimSpace(in), []byte(`"`)) && utf8.Valid(in) {
			if got, ok := scanString(in); !ok || got != want {
				t.Fatalf("%q is read as %q, want %q", in, got, want)
			}
		}
	})
}

func hasControl(in []byte) bool {
	for _, c := range in {
		if c < ' ' {
			return true
		}
	}
	return false
}

// FuzzAppendString holds the writer to encoding/json's reader.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\x00\x1f\"\\/\n\r\t\u2028é中\U0001F600", "\xff\xfe", "a\xc3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		quoted := AppendString(nil, s)
		if err := json.Unmarshal(quoted, &got); err != nil {
			t.Fatalf("%q is written as %s: %v", s, quoted, err)
		}
		if utf8.ValidString(s) && got != s {
			t.Fatalf("%q comes back as %q", s, got)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	in := []byte(texts[len(texts)-1])
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		var s Scanner
		s.Reset(in)
		s.Skip()
		buf = Unescape(buf[:0], []byte(`a\u4e2db`))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
