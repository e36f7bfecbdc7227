package telemetry

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// told is a reading of which only the known quantities are given.
type told struct {
	values map[quantity]float64
	gpus   []gpu
	block  int
	kinds  []string
	ended  float64 // NaN of pages that count
}

func tell(r reading) told {
	out := told{values: map[quantity]float64{}, gpus: r.gpus, block: r.block, kinds: r.kinds, ended: r.ended}
	for q, v := range r.values {
		if !math.IsNaN(v) {
			out.values[quantity(q)] = v
		}
	}
	return out
}

func diff(want, got told) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(told{}, gpu{}), cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-9, 0), cmpopts.EquateEmpty())
}

// TestPages reads a page of each server; see testdata/README.md for which are
// made by hand.
func TestPages(t *testing.T) {
	counting := math.NaN()
	for _, c := range []struct {
		file string
		want told
	}{
		{"vllm.txt", told{kinds: []string{"vllm"}, block: 32, ended: counting, values: map[quantity]float64{
			running: 3, waiting: 4, kvUsage: 1, preemptions: 2, requests: 7, outputTokens: 920, lookedUp: 800, found: 200,
			ttftSum: 1.75, ttftCount: 7, queueSum: 0.35, queueCount: 7, draftTokens: 50, acceptedTokens: 10,
		}}},
		{"vllm-old.txt", told{kinds: []string{"vllm"}, ended: counting, values: map[quantity]float64{
			running: 3, kvUsage: 0.5, preemptions: 1, requests: 9, outputTokens: 90, lookedUp: 40, found: 10,
		}}},
		{"trtllm.txt", told{kinds: []string{"tensorrt-llm"}, ended: counting, values: map[quantity]float64{
			running: 5, waiting: 2, kvUsage: 0.75, hitRate: 0.1, requests: 10, outputTokens: 640, lookedUp: 100, found: 25,
			ttftSum: 0.5, ttftCount: 10, queueSum: 0.02, queueCount: 10, draftTokens: 0,
		}}},
		{"trtllm.json", told{kinds: []string{"tensorrt-llm"}, block: 64, ended: 3, values: map[quantity]float64{
			running: 3.5, waiting: 0.5, kvUsage: 0.4, lookedUp: 50, found: 5,
		}}},
		{"sglang.txt", told{kinds: []string{"sglang"}, ended: counting, values: map[quantity]float64{
			running: 7, waiting: 3, kvUsage: 0.28, hitRate: 0.2, preemptions: 2, requests: 30, outputTokens: 300, ttftSum: 3, ttftCount: 30,
		}}},
		{"tgi.txt", told{kinds: []string{"tgi"}, ended: counting, values: map[quantity]float64{
			running: 6, waiting: 2, requests: 11, outputTokens: 352, queueSum: 0.22, queueCount: 11,
		}}},
		{"llamacpp.txt", told{kinds: []string{"llama.cpp"}, ended: counting, values: map[quantity]float64{
			running: 4, waiting: 2, outputTokens: 1150, lookedUp: 1000, found: 610, draftTokens: 0, acceptedTokens: 0,
		}}},
		{"triton.txt", told{kinds: []string{"triton"}, ended: counting, gpus: []gpu{{"GPU-aaaa", 210.5, 0.6, 8192}}, values: map[quantity]float64{
			running: 5, waiting: 3, kvUsage: 0.4, requests: 8, queueSum: 0.048, queueCount: 24,
		}}},
		{"dcgm.txt", told{kinds: []string{"dcgm"}, ended: counting, gpus: []gpu{
			{"GPU-aaaa", 300.5, 0.9, 70000}, {"GPU-bbbb", 100, math.NaN(), 500},
		}}},
	} {
		t.Run(c.file, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join("testdata", c.file))
			if err != nil {
				t.Fatal(err)
			}
			got, err := parsePage(page)
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(c.want, tell(got)); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// TestLook says what a source tells of.
func TestLook(t *testing.T) {
	for file, want := range map[string]Look{
		"vllm.txt": {Kinds: []string{"vllm"}, KVTokens: 160,
			Tells: []string{"running", "waiting", "KV cache", "preemptions", "requests", "output tokens", "prefix cache", "drafts", "TTFT", "queue time"}},
		"triton.txt": {Kinds: []string{"triton"},
			Tells: []string{"running", "waiting", "KV cache", "requests", "queue time", "power", "utilisation", "memory"}},
	} {
		page, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Page(file, script(string(page))).Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: -want +got\n%s", file, d)
		}
	}
}

func TestOddPages(t *testing.T) {
	for _, c := range []struct {
		name, page string
		ok         bool
		kinds      int
	}{
		{"a line end", "\n", true, 0},
		{"no answer", "", false, 0},
		{"no known name", "up 1\n", true, 0},
		{"an error page", "<html>502</html>\n", false, 0},
		{"a JSON object", `{"detail":"Not Found"}`, false, 0},
		{"an empty list", "[]", true, 1},
		{"a list of no iterations", `["a"]`, false, 0},
		{"cut short", "vllm:num_requests_running{model_name=\"d", false, 0},
		{"a huge value", "vllm:num_requests_running +Inf\n", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Page(c.name, script(c.page)).Look(t.Context())
			if (err == nil) != c.ok || len(got.Kinds) != c.kinds {
				t.Errorf("kinds %v, error %v", got.Kinds, err)
			}
		})
	}
}

func TestSMI(t *testing.T) {
	got, err := parseSMI([]byte("GPU-aaaa, 612.30, 98, 70211\nGPU-bbbb, [N/A], 0, 4\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := told{kinds: []string{"nvidia-smi"}, ended: math.NaN(), gpus: []gpu{{"GPU-aaaa", 612.3, 0.98, 70211}, {"GPU-bbbb", math.NaN(), 0, 4}}}
	if d := diff(want, tell(got)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if _, err := parseSMI([]byte("No devices were found\n")); err == nil {
		t.Error("a message is taken for a device")
	}
}

// absurd are pages whose figures no server can have measured.
var absurd = []string{
	"vllm:num_requests_running{engine=\"0\"} 1e308\nvllm:num_requests_running{engine=\"1\"} 1e308\nvllm:kv_cache_usage_perc -5\nvllm:generation_tokens_total 1e300\n",
	`[{"numActiveRequests":-1,"numQueuedRequests":1e308,"kvCacheStats":{"maxNumBlocks":5e-324,"usedNumBlocks":1,"reusedBlocks":1e308,"missedBlocks":1e308}},{"numQueuedRequests":1e308}]`,
}

func TestAbsurdPages(t *testing.T) {
	for _, page := range absurd {
		r, err := parsePage([]byte(page))
		if got := tell(r).values; err != nil || len(got) > 0 {
			t.Errorf("%s: %v, %v", page, got, err)
		}
	}
	var many strings.Builder
	for i := range 2 * maxDevices {
		fmt.Fprintf(&many, "DCGM_FI_DEV_POWER_USAGE{UUID=\"GPU-%d\"} 5\n", i)
	}
	if r, err := parsePage([]byte(many.String())); err != nil || len(r.gpus) != maxDevices {
		t.Errorf("%d devices, %v", len(r.gpus), err)
	}
}

// FuzzPage holds every page to two rules: what is known can be, and a page
// that is read twice tells the same.
func FuzzPage(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		if page, err := os.ReadFile(name); err == nil {
			f.Add(page)
		}
	}
	for _, page := range absurd {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		r, err := parsePage(page)
		if err != nil {
			return
		}
		for q, v := range tell(r).values {
			if !(v >= 0 && v < blank) {
				t.Errorf("quantity %d is %v", q, v)
			}
		}
		again, err := parsePage(page)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(tell(r), tell(again)); d != "" {
			t.Errorf("read twice: %s", d)
		}
	})
}
