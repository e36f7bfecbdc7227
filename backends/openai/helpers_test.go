package openai

import (
	"context"
	"fmt"
	"net/url"
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
type want = wiretest.Want

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
