package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
)

// countingServer is a `headway serve` with a tokenizer of its own, which counts
// the prompts that it receives and writes the counts down.
type countingServer struct {
	url, log string
	stop     context.CancelFunc
	ended    chan int
}

func startCounting(t *testing.T, tokenizer string) *countingServer {
	t.Helper()
	s := &countingServer{log: filepath.Join(t.TempDir(), "emission.jsonl"), ended: make(chan int, 1)}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	r, w := io.Pipe()
	go func() {
		s.ended <- run(ctx, []string{"serve", "--addr", "127.0.0.1:0", "--executor", "sim", "--law", "ttft=0s,itl=0s",
			"--tokenizer", tokenizer, "--emission-log", s.log}, nil, w, io.Discard)
		w.Close()
	}()
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(r).ReadBytes('\n')
	var bound struct{ Addr string }
	if err != nil || json.Unmarshal(line, &bound) != nil {
		t.Fatalf("the server said %q: %v", line, err)
	}
	s.url = "http://" + bound.Addr
	return s
}

// counts ends the server and returns the prompt tokens that it counted, by
// request.
func (s *countingServer) counts(t *testing.T) map[string]int64 {
	t.Helper()
	s.stop()
	if code := <-s.ended; code != exitPassed {
		t.Fatalf("the server ended with %d", code)
	}
	text, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int64{}
	for line := range bytes.Lines(text) {
		var e struct {
			RequestID    string `json:"request_id"`
			PromptTokens int64  `json:"prompt_tokens"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		counted[e.RequestID] = e.PromptTokens
	}
	return counted
}

// offer runs so many requests of one output token and returns what is printed
// and, unless the run is refused, its rung and requests.
func offer(t *testing.T, url string, requests int, flags ...string) (told string, rung record.Rung, all []record.RequestRecord) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "b")
	args := append([]string{"run", "--quiet", "--target", url, "--offline", strconv.Itoa(requests), "--set", "load.offline.max_in_flight=4",
		"--output-tokens", "1", "--seed", "7", "--out", dir}, flags...)
	var out bytes.Buffer
	if code := run(t.Context(), args, nil, &out, &out); code == exitUsage {
		return out.String(), rung, nil
	}
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	f, err := os.Open(filepath.Join(dir, bundle.RequestsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for r, err := range record.ReadRequests(z) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return out.String(), b.Result.Rungs[0], all
}

// leastLength finds the number of tokens that a refusal asks for.
var leastLength = regexp.MustCompile(`ask for (\d+) or more`)

// TestExactLengths: prompts of 200 random lengths from 1 to 4,000 tokens have
// that length by the server's own count, text and ids, chat and completions,
// counted beforehand by the model's tokenizer or by the server's route, with
// tokenizers of both Llama styles. Lengths too short for BOS and chat template
// are refused, and the shortest that is not refused is exact.
func TestExactLengths(t *testing.T) {
	const requests, longest = 200, 4000
	for _, style := range []string{"llama-2", "llama-3"} {
		folder := filepath.Join("..", "..", "testdata", "tokenizers", style)
		for _, c := range []struct {
			name, flags string
			least       int // 0 is found out
		}{
			{"completions/ids", "--endpoint completions --prompt token-ids", 1},
			{"completions/text by the tokenizer", "--endpoint completions --prompt text --tokenizer " + folder, 2},
			{"completions/text by the server", "--endpoint completions --prompt text", 2},
			{"chat/text by the tokenizer", "--endpoint chat --tokenizer " + folder, 0},
			{"chat/text by the server", "--endpoint chat", 0},
		} {
			t.Run(style+"/"+c.name, func(t *testing.T) {
				s := startCounting(t, folder)
				flags := func(length string) []string { return append(strings.Fields(c.flags), "--input-tokens", length) }
				least := 1
				if c.least != 1 {
					told, _, _ := offer(t, s.url, 1, flags("{uniform: [1, 4000]}")...)
					m := leastLength.FindStringSubmatch(told)
					if m == nil {
						t.Fatalf("one token of text was not refused: %s", told)
					}
					least, _ = strconv.Atoi(m[1])
				}
				if c.least > 0 && least != c.least || least > 64 {
					t.Errorf("the shortest prompt has %d tokens", least)
				}
				_, shortest, all := offer(t, s.url, 4, flags(strconv.Itoa(least))...)
				_, rung, random := offer(t, s.url, requests, flags("{uniform: ["+strconv.Itoa(least)+", 4000]}")...)
				all = append(all, random...)
				if len(all) != requests+4 || rung.Requests.Completed != requests || shortest.Requests.Completed != 4 {
					t.Fatalf("%d requests, %+v, %+v", len(all), rung.Requests, shortest.Requests)
				}
				for _, w := range slices.Concat(rung.Warnings, shortest.Warnings) {
					if w.Code == "input_length" {
						t.Error(w.Message)
					}
				}
				if off, ok := rung.Tokens.InputMismatchRatio.Float(); !ok || off != 0 {
					t.Errorf("the lengths are %v off", rung.Tokens.InputMismatchRatio)
				}
				counted := s.counts(t)
				lengths := map[int64]bool{}
				for _, r := range all {
					n, ok := counted[r.RequestID]
					if !ok || r.InputRequested == nil || *r.InputRequested != n || *r.InputTokens != n {
						t.Errorf("request %s: the server counts %d tokens, the line says %+v", r.RequestID, n, r)
					}
					lengths[n] = true
				}
				if n := slices.Sorted(maps.Keys(lengths)); len(n) < requests/2 || n[0] != int64(least) || n[len(n)-1] < longest*9/10 || n[len(n)-1] > longest {
					t.Errorf("the lengths are no sample of %d to %d: %d", least, longest, n)
				}
			})
		}
	}
}

// TestIDsOnTheChatRoute: a chat takes messages, so that ids are refused and
// said where they go.
func TestIDsOnTheChatRoute(t *testing.T) {
	s := startCounting(t, filepath.Join("..", "..", "testdata", "tokenizers", "llama-3"))
	told, _, all := offer(t, s.url, 1, "--endpoint", "chat", "--prompt", "token-ids")
	wants(t, "error", told, "takes no token ids", "--endpoint completions")
	if all != nil || len(s.counts(t)) != 1 { // the log's head
		t.Errorf("requests were sent: %+v", all)
	}
}

// TestWrongTokenizerIsTold: where the server counts otherwise than the
// tokenizer of --tokenizer did, each request's line says both counts, the rung
// their distance, and a warning that the tokenizer is another; it is one token
// of each prompt where a template sets BOS twice (inference-perf#693).
func TestWrongTokenizerIsTold(t *testing.T) {
	folders := filepath.Join("..", "..", "testdata", "tokenizers")
	for name, c := range map[string]struct {
		change func(settings string) string
		here   string
		off    func(n int64) bool
	}{
		"another model's": {func(s string) string { return s }, "llama-2", func(n int64) bool { return n != 0 }},
		"BOS twice": {func(s string) string {
			return strings.Replace(s, "{{- bos_token }}", "{{- bos_token + bos_token }}", 1)
		}, "llama-3",
			func(n int64) bool { return n == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			there := t.TempDir()
			for file, change := range map[string]func(string) string{"tokenizer.json": func(s string) string { return s }, "tokenizer_config.json": c.change} {
				text, err := os.ReadFile(filepath.Join(folders, "llama-3", file))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(there, file), []byte(change(string(text))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := startCounting(t, there)
			told, rung, all := offer(t, s.url, 20, "--endpoint", "chat", "--tokenizer", filepath.Join(folders, c.here), "--input-tokens", "2048")
			wants(t, "table", told, "the server counts 20 prompts otherwise", "check --tokenizer")
			if !slices.ContainsFunc(rung.Warnings, func(w record.Reason) bool { return w.Code == "input_length" && w.Value == record.Known(20) }) ||
				rung.Tokens.InputMismatchRatio.Or(0) <= 0 {
				t.Errorf("mismatch %v, warnings %+v", rung.Tokens.InputMismatchRatio, rung.Warnings)
			}
			counted := s.counts(t)
			for _, r := range all {
				if *r.InputRequested != 2048 || *r.InputTokens != counted[r.RequestID] || !c.off(counted[r.RequestID]-2048) {
					t.Errorf("asked for %d, line %d, the server counts %d", *r.InputRequested, *r.InputTokens, counted[r.RequestID])
				}
			}
		})
	}
}
