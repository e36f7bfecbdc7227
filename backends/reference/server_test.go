package reference_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/reference/sim"
	"github.com/headway-bench/headway/backends/tokenizer"
)

var update = flag.Bool("update", false, "rewrite golden files")

// start serves a simulated tiny model by a law for the length of a test.
func start(t testing.TB, law string, change func(*reference.Config)) *reference.Server {
	t.Helper()
	l, err := sim.ParseLaw(law)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := sim.Model("tiny-llama-3.1")
	if err != nil {
		t.Fatal(err)
	}
	info := shape.Info("tiny")
	cfg := reference.Config{
		Executor: sim.NewLaw(l, info), Tokenizer: tokenizer.Bytes(info.VocabSize), MaxNumSeqs: l.Slots,
		KV: reference.KVConfig{Blocks: 4096, BlockSize: 16}, MaxModelLen: 32768, Version: "1.2.3",
	}
	if change != nil {
		change(&cfg)
	}
	s, err := reference.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// send makes a request and returns the answer with its body.
func send(t testing.TB, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(b)
}

// changing are the parts of an answer that differ from run to run.
var changing = []struct {
	pattern *regexp.Regexp
	fixed   string
}{
	{regexp.MustCompile(`(cmpl)-[0-9a-f]{16}`), "$1-0"},
	{regexp.MustCompile(`"created":\d+`), `"created":0`},
}

// golden compares an answer with the file of its name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	for _, c := range changing {
		got = c.pattern.ReplaceAllString(got, c.fixed)
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func TestAnswers(t *testing.T) {
	s := start(t, "ttft=0s,itl=0s", func(c *reference.Config) { c.MaxModelLen = 100 })
	const chat = `"messages":[{"role":"user","content":"Who goes there?"}]`
	for _, tt := range []struct {
		name, path, body string
		status           int
	}{
		{"completion", "/v1/completions", `{"model":"tiny","prompt":"Once upon","max_tokens":3,"seed":1}`, 200},
		{"completion_stream", "/v1/completions", `{"prompt":[1,2,3],"max_tokens":3,"seed":1,"stream":true,"stream_options":{"include_usage":true}}`, 200},
		{"completion_stream_ids", "/v1/completions", `{"prompt":[1,2,3],"max_tokens":2,"seed":1,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, 200},
		{"completion_batch", "/v1/completions", `{"prompt":["a",  "bc"],"max_tokens":2,"seed":1,"n":2}`, 200},
		{"completion_logprobs", "/v1/completions", `{"prompt":"a","max_tokens":2,"seed":1,"logprobs":2}`, 200},
		{"completion_stop", "/v1/completions", `{"prompt":"a","max_tokens":90,"seed":1,"stop":"wo"}`, 200},
		{"completion_stop_stream", "/v1/completions", `{"prompt":"a","max_tokens":90,"seed":1,"stream":true,"stop":["no such","ja vo"]}`, 200},
		{"chat", "/v1/chat/completions", `{` + chat + `,"max_completion_tokens":3,"seed":1}`, 200},
		{"chat_stream", "/v1/chat/completions", `{` + chat + `,"max_tokens":3,"seed":1,"stream":true}`, 200},
		{"chat_stream_continuous", "/v1/chat/completions", `{` + chat + `,"max_tokens":2,"seed":1,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, 200},
		{"chat_stream_logprobs", "/v1/chat/completions", `{` + chat + `,"max_tokens":2,"seed":1,"stream":true,"logprobs":true,"top_logprobs":1}`, 200},
		{"chat_parts", "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":1,"seed":1,"no_such_field":1}`, 200},
		{"tokenize", "/tokenize", `{"prompt":"hello"}`, 200},
		{"tokenize_plain", "/tokenize", `{"prompt":"hello","add_special_tokens":false}`, 200},
		{"tokenize_chat", "/tokenize", `{` + chat + `}`, 200},
		{"detokenize", "/detokenize", `{"tokens":[104,105,195,169,257,255]}`, 200},
		{"err_json", "/v1/completions", `{"prompt":"a",`, 400},
		{"err_type", "/v1/chat/completions", `{"messages":"hello"}`, 400},
		{"err_max_tokens_type", "/v1/completions", `{"prompt":"a","max_tokens":"3"}`, 400},
		{"err_max_tokens_zero", "/v1/completions", `{"prompt":"a","max_tokens":0}`, 400},
		{"err_max_tokens_large", "/v1/completions", `{"prompt":"a","max_tokens":99}`, 400},
		{"err_model", "/v1/completions", `{"model":"gpt","prompt":"a"}`, 404},
		{"err_too_long", "/v1/completions", `{"prompt":"` + strings.Repeat("a", 100) + `","max_tokens":1}`, 400},
		{"err_vocabulary", "/v1/completions", `{"prompt":[8192]}`, 400},
		{"err_no_prompt", "/v1/completions", `{}`, 400},
		{"err_empty_prompt", "/v1/completions", `{"prompt":[]}`, 400},
		{"err_mixed_prompt", "/v1/completions", `{"prompt":[1,"a"]}`, 400},
		{"err_no_messages", "/v1/chat/completions", `{"max_tokens":1}`, 400},
		{"err_image", "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400},
		{"err_stream_options", "/v1/completions", `{"prompt":"a","stream_options":{"include_usage":true}}`, 400},
		{"err_temperature", "/v1/completions", `{"prompt":"a","temperature":-1}`, 400},
		{"err_top_p", "/v1/completions", `{"prompt":"a","top_p":0}`, 400},
		{"err_top_k", "/v1/completions", `{"prompt":"a","top_k":-2}`, 400},
		{"err_n", "/v1/completions", `{"prompt":"a","n":0}`, 400},
		{"err_choices", "/v1/completions", `{"prompt":[[1]` + strings.Repeat(",[1]", 40) + `],"n":128}`, 400},
		{"err_min_tokens", "/v1/completions", `{"prompt":"a","max_tokens":2,"min_tokens":3}`, 400},
		{"err_stop", "/v1/completions", `{"prompt":"a","stop":[""]}`, 400},
		{"err_logprobs", "/v1/completions", `{"prompt":"a","logprobs":21}`, 400},
		{"err_top_logprobs", "/v1/chat/completions", `{` + chat + `,"top_logprobs":2}`, 400},
		{"err_path", "/v1/nope", `{}`, 404},
		{"err_method", "/v1/models", `{}`, 405},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, body := send(t, "POST", s.URL()+tt.path, tt.body)
			if r.StatusCode != tt.status {
				t.Errorf("status %d, want %d", r.StatusCode, tt.status)
			}
			want := "application/json"
			if strings.Contains(tt.body, `"stream":true`) {
				want = "text/event-stream; charset=utf-8"
			} else if !json.Valid([]byte(body)) {
				t.Errorf("the body is not JSON: %s", body)
			}
			if got := r.Header.Get("Content-Type"); got != want {
				t.Errorf("content type %q, want %q", got, want)
			}
			golden(t, tt.name, body)
		})
	}
}

func TestDescriptions(t *testing.T) {
	s := start(t, "slots=2,ttft=5ms,itl=1ms", nil)
	for path, want := range map[string]string{
		"/health":    "",
		"/version":   `{"device":"law slots=2,ttft=5ms,itl=1ms","engine":"headway","executor":"sim","simulated":true,"version":"1.2.3"}`,
		"/v1/models": `{"data":[{"created":0,"device":"law slots=2,ttft=5ms,itl=1ms","executor":"sim","id":"tiny","max_model_len":32768,"object":"model","owned_by":"headway","parent":null,"root":"tiny","simulated":true}],"object":"list"}`,
	} {
		r, body := send(t, "GET", s.URL()+path, "")
		body = changing[1].pattern.ReplaceAllString(body, changing[1].fixed)
		if r.StatusCode != 200 || body != want {
			t.Errorf("%s gave %d %s, want %s", path, r.StatusCode, body, want)
		}
		if r, body := send(t, "HEAD", s.URL()+path, ""); r.StatusCode != 200 || body != "" {
			t.Errorf("HEAD %s gave %d with %q", path, r.StatusCode, body)
		}
	}
}

func TestKeyIsAskedFor(t *testing.T) {
	s := start(t, "ttft=0s,itl=0s", func(c *reference.Config) { c.APIKey = "sesame" })
	for _, tt := range []struct {
		path, key string
		status    int
	}{
		{"/v1/models", "", 401}, {"/v1/models", "Bearer nope", 401}, {"/v1/models", "sesame", 401},
		{"/v1/models", "Bearer sesame", 200}, {"/health", "", 200}, {"/metrics", "", 200},
	} {
		if r, body := send(t, "GET", s.URL()+tt.path, "", "Authorization", tt.key); r.StatusCode != tt.status || strings.Contains(body, "sesame") {
			t.Errorf("%s with key %q gave %d %s, want %d", tt.path, tt.key, r.StatusCode, body, tt.status)
		}
	}
}

// TestDisconnectFreesTheSlot: the first request would hold the only slot for
// an hour; the second is answered once the first one's client is gone.
func TestDisconnectFreesTheSlot(t *testing.T) {
	for _, stream := range []string{"true", "false"} {
		t.Run("stream="+stream, func(t *testing.T) {
			s := start(t, "slots=1,ttft=0s,itl=1h", nil)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			hold := func(ctx context.Context, tokens int) (*http.Response, error) {
				r, err := http.NewRequestWithContext(ctx, "POST", s.URL()+"/v1/completions",
					strings.NewReader(fmt.Sprintf(`{"prompt":"a","max_tokens":%d,"stream":%s}`, tokens, stream)))
				if err != nil {
					t.Fatal(err)
				}
				return http.DefaultClient.Do(r)
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if r, err := hold(ctx, 100); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}
			}()
			waitFor(t, s, `vllm:num_requests_running{engine="0",model_name="tiny"} 1`)
			second := make(chan error)
			go func() {
				r, err := hold(t.Context(), 1)
				if err == nil {
					_, err = io.ReadAll(r.Body)
					r.Body.Close()
				}
				second <- err
			}()
			waitFor(t, s, `vllm:num_requests_waiting{engine="0",model_name="tiny"} 1`)
			leave()
			<-gone
			if err := <-second; err != nil {
				t.Error(err)
			}
			_, page := send(t, "GET", s.URL()+"/metrics", "")
			for _, want := range []string{`finished_reason="abort",model_name="tiny"} 1`, `finished_reason="length",model_name="tiny"} 1`,
				`kv_cache_usage_perc{engine="0",model_name="tiny"} 0`} {
				if !strings.Contains(page, want) {
					t.Errorf("metrics have no %s", want)
				}
			}
		})
	}
}

// waitFor polls the metrics until a line is there.
func waitFor(t *testing.T, s *reference.Server, line string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, page := send(t, "GET", s.URL()+"/metrics", "")
		if strings.Contains(page, line) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("metrics never had %s:\n%s", line, page)
		}
	}
}

// TestSlowReaderGetsEverything: far more is generated than a socket takes
// before the client reads its first byte.
func TestSlowReaderGetsEverything(t *testing.T) {
	var log bytes.Buffer
	s := start(t, "ttft=0s,itl=0s", func(c *reference.Config) { c.EmissionLog = &log })
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const tokens = 30000
	body := fmt.Sprintf(`{"prompt":"a","max_tokens":%d,"stream":true,"ignore_eos":true}`, tokens)
	fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	waitFor(t, s, fmt.Sprintf(`finished_reason="length",model_name="tiny"} %d`, 1))
	r, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(answer), `"text":" `); n != tokens {
		t.Errorf("%d tokens came, want %d", n, tokens)
	}
	if !strings.HasSuffix(string(answer), "data: [DONE]\n\n") {
		t.Error("the stream does not end with [DONE]")
	}
}

// TestConnections speaks HTTP by hand: pipelined requests, HTTP/1.0, a body
// that waits to be asked for, and nonsense.
func TestConnections(t *testing.T) {
	s := start(t, "ttft=0s,itl=0s", nil)
	body := `{"prompt":"a","max_tokens":2,"stream":true}`
	request := func(proto, header string) string {
		return fmt.Sprintf("POST /v1/completions %s\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s", proto, len(body), header, body)
	}
	dial := func(t *testing.T, text string) *bufio.Reader {
		nc, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		if _, err := io.WriteString(nc, text); err != nil {
			t.Fatal(err)
		}
		return bufio.NewReader(nc)
	}
	read := func(t *testing.T, br *bufio.Reader) (*http.Response, string) {
		r, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r, string(b)
	}
	t.Run("pipelined", func(t *testing.T) {
		br := dial(t, request("HTTP/1.1", "")+request("HTTP/1.1", "X-Request-Id: two\r\n")+request("HTTP/1.1", "Connection: close\r\n"))
		for i := range 3 {
			r, b := read(t, br)
			if !strings.HasSuffix(b, "data: [DONE]\n\n") || r.Close != (i == 2) || (r.Header.Get("X-Request-Id") == "two") != (i == 1) {
				t.Errorf("answer %d: %v %q", i, r.Header, b)
			}
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("after Connection: close the connection gives %v", err)
		}
	})
	t.Run("HTTP/1.0", func(t *testing.T) {
		r, b := read(t, dial(t, request("HTTP/1.0", "")))
		if len(r.TransferEncoding) > 0 || !strings.HasPrefix(b, "data: {") || !strings.HasSuffix(b, "data: [DONE]\n\n") {
			t.Errorf("got %v %q", r.TransferEncoding, b)
		}
	})
	t.Run("chunked request", func(t *testing.T) {
		br := dial(t, fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body))
		if _, b := read(t, br); !strings.HasSuffix(b, "data: [DONE]\n\n") {
			t.Errorf("got %q", b)
		}
	})
	t.Run("Expect", func(t *testing.T) {
		br := dial(t, request("HTTP/1.1", "Expect: 100-continue\r\n"))
		if r, _ := read(t, br); r.StatusCode != 100 {
			t.Errorf("status %d, want 100 first", r.StatusCode)
		}
		if r, b := read(t, br); r.StatusCode != 200 || !strings.HasSuffix(b, "data: [DONE]\n\n") {
			t.Errorf("got %d %q", r.StatusCode, b)
		}
	})
	t.Run("not HTTP", func(t *testing.T) {
		if r, b := read(t, dial(t, "hello\r\n\r\n")); r.StatusCode != 400 || !r.Close {
			t.Errorf("got %d %q", r.StatusCode, b)
		}
	})
	t.Run("a head too large", func(t *testing.T) {
		head := "GET /health HTTP/1.1\r\nHost: x\r\nX-Long: "
		if r, b := read(t, dial(t, head+strings.Repeat("a", 1<<20-len(head)))); r.StatusCode != 431 || !r.Close {
			t.Errorf("got %d %q", r.StatusCode, b)
		}
	})
	t.Run("a chunk of no size", func(t *testing.T) {
		if r, b := read(t, dial(t, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n")); r.StatusCode != 400 || !r.Close || !strings.Contains(b, "can't be read") {
			t.Errorf("got %d %q", r.StatusCode, b)
		}
	})
	t.Run("ids outside the vocabulary", func(t *testing.T) {
		for _, id := range []int{-1, 1 << 30} {
			if r, b := send(t, "POST", "http://"+s.Addr()+"/detokenize", fmt.Sprintf(`{"tokens":[%d]}`, id)); r.StatusCode != 400 || !strings.Contains(b, "outside the vocabulary") {
				t.Errorf("%d: got %d %q", id, r.StatusCode, b)
			}
		}
	})
	t.Run("a body too large", func(t *testing.T) {
		if r, b := read(t, dial(t, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")); r.StatusCode != 413 || !r.Close {
			t.Errorf("got %d %q", r.StatusCode, b)
		}
	})
}

func TestEmissionLog(t *testing.T) {
	var log bytes.Buffer
	s := start(t, "ttft=2ms,itl=1ms", func(c *reference.Config) { c.EmissionLog = &log })
	for _, id := range []string{"alpha", "beta"} {
		send(t, "POST", s.URL()+"/v1/completions", `{"prompt":[1,2,3],"max_tokens":4,"stream":true}`, "X-Request-Id", id)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines, want a head and two requests:\n%s", len(lines), log.String())
	}
	var head struct {
		Monotonic int64 `json:"monotonic_ns"`
		Unix      int64 `json:"unix_ns"`
		Simulated bool
	}
	if err := json.Unmarshal([]byte(lines[0]), &head); err != nil || head.Monotonic <= 0 || head.Unix <= 0 || !head.Simulated {
		t.Errorf("head %s: %v", lines[0], err)
	}
	for i, id := range []string{"alpha", "beta"} {
		var r struct {
			ID        string  `json:"id"`
			RequestID string  `json:"request_id"`
			Accepted  int64   `json:"accepted_ns"`
			Arrival   int64   `json:"arrival_ns"`
			Scheduled int64   `json:"first_scheduled_ns"`
			Prompt    int     `json:"prompt_tokens"`
			Output    int     `json:"output_tokens"`
			Tokens    []int64 `json:"token_ns"`
			End       int64   `json:"end_ns"`
			Finish    string  `json:"finish_reason"`
		}
		if err := json.Unmarshal([]byte(lines[1+i]), &r); err != nil {
			t.Fatal(err)
		}
		if r.RequestID != id || !strings.HasPrefix(r.ID, "cmpl-") || r.Prompt != 3 || r.Output != 4 || r.Finish != "length" || len(r.Tokens) != 4 {
			t.Fatalf("line %s", lines[1+i])
		}
		times := append([]int64{head.Monotonic, r.Accepted, r.Arrival, r.Scheduled}, r.Tokens...)
		times = append(times, r.End)
		for j := 1; j < len(times); j++ {
			if times[j] < times[j-1] {
				t.Errorf("times go back: %v", times)
			}
		}
		// Lateness may stretch a schedule, nothing may shorten it.
		if first := r.Tokens[0] - r.Arrival; first < 2e6 {
			t.Errorf("the first token left %d ns after the arrival, before its 2 ms", first)
		}
		if last := r.Tokens[3] - r.Arrival; last < 5e6 {
			t.Errorf("the last token left %d ns after the arrival, before its 5 ms", last)
		}
	}
}

func TestShutdownDrains(t *testing.T) {
	s := start(t, "slots=1,ttft=50ms,itl=0s", nil)
	answered := make(chan string)
	go func() {
		r, err := http.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":3,"stream":true}`))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		answered <- string(b)
	}()
	waitFor(t, s, `vllm:num_requests_running{engine="0",model_name="tiny"} 1`)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("the request in progress got %q", got)
	}
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("the server still listens")
	}
}

func TestStartRefuses(t *testing.T) {
	info := reference.ModelInfo{Name: "m", VocabSize: 300, MaxModelLen: 100}
	good := reference.Config{Executor: sim.NewLaw(sim.Law{}, info), Tokenizer: tokenizer.Bytes(300), KV: reference.KVConfig{Blocks: 9, BlockSize: 16}}
	for name, change := range map[string]func(*reference.Config){
		"no executor":         func(c *reference.Config) { c.Executor = nil },
		"no tokenizer":        func(c *reference.Config) { c.Tokenizer = nil },
		"no cache":            func(c *reference.Config) { c.KV.Blocks = 0 },
		"a length too large":  func(c *reference.Config) { c.MaxModelLen = 101 },
		"an address in a mix": func(c *reference.Config) { c.Addr = "300.1.1.1:x" },
	} {
		cfg := good
		change(&cfg)
		if s, err := reference.Start(cfg); err == nil {
			s.Close()
			t.Errorf("%s: the server started", name)
		}
	}
}
