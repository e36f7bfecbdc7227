package render_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/bundle/bundletest"
	"github.com/headway-bench/headway/report/render"
)

// TestPageOfSpoiltRequests makes pages of bundles whose requests can't be read:
// each has its figures, and says why it has no timeline.
func TestPageOfSpoiltRequests(t *testing.T) {
	good := `{"rung":0,"index":0,"intended_ns":1,"sent_ns":2,"first_byte_ns":3,"first_token_ns":4,"last_token_ns":9,"end_ns":10,"input_tokens":4,"output_tokens":5,"class":"ok"}` + "\n"
	for _, c := range []struct {
		name string
		file func(t *testing.T) []byte
		want string
	}{
		{"no zstd", func(*testing.T) []byte { return []byte("what is this?") }, "no timeline: requests.jsonl.zst"},
		{"no JSON", func(t *testing.T) []byte { return packed(t, "what is this?\n", 1) }, "no timeline: requests.jsonl.zst:1: "},
		{"cut short", func(t *testing.T) []byte { b := packed(t, good, 100); return b[:len(b)-8] }, "no timeline: requests.jsonl.zst:"},
		{"nothing in it", func(*testing.T) []byte { return nil }, "has no request of the result"},
		{"another run's rungs", func(t *testing.T) []byte { return packed(t, strings.Replace(good, `"rung":0`, `"rung":99`, 1), 5) }, "has no request of the result"},
		{"far more requests than were sent", func(t *testing.T) []byte { return packed(t, good, 2000) }, "has more than 1016 requests, the result counts 8"},
		{"blanks without an end", func(t *testing.T) []byte { return packed(t, strings.Repeat(" \n", 1<<20), 64) }, "unpacks to far more than requests do"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := bundletest.Result()
			for i := range r.Rungs {
				r.Rungs[i].Totals.Sent = 0
			}
			r.Rungs[0].Totals.Sent = 8
			b := written(t, r, 8)
			if err := os.WriteFile(filepath.Join(b.Dir, bundle.RequestsFile), c.file(t), 0o600); err != nil {
				t.Fatal(err)
			}
			var page bytes.Buffer
			if err := render.HTML(&page, b); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(page.String(), c.want) {
				t.Errorf("the page does not say %q", c.want)
			}
		})
	}
}

// packed is text, times over, as zstd.
func packed(t *testing.T, text string, times int) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
