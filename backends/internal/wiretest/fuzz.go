package wiretest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// deepest is how many brackets an object may have and still be held to
// encoding/json: decoders bound the depth.
const deepest = 200

// FuzzDecoder holds a decoder to encoding/json and to itself: an object of
// JSON is never malformed and nothing else is well-formed, counts are sane,
// and an event says the same the next time. Data that begins with [DONE] is an
// end mark.
func FuzzDecoder(f *testing.F, open func() wire.Decoder, seeds ...string) {
	for _, s := range append(seeds, "null", "{}", "[]", "[DONE]", `{"error":"x"}`, `{"error":null}`, `{"error":{"type":"a","message":"b"}}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.HasPrefix(strings.TrimSpace(string(data)), "[DONE]") {
			t.Skip("an end mark")
		}
		d := open()
		var said [2]wire.Decoded
		for i := range said {
			d.Reset(nil)
			out := &said[i]
			out.Completion = -1
			err := d.Event("", data, out)
			object := json.Valid(data) && strings.HasPrefix(strings.TrimSpace(string(data)), "{")
			if err != nil && object && strings.Count(string(data), "[")+strings.Count(string(data), "{") < deepest {
				t.Fatalf("%q is malformed: %v", data, err)
			}
			if out.Completion < -1 || out.TokenIDs < 0 {
				t.Fatalf("%q counts %d tokens, %d ids", data, out.Completion, out.TokenIDs)
			}
			if len(out.Text) > 0 && out.Kind&backends.KindOutput == 0 {
				t.Fatalf("%q has text %q and kind %b", data, out.Text, out.Kind)
			}
			if u := d.Sum().Usage; u.Prompt < -1 || u.Completion < -1 || u.Cached < -1 || u.Reasoning < -1 {
				t.Fatalf("%q has usage %+v", data, u)
			}
			out.Text = []byte(string(out.Text))
		}
		if a, b := said[0], said[1]; a.Kind != b.Kind || string(a.Text) != string(b.Text) || a.End != b.End || a.Failure != b.Failure {
			t.Fatalf("%q says %+v, and then %+v", data, a, b)
		}
	})
}
