package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// What must be found nowhere. The key has characters that JSON and URLs write
// otherwise, and each secret begins with something that is in no other text.
const (
	secretKey      = `kEy7q"/quite+secret`
	secretHeader   = "hEad3r value-of-it"
	secretPassword = "pA55w0rd-of-it"
	secretQuery    = `qU3ry&"/value+of it`
)

// secretForms are the ways in which the secrets, or their beginnings where a
// text is cut short, may be written.
func secretForms() []string {
	forms := []string{"kEy7q", "hEad3r", "pA55w", "qU3ry", base64.StdEncoding.EncodeToString([]byte("user:" + secretPassword))}
	for _, s := range []string{secretKey, secretHeader, secretPassword, secretQuery} {
		quoted, _ := json.Marshal(s)
		forms = append(forms, s, strings.Trim(string(quoted), `"`), url.QueryEscape(s), url.PathEscape(s))
	}
	return forms
}

// findSecret returns the first form of a secret that a text holds, "" for
// none.
func findSecret(text []byte) string {
	for _, form := range secretForms() {
		if bytes.Contains(text, []byte(form)) {
			return form
		}
	}
	return ""
}

// telltale is a server that repeats in its errors whatever it was sent. good
// says for the n-th request whether it is answered well.
func telltale(t *testing.T, good func(n int64) bool) string {
	var asked atomic.Int64
	echo := func(r *http.Request) string {
		var b strings.Builder
		for name, values := range r.Header {
			for _, v := range values {
				fmt.Fprintf(&b, "%s: %s; ", name, v)
			}
		}
		user, password, _ := r.BasicAuth()
		return fmt.Sprintf("refused %s for %s%s:%s", r.URL, b.String(), user, password)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if !good(-1) {
			http.Error(w, echo(r), http.StatusUnauthorized)
			return
		}
		io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","max_model_len":4096}]}`)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if asked.Load() > 2 {
			http.Error(w, echo(r), http.StatusInternalServerError)
			return
		}
		io.WriteString(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n")
	})
	mux.HandleFunc("POST /v1/", func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		message, _ := json.Marshal(echo(r))
		switch {
		case good(n):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length"}],"usage":{"prompt_tokens":16,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
		case n%3 == 0:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"error\":{\"message\":%s,\"code\":500}}\n\n", message)
		case n%3 == 1:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":%s}}`, message)
		default:
			io.WriteString(w, "data: {"+strings.Repeat(echo(r), 20))
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// TestNoSecret greps everything that commands print and write for the key, the
// value of a header, a key in the target's query, and the password in its URL,
// which a run refuses.
func TestNoSecret(t *testing.T) {
	headway, err := exec.LookPath("headway") // testscript puts it there
	if err != nil {
		t.Fatal(err)
	}
	mixed := func(n int64) bool { return n < 0 || n%4 == 0 }
	never := func(n int64) bool { return n < 0 }
	closed := func(int64) bool { return false }
	ladder := []string{"--prompt", "token-ids", "--endpoint", "completions", "--input-tokens", "16", "--output-tokens", "1", "--concurrency", "1,2",
		"--warmup", "0s", "--measure", "200ms", "--min-requests", "1", "--set", "stage.max_duration=2s"}
	for _, c := range []struct {
		name   string
		good   func(int64) bool
		args   []string
		bundle bool // is written
		login  bool // stands in the URL
		query  bool // of the URL holds a key
	}{
		{"table", mixed, append([]string{"run"}, ladder...), true, false, false},
		{"quiet JSON", mixed, append([]string{"run", "--quiet", "--format", "json"}, ladder...), true, false, false},
		{"plain lines, Markdown", mixed, append([]string{"run", "--no-progress", "--format", "markdown"}, ladder...), true, false, false},
		{"CSV", mixed, append([]string{"run", "--format", "csv"}, ladder...), true, false, false},
		{"nothing completes", never, append([]string{"run", "--retries", "1"}, ladder...), false, false, false},
		{"the key is refused", closed, append([]string{"run"}, ladder...), false, false, false},
		{"dry run", mixed, append([]string{"run", "--dry-run"}, ladder...), false, false, false},
		{"doctor", mixed, []string{"doctor"}, false, true, false},
		{"doctor JSON", never, []string{"doctor", "--format", "json"}, false, true, false},
		{"doctor refused", closed, []string{"doctor"}, false, true, false},
		{"unknown flag value", mixed, []string{"run", "--endpoint", "nonsense"}, false, false, false},
		{"a password in the URL of a run", mixed, append([]string{"run"}, ladder...), false, true, false},
		{"a key in the query", mixed, append([]string{"run"}, ladder...), true, false, true},
		{"a key in the query of a refused run", never, append([]string{"run"}, ladder...), false, false, true},
		{"a key in the query, no server of models", closed, append([]string{"run"}, ladder...), false, false, true},
		{"a key in the query of a dry run", mixed, append([]string{"run", "--dry-run"}, ladder...), false, false, true},
		{"a key in the query, doctor", mixed, []string{"doctor"}, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := telltale(t, c.good)
			out := filepath.Join(t.TempDir(), "bundle")
			if c.login {
				server = strings.Replace(server, "http://", "http://user:"+secretPassword+"@", 1)
			}
			if c.query {
				server += "?api-version=2024-10-21&key=" + url.QueryEscape(secretQuery)
			}
			args := append(c.args, "--api-key-env", "SECRET_KEY", "--header", "X-Team: "+secretHeader, "--target", server)
			if c.args[0] == "run" {
				args = append(args, "--out", out)
			}
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), headway, args...)
			cmd.Env = append(os.Environ(), "SECRET_KEY="+secretKey)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			code := cmd.ProcessState.ExitCode()
			for name, text := range map[string][]byte{"stdout": stdout.Bytes(), "stderr": stderr.Bytes()} {
				if form := findSecret(text); form != "" {
					t.Errorf("%q is in %s:\n%s", form, name, text)
				}
			}
			files := searchFiles(t, out)
			if c.bundle && (code != exitPassed && code != exitNoResult || files < 5) {
				t.Errorf("exit %d, %d files of a bundle; stderr:\n%s", code, files, stderr.String())
			}
		})
	}
}

// searchFiles looks for secrets in every file below a directory, and returns
// how many there are.
func searchFiles(t *testing.T, dir string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".zst") {
			decoder, err := zstd.NewReader(bytes.NewReader(text))
			if err != nil {
				return err
			}
			defer decoder.Close()
			if text, err = io.ReadAll(decoder); err != nil {
				return err
			}
			if !bytes.Contains(text, []byte("[removed]")) {
				t.Errorf("%s has no place where a secret was removed; the server repeated some", path)
			}
		}
		if form := findSecret(text); form != "" {
			at := bytes.Index(text, []byte(form))
			t.Errorf("%q is in %s: ...%s", form, path, text[max(0, at-80):min(len(text), at+40)])
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}
