package bundle

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// all reads the requests of a text.
func all(text string) (out []Request, err error) {
	eachRequest(strings.NewReader(text), func(r Request, e error) bool {
		if e != nil {
			err = e
			return false
		}
		out = append(out, r)
		return true
	})
	return out, err
}

func TestRequestLines(t *testing.T) {
	for name, tt := range map[string]struct {
		line string
		want Request
	}{
		"all keys": {`{"rung":2,"index":7,"request_id":"a","intended_ns":1,"sent_ns":2,"first_byte_ns":3,"first_token_ns":4,"last_token_ns":5,"end_ns":6,"input_tokens":8,"output_tokens":9,"token_source":"usage","chunks":[[4,1],[5,8]],"class":"ok","remote":"127.0.0.1:1"}`,
			Request{Rung: 2, Index: 7, IntendedNS: 1, SentNS: 2, FirstByteNS: 3, FirstTokenNS: 4, LastTokenNS: 5, EndNS: 6, InputTokens: 8, OutputTokens: 9, Class: "ok"}},
		"unknown is null": {`{"rung":0,"first_token_ns":null,"output_tokens":null,"class":"timeout"}`, Request{InputTokens: -1, OutputTokens: -1, Class: "timeout"}},
		"hostile error":   {`{"error":"a \"}{][, \\\" quoted","rung":1,"x":{"y":[{"z":"]"}],"w":-1.5e3},"class":"http_5xx"}`, Request{Rung: 1, InputTokens: -1, OutputTokens: -1, Class: "http_5xx"}},
		"spaces":          {" { \"rung\" : 3 , \"chunks\" : [ ] , \"class\" : \"ok\" } \r", Request{Rung: 3, InputTokens: -1, OutputTokens: -1, Class: "ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := all(tt.line + "\n")
			if err != nil || len(got) != 1 || got[0] != tt.want {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestRequestLinesRefused(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"cut":        {"{\"rung\":0}\n{\"rung\":1,\"cla", ":2: column"},
		"no object":  {"[1]\n", "an object is expected"},
		"no keys":    {"{}\n", "without keys"},
		"text":       {`{"rung":"1"}` + "\n", `a value of "rung"`},
		"two values": {`{"rung":1}{"rung":2}` + "\n", "the end of the line"},
		"huge rung":  {`{"rung":99999999999}` + "\n", `a value of "rung"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := all(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want ...%s", err, tt.want)
			}
		})
	}
}

func TestLongLineIsReadWhole(t *testing.T) {
	line := `{"chunks":[` + strings.Repeat("[1,1],", 200_000) + `[1,1]],"rung":4,"class":"ok"}`
	got, err := all(line + "\n" + `{"rung":5,"class":"ok"}`)
	if err != nil || len(got) != 2 || got[0].Rung != 4 || got[1].Rung != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzRequest holds the hand-written reader to encoding/json: what both
// accept, both read alike.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{`{"rung":1,"sent_ns":2,"class":"ok"}`, `{"rung":1,"chunks":[[1,2],[3,4]],"error":"\"x"}`, `{"a":{"b":[null,true,1.5]},"rung":0}`, `{"rung":null}`, `{"sent_ns":4,"sent\u005fns":3}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r, err := parseRequest([]byte(line))
		if err != nil {
			return
		}
		var slow map[string]any
		if json.Unmarshal([]byte(line), &slow) != nil || strings.Count(line, `"sent_ns"`) != 1 || strings.Contains(line, `\`) {
			return // a key may stand twice, or be written with escapes, which headway does not
		}
		if v, ok := slow["sent_ns"].(float64); ok && math.Abs(v) < 1<<53 && float64(r.SentNS) != v {
			t.Errorf("sent_ns is %d, encoding/json reads %v", r.SentNS, v)
		}
	})
}
