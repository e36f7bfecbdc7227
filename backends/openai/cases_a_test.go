package openai

import (
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// TestCasesA are public reports about first tokens and token counts, from raw
// bytes to what the sink is told.
func TestCasesA(t *testing.T) {
	cases := []struct {
		name   string
		events []string
		asked  int
		want   want
	}{
		{"vllm#15106 role chunk is no token", sse(roleChunk, text("Hi"), text("!"), stopChunk, done), 16,
			want{Text: "Hi!", Outputs: 2, Tokens: -1, Finish: "stop"}},
		{"vllm#6064 role chunk and finish only", sse(roleChunk, stopChunk, done), 16,
			want{Class: backends.NoOutput, Tokens: -1, Finish: "stop", Err: "no output"}},
		{"inference-perf#452 usage chunk and DONE are no tokens", sse(roleChunk, text("a"), text("b"), stopChunk, final("2"), done), 16,
			want{Text: "ab", Outputs: 2, Tokens: 2, Finish: "stop"}},
		{"guidellm#835 reasoning_content", sse(roleChunk, `{"choices":[{"index":0,"delta":{"reasoning_content":"Let"}}]}`, stopChunk, done), 16,
			want{Text: "Let", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"evalscope#1463 reasoning beside an empty reasoning_content", sse(`{"choices":[{"delta":{"reasoning_content":"","reasoning":"x"}}]}`, stopChunk, done), 16,
			want{Text: "x", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"genai-bench#205 reasoning alone", sse(`{"choices":[{"delta":{"reasoning":"think"}}]}`, stopChunk, done), 16,
			want{Text: "think", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"reasoning under both names is one text", sse(`{"choices":[{"delta":{"reasoning":"x","reasoning_content":"x"}}]}`, stopChunk, done), 16,
			want{Text: "x", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"tokenomics#16 reasoning tokens are part of the completion",
			sse(text("a"), stopChunk, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":100,"completion_tokens_details":{"reasoning_tokens":60}}}`, done), 128,
			want{Text: "a", Outputs: 1, Tokens: 100, Finish: "stop"}},
		{"aiperf#224 empty text is no token", sse(text("a"), text(""), `{"choices":[{"text":""}]}`, text("b"), stopChunk, done), 16,
			want{Text: "ab", Outputs: 2, Tokens: -1, Finish: "stop"}},
		{"empty text with a token id is a token", sse(text("a"), `{"choices":[{"text":"","token_ids":[17]}]}`, stopChunk, done), 16,
			want{Text: "a", Outputs: 2, Tokens: -1, Finish: "stop"}},
		{"evalscope#1572 usage beside choices", sse(text("a"), `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, done), 16,
			want{Text: "a", Outputs: 1, Tokens: 1, Finish: "stop"}},
		{"LiteLLM usage chunk with a choice", sse(text("a"), stopChunk, `{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, done), 16,
			want{Text: "a", Outputs: 1, Tokens: 1, Finish: "stop"}},
		{"guidellm#752 tool_calls null", sse(`{"choices":[{"delta":{"content":"a","tool_calls":null}}]}`, stopChunk, done), 16,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"guidellm#316 no content key", sse(text("a"), `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, done), 16,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"ollama limit field ignored, no usage", repeat(text("word"), 3000, stopChunk, done), 16,
			want{Class: backends.TooLong, Text: words(33), Outputs: 33, Tokens: -1, Err: "where 16 were asked for"}},
		{"ollama limit field ignored, in one event, told at the end", sse(text(words(3000)), stopChunk, final("3000"), done), 16,
			want{Class: backends.TooLong, Text: words(3000), Outputs: 1, Tokens: 3000, Finish: "stop", Err: "1500 tokens or more"}},
		{"a usage that the text does not bear out is no long output", sse(text("a"), stopChunk, final("3000"), done), 16,
			want{Text: "a", Outputs: 1, Tokens: 3000, Finish: "stop"}},
		{"ollama limit field ignored, in few events with a running usage", sse(
			`{"choices":[{"index":0,"delta":{"content":"`+words(40)+`"}}],"usage":{"completion_tokens":40}}`,
			`{"choices":[{"index":0,"delta":{"content":"`+words(40)+`"}}],"usage":{"completion_tokens":80}}`, stopChunk, done), 16,
			want{Class: backends.TooLong, Text: words(80), Outputs: 2, Tokens: 80, Err: "40 tokens or more"}},
		{"llama.cpp one token over the limit is tolerated", sse(text("a"), lengthTail, final("9"), done), 8,
			want{Text: "a", Outputs: 1, Tokens: 9, Finish: "length"}},
		{"tool call deltas are output", sse(roleChunk,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, done), 16,
			want{Text: `f{"x":1}`, Outputs: 2, Tokens: -1, Finish: "tool_calls"}},
		{"refusal text is output", sse(`{"choices":[{"delta":{"refusal":"I can't"}}]}`, stopChunk, done), 16,
			want{Text: "I can't", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"text parts are output", sse(`{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"thinking","thinking":[{"type":"text","text":"b"}]}]}}]}`, stopChunk, done), 16,
			want{Text: "ab", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"Azure first chunk with prompt filter results", sse(
			`{"id":"","object":"","created":0,"model":"","prompt_filter_results":[{"prompt_index":0}],"choices":[]}`, roleChunk, text("Hi"), stopChunk, done), 16,
			want{Text: "Hi", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"llama-server data null first", append(sse("null"), sse(`{"choices":[{"text":"a"}]}`, stopChunk, done)...), 16,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}},
		{"no visible output but usage above 0", sse(lengthTail, final("1"), done), 1,
			want{Tokens: 1, Finish: "length"}},
		{"no output and usage 0", sse(roleChunk, stopChunk, final("0"), done), 16,
			want{Class: backends.NoOutput, Tokens: 0, Finish: "stop", Err: "no output"}},
		{"usage as text is passed over", sse(text("a"), stopChunk, final(`"many"`), done), 16,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop", Warnings: "usage_not_believed"}},
		{"negative usage is passed over", sse(text("a"), stopChunk, final("-4"), done), 16,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop", Warnings: "usage_not_believed"}},
		{"absurd usage is passed over", sse(text("a"), stopChunk, final("1e15"), done), 16,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop", Warnings: "usage_not_believed"}},
		{"zero usage beside seen tokens is passed over", sse(text("a"), stopChunk, final("0"), done), 16,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop", Warnings: "usage_not_believed"}},
		{"Ollama usage zeros on every chunk", sse(
			`{"choices":[{"text":"a"}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`,
			`{"choices":[{"text":"b","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, done), 16,
			want{Text: "ab", Outputs: 2, Tokens: 2, Finish: "stop", Warnings: "usage_not_believed"}},
		{"usage null until the end", sse(`{"choices":[{"delta":{"content":"a"}}],"usage":null}`, stopChunk, final("1"), done), 16,
			want{Text: "a", Outputs: 1, Tokens: 1, Finish: "stop"}},
		{"llama-server usage per choice is added up", sse(
			`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"choices":[{"index":1,"delta":{"content":"b"}}]}`,
			`{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`, final("3"),
			`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`, final("4"), done), 16,
			want{Text: "ab", Outputs: 2, Tokens: 7, Finish: "length"}},
		{"x_groq usage", sse(text("a"), `{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":9,"completion_tokens":2}}}`, done), 16,
			want{Text: "a", Outputs: 1, Tokens: 2, Finish: "stop"}},
		{"x_groq usage beside the common one is not added", sse(text("a"),
			`{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"completion_tokens":2}},"usage":{"completion_tokens":2}}`, done), 16,
			want{Text: "a", Outputs: 1, Tokens: 2, Finish: "stop"}},
		{"TGI empty finish reason is none", sse(`{"choices":[{"text":"a","finish_reason":""}]}`, `{"choices":[{"text":"b","finish_reason":"length"}],"usage":{"completion_tokens":2}}`, done), 16,
			want{Text: "ab", Outputs: 2, Tokens: 2, Finish: "length"}},
		{"SGLang two empty chunks, one with usage", sse(text("a"), stopChunk, `{"choices":[],"sglext":{}}`, final("1"), done), 16,
			want{Text: "a", Outputs: 1, Tokens: 1, Finish: "stop"}},
		{"surrogate pairs, escapes, bytes that are not UTF-8", sse(text(`\ud83d\ude00\n`), text("\xff"), text("中"), stopChunk, done), 16,
			want{Text: "\U0001F600\n\xff中", Outputs: 3, Tokens: -1, Finish: "stop"}},
		{"vLLM beam search in one event", sse(`{"object":"text_completion","choices":[{"index":0,"text":"a b","finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":2}}`, done), 16,
			want{Text: "a b", Outputs: 1, Tokens: 2, Finish: "stop"}},
		{"logprobs are passed over", sse(`{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-1.5e-3,"bytes":[97],"top_logprobs":[]}]}}]}`, stopChunk, done), 16,
			want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := wiretest.Serve(t, wiretest.Write(wiretest.Stream(c.events...)))
			sink, out := stream(t, open(t, s.URL, "vllm"), c.asked)
			c.want.Check(t, sink, out)
		})
	}
}

// repeat is n times a chunk, and then the tail.
func repeat(chunk string, n int, tail ...string) []string {
	var all []string
	for range n {
		all = append(all, chunk)
	}
	return sse(append(all, tail...)...)
}

func words(n int) string {
	var s string
	for range n {
		s += "word"
	}
	return s
}

// TestRunningUsage is sglang#12064 and vllm#28183: several tokens a chunk are
// told by the running usage.
func TestRunningUsage(t *testing.T) {
	running := func(s string, n string) string {
		return `{"choices":[{"index":0,"delta":{"content":"` + s + `"}}],"usage":{"prompt_tokens":4,"completion_tokens":` + n + `}}`
	}
	s := wiretest.Serve(t, wiretest.Write(wiretest.Stream(sse(
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":4,"completion_tokens":0}}`,
		running("a", "1"), running("bcde", "5"), running("", "6"),
		`{"choices":[{"index":0,"delta":{"content":"g"},"finish_reason":"length"}],"usage":{"prompt_tokens":4,"completion_tokens":7}}`,
		final("7"), done)...)))
	sink, out := stream(t, open(t, s.URL, "vllm"), 7)
	want{Text: "abcdeg", Outputs: 4, Tokens: 7, Finish: "length"}.Check(t, sink, out)
	var counts []int
	for _, e := range sink.Events {
		counts = append(counts, e.Completion)
	}
	if got := sink.Events[0].Kind; got != backends.KindRole {
		t.Errorf("the role chunk is of kind %b", got)
	}
	for i, n := range []int{0, 1, 5, 6, 7, -1} {
		if counts[i] != n {
			t.Fatalf("running counts %v, want 0 1 5 6 7 -1", counts)
		}
	}
	if got := sink.Events[5].Kind; got != backends.KindUsage {
		t.Errorf("the final usage is of kind %b", got)
	}
}

// TestNotStreamed is evalscope#1499: an answer at once to a streamed request.
func TestNotStreamed(t *testing.T) {
	body := `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"all of it","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}`
	s := wiretest.Serve(t, wiretest.Write(wiretest.Plain(200, "application/json", body)))
	sink, out := stream(t, open(t, s.URL, "vllm"), 16)
	if !out.NotStreamed {
		t.Error("not flagged as not streamed")
	}
	want{Text: "all of it", Outputs: 1, Tokens: 3, Finish: "stop"}.Check(t, sink, out)
	// evalscope#1508 cached tokens
	if out.Usage.Cached != 2 || out.Usage.Prompt != 4 {
		t.Errorf("usage %+v", out.Usage)
	}
}
