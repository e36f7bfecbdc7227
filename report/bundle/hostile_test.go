package bundle_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/bundle/bundletest"
)

// changed is the test result's JSON after a change.
func changed(t *testing.T, change func(result, rung map[string]any)) string {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(encoded(t, bundletest.Result())), &doc); err != nil {
		t.Fatal(err)
	}
	change(doc, doc["rungs"].([]any)[0].(map[string]any))
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadRefusesHostileResults(t *testing.T) {
	good := encoded(t, bundletest.Result())
	p95 := func(v any) func(result, rung map[string]any) {
		return func(_, rung map[string]any) { rung["ttft_ms"].(map[string]any)["p95"] = v }
	}
	for name, tt := range map[string]struct{ text, want string }{
		"empty":                {"", "is empty"},
		"no object":            {"5", "holds number, an object is expected"},
		"key twice":            {strings.Replace(good, `"status"`, `"status":"failed","status"`, 1), `the key "status" stands twice`},
		"key twice, far in":    {strings.Replace(good, `"verdict"`, `"verdict":"invalid","verdict"`, 1), `the key "verdict" stands twice`},
		"deep":                 {strings.Repeat("[", 1<<20), "max depth"},
		"many values":          {`{"schema":"` + bundle.Schema + `","x":[` + strings.Repeat("1,", 5<<20) + `1]}`, "no result has as many"},
		"older schema":         {strings.Replace(good, bundle.Schema, "headway.result/v0", 1), "no version that this headway reads"},
		"schema of a number":   {strings.Replace(good, `"`+bundle.Schema+`"`, "1", 1), "schema: number does not fit there"},
		"negative latency":     {changed(t, p95(-5)), "rungs.0.ttft_ms.p95: minimum"},
		"absurd latency":       {changed(t, p95(1e300)), "rungs.0.ttft_ms.p95: maximum"},
		"latency of text":      {changed(t, p95("5")), "rungs.0.ttft_ms.p95: got string"},
		"negative throughput":  {changed(t, func(_, rung map[string]any) { rung["request_throughput_per_s"] = -1 }), "request_throughput_per_s: minimum"},
		"key in another case":  {strings.Replace(good, `"connections"`, `"Connections": -1, "x"`, 1), "connections: minimum"},
		"number without range": {strings.Replace(good, `"seed": 42`, `"seed": 1e400`, 1), "seed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bundle.Read(strings.NewReader(tt.text), "r.json")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if len(err.Error()) > 500 || strings.Contains(err.Error(), "Go ") {
				t.Errorf("the message is not for a reader: %v", err)
			}
		})
	}
}

func TestReadTakesAByteOrderMark(t *testing.T) {
	all, err := bundle.Read(strings.NewReader("\ufeff"+encoded(t, bundletest.Result())), "r.json")
	if err != nil || len(all) != 1 {
		t.Errorf("%d results, %v", len(all), err)
	}
}

// endless gives zeros without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestReadEndsOnEndlessInput(t *testing.T) {
	if _, err := bundle.Read(endless{}, "/dev/zero"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
}

func TestVerifyOfAFileAsksForItsDirectory(t *testing.T) {
	findings := bundle.Verify(filepath.Join(write(t, bundletest.Result()), bundle.ResultFile))
	if len(findings) != 1 || !strings.Contains(findings[0].Error(), "name the directory of the bundle") {
		t.Errorf("got %v", findings)
	}
}

func TestOpenNeedsOneResult(t *testing.T) {
	one := encoded(t, bundletest.Result())
	for text, want := range map[string]string{
		"[]":                        "holds 0 results, one is needed",
		"[" + one + "," + one + "]": "holds 2 results, one is needed",
	} {
		file := filepath.Join(t.TempDir(), "r.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bundle.Open(file); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
