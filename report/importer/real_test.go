package importer_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/compare"
	"github.com/headway-bench/headway/report/gate"
	"github.com/headway-bench/headway/report/knee"
)

// vllmLoads are the --max-concurrency of the runs of vLLM bench, against 8
// slots.
var vllmLoads = []int{1, 2, 4, 8, 16, 32}

func vllmFiles() []string {
	var names []string
	for _, load := range vllmLoads {
		names = append(names, fmt.Sprintf("real/vllm-bench-0.32.0_c%d.json", load))
	}
	return names
}

// TestRealVLLMBench holds what is imported to what encoding/json reads in files
// that vLLM bench wrote, one of them in detail.
func TestRealVLLMBench(t *testing.T) {
	r := load(t, vllmFiles()...)
	if len(r.Rungs) != len(vllmLoads) || r.Imported.Tool != "vllm-bench" || r.Server.ModelID != "truth" || r.Server.Engine != "" {
		t.Fatalf("%d rungs by %s, model %q, engine %q", len(r.Rungs), r.Imported.Tool, r.Server.ModelID, r.Server.Engine)
	}
	for i, name := range vllmFiles() {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var source struct {
			Completed         int64
			RequestThroughput float64 `json:"request_throughput"`
			OutputThroughput  float64 `json:"output_throughput"`
			TTFT              float64 `json:"mean_ttft_ms"`
			TPOT              float64 `json:"mean_tpot_ms"`
			ITL               float64 `json:"mean_itl_ms"`
			E2E               float64 `json:"mean_e2el_ms"`
		}
		if err := json.Unmarshal(b, &source); err != nil {
			t.Fatal(err)
		}
		g := &r.Rungs[i]
		if g.Mode != record.Closed || g.Concurrency != vllmLoads[i] || g.Requests.Completed != source.Completed || g.Requests.Failed != 0 {
			t.Errorf("%s: %s, concurrency %d, %+v", name, g.Mode, g.Concurrency, g.Requests)
		}
		near(t, name+": req/s", g.RequestThroughputPerS, source.RequestThroughput)
		near(t, name+": tok/s", g.OutputTokenThroughputPerS, source.OutputThroughput)
		near(t, name+": TTFT", g.TTFT.Mean, source.TTFT)
		near(t, name+": TPOT", g.TPOT.Mean, source.TPOT)
		near(t, name+": ICL", g.ICL.Mean, source.ITL)
		near(t, name+": E2E", g.E2E.Mean, source.E2E)
		near(t, name+": in flight", g.InFlightMean, source.RequestThroughput*source.E2E/1000)
	}
}

// What decides on a run of headway decides on an imported ladder: the knee of
// 8 slots, the operating point, a gate, a comparison.
func TestRealVLLMBenchDecides(t *testing.T) {
	r := load(t, vllmFiles()...)
	if at := r.Knee.InFlight.Or(0); r.Knee.Status != knee.Found || math.Abs(at/8-1) > 0.05 {
		t.Errorf("knee %s at %v, want 8 within 5 %%", r.Knee.Status, at)
	}
	slos, err := profiles.ParseSLOs("ttft_p50=50ms")
	if err != nil {
		t.Fatal(err)
	}
	if p := knee.OperatingPoint(r.Rungs, slos, knee.Economics{}); p.Concurrency.Or(0) != 8 {
		t.Errorf("operating point %s at %v, want 8", p.Status, p.Concurrency)
	}
	if r.SingleUser.Concurrency.Or(0) != 1 {
		t.Errorf("best speed of one user at %v, want 1", r.SingleUser.Concurrency)
	}
	run := []gate.Run{{Name: "vllm", Rungs: r.Rungs}}
	for load, want := range map[int]gate.Status{8: gate.Pass, 16: gate.Fail} {
		if v := gate.JudgeSLO(run, slos, gate.At{Concurrency: load}); v.Status != want {
			t.Errorf("the gate at %d: %s, want %s: %+v", load, v.Status, want, v)
		}
	}
	in := compare.Input{Name: "vllm", Profile: r.Profile, Rungs: r.Rungs, Definitions: r.Imported.Definitions}
	c, err := compare.Compare([]compare.Input{in, in}, compare.Options{SLOs: slos})
	if err != nil || c.Refused || c.Finding != compare.Same || len(c.AtLoad) != len(vllmLoads) {
		t.Errorf("compared with itself: refused %v, %s, %d loads, %v", c.Refused, c.Finding, len(c.AtLoad), err)
	}
}

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

// TestRealSGLang holds what is imported to the numbers of a file that SGLang's
// bench_serving wrote: its rate without a limit is a bare Infinity, which
// encoding/json refuses.
func TestRealSGLang(t *testing.T) {
	const name = "real/sglang-0.5.2.jsonl"
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"request_rate": Infinity`) {
		t.Fatal("the file has no bare Infinity")
	}
	r := load(t, name)
	if len(r.Rungs) != 2 || r.Imported.Tool != "sglang-bench-serving" || r.Server.Engine != "" ||
		r.Profile.Workload.InputTokens.String() != "16" || r.Profile.Workload.OutputTokens.String() != "32" {
		t.Fatalf("%d rungs by %s, engine %q, lengths %v", len(r.Rungs), r.Imported.Tool, r.Server.Engine, r.Profile.Workload)
	}
	for i, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(string(b), "Infinity", "null")), "\n") {
		var source struct {
			Cap               int `json:"max_concurrency"`
			Completed         int64
			RequestThroughput float64 `json:"request_throughput"`
			OutputThroughput  float64 `json:"output_throughput"`
			Concurrency       float64
			TTFT              float64 `json:"mean_ttft_ms"`
			TPOT              float64 `json:"mean_tpot_ms"`
			ITL               float64 `json:"mean_itl_ms"`
			E2E               float64 `json:"mean_e2e_latency_ms"`
		}
		if err := json.Unmarshal([]byte(line), &source); err != nil {
			t.Fatal(err)
		}
		g := &r.Rungs[i]
		if g.Mode != record.Closed || g.Concurrency != source.Cap || g.Requests.Completed != source.Completed || source.Completed == 0 {
			t.Errorf("%s, concurrency %d, %+v", g.Mode, g.Concurrency, g.Requests)
		}
		near(t, "req/s", g.RequestThroughputPerS, source.RequestThroughput)
		near(t, "tok/s", g.OutputTokenThroughputPerS, source.OutputThroughput)
		near(t, "in flight", g.InFlightMean, source.Concurrency)
		near(t, "TTFT", g.TTFT.Mean, source.TTFT)
		near(t, "TPOT", g.TPOT.Mean, source.TPOT)
		near(t, "ICL", g.ICL.Mean, source.ITL)
		near(t, "E2E", g.E2E.Mean, source.E2E)
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
