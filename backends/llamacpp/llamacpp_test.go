package llamacpp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

func open(t testing.TB) func(url string) backends.Client {
	return func(url string) backends.Client {
		return New(Route, wire.ClientConfig{Wire: wiretest.Wire(t, url)})
	}
}

func ask() *backends.Request {
	return &backends.Request{MaxTokens: 16, Prompt: backends.Prompt{Text: "hello"}}
}

func part(text string, tokens string, predicted int) string {
	return fmt.Sprintf(`{"index":0,"content":"%s","tokens":[%s],"stop":false,"id_slot":-1,"tokens_predicted":%d,"tokens_evaluated":8}`, text, tokens, predicted)
}

func last(reason string, predicted int) string {
	return fmt.Sprintf(`{"index":0,"content":"","tokens":[],"id_slot":2,"stop":true,"model":"m","tokens_predicted":%d,"tokens_evaluated":8,"generation_settings":{"stop":[],"n_predict":4},"prompt":"p","stop_type":"%s","stopping_word":"","timings":{"cache_n":7,"prompt_n":1,"predicted_n":4}}`, predicted, reason)
}

func events(data ...string) string { return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n" }

var goldens = []wiretest.Golden{
	{Name: "a token an event, a running count, cached prompt", Body: events(part(" a", "5", 1), part("\\n", "6", 2), last("limit", 2)),
		Want: wiretest.Want{Text: " a\n", Outputs: 2, IDs: 2, Tokens: 2, Prompt: 8, Finish: "limit"}},
	{Name: "a token that is no text yet, and two in one event", Body: events(part("", "5", 1), part("中x", "6,7", 3), last("eos", 3)),
		Want: wiretest.Want{Text: "中x", Outputs: 2, IDs: 3, Tokens: 3, Prompt: 8, Finish: "eos"}},
	{Name: "tokens without an event of their own", Body: events(last("limit", 1)),
		Want: wiretest.Want{Outputs: 1, Tokens: 1, Prompt: 8, Finish: "limit"}},
	{Name: "JSON null first", Body: events("null", part(" a", "5", 1), last("word", 1), "[DONE]"),
		Want: wiretest.Want{Text: " a", Outputs: 1, IDs: 1, Tokens: 1, Prompt: 8, Finish: "word"}},
	{Name: "an error in mid-stream", Body: events(part(" a", "5", 1), `{"error":{"code":500,"message":"slot lost","type":"server_error"}}`),
		Want: wiretest.Want{Class: backends.StreamError, Text: " a", Outputs: 1, IDs: 1, Tokens: 1, Prompt: 8, Err: "slot lost"}},
	{Name: "old llama.cpp error line", Body: events(part(" a", "5", 1)) + "error: {\"code\":500,\"message\":\"slot lost\"}\n\n",
		Want: wiretest.Want{Class: backends.StreamError, Text: " a", Outputs: 1, IDs: 1, Tokens: 1, Prompt: 8, Err: "slot lost"}},
	{Name: "ended before stop", Body: events(part(" a", "5", 1)),
		Want: wiretest.Want{Class: backends.Truncated, Text: " a", Outputs: 1, IDs: 1, Tokens: 1, Prompt: 8, Err: "without a finish reason"}},
	{Name: "nothing generated", Body: events(last("eos", 0)),
		Want: wiretest.Want{Class: backends.NoOutput, Prompt: 8, Finish: "eos", Err: "no output"}},
	{Name: "not JSON", Body: events("oops"), Want: wiretest.Want{Class: backends.Malformed, Tokens: -1, Err: "oops"}},
}

func TestConformance(t *testing.T) { wiretest.Conform(t, goldens, true, open(t), ask()) }

// TestRunning: the count runs on the events.
func TestRunning(t *testing.T) {
	s := wiretest.Serve(t, wiretest.WriteAndClose(wiretest.Stream(events(part(" a", "5", 1)), events(part(" b", "6,7", 3)), events(last("limit", 3)))))
	client := open(t)(s.URL)
	defer client.Close()
	var sink wiretest.Sink
	out := client.Stream(t.Context(), ask(), &sink)
	if out.Usage.Cached != 7 || len(sink.Events) != 3 {
		t.Fatalf("%+v, %d events", out, len(sink.Events))
	}
	for i, want := range []int{1, 3, 3} {
		if got := sink.Events[i].Completion; got != want {
			t.Errorf("event %d counts %d, want %d", i, got, want)
		}
	}
	if k := sink.Events[1].Kind; k&backends.KindUsageStep == 0 {
		t.Errorf("kind %b has no step", k)
	}
	if k := sink.Events[2].Kind; k&backends.KindOutput != 0 {
		t.Errorf("the last event has output: %b", k)
	}
}

func TestRequest(t *testing.T) {
	zero, half, k, seed := 0.0, 0.5, 4, int64(7)
	for _, c := range []struct {
		name string
		r    backends.Request
		want string
	}{
		{"ids", backends.Request{MaxTokens: 4, ForceLength: true, Prompt: backends.Prompt{IDs: []int32{1, 2}}, Sampling: backends.Sampling{Temperature: &zero, TopP: &half, TopK: &k, Seed: &seed, Stop: []string{"x"}}},
			`{"stream":true,"return_tokens":true,"prompt":[1,2],"n_predict":4,"ignore_eos":true,"temperature":0,"top_p":0.5,"top_k":4,"seed":7,"stop":["x"]}`},
		{"text", backends.Request{MaxTokens: 4, Prompt: backends.Prompt{Text: "a"}}, `{"stream":true,"return_tokens":true,"prompt":"a","n_predict":4}`},
		{"messages", backends.Request{Prompt: backends.Prompt{Messages: []backends.Message{{}}}}, "--endpoint chat"},
	} {
		_, body, err := protocol{Route}.Request(nil, &c.r)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case err == nil && (string(body) != c.want || !json.Valid(body)):
			t.Errorf("%s: %s, want %s", c.name, body, c.want)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	wiretest.NoAllocs(t, &decoder{}, part(" a", "5", 1), part("caf\\u00e9", "6,7", 3), part("", "", 3))
}

func FuzzEvent(f *testing.F) {
	wiretest.FuzzDecoder(f, func() wire.Decoder { return &decoder{} },
		part(" a", "5", 1), last("limit", 2), `{"content":1,"tokens":7,"tokens_predicted":"x","timings":[{"cache_n":-1}]}`)
}
