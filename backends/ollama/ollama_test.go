package ollama

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

func open(t testing.TB) func(url string) backends.Client {
	return func(url string) backends.Client {
		return New(Config{Path: Chat, Chat: true, Model: "m"}, wire.ClientConfig{Wire: wiretest.Wire(t, url)})
	}
}

func ask() *backends.Request {
	return &backends.Request{MaxTokens: 16, Prompt: backends.Prompt{Text: "hello"}}
}

func line(rest string) string {
	return `{"model":"m","created_at":"2026-01-01T00:00:00.1Z",` + rest + "}\n"
}

func word(s string) string {
	return line(`"message":{"role":"assistant","content":"` + s + `"},"done":false`)
}

func done(reason, counts string) string {
	return line(`"message":{"role":"assistant","content":""},"done":true,"done_reason":"` + reason + `","total_duration":200000000,"load_duration":1000000` + counts)
}

const counts = `,"prompt_eval_count":9,"prompt_eval_duration":90000000,"eval_count":2,"eval_duration":20000000`

var goldens = []wiretest.Golden{
	{Name: "chat", Body: word("Hi") + word(" caf\\u00e9") + done("stop", counts),
		Want: wiretest.Want{Text: "Hi café", Outputs: 2, Tokens: 2, Prompt: 9, Finish: "stop"}},
	{Name: "generate", Body: line(`"response":"Hi","done":false`) + line(`"response":"","done":true,"done_reason":"length","context":[1,2,3]`+counts),
		Want: wiretest.Want{Text: "Hi", Outputs: 1, Tokens: 2, Prompt: 9, Finish: "length"}},
	{Name: "thinking on both routes",
		Body: line(`"message":{"role":"assistant","content":"","thinking":"hm"},"done":false`) + line(`"response":"","thinking":"so","done":false`) + word("A") + done("stop", counts),
		Want: wiretest.Want{Text: "hmsoA", Outputs: 3, Tokens: 2, Prompt: 9, Finish: "stop"}},
	{Name: "a tool call, whose arguments are an object",
		Body: line(`"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"find","arguments":{"a":1}}}]},"done":false`) + done("stop", counts),
		Want: wiretest.Want{Text: `find{"a":1}`, Outputs: 1, Tokens: 2, Prompt: 9, Finish: "stop"}},
	{Name: "a count that is left out beside text is unknown", Body: word("Hi") + done("stop", ""),
		Want: wiretest.Want{Text: "Hi", Outputs: 1, Tokens: -1, Finish: "stop"}},
	{Name: "a count that is left out beside no text is 0", Body: done("load", ""),
		Want: wiretest.Want{Class: backends.NoOutput, Finish: "load", Err: "no output"}},
	{Name: "no reason", Body: word("Hi") + line(`"done":true`+counts),
		Want: wiretest.Want{Text: "Hi", Outputs: 1, Tokens: 2, Prompt: 9}},
	{Name: "the last line without its newline", Body: word("Hi") + strings.TrimSuffix(done("stop", counts), "\n"),
		Want: wiretest.Want{Text: "Hi", Outputs: 1, Tokens: 2, Prompt: 9, Finish: "stop", Warnings: "unterminated_event"}},
	{Name: "ollama streamResponse: an error in mid-stream", Body: word("Hi") + "{\"error\":\"runner has gone\"}\n",
		Want: wiretest.Want{Class: backends.StreamError, Text: "Hi", Outputs: 1, Tokens: -1, Err: "runner has gone"}},
	{Name: "ended before done", Body: word("Hi"),
		Want: wiretest.Want{Class: backends.Truncated, Text: "Hi", Outputs: 1, Tokens: -1, Err: "without a finish reason"}},
	{Name: "cut in a line", Cut: true, Body: word("Hi") + `{"model":"m","mess`,
		Want: wiretest.Want{Class: backends.Truncated, Text: "Hi", Outputs: 1, Tokens: -1, Err: "without a finish reason"}},
	{Name: "not JSON", Body: word("Hi") + "oops\n",
		Want: wiretest.Want{Class: backends.Malformed, Text: "Hi", Outputs: 1, Tokens: -1, Err: "oops"}},
}

func TestConformance(t *testing.T) { wiretest.Conform(t, goldens, false, open(t), ask()) }

// TestAtOnce: a line with all of the answer is no stream; one with a single
// token may be.
func TestAtOnce(t *testing.T) {
	for count, want := range map[string]bool{"5": true, "1": false} {
		s := wiretest.Serve(t, wiretest.Write(wiretest.Plain(200, "application/json", line(`"message":{"content":"All of it"},"done":true,"eval_count":`+count))))
		client := open(t)(s.URL)
		out := client.Stream(t.Context(), ask(), &wiretest.Sink{})
		client.Close()
		if out.Class != backends.OK || out.NotStreamed != want {
			t.Errorf("%s tokens: %v %s, not streamed %v", count, out.Class, out.Err, out.NotStreamed)
		}
	}
}

// TestRefusal is an error before anything was written.
func TestRefusal(t *testing.T) {
	s := wiretest.Serve(t, wiretest.Write(wiretest.Plain(404, "application/json", `{"error":"model 'x' not found"}`)))
	client := open(t)(s.URL)
	defer client.Close()
	if out := client.Stream(t.Context(), ask(), &wiretest.Sink{}); out.Class != backends.HTTP4xx || !strings.Contains(out.Err, "model 'x' not found") {
		t.Errorf("%v: %s", out.Class, out.Err)
	}
}

func TestRequest(t *testing.T) {
	warm, half, k, seed := 0.7, 0.5, 4, int64(7)
	full := backends.Sampling{Temperature: &warm, TopP: &half, TopK: &k, Seed: &seed, Stop: []string{"\n"}}
	for _, c := range []struct {
		name string
		chat bool
		r    backends.Request
		want string
	}{
		{"generate", false, backends.Request{MaxTokens: 4, ForceLength: true, Prompt: backends.Prompt{Text: "a"}, Sampling: full},
			`{"stream":true,"model":"m","raw":true,"prompt":"a","options":{"num_predict":4,"temperature":0.7,"top_p":0.5,"top_k":4,"seed":7,"stop":["\n"]}}`},
		{"chat", true, backends.Request{MaxTokens: 4, Prompt: backends.Prompt{Text: "a"}},
			`{"stream":true,"model":"m","messages":[{"role":"user","content":"a"}],"options":{"num_predict":4}}`},
		{"ids", true, backends.Request{Prompt: backends.Prompt{IDs: []int32{1}}}, "--prompt text"},
		{"messages", false, backends.Request{Prompt: backends.Prompt{Messages: []backends.Message{{}}}}, "--endpoint chat"},
	} {
		_, body, err := (&protocol{chat: c.chat, model: `"m"`}).Request(nil, &c.r)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case err == nil && (string(body) != c.want || !json.Valid(body)):
			t.Errorf("%s: %s, want %s", c.name, body, c.want)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	wiretest.NoAllocs(t, &decoder{}, word("word"), line(`"response":"caf\u00e9","done":false`), line(`"message":{"thinking":"x"},"done":false`))
}

// TestFloods are streams without an end: each is left at a limit.
func TestFloods(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"
	for _, c := range []struct {
		name, head, piece string
		class             backends.Class
		err               string
		most              int // bytes that are read
	}{
		{"a line", head + `{"message":{"content":"`, "x", backends.Malformed, "limit of 8388608", 17 << 20},
		{"a blank line", head + " ", "\t", backends.Malformed, "limit of 8388608", 17 << 20},
		{"text", head, word("word"), backends.TooLong, "where 16 were asked for", 1 << 20},
		{"events without text", head, word(""), backends.TooLong, "events or more where 16 tokens", 16 << 20},
		{"a refusal", "HTTP/1.1 404 X\r\n\r\n" + `{"error":"`, "x", backends.HTTP4xx, "x", 2 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, taken := wiretest.Flood(t, c.head, c.piece)
			client := open(t)(s.URL)
			out := client.Stream(t.Context(), ask(), &wiretest.Sink{})
			client.Close()
			if out.Class != c.class || !strings.Contains(out.Err, c.err) {
				t.Errorf("%v: %s; want %v, %q", out.Class, out.Err, c.class, c.err)
			}
			if n := <-taken; n > c.most+wiretest.Buffered {
				t.Errorf("%d bytes were taken, %d may be", n, c.most+wiretest.Buffered)
			}
		})
	}
}

// TestTrickle is a server that sends a byte now and then: the time limit ends
// the request.
func TestTrickle(t *testing.T) {
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n{")
		for range time.Tick(time.Millisecond) {
			if _, err := io.WriteString(c, " "); err != nil {
				break
			}
		}
		return false
	})
	conf := wire.ClientConfig{Wire: wiretest.Wire(t, s.URL)}
	conf.Wire.Timeout = 30 * time.Millisecond
	client := New(Config{Path: Generate, Model: "m"}, conf)
	defer client.Close()
	out := client.Stream(t.Context(), ask(), &wiretest.Sink{})
	if out.Class != backends.Timeout {
		t.Errorf("%v: %s", out.Class, out.Err)
	}
}

func FuzzEvent(f *testing.F) {
	wiretest.FuzzDecoder(f, func() wire.Decoder { return &decoder{} },
		word("a"), done("stop", counts), done("", ""), line(`"response":"a","thinking":"b","done":"yes","eval_count":1.5`),
		line(`"message":{"tool_calls":[{"function":{"name":"f","arguments":[1,"a"]}},1]}`))
}
