package connect

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// flooded is a server that answers the path with head and then piece without an
// end, and other paths as vLLM does.
func flooded(t *testing.T, path, head, piece string) (target string, taken <-chan int) {
	t.Helper()
	written := make(chan int, 64)
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		answer := wiretest.Plain(404, "text/plain", "")
		switch c.Request.URL.Path {
		case path:
			written <- wiretest.Pour(c, head, piece)
			return false
		case "/v1/models":
			answer = wiretest.Plain(200, "application/json", models("vllm", `,"max_model_len":512`))
		}
		_, err := io.WriteString(c, answer)
		return err == nil
	})
	return s.URL, written
}

// TestFloodedQuestions are answers without an end to what is asked beside the
// requests: each is an error at a limit, or is as if the route were not there.
func TestFloodedQuestions(t *testing.T) {
	const (
		body   = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
		limit  = 8 << 20
		larger = "the answer is larger than 8388608 bytes"
	)
	check := func(t *testing.T, taken <-chan int) {
		t.Helper()
		if n := <-taken; n > limit+wiretest.Buffered {
			t.Errorf("%d bytes were taken", n)
		}
	}
	t.Run("models", func(t *testing.T) {
		for head, want := range map[string]string{body + `{"data":[{"id":"`: larger, body + " ": larger, "HTTP/1.1 200 OK\r\nX: ": "header", "HTTP/1.1 500 X\r\n\r\n": larger} {
			target, taken := flooded(t, "/v1/models", head, "x")
			if _, err := Open(t.Context(), Options{URL: target}); !IsTarget(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", head, err, want)
			}
			check(t, taken)
		}
	})
	t.Run("interim answers", func(t *testing.T) {
		target, taken := flooded(t, "/v1/models", "", "HTTP/1.1 103 Early Hints\r\n\r\n")
		if _, err := Open(t.Context(), Options{URL: target}); !IsTarget(err) {
			t.Error(err)
		}
		check(t, taken)
	})
	t.Run("version, and a page of metrics to tell the server by", func(t *testing.T) {
		for _, path := range []string{"/version", "/metrics"} {
			target, taken := flooded(t, path, body+"# TYPE vllm:num_requests_running gauge\n", "vllm:num_requests_running 1\n")
			client, err := Open(t.Context(), Options{URL: target})
			if err != nil {
				t.Fatal(err)
			}
			if s := client.Server(); s.Engine != "vllm" || s.Version != "" || s.Metrics != "" {
				t.Errorf("%s: %+v", path, s)
			}
			client.Close()
			check(t, taken)
		}
	})
	t.Run("tokenizer", func(t *testing.T) {
		target, taken := flooded(t, "/tokenize", body+`{"count":1,"tokens":[1`, ",1")
		client, err := Open(t.Context(), Options{URL: target, Endpoint: "completions"})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if ids, err := client.Tokenize(t.Context(), backends.Prompt{Text: "hi"}); err == nil || !strings.Contains(err.Error(), larger) {
			t.Errorf("%d ids, %v", len(ids), err)
		}
		check(t, taken)
	})
	t.Run("page", func(t *testing.T) {
		target, taken := flooded(t, "/metrics", body, "vllm:num_requests_running 1\n")
		page, err := OpenPage(Options{URL: target}, target+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer page.Close()
		if got, err := page.Get(t.Context()); err == nil || !strings.Contains(err.Error(), larger) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		check(t, taken)
	})
}

// TestTricklingQuestions end with their context, however alive the connection
// is.
func TestTricklingQuestions(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		for range time.Tick(time.Millisecond) {
			if _, err := io.WriteString(c, "\n"); err != nil {
				break
			}
		}
		return false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Options{URL: s.URL}); err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("models: %v", err)
	}
	page, err := OpenPage(Options{URL: s.URL}, s.URL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := page.Get(ctx); err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("page: %v", err)
	}
}

// TestQuestionsFollowNoRedirect: the key goes to no other host.
func TestQuestionsFollowNoRedirect(t *testing.T) {
	other := wiretest.Serve(t, wiretest.Write(wiretest.Plain(200, "application/json", models("vllm", ""))))
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		_, err := io.WriteString(c, wiretest.Plain(307, "text/plain", "", "Location: "+other.URL+c.Request.URL.Path))
		return err == nil
	})
	_, err := Open(t.Context(), Options{URL: s.URL, APIKey: "sk-0123456789", Model: "m"})
	if err != nil {
		t.Error(err)
	}
	if n := other.Connections(); n > 0 {
		t.Errorf("%d connections to the other host", n)
	}
}
