package wire

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/transport"
)

func TestRetryDelay(t *testing.T) {
	for retries, want := range map[int]time.Duration{0: 500 * time.Millisecond, 1: time.Second, 5: 16 * time.Second, 6: 30 * time.Second, 900: 30 * time.Second} {
		if got := retryDelay(backends.Outcome{Retries: retries}); got != want {
			t.Errorf("after %d retries %v, want %v", retries, got, want)
		}
	}
	if retryable(backends.Outcome{Class: backends.HTTP429, RetryAfter: time.Hour}) {
		t.Error("a request would wait an hour")
	}
	if got := retryDelay(backends.Outcome{RetryAfter: 2 * time.Second, Retries: 5}); got != 2*time.Second {
		t.Errorf("the server asked for 2 s, waited %v", got)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if took, ok := wait(t.Context(), time.Minute); took != time.Minute || !ok {
			t.Errorf("waited %v, %v", took, ok)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took, ok := wait(ctx, time.Minute); took != time.Second || ok {
			t.Errorf("waited %v, %v", took, ok)
		}
	})
}

// TestSendFailure tells failures of this machine from the server's: sglang#647
// and its kind, where a limit of open files looks like a failing server.
func TestSendFailure(t *testing.T) {
	open := func(stage transport.Stage, errno syscall.Errno) error {
		return &transport.OpenError{Stage: stage, Err: &net.OpError{Op: "dial", Err: errno}}
	}
	cases := []struct {
		err  error
		want backends.Class
	}{
		{open(transport.StageConnect, syscall.ECONNREFUSED), backends.Connect},
		{open(transport.StageConnect, syscall.EHOSTUNREACH), backends.Connect},
		{open(transport.StageConnect, syscall.EMFILE), backends.ClientLimit},
		{open(transport.StageConnect, syscall.EADDRNOTAVAIL), backends.ClientLimit},
		{open(transport.StageTLS, syscall.ECONNRESET), backends.TLS},
		{&transport.OpenError{Stage: transport.StageConnect, Err: &net.DNSError{Err: "no such host"}}, backends.Connect},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), backends.Truncated},
		{transport.ErrClosedEarly, backends.Truncated},
		{fmt.Errorf("malformed HTTP status"), backends.Malformed},
	}
	for _, c := range cases {
		if got, _ := sendFailure(t.Context(), c.err); got != c.want {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
	}
}

func TestMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"a","type":"b"}}`:                "a",
		`{"error":"a"}`:                                       "a",
		`{"object":"error","message":"a"}`:                    "a",
		`{"detail":"Not Found"}`:                              "Not Found",
		`{"detail":[{"loc":["body","x"],"msg":"a"}]}`:         "a",
		`{"error":{"type":"overloaded_error"}}`:               "overloaded_error",
		`{"error":{"code":500}}`:                              "500",
		"data: {\"error\":\"a\"}\n\n":                         "a",
		`"boom"`:                                              "boom",
		`{"x":1}`:                                             `{"x":1}`,
		"<html><style>p{}</style><b>Bad</b>\n <i>Gateway</i>": "Bad Gateway",
		"plain  text\n":                                       "plain text",
		"":                                                    "(empty body)",
		"\xff\xfe":                                            "\uFFFD",
		`{"error":{"message":"cut off here, and so long`: "cut off here, and so long",
	} {
		if got := Message([]byte(body)); got != want {
			t.Errorf("%q says %q, want %q", body, got, want)
		}
	}
	if got := Message([]byte(strings.Repeat("x", 10_000))); len(got) > maxMessage+len(ellipsis) {
		t.Errorf("%d bytes of message", len(got))
	}
}

func TestCounter(t *testing.T) {
	add := func(c *counter, d Decoded, n int) (over bool) {
		for range n {
			over = c.add(&d)
		}
		return over
	}
	word := Decoded{Kind: backends.KindText, Text: []byte("word"), Completion: -1}
	letter := Decoded{Kind: backends.KindText, Text: []byte("w"), Completion: -1}
	cases := []struct {
		name  string
		asked int
		d     Decoded
		n     int
		want  bool
	}{
		{"within 16", 10, word, 26, false},
		{"over 16", 10, word, 27, true},
		{"within a tenth", 1000, word, 1100, false},
		{"over a tenth", 1000, word, 1101, true},
		{"no limit", 0, word, 1000, false},
		{"single characters", 10, letter, 100, false},
		{"ids", 10, Decoded{Kind: backends.KindTokenIDs, TokenIDs: 9, Completion: -1}, 3, true},
		{"running usage", 10, Decoded{Kind: backends.KindText, Text: bytes.Repeat([]byte("word"), 54), Completion: 27}, 1, true},
		{"running usage that says less than the events", 10, Decoded{Kind: backends.KindText, Text: []byte("word"), Completion: 9}, 100, false},
		{"running usage that the text does not bear out", 10, Decoded{Kind: backends.KindText, Text: []byte("word"), Completion: 27}, 1, false},
		{"roles", 1, Decoded{Kind: backends.KindRole, Completion: -1}, 100, false},
		{"roles without an end", 1, Decoded{Kind: backends.KindRole, Completion: -1}, 1<<16 + 17, true},
		{"a running usage that stands still", 10, Decoded{Kind: backends.KindText, Text: []byte("word"), Completion: 1}, 1<<16 + 161, true},
	}
	for _, c := range cases {
		k := newCounter(c.asked)
		if got := add(&k, c.d, c.n); got != c.want {
			t.Errorf("%s: over is %v after %d tokens of %d", c.name, got, k.generated(0), c.asked)
		}
	}
}

func TestScrub(t *testing.T) {
	s := newScrubber([]string{"sk-0123456789", "other-key", `a "b" c`, "no", ""})
	for in, want := range map[string]string{
		"key sk-0123456789!":     "key [removed]!",
		"key other-key and no":   "key [removed] and no",
		`{"h":"a \"b\" c"}`:      `{"h":"[removed]"}`,
		"url?key=a+%22b%22+c":    "url?key=[removed]",
		"cut inside sk-01234567": "cut inside [removed]",
		"cut inside sk-0123":     "cut inside [removed]",
		"cut inside sk-0123...":  "cut inside [removed]...",
		"nothing of it":          "nothing of it",
	} {
		got := s.text(in)
		if got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := newScrubber(nil).text("a"); got != "a" {
		t.Errorf("%q", got)
	}
}
