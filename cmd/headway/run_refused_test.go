package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends/tokenizer"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
)

// smallServer is a server of a model with few token ids and no tokenizer route.
// It refuses every prompt of ids, and answers texts with as many tokens as asked.
func smallServer(t *testing.T, owner string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"object":"list","data":[{"id":"small","object":"model","owned_by":%q}]}`, owner)
	})
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Prompt    json.RawMessage `json:"prompt"`
			MaxTokens int             `json:"max_tokens"`
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&asked); err != nil || asked.Prompt[0] != '"' {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"message":"id 1500 exceeds the vocabulary of 259","type":"BadRequestError","code":400}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range asked.MaxTokens {
			fmt.Fprint(w, "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"text\":\" tick\",\"finish_reason\":null}]}\n\n")
		}
		fmt.Fprintf(w, "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n"+
			"data: {\"id\":\"a\",\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", asked.MaxTokens)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// runSmall runs a short ladder and returns what it prints and leaves.
func runSmall(t *testing.T, url string, flags ...string) (code int, stdout, stderr string, r *bundle.Result) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "b")
	args := append([]string{"run", "--target", url, "--endpoint", "completions", "--input-tokens", "16", "--output-tokens", "4",
		"--concurrency", "1,2", "--warmup", "100ms", "--measure", "200ms", "--min-requests", "3", "--out", dir, "--no-progress"}, flags...)
	var out, told bytes.Buffer
	code = run(t.Context(), args, nil, &out, &told)
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatalf("exit %d and no bundle: %v\n%s", code, err, told.String())
	}
	if found := bundle.Verify(b.Dir); len(found) > 0 {
		t.Error(found)
	}
	return code, out.String(), told.String(), b.Result
}

// believed wants exit 0, but for a run of which this machine read every rung too
// late.
func believed(t *testing.T, code int, r *bundle.Result) {
	t.Helper()
	late := !slices.ContainsFunc(r.Rungs, func(g record.Rung) bool { return g.Verdict != record.Invalid })
	if code != exitPassed && !(late && code == exitNoResult) {
		t.Errorf("exit %d, and every rung is invalid: %v", code, late)
	}
}

// wants looks for words in a text that may be wrapped.
func wants(t *testing.T, where, text string, words ...string) {
	t.Helper()
	text = strings.Join(strings.Fields(text), " ")
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q:\n%s", where, w, text)
		}
	}
}

// A run of which every request is refused leaves its bundle and says what the
// server said and what may help.
func TestEveryRequestRefused(t *testing.T) {
	s := smallServer(t, "vllm")
	code, stdout, stderr, r := runSmall(t, s.URL)
	if code != exitNoResult {
		t.Errorf("exit %d, want %d", code, exitNoResult)
	}
	said := s.URL + "/v1/completions: HTTP 400 Bad Request: id 1500 exceeds the vocabulary of 259"
	wants(t, "the table", stdout, "errors: http_4xx", said, "--prompt text, or --tokenizer DIR|FILE")
	wants(t, "stderr", stderr, "errors: http_4xx", "no request completed: http_4xx", said)
	if !r.Warned("token_ids_refused") || r.Rungs[0].Requests.FirstErrors["http_4xx"] != said {
		t.Errorf("warnings %v, first errors %v", r.Warnings, r.Rungs[0].Requests.FirstErrors)
	}

	code, _, stderr, r = runSmall(t, s.URL, "--prompt", "text")
	believed(t, code, r)
	if r.Rungs[0].Requests.Completed == 0 || r.Warned("token_ids_refused") || r.Warned(bundle.LengthNotForced) {
		t.Errorf("with --prompt text: %+v, warnings %v\n%s", r.Rungs[0].Requests, r.Warnings, stderr)
	}
}

// A dialect without a field that forces the output length is not said to force
// it.
func TestLengthNotForced(t *testing.T) {
	s := smallServer(t, "someone")
	code, stdout, stderr, r := runSmall(t, s.URL, "--backend", "openai", "--prompt", "text")
	believed(t, code, r)
	if r.Rungs[0].Requests.Completed == 0 || !r.Warned(bundle.LengthNotForced) {
		t.Fatalf("%+v, warnings %v\n%s", r.Rungs[0].Requests, r.Warnings, stderr)
	}
	if !r.Profile.Workload.Sampling.ForceLength || r.Sampling().ForceLength {
		t.Errorf("asked for a forced length: %t, was forced: %t", r.Profile.Workload.Sampling.ForceLength, r.Sampling().ForceLength)
	}
	wants(t, "the table", stdout, "length not forced", "output lengths are upper limits")
	if strings.Contains(stdout, "length forced") {
		t.Errorf("the table says that the length was forced:\n%s", stdout)
	}
}

// A server that tells no usage has its answers counted by the tokenizer, on the
// joined text.
func TestTokenizerCountsAnswers(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"mute","object":"model","owned_by":"someone"}]}`)
	})
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			fmt.Fprint(w, "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"text\":\"123456789\",\"finish_reason\":null}]}\n\n")
		}
		fmt.Fprint(w, "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n")
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	dir := filepath.Join("..", "..", "testdata", "tokenizers", "llama-3")
	own, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := own.Count("123456789123456789", false)
	_, _, stderr, r := runSmall(t, s.URL, "--backend", "openai", "--prompt", "text", "--output-tokens", fmt.Sprint(want), "--tokenizer", dir)
	g := r.Rungs[0]
	if n, ok := g.OutputTokens.Mean.Float(); g.Tokens.Source != "tokenizer" || !ok || n != float64(want) {
		t.Errorf("%v output tokens a request by %q, want %d by the tokenizer\n%s", g.OutputTokens.Mean, g.Tokens.Source, want, stderr)
	}
}
