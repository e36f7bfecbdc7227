package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// FuzzChunk holds the decoder to encoding/json: what is JSON is never
// malformed, and the text of a plain chunk is the same.
func FuzzChunk(f *testing.F) {
	for _, s := range []string{
		roleChunk, stopChunk, lengthTail, done, text("a"), final("3"), "null", "{}", "[]", `{"error":{"message":"x"}}`, `{"error":null}`,
		`{"choices":[{"delta":{"content":[{"text":"a"}],"tool_calls":[{"function":{"name":"f","arguments":"{}"}}],"audio":{"transcript":"t"}}}]}`,
		`{"choices":[{"index":-1,"text":"\ud83d\ude00","token_ids":[1,2],"usage":{"completion_tokens":1}}],"usage":{"completion_tokens":-1},"x_groq":{"usage":{},"error":""}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := decoder{}
		d.Reset(nil)
		for range 2 { // a decoder serves many events
			out := wire.Decoded{Completion: -1}
			err := d.Event("", data, &out)
			if err != nil && json.Valid(data) && data[0] == '{' && strings.Count(string(data), "[")+strings.Count(string(data), "{") < 200 {
				t.Fatalf("%q is malformed: %v", data, err)
			}
			if out.Completion < -1 || out.TokenIDs < 0 {
				t.Fatalf("%q counts %d tokens, %d ids", data, out.Completion, out.TokenIDs)
			}
			if len(out.Text) > 0 && out.Kind&backends.KindOutput == 0 {
				t.Fatalf("%q has text %q and kind %b", data, out.Text, out.Kind)
			}
		}
		var plain struct {
			Choices []struct{ Text string }
		}
		if json.Unmarshal([]byte(`{"choices":[{"text":`+quote(string(data))+`}]}`), &plain) == nil {
			var out wire.Decoded
			d.Reset(nil)
			if err := d.Event("", []byte(`{"choices":[{"text":`+quote(string(data))+`}]}`), &out); err != nil || string(out.Text) != plain.Choices[0].Text {
				t.Fatalf("text %q is read as %q: %v", plain.Choices[0].Text, out.Text, err)
			}
		}
	})
}

// chunks are events as they come in steady state.
var chunks = []string{
	text("word"),
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" caf\u00e9"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`,
	`{"choices":[{"index":0,"delta":{"reasoning":"x","tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`,
}

// TestDecodeAllocatesNothing: no event costs an allocation.
func TestDecodeAllocatesNothing(t *testing.T) {
	d := decoder{}
	d.Reset(nil)
	data := make([][]byte, len(chunks))
	for i, c := range chunks {
		data[i] = []byte(c)
	}
	var out wire.Decoded
	if n := testing.AllocsPerRun(100, func() {
		for _, c := range data {
			out = wire.Decoded{Completion: -1}
			if err := d.Event("", c, &out); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRequestAllocatesNothing: writing a request into a buffer that is large
// enough costs no allocation.
func TestRequestAllocatesNothing(t *testing.T) {
	d, _ := Find("vllm")
	p := &protocol{dialect: d, path: "/v1/completions", model: `"m"`}
	r := &backends.Request{MaxTokens: 8, ForceLength: true, Prompt: backends.Prompt{IDs: []int32{1, 2, 3}}}
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := p.Request(buf, r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	d := decoder{}
	d.Reset(nil)
	data := []byte(chunks[1])
	var out wire.Decoded
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		out = wire.Decoded{Completion: -1}
		if err := d.Event("", data, &out); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRequestBodies are the fields each dialect gets for the same request.
func TestRequestBodies(t *testing.T) {
	priority, temperature, seed := 0.75, 0.0, int64(7)
	r := &backends.Request{
		MaxTokens: 8, ForceLength: true, Priority: &priority, CacheSalt: "s",
		Sampling: backends.Sampling{Temperature: &temperature, Seed: &seed, Stop: []string{"\n"}},
	}
	tail := `,"temperature":0,"seed":7,"stop":["\n"]`
	usage := `,"stream_options":{"include_usage":true}`
	running := `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`
	cases := []struct {
		dialect string
		chat    bool
		prompt  backends.Prompt
		want    string // after the model
	}{
		{"vllm", false, backends.Prompt{IDs: []int32{1, 2}},
			`,"prompt":[1,2],"max_tokens":8,"ignore_eos":true,"min_tokens":8` + running + tail + `,"priority":-1,"cache_salt":"s"}`},
		{"vllm", true, backends.Prompt{Messages: []backends.Message{{Role: "system", Content: "a\"b"}}},
			`,"messages":[{"role":"system","content":"a\"b"}],"max_tokens":8,"ignore_eos":true,"min_tokens":8` + running + tail + `,"priority":-1,"cache_salt":"s"}`},
		{"trtllm", true, backends.Prompt{IDs: []int32{1}},
			`,"messages":[],"prompt_token_ids":[1],"max_tokens":8,"ignore_eos":true,"min_tokens":8` + running + tail + `,"priority":0.75,"cache_salt":"s"}`},
		{"sglang", true, backends.Prompt{IDs: []int32{1}},
			`,"messages":[],"input_ids":[1],"max_tokens":8,"ignore_eos":true,"min_tokens":8` + usage + tail + `,"priority":1}`},
		{"llamacpp", false, backends.Prompt{Text: "x"}, `,"prompt":"x","max_tokens":8,"ignore_eos":true` + usage + tail + `}`},
		{"tgi", true, backends.Prompt{Text: "x"}, `,"messages":[{"role":"user","content":"x"}],"max_tokens":8` + usage + tail + `}`},
		{"ollama", true, backends.Prompt{Text: "x"}, `,"messages":[{"role":"user","content":"x"}],"max_tokens":8` + usage + tail + `}`},
		{"groq", true, backends.Prompt{Text: "x"}, `,"messages":[{"role":"user","content":"x"}],"max_completion_tokens":8` + usage + tail + `}`},
		{"openai", true, backends.Prompt{Text: "x"}, `,"messages":[{"role":"user","content":"x"}],"max_completion_tokens":8` + usage + tail + `}`},
		{"openai", false, backends.Prompt{Text: "x"}, `,"prompt":"x","max_tokens":8` + usage + tail + `}`},
	}
	for _, c := range cases {
		d, _ := Find(c.dialect)
		p := &protocol{dialect: d, chat: c.chat, model: `"m"`}
		r.Prompt = c.prompt
		_, body, err := p.Request(nil, r)
		if err != nil {
			t.Errorf("%s: %v", c.dialect, err)
			continue
		}
		if want := `{"stream":true,"model":"m"` + c.want; string(body) != want || !json.Valid(body) {
			t.Errorf("%s chat=%v:\n%s\nwant\n%s", c.dialect, c.chat, body, want)
		}
	}
	azure, _ := Find("azure")
	r.Prompt = backends.Prompt{Text: "x"}
	if _, body, _ := (&protocol{dialect: azure, chat: true}).Request(nil, r); strings.Contains(string(body), "model") {
		t.Errorf("azure names the model in its URL: %s", body)
	}
}

// TestPromptsThatDoNotFit are errors that name the way out.
func TestPromptsThatDoNotFit(t *testing.T) {
	k := 4
	cases := []struct {
		dialect string
		chat    bool
		r       backends.Request
		want    string
	}{
		{"vllm", false, backends.Request{Prompt: backends.Prompt{Messages: []backends.Message{{}}}}, "--endpoint chat"},
		{"vllm", true, backends.Request{Prompt: backends.Prompt{IDs: []int32{1}}}, "--endpoint completions"},
		{"ollama", false, backends.Request{Prompt: backends.Prompt{IDs: []int32{1}}}, "--prompt text"},
		{"openai", true, backends.Request{Prompt: backends.Prompt{Text: "x"}, Sampling: backends.Sampling{TopK: &k}}, "top_k"},
	}
	for _, c := range cases {
		d, _ := Find(c.dialect)
		if _, _, err := (&protocol{dialect: d, chat: c.chat}).Request(nil, &c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.dialect, err, c.want)
		}
	}
}
