package importer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestRealInferencePerf holds what is imported to what encoding/json reads in
// files that inference-perf wrote.
func TestRealInferencePerf(t *testing.T) {
	paths, err := filepath.Glob("testdata/real/inference-perf-*.json")
	if err != nil || len(paths) != 4 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = filepath.Join("real", filepath.Base(path))
	}
	r := load(t, names...)
	for i, path := range paths {
		var source struct {
			LoadSummary struct {
				RequestedRate float64 `json:"requested_rate"`
			} `json:"load_summary"`
			Successes struct {
				Count      int64
				Throughput struct {
					Requests float64 `json:"requests_per_sec"`
					Output   float64 `json:"output_tokens_per_sec"`
				}
				Latency map[string]struct{ Mean float64 }
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &source); err != nil {
			t.Fatal(err)
		}
		g, s := &r.Rungs[i], source.Successes
		near(t, path+": rate", g.RatePerS, source.LoadSummary.RequestedRate)
		near(t, path+": req/s", g.RequestThroughputPerS, s.Throughput.Requests)
		near(t, path+": tok/s", g.OutputTokenThroughputPerS, s.Throughput.Output)
		near(t, path+": TTFT", g.TTFT.Mean, 1000*s.Latency["time_to_first_token"].Mean)
		near(t, path+": E2E", g.E2E.Mean, 1000*s.Latency["request_latency"].Mean)
		near(t, path+": in flight", g.InFlightMean, s.Throughput.Requests*s.Latency["request_latency"].Mean)
		if g.Requests.Completed != s.Count || s.Count == 0 {
			t.Errorf("%s: %d completed, want %d", path, g.Requests.Completed, s.Count)
		}
	}
}
