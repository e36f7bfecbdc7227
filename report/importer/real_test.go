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

// TestRealAIPerf holds what is imported to what encoding/json reads in a file
// that AIPerf wrote.
func TestRealAIPerf(t *testing.T) {
	r := load(t, "real/aiperf-0.13.0.json")
	b, err := os.ReadFile("testdata/real/aiperf-0.13.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var source map[string]json.RawMessage
	if err := json.Unmarshal(b, &source); err != nil {
		t.Fatal(err)
	}
	avg := func(key string) float64 {
		var block struct{ Avg float64 }
		if err := json.Unmarshal(source[key], &block); err != nil || block.Avg == 0 {
			t.Fatalf("%s: %v", key, err)
		}
		return block.Avg
	}
	g := &r.Rungs[0]
	near(t, "req/s", g.RequestThroughputPerS, avg("request_throughput"))
	near(t, "tok/s", g.OutputTokenThroughputPerS, avg("output_token_throughput"))
	near(t, "TTFT", g.TTFT.Mean, avg("time_to_first_token"))
	near(t, "TPOT", g.TPOT.Mean, avg("inter_token_latency"))
	near(t, "E2E", g.E2E.Mean, avg("request_latency"))
	if g.Concurrency != 4 || r.Server.ModelID != "tiny-llama-3.1" || float64(g.Requests.Completed) != avg("request_count") {
		t.Errorf("concurrency %d, model %q, %d completed", g.Concurrency, r.Server.ModelID, g.Requests.Completed)
	}
}

// TestRealGuidellm holds both forms of guidellm's result to what encoding/json
// reads in the JSON.
func TestRealGuidellm(t *testing.T) {
	b, err := os.ReadFile("testdata/real/guidellm-0.8.1.json")
	if err != nil {
		t.Fatal(err)
	}
	var source struct {
		Benchmarks []struct {
			Metrics map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal(b, &source); err != nil {
		t.Fatal(err)
	}
	mean := func(key string) float64 {
		var metric struct{ Successful struct{ Mean float64 } }
		if err := json.Unmarshal(source.Benchmarks[0].Metrics[key], &metric); err != nil || metric.Successful.Mean == 0 {
			t.Fatalf("%s: %v", key, err)
		}
		return metric.Successful.Mean
	}
	for _, name := range []string{"real/guidellm-0.8.1.json", "real/guidellm-0.8.1.csv"} {
		g := &load(t, name).Rungs[0]
		near(t, name+": req/s", g.RequestThroughputPerS, mean("requests_per_second"))
		near(t, name+": tok/s", g.OutputTokenThroughputPerS, mean("output_tokens_per_second"))
		near(t, name+": in flight", g.InFlightMean, mean("request_concurrency"))
		near(t, name+": TTFT", g.TTFT.Mean, mean("time_to_first_token_ms"))
		near(t, name+": TPOT", g.TPOT.Mean, mean("inter_token_latency_ms"))
		near(t, name+": E2E", g.E2E.Mean, 1000*mean("request_latency"))
		if g.Concurrency != 4 || g.Requests.Completed != 81 || g.Requests.Censored != 4 {
			t.Errorf("%s: concurrency %d, %+v", name, g.Concurrency, g.Requests)
		}
	}
}
