package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServeRefuses(t *testing.T) {
	t.Setenv("EMPTY_KEY", "")
	for _, tt := range []struct {
		args, want string
	}{
		{"--executor gpu", "cpu"},
		{"--executor sim", "--law"},
		{"--executor sim --law ttft=1ms,itl=1ms --gpu L4-24GB", "one of --law"},
		{"--executor sim --law ttft=1", "--law"},
		{"--executor sim --law ttft=1ms,itl=1ms --model llama-9", "llama-3.1-8b"},
		{"--executor sim --gpu H100", "H100-SXM-80GB"},
		{"--executor sim --gpu H100-SXM-80GB --model llama-3.1-70b", "does not fit"},
		{"--executor sim --law ttft=1ms,itl=1ms --faults oops=1%", "unknown fault"},
		{"--law ttft=1ms,itl=1ms", "need --executor sim"},
		{"--tokenizer ../../testdata/tokenizers/llama-3", "need --executor sim"},
		{"--executor sim --law ttft=1ms,itl=1ms --tokenizer no-such-folder", "--tokenizer: "},
		{"--model no-such-model", "no-such-model"},
		{"--kv-cache-memory 512", "no size with a unit"},
		{"--kv-cache-memory 1KiB", "hold no block"},
		{"--block-size 0", "--block-size"},
		{"--batch-size 0", "--batch-size"},
		{"--max-num-seqs -1", "--max-num-seqs"},
		{"--chunked-prefill 64 --batching static", "continuous"},
		{"--api-key-env EMPTY_KEY", "EMPTY_KEY is not set"},
		{"--executor sim --law ttft=1ms,itl=1ms --emission-log /no/such/folder/log", "--emission-log"},
		{"--executor sim --law ttft=1ms,itl=1ms --emission-log .", "--emission-log"},
		{"--threads -1", "--threads must be between"},
		{"--threads 100000", "--threads must be between"},
		{"--executor sim --law ttft=1ms,itl=1ms --lanes -1", "--lanes must be between"},
		{"--executor sim --law ttft=1ms,itl=1ms --max-model-len 999999999", "max_model_len 999999999 is more than"},
		{"--executor sim --law ttft=1ms,itl=1ms --addr nonsense", "missing port in address; an address is HOST:PORT"},
		{"--executor sim --law ttft=1ms,itl=1ms --addr 127.0.0.1:99999", "--addr 127.0.0.1:99999: "},
		{"--executor sim --law ttft=1ms,itl=1ms --addr http://127.0.0.1:0", "an address is HOST:PORT"},
		{"extra", "no argument"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append([]string{"serve"}, strings.Fields(tt.args)...), nil, &stdout, &stderr)
			if code != exitUsage || !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
				t.Errorf("exit %d, stdout %q, stderr %q, want exit 2 and %q", code, stdout.String(), stderr.String(), tt.want)
			}
		})
	}
}

func TestServeOnAPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"serve", "--executor", "sim", "--law", "ttft=1ms,itl=1ms", "--addr", taken.Addr().String()}, nil, &stdout, &stderr)
	if code != exitNoResult || !strings.Contains(stderr.String(), taken.Addr().String()+" is in use by another program") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

// TestServe runs the command as a user does: it prints its address, answers,
// ends with 0 when it is told to, and leaves the emission log.
func TestServe(t *testing.T) {
	log := filepath.Join(t.TempDir(), "emission.jsonl")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int)
	go func() {
		code <- run(ctx, strings.Fields("serve --addr 127.0.0.1:0 --executor sim --model llama-3.1-8b --gpu H100-SXM-80GB --served-model-name m --emission-log "+log),
			nil, w, &stderr)
	}()
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var bound struct{ Addr string }
	if err := json.Unmarshal(line, &bound); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	answer, err := http.Post("http://"+bound.Addr+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":[128000,5],"max_tokens":4}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.Contains(string(body), `"completion_tokens":4`) {
		t.Errorf("got %s, %v", body, err)
	}
	stop()
	if c := <-code; c != exitPassed {
		t.Errorf("exit %d: %s", c, stderr.String())
	}
	if !strings.Contains(stderr.String(), "SIMULATED") {
		t.Errorf("stderr does not say that this is simulated: %s", stderr.String())
	}
	lines, err := os.ReadFile(log)
	if err != nil || bytes.Count(lines, []byte("\n")) != 2 {
		t.Errorf("the emission log is %s, %v", lines, err)
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"512MiB": 512 << 20, "1.5 GiB": 3 << 29, "2GB": 2e9, "1kB": 1000} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "512", "MiB", "-1MiB", "NaNMiB", "1e30TB", "5 apples"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("parseBytes(%q) = %d, want an error", text, got)
		}
	}
}
