package importer_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/importer"
	"github.com/headway-bench/headway/report/knee"
)

func files(names ...string) []string {
	for i := range names {
		names[i] = filepath.Join("testdata", names[i])
	}
	return names
}

func load(t *testing.T, names ...string) *bundle.Result {
	t.Helper()
	r, err := importer.Files(files(names...)...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := bundle.Validate(b); err != nil {
		t.Fatalf("the imported result is against the schema: %v", err)
	}
	if _, err := bundle.Read(bytes.NewReader(b), "imported"); err != nil {
		t.Fatalf("the imported result can't be opened: %v", err)
	}
	return r
}

// near holds a figure to a value of the source file, within 0.1 %. A negative
// want is unknown.
func near(t *testing.T, what string, got record.Value, want float64) {
	t.Helper()
	v, ok := got.Float()
	if want < 0 {
		if ok {
			t.Errorf("%s is %g, want unknown", what, v)
		}
		return
	}
	if !ok || math.Abs(v-want) > 0.001*want {
		t.Errorf("%s is %v (known %v), want %g", what, v, ok, want)
	}
}

const unknown = -1

func TestFormats(t *testing.T) {
	for name, tt := range map[string]struct {
		files                              []string
		tool, model                        string
		rungs                              int
		mode                               record.Mode
		load                               float64 // of the last rung: cap, or rate
		reqPerS, tokPerS, inFlight         float64
		ttftMean, ttftP95, icl, tpot, e2e  float64
		inputMean, outputMean, perUserMean float64
		completed, failed                  int64
	}{
		"vllm": {files: files("vllm_c8.json"), tool: "vllm-bench", model: "acme/Llama-3.1-8B", rungs: 1, mode: record.Closed, load: 8,
			reqPerS: 4.98, tokPerS: 637.44, inFlight: 4.98 * 1.604, ttftMean: 80, ttftP95: 95, icl: 24, tpot: 12, e2e: 1604,
			inputMean: 1024, outputMean: 128, perUserMean: unknown, completed: 498, failed: 2},
		"vllm, appended": {files: files("vllm_append.json"), tool: "vllm-bench", model: "acme/m", rungs: 2, mode: record.Closed, load: 256,
			reqPerS: 5.0505, tokPerS: 2585.8586, inFlight: 5.0505 * (118.9 + 511*23.64) / 1000, ttftMean: 118.9, ttftP95: unknown, icl: 23.64, tpot: 23.64, e2e: unknown,
			inputMean: 1024, outputMean: 512, perUserMean: unknown, completed: 100},
		"tensorrt-llm serve": {files: files("trtllm_serve.json"), tool: "tensorrt-llm-serve", model: "acme/m", rungs: 1, mode: record.Closed, load: 16,
			reqPerS: 4, tokPerS: 400, inFlight: 15.6, ttftMean: 60, ttftP95: unknown, icl: 38, tpot: 38, e2e: 3900, inputMean: 100, outputMean: 100, perUserMean: unknown, completed: 200},
		"inferencex, in seconds": {files: files("inferencex.json"), tool: "inferencex", model: "acme/m", rungs: 1, mode: record.Closed, load: 32,
			reqPerS: 5, tokPerS: 640, inFlight: 31, ttftMean: 430, ttftP95: unknown, icl: 42.9, tpot: 42.9, e2e: 6200, inputMean: 1024, outputMean: 128, perUserMean: unknown, completed: 320},
		"sglang": {files: files("sglang.jsonl"), tool: "sglang-bench-serving", model: "acme/m", rungs: 2, mode: record.Closed, load: 4,
			reqPerS: 2.5, tokPerS: 320, inFlight: 3.95, ttftMean: 50, ttftP95: unknown, icl: 12, tpot: 12, e2e: 1580, inputMean: 1024, outputMean: 128, perUserMean: unknown, completed: 250},
		"trtllm-bench": {files: files("trtllm_bench.json"), tool: "trtllm-bench", model: "acme/m", rungs: 1, mode: record.Offline,
			reqPerS: 20, tokPerS: 2560, inFlight: 31.5, ttftMean: 60, ttftP95: 75, icl: unknown, tpot: 11.93, e2e: 1575, inputMean: 128, outputMean: 128, perUserMean: 84, completed: 1000},
		"guidellm": {files: files("guidellm.json"), tool: "guidellm", model: "acme/m", rungs: 5, mode: record.Closed, load: 16,
			reqPerS: 8, tokPerS: 1024, inFlight: 16, ttftMean: 60, ttftP95: 66, icl: unknown, tpot: 1940.0 / 127, e2e: 2000, inputMean: 512, outputMean: 128, perUserMean: unknown, completed: 300, failed: 3},
		"guidellm, CSV": {files: files("guidellm.csv"), tool: "guidellm", model: "acme/m", rungs: 2, mode: record.Closed, load: 4,
			reqPerS: 3.2, tokPerS: 409.6, inFlight: 4, ttftMean: 45, ttftP95: 49.5, icl: unknown, tpot: 1205.0 / 127, e2e: 1250, inputMean: unknown, outputMean: 128, perUserMean: unknown, completed: 300, failed: 3},
		"aiperf": {files: files("aiperf.json"), tool: "aiperf", model: "acme/m", rungs: 1, mode: record.Closed, load: 16,
			reqPerS: 8, tokPerS: 1024, inFlight: 15.92, ttftMean: 60, ttftP95: 66, icl: 15, tpot: 15.2, e2e: 1990, inputMean: 512, outputMean: 128, perUserMean: 65.9, completed: 480, failed: 2},
		"aiperf, records": {files: files("aiperf_records.jsonl"), tool: "aiperf-records", rungs: 1, mode: record.Closed, load: 4,
			reqPerS: 48 / 5.3, tokPerS: 48 * 31 / 5.3, inFlight: 48 * 0.4 / 5.3, ttftMean: 100, ttftP95: unknown, icl: 10, tpot: 10, e2e: 400, inputMean: 64, outputMean: 31, perUserMean: unknown, completed: 48, failed: 2},
		"genai-perf": {files: files("acme_genai_perf.json"), tool: "genai-perf", model: "acme/m", rungs: 1, mode: record.Closed, load: 16,
			reqPerS: 8, tokPerS: 1024, inFlight: 15.92, ttftMean: 60, ttftP95: 66, icl: unknown, tpot: 15.2, e2e: 1990, inputMean: 512, outputMean: 128, perUserMean: 65.9, completed: 480},
		"inference-perf": {files: files("stage_4_lifecycle_metrics.json", "stage_0_lifecycle_metrics.json", "stage_2_lifecycle_metrics.json", "stage_1_lifecycle_metrics.json", "stage_3_lifecycle_metrics.json"),
			tool: "inference-perf", rungs: 5, mode: record.Open, load: 186, reqPerS: 117.74, tokPerS: 117.74 * 62, inFlight: 117.74 * 3.74,
			ttftMean: 2110, ttftP95: 2321, icl: unknown, tpot: 1630.0 / 61, e2e: 3740, inputMean: 100, outputMean: 62, perUserMean: unknown, completed: 7064, failed: 2},
	} {
		t.Run(name, func(t *testing.T) {
			names := make([]string, len(tt.files))
			for i, f := range tt.files {
				names[i] = filepath.Base(f)
			}
			r := load(t, names...)
			if r.Imported.Tool != tt.tool || r.Server.ModelID != tt.model || len(r.Rungs) != tt.rungs {
				t.Fatalf("tool %q, model %q, %d rungs; want %q, %q, %d", r.Imported.Tool, r.Server.ModelID, len(r.Rungs), tt.tool, tt.model, tt.rungs)
			}
			g := r.Rungs[len(r.Rungs)-1]
			if g.Mode != tt.mode {
				t.Errorf("mode %s, want %s", g.Mode, tt.mode)
			}
			if got := g.RatePerS.Or(float64(g.Concurrency)); got != tt.load {
				t.Errorf("load %g, want %g", got, tt.load)
			}
			if g.Requests.Completed != tt.completed || g.Requests.Failed != tt.failed {
				t.Errorf("%d completed, %d failed; want %d, %d", g.Requests.Completed, g.Requests.Failed, tt.completed, tt.failed)
			}
			near(t, "req/s", g.RequestThroughputPerS, tt.reqPerS)
			near(t, "output tok/s", g.OutputTokenThroughputPerS, tt.tokPerS)
			near(t, "in flight", g.InFlightMean, tt.inFlight)
			near(t, "TTFT mean", g.TTFT.Mean, tt.ttftMean)
			near(t, "TTFT p95", g.TTFT.P95, tt.ttftP95)
			near(t, "ICL mean", g.ICL.Mean, tt.icl)
			near(t, "TPOT mean", g.TPOT.Mean, tt.tpot)
			near(t, "E2E mean", g.E2E.Mean, tt.e2e)
			near(t, "input tokens", g.InputTokens.Mean, tt.inputMean)
			near(t, "output tokens", g.OutputTokens.Mean, tt.outputMean)
			near(t, "tok/s a user", g.PerUserTokensPerS.Mean, tt.perUserMean)
			for _, key := range []string{"ttft_ms", "tpot_ms", "e2e_ms", "itl_ms", "in_flight_mean", "output_token_throughput_per_s"} {
				if r.Imported.Definitions[key] == "" {
					t.Errorf("no definition of %s", key)
				}
			}
		})
	}
}

// TestZeroIsNoData guards er0080/vllm-benchmarking, a run of which every
// request failed: 0.0 is never the best latency.
func TestZeroIsNoData(t *testing.T) {
	r := load(t, "vllm_failed.json")
	g := r.Rungs[0]
	if g.Verdict != record.Inconclusive || len(g.Reasons) != 1 || g.Reasons[0].Code != "no_completions" {
		t.Errorf("verdict %s with %v", g.Verdict, g.Reasons)
	}
	if g.Requests.Failed != 8 || g.Totals.Failed != 8 {
		t.Errorf("%d failed, want 8", g.Requests.Failed)
	}
	for name, v := range map[string]record.Value{"req/s": g.RequestThroughputPerS, "tok/s": g.OutputTokenThroughputPerS, "TTFT": g.TTFT.Mean, "TPOT": g.TPOT.Mean, "ICL": g.ICL.Mean} {
		near(t, name, v, unknown)
	}
}

func TestDetailsLeaveOutRequestsWithoutTokens(t *testing.T) {
	g := load(t, "vllm_detailed.json").Rungs[0]
	near(t, "TTFT mean", g.TTFT.Mean, 100)
	near(t, "TPOT mean", g.TPOT.Mean, (9*20+30)/10.0)
	near(t, "E2E mean", g.E2E.Mean, (9*140+160)/10.0)
	if g.Requests.Completed != 10 || g.Requests.Failed != 2 || g.Requests.Failures["no_output"] != 1 {
		t.Errorf("%+v: a success without a token counts as no_output", g.Requests)
	}
}

func TestCapIsNotWhatWasReached(t *testing.T) {
	r := load(t, "vllm_append.json")
	last := r.Rungs[1]
	if last.Concurrency != 256 || last.InFlightMean.Or(0) > 70 {
		t.Errorf("cap %d, in flight %v", last.Concurrency, last.InFlightMean.Or(-1))
	}
	found := map[string]bool{}
	for _, w := range last.Warnings {
		found[w.Code] = true
	}
	for _, code := range []string{"cap_not_reached", "e2e_estimated", "rate_limited"} {
		if !found[code] {
			t.Errorf("no warning %s in %v", code, last.Warnings)
		}
	}
}

func TestGoodputKeyWithColon(t *testing.T) {
	r := load(t, "vllm_append.json")
	near(t, "goodput", r.Rungs[0].GoodputReqPerS, 1.5)
	near(t, "goodput that is null", r.Rungs[1].GoodputReqPerS, unknown)
}

func TestCancelledRunIsSaid(t *testing.T) {
	r := load(t, "aiperf_cancelled.json")
	if r.Status != bundle.Interrupted || r.Rungs[0].Verdict != record.Inconclusive {
		t.Errorf("status %s, verdict %s", r.Status, r.Rungs[0].Verdict)
	}
}

func TestFailureClasses(t *testing.T) {
	g := load(t, "aiperf_records.jsonl").Rungs[0]
	if g.Requests.Failures["http_5xx"] != 1 || g.Requests.Failures["no_output"] != 1 {
		t.Errorf("failures %v", g.Requests.Failures)
	}
}

func TestKneeOfImportedRates(t *testing.T) {
	r := load(t, "stage_0_lifecycle_metrics.json", "stage_1_lifecycle_metrics.json", "stage_2_lifecycle_metrics.json", "stage_3_lifecycle_metrics.json", "stage_4_lifecycle_metrics.json")
	if r.Knee.Status != knee.Found {
		t.Errorf("knee %s, want found", r.Knee.Status)
	}
}

func TestNoSecrets(t *testing.T) {
	for _, name := range []string{"guidellm.json", "aiperf.json"} {
		b, err := bundle.Encode(load(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("sesame")) {
			t.Errorf("the key in %s is in the result", name)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"empty":          {"", "empty"},
		"other JSON":     {`{"hello": 1}`, "not a result file"},
		"other CSV":      {"a,b,c\n1,2,3\n", "not a result file"},
		"text":           {"hello\n", "not a result file"},
		"cut":            {`{"request_throughput": 1, "output_throughput": 2, "completed": 3, "ttfts": [1, 2`, "line 1"},
		"array of texts": {`["a"]`, "an object is expected"},
		"deep":           {strings.Repeat(`{"a":`, 100), "nested deeper"},
		"beyond measure": {`{"model_id": "m", "num_prompts": 5000, "completed": 5000, "duration": 10.0, "request_throughput": 500, "output_throughput": 5, "mean_tpot_ms": 12, "p99_tpot_ms": 3.2e18}`, "rungs.0.tpot_ms.p99"},
		"empty guidellm": {`{"benchmarks": [{"metrics": {}}]}`, "requests_per_second"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := importer.Read(strings.NewReader(tt.text), "x")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want ...%s", err, tt.want)
			}
		})
	}
	if _, err := importer.Read(strings.NewReader(`{"hello": 1}`), "x"); !errors.Is(err, importer.ErrUnknownFormat) {
		t.Errorf("%v is not ErrUnknownFormat", err)
	}
	if _, err := importer.Files(files("vllm_c8.json", "aiperf.json")...); err == nil || !strings.Contains(err.Error(), "one by one") {
		t.Errorf("files of two tools: %v", err)
	}
	if _, err := importer.Files(files("vllm_c8.json", "vllm_append.json")...); err == nil || !strings.Contains(err.Error(), "different models") {
		t.Errorf("files of two models: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range seeds {
		if b, err := os.ReadFile(path); err == nil {
			f.Add(b)
		}
	}
	f.Add([]byte(`[{"request_throughput":1e999}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := importer.Read(bytes.NewReader(b), "fuzz")
		if err != nil {
			return
		}
		out, err := bundle.Encode(r)
		if err != nil {
			t.Fatalf("an accepted file can't be written: %v", err)
		}
		if err := bundle.Validate(out); err != nil {
			t.Fatalf("an accepted file gives a result against the schema: %v", err)
		}
	})
}

// repeated reads s n times.
type repeated struct {
	s  string
	n  int
	at int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	c := copy(p, r.s[r.at:])
	if r.at += c; r.at == len(r.s) {
		r.at, r.n = 0, r.n-1
	}
	return c, nil
}

// TestDetailsTakeNoMemory reads 32 MiB of texts and of gaps between chunks in
// a small part of it.
func TestDetailsTakeNoMemory(t *testing.T) {
	const requests = 20_000
	text := `"` + strings.Repeat("an answer that nobody reads ", 40) + `",`
	file := io.MultiReader(
		strings.NewReader(`{"backend":"vllm","model_id":"m","completed":20001,"failed":0,"num_prompts":20001,"request_throughput":10,"output_throughput":20,"duration":2000,"max_concurrency":2,"generated_texts":[`),
		&repeated{s: text, n: requests}, strings.NewReader(`""],"ttfts":[`),
		&repeated{s: "0.25,", n: requests}, strings.NewReader(`0.25],"output_lens":[`),
		&repeated{s: "101,", n: requests}, strings.NewReader(`101],"itls":[`),
		&repeated{s: "[" + strings.Repeat("0.01,", 99) + "0.01],", n: requests}, strings.NewReader("["+strings.Repeat("0.01,", 99)+"0.01]]}"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := importer.Read(file, "big.json")
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	near(t, "TPOT", r.Rungs[0].TPOT.Mean, 10)
	near(t, "E2E p99", r.Rungs[0].E2E.P99, 1250)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 16 {
		t.Errorf("%d MiB were taken", got)
	}
}
