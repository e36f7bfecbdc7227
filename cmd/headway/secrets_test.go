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
	secretCookie   = "cO0kie-of-it"
	secretFile     = "fI1e-value-of-it" // stands in testdata/secret-*.yaml
)

// basicLogin is the password as a header carries it, which servers decode.
var basicLogin = base64.StdEncoding.EncodeToString([]byte("user:" + secretPassword))

// secretForms are the ways in which the secrets, or their beginnings where a
// text is cut short, may be written.
func secretForms() []string {
	forms := []string{"kEy7q", "hEad3r", "pA55w", "qU3ry", "cO0kie", "fI1e", basicLogin}
	for _, s := range []string{secretKey, secretHeader, secretPassword, secretQuery, secretCookie, secretFile} {
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
		for _, c := range r.Cookies() {
			fmt.Fprintf(&b, "cookie %s; ", c.Value)
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
	textLadder := []string{"--input-tokens", "16", "--output-tokens", "1", "--concurrency", "1,2",
		"--warmup", "0s", "--measure", "200ms", "--min-requests", "1", "--set", "stage.max_duration=2s"}
	ladder := append([]string{"--prompt", "token-ids", "--endpoint", "completions"}, textLadder...)
	metricsWithKey := "http://SERVER/metrics?key=" + url.QueryEscape(secretQuery)
	login := func(server string) string {
		return strings.Replace(server, "http://", "http://user:"+secretPassword+"@", 1)
	}
	query := func(server string) string {
		return server + "?api-version=2024-10-21&key=" + url.QueryEscape(secretQuery)
	}
	behind := func(string) string { return "http://replica.test:8000" } // a proxy
	proxy := func(server string) []string {
		return []string{"HTTP_PROXY=" + login(server), "http_proxy=" + login(server)}
	}
	for _, c := range []struct {
		name    string
		good    func(int64) bool
		args    []string
		bundle  bool                         // is written
		target  func(server string) string   // nil is the server
		env     func(server string) []string // beside the key
		keyless bool                         // no key is given
	}{
		{name: "table", good: mixed, args: append([]string{"run"}, ladder...), bundle: true},
		{name: "quiet JSON", good: mixed, args: append([]string{"run", "--quiet", "--format", "json"}, ladder...), bundle: true},
		{name: "plain lines, Markdown", good: mixed, args: append([]string{"run", "--no-progress", "--format", "markdown"}, ladder...), bundle: true},
		{name: "CSV", good: mixed, args: append([]string{"run", "--format", "csv"}, ladder...), bundle: true},
		{name: "nothing completes", good: never, args: append([]string{"run", "--retries", "1"}, ladder...)},
		{name: "the key is refused", good: closed, args: append([]string{"run"}, ladder...)},
		{name: "dry run", good: mixed, args: append([]string{"run", "--dry-run"}, ladder...)},
		{name: "doctor", good: mixed, args: []string{"doctor"}, target: login},
		{name: "doctor JSON", good: never, args: []string{"doctor", "--format", "json"}, target: login},
		{name: "doctor refused", good: closed, args: []string{"doctor"}, target: login},
		{name: "unknown flag value", good: mixed, args: []string{"run", "--endpoint", "nonsense"}},
		{name: "a password in the URL of a run", good: mixed, args: append([]string{"run"}, ladder...), target: login},
		{name: "a key in the query", good: mixed, args: append([]string{"run"}, ladder...), bundle: true, target: query},
		{name: "a key in the query of a refused run", good: never, args: append([]string{"run"}, ladder...), target: query},
		{name: "a key in the query, no server of models", good: closed, args: append([]string{"run"}, ladder...), target: query},
		{name: "a key in the query of a dry run", good: mixed, args: append([]string{"run", "--dry-run"}, ladder...), target: query},
		{name: "a key in the query, doctor", good: mixed, args: []string{"doctor"}, target: query},
		{name: "a header with a login", good: mixed, args: append([]string{"run", "--header", "Authorization: Basic " + basicLogin}, ladder...), bundle: true, keyless: true},
		{name: "a cookie", good: mixed, args: append([]string{"run", "--header", "Cookie: theme=dark; session=" + secretCookie}, ladder...), bundle: true},
		{name: "a target of another scheme", good: mixed, args: []string{"doctor"},
			target: func(server string) string { return strings.Replace(query(login(server)), "http:", "ftp:", 1) }},
		{name: "a target that is no URL", good: mixed, args: []string{"doctor"},
			target: func(server string) string { return query(login(server)) + "%zz#%zz" }},
		{name: "a target that nobody listens at", good: mixed, args: []string{"doctor"},
			target: func(string) string { return query(login("http://127.0.0.1:1")) }},
		{name: "a backend file", good: mixed, args: append([]string{"run", "--backend-file", "testdata/secret-key.yaml", "--model", "m"}, textLadder...), bundle: true},
		{name: "a backend file with a secret", good: mixed, args: append([]string{"run", "--backend-file", "testdata/secret-header.yaml", "--model", "m"}, textLadder...)},
		{name: "a backend file with a secret in its path", good: mixed, args: append([]string{"run", "--backend-file", "testdata/secret-path.yaml", "--model", "m"}, textLadder...)},
		{name: "a page of metrics with a key", good: mixed, args: append([]string{"run", "--metrics", metricsWithKey}, ladder...), bundle: true},
		{name: "a page of metrics with a login", good: mixed, args: append([]string{"run", "--metrics", login(metricsWithKey)}, ladder...)},
		{name: "a proxy with a password", good: mixed, args: append([]string{"run"}, ladder...), bundle: true, target: behind, env: proxy},
		{name: "a proxy with a password that refuses", good: closed, args: append([]string{"run"}, ladder...), target: behind, env: proxy},
		{name: "a proxy with a password, doctor", good: never, args: []string{"doctor"}, target: behind, env: proxy},
		{name: "a proxy with a password that nobody listens at", good: mixed, args: []string{"doctor"}, target: behind,
			env: func(string) []string { return proxy("http://127.0.0.1:1") }},
		{name: "a proxy that is no URL", good: mixed, args: []string{"doctor"}, target: behind,
			env: func(server string) []string {
				return []string{"HTTP_PROXY=" + login(server) + "%zz", "http_proxy=" + login(server) + "%zz"}
			}},
		{name: "a proxy of another scheme", good: mixed, args: []string{"doctor"}, target: behind,
			env: func(string) []string { return proxy("ftp://127.0.0.1:1") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := telltale(t, c.good)
			out := filepath.Join(t.TempDir(), "bundle")
			env := append(os.Environ(), "SECRET_KEY="+secretKey)
			if c.env != nil {
				env = append(env, c.env(server)...)
			}
			target := server
			if c.target != nil {
				target = c.target(server)
			}
			args := []string{}
			for _, arg := range c.args {
				args = append(args, strings.Replace(arg, "SERVER", strings.TrimPrefix(server, "http://"), 1))
			}
			args = append(args, "--header", "X-Team: "+secretHeader, "--target", target)
			if !c.keyless {
				args = append(args, "--api-key-env", "SECRET_KEY")
			}
			if c.args[0] == "run" {
				args = append(args, "--out", out)
			}
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), headway, args...)
			cmd.Env = env
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
