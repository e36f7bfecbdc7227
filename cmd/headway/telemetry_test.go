package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// vllmPage is vLLM's page after n requests of three tokens. Each counter has a
// twin named _created, and a histogram has a name that ends like a counter's.
func vllmPage(n int64) string {
	return fmt.Sprintf(`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 0
# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="length",model_name="m"} %d
vllm:request_success_total{finished_reason="abort",model_name="m"} 0
# TYPE vllm:request_success_created gauge
vllm:request_success_created{finished_reason="length",model_name="m"} 1.7e+09
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="m"} %d
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{model_name="m"} 1.7e+09
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{le="+Inf",model_name="m"} 999
vllm:iteration_tokens_total_count{model_name="m"} 999
vllm:iteration_tokens_total_sum{model_name="m"} 99999
`, n, 3*n)
}

// llamaPage is llama-server's page after n requests of three tokens, whose
// prompts of 36 tokens were cached but for one; its count of prompt tokens
// leaves the cached ones out, and it calls a maximum a counter.
func llamaPage(n int64) string {
	return fmt.Sprintf(`# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total %d
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total %d
# TYPE llamacpp:prompt_tokens_cached_total counter
llamacpp:prompt_tokens_cached_total %d
# TYPE llamacpp:n_tokens_max counter
llamacpp:n_tokens_max 4096
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 0
`, 3*n, n, 35*n)
}

// TestTelemetryOfARung reads the pages of a server while a rung runs: what it
// counts is in the result and agrees with what the client counts.
func TestTelemetryOfARung(t *testing.T) {
	without := func(n int64) string { // inference-perf#455: older pages have no _total
		return strings.NewReplacer("request_success_total", "request_success", "generation_tokens_total", "generation_tokens").Replace(vllmPage(n))
	}
	for _, c := range []struct {
		name, owner string
		page        func(n int64) string
		requests    bool // it counts them
		cached      float64
		warning     string
		gives       bool // the client gives every request up at its first token
	}{
		{"inference-perf#455 counters with _total", "vllm", vllmPage, true, math.NaN(), "", false},
		{"inference-perf#455 counters without", "vllm", without, true, math.NaN(), "", false},
		{"llama-server leaves cached prompt tokens out", "llamacpp", llamaPage, false, 35. / 36, "", false},
		{"a server that counts another client's tokens too", "vllm", func(n int64) string { return vllmPage(2 * n) }, true, math.NaN(), "server_requests server_output_tokens", false},
		{"vLLM: what a client gives up is in no count of the server's", "vllm", vllmPage, true, math.NaN(), "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			const asked = 20
			var answered atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/metrics":
					io.WriteString(w, c.page(answered.Load()))
				case r.URL.Path == "/v1/models":
					fmt.Fprintf(w, `{"data":[{"id":"m","owned_by":%q}]}`, c.owner)
				case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/completions"):
					w.Header().Set("Content-Type", "text/event-stream")
					if c.gives {
						io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
						w.(http.Flusher).Flush()
						<-r.Context().Done()
						return
					}
					<-time.After(10 * time.Millisecond) // so that the window has scrapes near both its ends
					answered.Add(1)
					for _, text := range []string{"a", "b", "c"} {
						fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text)
					}
					io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"+
						"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":36,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
				default:
					http.NotFound(w, r)
				}
			}))
			defer s.Close()
			options := connect.Options{URL: s.URL}
			client, err := connect.Open(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			p := &profiles.Profile{
				Workload: profiles.Workload{InputTokens: profiles.Length{Kind: "fixed", Value: 36}, OutputTokens: profiles.Length{Kind: "fixed", Value: 3}, Prompt: "text"},
				Load:     profiles.Load{Offline: &profiles.OfflineLoad{Requests: asked, MaxInFlight: 1}},
				Stage:    profiles.Stage{Drain: profiles.Duration(time.Minute), Repeats: 1, Timeout: profiles.Duration(time.Minute)},
			}
			good, times := int64(asked), 1.
			if c.gives {
				p.Workload.Cancel, good = profiles.Cancel{AfterTokens: 1, Share: 1}, 0
			}
			source, err := prompt.New(t.Context(), prompt.Config{Workload: &p.Workload, Client: client, Run: "r"})
			if err != nil {
				t.Fatal(err)
			}
			watched, err := newObserver(t.Context(), options, client.Server(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer watched.close()
			plan, err := loadgen.NewPlan(p, 1)
			if err != nil {
				t.Fatal(err)
			}
			g := &loadgen.Generator{Client: client, Source: source, RunID: "r", Observe: watched.observe}
			r, _, err := g.Run(t.Context(), plan.Rungs[0])
			if err != nil {
				t.Fatal(err)
			}
			told := r.Telemetry
			if r.Totals.Sent != asked || r.Totals.Completed != good || r.Requests.Cancelled != asked-good || r.Requests.Failed != 0 || told == nil || told.Scrapes < 2 || told.ScrapeFailures != 0 {
				t.Fatalf("totals %+v, telemetry %+v", r.Totals, told)
			}
			if c.warning != "" {
				times = 2
			}
			wantTold(t, "output tokens", told.ServerOutputTokens, times*3*float64(good))
			if c.requests {
				wantTold(t, "requests", told.ServerRequests, times*float64(good))
			} else {
				wantTold(t, "requests", told.ServerRequests, math.NaN())
			}
			wantTold(t, "cached", told.PrefixCacheHitRatio, c.cached)
			var codes []string
			for _, w := range r.Warnings {
				if strings.HasPrefix(w.Code, "server_") {
					codes = append(codes, w.Code)
				}
			}
			if good > 0 && r.Totals.OutputTokens != 3*good {
				t.Errorf("%d output tokens", r.Totals.OutputTokens)
			}
			if got := strings.Join(codes, " "); got != c.warning {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}

// wantTold holds a value to what is wanted, NaN for unknown.
func wantTold(t *testing.T, name string, v record.Value, want float64) {
	t.Helper()
	if got, ok := v.Float(); ok == math.IsNaN(want) || ok && math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %v, want %v", name, v, want)
	}
}
