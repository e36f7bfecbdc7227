package bundle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/bundle/bundletest"
)

// write makes a finished bundle of the test result and returns its directory.
func write(t *testing.T, r *bundle.Result, pages ...bundle.Page) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "runs", "one")
	w, err := bundle.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		fmt.Fprintf(w.Requests(), `{"rung":0,"index":%d,"request_id":"r-%d","intended_ns":1,"sent_ns":2,"first_byte_ns":3,"first_token_ns":4,"last_token_ns":9,"end_ns":10,"input_tokens":4,"output_tokens":5,"token_source":"usage","chunks":[[4,1],[9,4]],"class":"ok"}`+"\n", i, i)
	}
	h := hdrhistogram.New(1, 3_600_000_000, 3)
	h.RecordValue(1500)
	if err := w.Histograms(0, map[string]*hdrhistogram.Histogram{"ttft_us": h}, time.Unix(10, 0), time.Unix(70, 0)); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(r, pages...); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRoundTrip(t *testing.T) {
	dir := write(t, bundletest.Result())
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encoded(t, bundletest.Result()), encoded(t, b.Result)); diff != "" {
		t.Errorf("the result changed on its way through the bundle:\n%s", diff)
	}
	if found := bundle.Verify(dir); len(found) != 0 {
		t.Errorf("Verify finds fault with a fresh bundle: %v", found)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*"))
	if len(left) != 0 {
		t.Errorf("left beside the bundle: %v", left)
	}
}

func encoded(t *testing.T, r *bundle.Result) string {
	t.Helper()
	b, err := bundle.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCreateNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	if _, err := bundle.Create(dir); !errors.Is(err, bundle.ErrExists) {
		t.Errorf("Create on an existing directory: %v, want ErrExists", err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 0 {
		t.Errorf("Create left %v in the existing directory", entries)
	}
}

func TestUnfinishedBundleIsNotUnderItsName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "b")
	w, err := bundle.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w.Requests(), "{}\n")
	full := errors.New("no space left")
	err = w.Finish(bundletest.Result(), bundle.Page{Name: "report.md", Write: func(io.Writer, *bundle.Bundle) error { return full }})
	var partial *bundle.PartialError
	if !errors.As(err, &partial) || !errors.Is(err, full) {
		t.Fatalf("Finish: %v, want a PartialError around the cause", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("an incomplete bundle is under its final name")
	}
	if _, err := bundle.Open(filepath.Join(partial.Dir, bundle.ResultFile)); err != nil {
		t.Errorf("what was measured is not kept: %v", err)
	}
	if !strings.Contains(err.Error(), partial.Dir) {
		t.Errorf("%q does not name %s", err, partial.Dir)
	}
}

func TestDiscardLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	w, err := bundle.Create(filepath.Join(parent, "b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Discard(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(parent); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestVerifyFindsAFlippedByteInAnyFile(t *testing.T) {
	page := bundle.Page{Name: "report.md", Write: func(w io.Writer, b *bundle.Bundle) error {
		_, err := fmt.Fprintln(w, len(b.Result.Rungs))
		return err
	}}
	dir := write(t, bundletest.Result(), page)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 6 {
		t.Errorf("the bundle has %d files, want 6", len(entries))
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		step := max(1, len(whole)/25)
		for i := 0; i < len(whole); i += step {
			whole[i] ^= 1
			os.WriteFile(path, whole, 0o644)
			if len(bundle.Verify(dir)) == 0 {
				t.Errorf("Verify misses a flipped bit at byte %d of %s", i, e.Name())
			}
			whole[i] ^= 1
		}
		os.WriteFile(path, whole, 0o644)
	}
	if found := bundle.Verify(dir); len(found) != 0 {
		t.Errorf("after all bytes were restored: %v", found)
	}
}

func TestVerifyFindsMissingAndAdded(t *testing.T) {
	dir := write(t, bundletest.Result())
	os.Rename(filepath.Join(dir, bundle.HistogramsFile), filepath.Join(dir, "extra"))
	text := fmt.Sprint(bundle.Verify(dir))
	for _, want := range []string{"histograms.hlog: missing", "extra: was added"} {
		if !strings.Contains(text, want) {
			t.Errorf("Verify says %s, without %q", text, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	good := encoded(t, bundletest.Result())
	for name, tt := range map[string]struct{ text, want string }{
		"empty":           {"", "empty"},
		"not JSON":        {"hello", "line 1, column 1"},
		"cut":             {good[:200], "unexpected EOF"},
		"trailing":        {good + "x", "follows"},
		"no schema":       {`{"a":1}`, "headway import"},
		"newer":           {strings.Replace(good, "result/v1", "result/v2", 1), "use a newer headway"},
		"other":           {strings.Replace(good, "headway.result/v1", "k6/v1", 1), "not a headway file"},
		"missing key":     {strings.Replace(good, `"rungs":`, `"rungz":`, 1), "lacks the key rungs"},
		"wrong type":      {strings.Replace(good, `"concurrency": 4,`, `"concurrency": "4",`, 1), "rungs.2.concurrency"},
		"unknown verdict": {strings.Replace(good, `"verdict": "valid"`, `"verdict": "fine"`, 1), "rungs.0.verdict"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bundle.Read(strings.NewReader(tt.text), "x.json")
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "x.json: ") {
				t.Errorf("error %v, want x.json: ...%s", err, tt.want)
			}
		})
	}
	newer := strings.Replace(good, "result/v1", "result/v2", 1)
	if _, err := bundle.Read(strings.NewReader(newer), "x"); !errors.Is(err, bundle.ErrNewer) {
		t.Errorf("a newer schema gives %v, want ErrNewer", err)
	}
}

func TestReadTakesAnArray(t *testing.T) {
	one := encoded(t, bundletest.Result())
	all, err := bundle.OpenAll("-", strings.NewReader("["+one+","+one+"]"))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d results, %v; want 2", len(all), err)
	}
}

func TestMatrix(t *testing.T) {
	dir := t.TempDir()
	index := bundle.Index{Name: "m"}
	for _, n := range []string{"a", "b"} {
		w, err := bundle.Create(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(bundletest.Result()); err != nil {
			t.Fatal(err)
		}
		index.Bundles = append(index.Bundles, bundle.IndexEntry{Dir: n, Combination: map[string]string{"input_tokens": n}, Status: bundle.Complete})
	}
	if err := bundle.WriteIndex(dir, index); err != nil {
		t.Fatal(err)
	}
	all, err := bundle.OpenAll(dir, nil)
	if err != nil || len(all) != 2 {
		t.Fatalf("OpenAll: %d, %v", len(all), err)
	}
	if _, err := bundle.Open(dir); err == nil || !strings.Contains(err.Error(), "2 results") {
		t.Errorf("Open of a matrix: %v", err)
	}
	index.Bundles[0].Dir = "../elsewhere"
	bundle.WriteIndex(dir, index)
	if _, err := bundle.OpenAll(dir, nil); err == nil {
		t.Error("an index that points outside its directory is opened")
	}
}

func TestNoCredentialsAreWritten(t *testing.T) {
	r := bundletest.Result()
	r.Profile.Target.URL = "https://user:hunter2@host:1/v1?api-key=sesame"
	r.Profile.Target.Metrics = []string{"http://x:hunter2@host/metrics"}
	dir := write(t, r)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		b, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		for _, secret := range []string{"hunter2", "sesame"} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s holds %s", e.Name(), secret)
			}
		}
	}
}

// TestSchemaKnowsEveryKey walks a written result: a key that the schema does
// not describe is one that nobody documented.
func TestSchemaKnowsEveryKey(t *testing.T) {
	r := bundletest.Result()
	r.Imported = &bundle.Imported{Tool: "x", Files: []string{}, Definitions: map[string]string{}, Metadata: map[string]string{}}
	var doc any
	if err := json.Unmarshal([]byte(encoded(t, r)), &doc); err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(bundle.JSONSchema, &schema); err != nil {
		t.Fatal(err)
	}
	undescribed(t, "", doc, schema, schema["$defs"].(map[string]any))
}

func undescribed(t *testing.T, path string, doc any, schema map[string]any, defs map[string]any) {
	if ref, ok := schema["$ref"].(string); ok {
		schema = defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if any, ok := schema["oneOf"].([]any); ok {
		undescribed(t, path, doc, any[len(any)-1].(map[string]interface{}), defs)
		return
	}
	switch doc := doc.(type) {
	case map[string]any:
		props, described := schema["properties"].(map[string]any)
		if !described {
			return // a free-form map
		}
		for k, v := range doc {
			sub, ok := props[k].(map[string]any)
			if !ok {
				t.Errorf("the schema does not describe %s.%s", path, k)
				continue
			}
			undescribed(t, path+"."+k, v, sub, defs)
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok && len(doc) > 0 {
			undescribed(t, path+"[]", doc[0], items, defs)
		}
	}
}

func FuzzOpen(f *testing.F) {
	r := bundletest.Result()
	r.Rungs = r.Rungs[:1]
	b, err := bundle.Encode(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("[" + string(b[:len(b)/2])))
	f.Add([]byte(`{"schema":"headway.result/v1"}`))
	f.Add([]byte(strings.Replace(string(b), `"connections"`, `"Connections": -1, "x"`, 1))) // a key that encoding/json takes in any case
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := bundle.Read(strings.NewReader(string(b)), "fuzz")
		if err != nil {
			return
		}
		for _, one := range all {
			again, err := bundle.Encode(one.Result)
			if err != nil {
				t.Fatalf("an accepted result can't be written: %v", err)
			}
			if err := bundle.Validate(again); err != nil {
				t.Fatalf("an accepted result is written against the schema: %v", err)
			}
		}
	})
}

func TestHistograms(t *testing.T) {
	b, err := bundle.Open(write(t, bundletest.Result()))
	if err != nil {
		t.Fatal(err)
	}
	all, err := b.Histograms()
	if err != nil {
		t.Fatal(err)
	}
	h := all["rung0/ttft_us"]
	if len(all) != 1 || h == nil || h.TotalCount() != 1 || h.Max() != 1500 {
		t.Errorf("histograms %v", all)
	}
}

func TestRequestsOfABundle(t *testing.T) {
	b, err := bundle.Open(write(t, bundletest.Result()))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, err := range b.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		if r.Index != int64(n) || !r.OK() || r.OutputTokens != 5 {
			t.Errorf("request %d is %+v", n, r)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestLabels(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*bundle.Result)
		want   string
	}{
		"measured":  {func(*bundle.Result) {}, ""},
		"simulated": {func(r *bundle.Result) { r.Server.Settings["executor"] = "sim" }, "simulated"},
		"emulated":  {func(r *bundle.Result) { r.Server.Settings["device"] = "Emulated driver" }, "emulated"},
		"estimated": {func(r *bundle.Result) { r.Rungs[3].Tokens.Source = "events" }, "estimated"},
		"imported":  {func(r *bundle.Result) { r.Imported = &bundle.Imported{Tool: "x"} }, "imported"},
	} {
		t.Run(name, func(t *testing.T) {
			r := bundletest.Result()
			tt.change(r)
			if got := strings.Join(r.Labels(), " "); got != tt.want {
				t.Errorf("labels %q, want %q", got, tt.want)
			}
		})
	}
}
