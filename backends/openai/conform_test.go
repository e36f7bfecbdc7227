package openai

import (
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wiretest"
)

// body joins the events of JSON texts.
func body(data ...string) string { return strings.Join(sse(data...), "") }

// part is a chunk of completion text.
func part(s, rest string) string { return `{"choices":[{"index":0,"text":"` + s + `"` + rest + `}]}` }

// running is a chunk of answer text with a usage so far.
func running(s, n string) string {
	return `{"choices":[{"index":0,"delta":{"content":"` + s + `"},"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":9,"total_tokens":99,"completion_tokens":` + n + `}}`
}

// chats are streams of the chat route as servers send them.
var chats = []wiretest.Golden{
	{Name: "vLLM: running usage, several tokens a chunk",
		Body: body(roleChunk, running("Hi there", "2"), running("", "3"), running("\uFFFDz", "5"), lengthTail, final("5"), done),
		Want: want{Text: "Hi there\uFFFDz", Outputs: 3, Tokens: 5, Prompt: 9, Finish: "length"}},
	{Name: "TensorRT-LLM: role without content, empty texts beside tokens",
		Body: "data: " + `{"choices":[{"index":0,"delta":{"role":"assistant"}}]}` + " \n\n" + body(
			`{"choices":[{"index":0,"delta":{"content":"Hi","reasoning_content":""},"avg_decoded_tokens_per_iter":1.0}]}`,
			`{"choices":[{"index":0,"delta":{"content":"","reasoning_content":""},"finish_reason":"length"}]}`,
			`{"id":"c","choices":[],"usage":{"prompt_tokens":9,"total_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}}`, done),
		Want: want{Text: "Hi", Outputs: 1, Tokens: 1, Prompt: 9, Finish: "length"}},
	{Name: "SGLang: two chunks without choices, one of usage",
		Body: body(roleChunk, text("Hi"), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","matched_stop":2}]}`, `{"choices":[],"sglext":{"a":1}}`, final("2"), done),
		Want: want{Text: "Hi", Outputs: 1, Tokens: 2, Prompt: 9, Finish: "stop"}},
	{Name: "llama-server: null, a role with null, timings at the end",
		Body: body(`null`, `{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`, text("I"), text(" am"),
			`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}],"timings":{"prompt_n":1,"predicted_n":2}}`, final("2"), done),
		Want: want{Text: "I am", Outputs: 2, Tokens: 2, Prompt: 9, Finish: "length"}},
	{Name: "llama-server: a usage for each choice",
		Body: body(text("a"), `{"choices":[{"index":1,"delta":{"content":"b"}}]}`, `{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`, final("3"), lengthTail, final("4"), done),
		Want: want{Text: "ab", Outputs: 2, Tokens: 7, Prompt: 9, Finish: "length"}},
	{Name: "reasoning under each of its names, then a tool call",
		Body: body(`{"choices":[{"delta":{"reasoning_content":"","reasoning":"hm"}}]}`, `{"choices":[{"delta":{"reasoning_content":" so"}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"find","arguments":""}}]}}]}`,
			`{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, final("9"), done),
		Want: want{Text: `hm sofind{"a":1}`, Outputs: 4, Tokens: 9, Prompt: 9, Finish: "tool_calls"}},
	{Name: "Azure: a first chunk without choices",
		Body: body(`{"id":"","object":"","created":0,"model":"","prompt_filter_results":[{"prompt_index":0}],"choices":[]}`, roleChunk, text("Hi"), stopChunk, final("1"), done),
		Want: want{Text: "Hi", Outputs: 1, Tokens: 1, Prompt: 9, Finish: "stop"}},
	{Name: "OpenAI: obfuscation, usage null until the end",
		Body: body(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null,"obfuscation":"x"}`,
			`{"choices":[{"index":0,"delta":{"content":"caf\u00e9 \ud83d\ude00"},"finish_reason":null}],"usage":null,"obfuscation":"abcdef"}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null,"obfuscation":""}`, final("3"), done),
		Want: want{Text: "café 😀", Outputs: 1, Tokens: 3, Prompt: 9, Finish: "stop"}},
	{Name: "Groq: usage in a member of its own",
		Body: body(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"x_groq":{"id":"r"}}`, text("Hi"),
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"queue_time":0.01,"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}}`, done),
		Want: want{Text: "Hi", Outputs: 1, Tokens: 2, Prompt: 9, Finish: "stop"}},
	{Name: "LiteLLM: a usage chunk with a choice",
		Body: body(roleChunk, text("a"), stopChunk, `{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`, done),
		Want: want{Text: "a", Outputs: 1, Tokens: 1, Prompt: 9, Finish: "stop"}},
	{Name: "TGI: a role on each chunk, special tokens as empty texts",
		Body: body(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}],"usage":null}`,
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":null}`, `{"id":"","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, done),
		Want: want{Text: "Hi", Outputs: 1, Tokens: 2, Prompt: 9, Finish: "stop"}},
	{Name: "guidellm#795 an error event and DONE", Body: body(text("a"), `{"error": {"message": "engine gone", "type": "InternalServerError", "param": null, "code": 500}}`, done),
		Want: want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Err: "engine gone"}},
	{Name: "ai-gateway#2698 an error event and no DONE", Body: body(text("a"), `{"error":{"message":"upstream reset"}}`),
		Want: want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Err: "upstream reset"}},
	{Name: "an event of the type error", Body: body(text("a")) + "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"Overloaded\"}}\n\n",
		Want: want{Class: backends.StreamError, Text: "a", Outputs: 1, Tokens: -1, Err: "Overloaded"}},
	{Name: "ended without a finish", Body: body(roleChunk, text("a")),
		Want: want{Class: backends.Truncated, Text: "a", Outputs: 1, Tokens: -1, Err: "without a finish reason"}},
	{Name: "cut inside an event", Cut: true, Body: body(roleChunk, text("a")) + `data: {"choices":[{"de`,
		Want: want{Class: backends.Truncated, Text: "a", Outputs: 1, Tokens: -1, Err: "without a finish reason"}},
	{Name: "cut after the finish", Cut: true, Body: body(roleChunk, text("a"), stopChunk),
		Want: want{Text: "a", Outputs: 1, Tokens: -1, Finish: "stop", Warnings: "cut_after_end"}},
	{Name: "vllm#6064 nothing generated", Body: body(roleChunk, stopChunk, done),
		Want: want{Class: backends.NoOutput, Tokens: -1, Finish: "stop", Err: "no output"}},
	{Name: "not JSON", Body: body(text("a"), "{oops}"),
		Want: want{Class: backends.Malformed, Text: "a", Outputs: 1, Tokens: -1, Err: "{oops}"}},
}

// completions are streams of the completions route.
var completions = []wiretest.Golden{
	{Name: "vLLM: token ids, a text that is empty and a token",
		Body: body(part("a", `,"token_ids":[5]`), part("", `,"token_ids":[6]`), part("bc", `,"token_ids":[7,8],"finish_reason":"length"`), final("4"), done),
		Want: want{Text: "abc", Outputs: 3, IDs: 4, Tokens: 4, Prompt: 9, Finish: "length"}},
	{Name: "llama-server: usage on the finishing chunk",
		Body: body(part("a", `,"logprobs":null,"finish_reason":null`), `{"choices":[{"index":0,"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":7}}}`, done),
		Want: want{Text: "a", Outputs: 1, Tokens: 1, Prompt: 9, Finish: "length"}},
	{Name: "TGI: an empty finish reason is none",
		Body: body(part("a", `,"finish_reason":""`), `{"choices":[{"index":0,"text":"b","finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, done),
		Want: want{Text: "ab", Outputs: 2, Tokens: 2, Prompt: 9, Finish: "length"}},
	{Name: "Ollama: usage of zeros on every chunk",
		Body: body(`{"choices":[{"index":0,"text":"a","finish_reason":null}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`,
			`{"choices":[{"index":0,"text":"b","finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`, final("2"), done),
		Want: want{Text: "ab", Outputs: 2, Tokens: 2, Prompt: 9, Finish: "stop", Warnings: "usage_not_believed"}},
	{Name: "LiteLLM: a usage chunk with a choice that has no text",
		Body: body(part("a", ""), part("", `,"finish_reason":"length"`), `{"choices":[{"index":0}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, done),
		Want: want{Text: "a", Outputs: 1, Tokens: 1, Prompt: 9, Finish: "length"}},
	{Name: "two prompts", Body: body(part("a", ""), `{"choices":[{"index":1,"text":"b"}]}`, part("", `,"finish_reason":"length"`), `{"choices":[{"index":1,"text":"","finish_reason":"length"}]}`, final("2"), done),
		Want: want{Text: "ab", Outputs: 2, Tokens: 2, Prompt: 9, Finish: "length"}},
	{Name: "vLLM: a token id that is not in the vocabulary", Body: body(`{"error": {"message": "Token id 900000 is not in the vocabulary", "type": "BadRequestError", "param": null, "code": 400}}`, done),
		Want: want{Class: backends.StreamError, Tokens: -1, Err: "not in the vocabulary"}},
	{Name: "TensorRT-LLM: cut", Cut: true, Body: body(part("a", ""), part("b", "")),
		Want: want{Class: backends.Truncated, Text: "ab", Outputs: 2, Tokens: -1, Err: "without a finish reason"}},
}

// TestConformance reads the streams of both routes split at every boundary and
// in every form of server-sent events.
func TestConformance(t *testing.T) {
	for route, goldens := range map[string][]wiretest.Golden{"chat": chats, "completions": completions} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			client := func(url string) backends.Client {
				return open(t, url, "vllm", func(c *Config) { c.Chat = route == "chat" })
			}
			wiretest.Conform(t, goldens, true, client, ask(16))
		})
	}
}
