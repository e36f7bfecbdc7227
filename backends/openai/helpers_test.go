package openai

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// open returns a client of the chat route of a dialect, which trusts any
// certificate.
func open(t testing.TB, target, dialect string, edit ...func(*Config)) *Client {
	t.Helper()
	return openWith(t, target, dialect, transport.Config{Insecure: true}, edit...)
}

// openWith is open with a way to reach the target.
func openWith(t testing.TB, target, dialect string, reach transport.Config, edit ...func(*Config)) *Client {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	reach.Base = u
	tr, err := transport.New(reach)
	if err != nil {
		t.Fatal(err)
	}
	d, ok := Find(dialect)
	if !ok {
		t.Fatalf("no dialect %s", dialect)
	}
	cfg := Config{
		Dialect: d, Routes: ParseRoutes(u), Chat: true, Model: "m",
		Wire: wire.Config{Transport: tr, Target: u.Scheme + "://" + u.Host},
	}
	for _, e := range edit {
		e(&cfg)
	}
	c := New(cfg)
	t.Cleanup(c.Close)
	return c
}

// ask is a request for n tokens.
func ask(n int) *backends.Request {
	return &backends.Request{ID: "r-1", MaxTokens: n, Prompt: backends.Prompt{Text: "hello"}}
}

// stream sends one request and returns what came of it.
func stream(t testing.TB, c *Client, n int) (*wiretest.Sink, backends.Outcome) {
	t.Helper()
	var sink wiretest.Sink
	out := c.Stream(context.Background(), ask(n), &sink)
	return &sink, out
}

// sse frames JSON texts as events.
func sse(data ...string) []string {
	events := make([]string, len(data))
	for i, d := range data {
		events[i] = "data: " + d + "\n\n"
	}
	return events
}

// Chunks as servers send them.
const (
	roleChunk  = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	stopChunk  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	lengthTail = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	done       = `[DONE]`
)

// text is a chunk of answer text.
func text(s string) string { return `{"choices":[{"index":0,"delta":{"content":"` + s + `"}}]}` }

// final is a chunk of usage alone.
func final(n string) string {
	return `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":` + n + `,"total_tokens":99}}`
}

// want is what a case asserts.
type want struct {
	class    backends.Class
	text     string
	outputs  int    // events that carry output
	tokens   int    // usage's completion, -1 for unknown
	finish   string // finish reason
	err      string // part of the error
	warnings string // joined by a blank
}

func (w want) check(t *testing.T, sink *wiretest.Sink, out backends.Outcome) {
	t.Helper()
	if out.Class != w.class || !strings.Contains(out.Err, w.err) || w.err == "" && out.Err != "" && w.class == backends.OK {
		t.Errorf("class %v, error %q; want %v, %q", out.Class, out.Err, w.class, w.err)
	}
	if sink.Text() != w.text {
		t.Errorf("text %q, want %q", sink.Text(), w.text)
	}
	if n := len(sink.Outputs()); n != w.outputs {
		t.Errorf("%d events with output, want %d:\n%s", n, w.outputs, sink.Timeline())
	}
	if out.Usage.Completion != w.tokens {
		t.Errorf("usage of %d tokens, want %d", out.Usage.Completion, w.tokens)
	}
	if out.Finish != w.finish {
		t.Errorf("finish %q, want %q", out.Finish, w.finish)
	}
	if got := strings.Join(out.Warnings, " "); got != w.warnings {
		t.Errorf("warnings %q, want %q", got, w.warnings)
	}
	checkTimes(t, sink, out)
}

// checkTimes asserts what holds of the times of any request.
func checkTimes(t *testing.T, sink *wiretest.Sink, out backends.Outcome) {
	t.Helper()
	if out.Status == 0 {
		return
	}
	last := sink.SentAt
	if sink.SentAt == 0 || sink.FirstByteAt < sink.SentAt {
		t.Errorf("sent at %d, first byte at %d", sink.SentAt, sink.FirstByteAt)
	}
	for i, e := range sink.Events {
		if e.At < last || e.Returned < e.At || e.At < sink.FirstByteAt {
			t.Errorf("event %d arrived at %d and was read at %d, after one at %d", i, e.At, e.Returned, last)
		}
		last = e.At
	}
	if out.End < last {
		t.Errorf("end %d is before the last event %d", out.End, last)
	}
}

// benchAnswer is a stream of n tokens as vLLM sends them.
func benchAnswer(n int) string {
	events := make([]string, 0, n+2)
	for i := range n {
		events = append(events, fmt.Sprintf(`{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1796017544,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":11,"total_tokens":%d,"completion_tokens":%d}}`, 12+i, i+1))
	}
	return wiretest.Stream(sse(append(events, lengthTail, done)...)...)
}

// discard is a sink that keeps nothing.
type discard struct{}

func (discard) Sent(int64)           {}
func (discard) FirstByte(int64)      {}
func (discard) Event(backends.Event) {}
