package reference_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// TestMetrics compares the whole page after a known load with a fixture, but
// for the times in it.
func TestMetrics(t *testing.T) {
	s := start(t, "slots=4,ttft=0s,itl=0s", nil)
	for range 3 {
		send(t, "POST", s.URL()+"/v1/completions", `{"prompt":[1,2,3],"max_tokens":5,"stream":true}`)
	}
	send(t, "POST", s.URL()+"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":2}`)
	send(t, "POST", s.URL()+"/v1/completions", `{"prompt":[99999]}`)
	r, page := send(t, "GET", s.URL()+"/metrics", "")
	if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("content type %q", got)
	}
	golden(t, "metrics", timed.ReplaceAllString(page, "$1 T"))
}

// timed are the lines whose values are times.
var timed = regexp.MustCompile(`(?m)^(\S+_seconds_(?:sum|bucket)\S*) \S+$`)

// TestOwnMetricsAreWellNamed lints the names that are ours; vLLM's have colons
// and are what they are.
func TestOwnMetricsAreWellNamed(t *testing.T) {
	s := start(t, "ttft=0s,itl=0s", nil)
	send(t, "POST", s.URL()+"/v1/completions", `{"prompt":[1],"max_tokens":2}`)
	_, page := send(t, "GET", s.URL()+"/metrics", "")
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	problems = slices.DeleteFunc(problems, func(p promlint.Problem) bool { return strings.HasPrefix(p.Metric, "vllm:") })
	if len(problems) > 0 {
		t.Errorf("%v", problems)
	}
}

// TestMetricNamesAreVLLMs lists what scrapers of vLLM look for.
func TestMetricNamesAreVLLMs(t *testing.T) {
	s := start(t, "ttft=0s,itl=0s", nil)
	_, page := send(t, "GET", s.URL()+"/metrics", "")
	for _, line := range []string{
		"# TYPE vllm:num_requests_running gauge",
		"# TYPE vllm:num_requests_waiting gauge",
		"# TYPE vllm:kv_cache_usage_perc gauge",
		"# TYPE vllm:prefix_cache_queries_total counter",
		"# TYPE vllm:prefix_cache_hits_total counter",
		"# TYPE vllm:num_preemptions_total counter",
		"# TYPE vllm:prompt_tokens_total counter",
		"# TYPE vllm:generation_tokens_total counter",
		"# TYPE vllm:request_success_total counter",
		"# TYPE vllm:time_to_first_token_seconds histogram",
		"# TYPE vllm:inter_token_latency_seconds histogram",
		"# TYPE vllm:e2e_request_latency_seconds histogram",
		"# TYPE vllm:request_queue_time_seconds histogram",
		"# TYPE vllm:request_prompt_tokens histogram",
		"# TYPE vllm:request_generation_tokens histogram",
		"# TYPE vllm:cache_config_info gauge",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("the page has no %q", line)
		}
	}
}
