package connect_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
)

// replay is an answer of a real server, as bytes, and what it says.
type replay struct {
	file              string
	dialect, endpoint string
	asked             int
	class             string // "" for ok
	output            int64  // tokens, -1 for unknown
	outputs           int    // events that carry output
	source            string // who counted the tokens
	prompt            int64  // its tokens, 0 for none told
	cached            int64  // of the prompt's tokens, -1 for none told
	closes            bool   // the server closed the connection
}

// TestReplays has the answers of real servers read again: vLLM 0.32 (also short
// of slots, blocks and queue), llama-server b11434, LiteLLM 1.108 in front of
// both, and Triton 2.51. Ids, names and texts in them are made up; their
// structure, framing and counts are the servers'. Each is asked for twice, so
// that the connection has to serve again, or be replaced.
func TestReplays(t *testing.T) {
	for _, r := range replays {
		t.Run(r.file, func(t *testing.T) {
			t.Parallel()
			answer, err := os.ReadFile(filepath.Join("testdata", "replays", r.file+".http"))
			if err != nil {
				t.Fatal(err)
			}
			one := script{pieces: []piece{{bytes: string(answer)}}, closes: r.closes}
			got := experiment{dialect: r.dialect, endpoint: r.endpoint, asked: r.asked, scripts: []script{one, one}}.run(t)
			class, failed := r.class, int64(2)
			if class == "" {
				class, failed = "ok", 0
			}
			for _, line := range got.lines {
				output, prompt := int64(-1), int64(8)
				if line.OutputTokens != nil {
					output = *line.OutputTokens
				}
				if r.prompt > 0 {
					prompt = r.prompt
				}
				if line.Class != class || output != r.output || line.TokenSource != r.source {
					t.Errorf("%s with %d tokens by %q, want %s with %d by %q: %s", line.Class, output, line.TokenSource, class, r.output, r.source, line.Error)
				}
				if line.InputTokens == nil || *line.InputTokens != prompt {
					t.Errorf("prompt of %v tokens, want %d", line.InputTokens, prompt)
				}
				if n := got.heard[line.RequestID].outputs; n != r.outputs {
					t.Errorf("%d events with output, want %d", n, r.outputs)
				}
				if line.SentNS == nil || line.FirstByteNS == nil || *line.FirstByteNS < *line.SentNS || *line.EndNS < *line.FirstByteNS {
					t.Errorf("sent %v, first byte %v, end %v", line.SentNS, line.FirstByteNS, line.EndNS)
				}
			}
			r.checkRung(t, got, strings.Contains(strings.ToLower(string(answer)), "content-type: text/event-stream"))
			if got.Totals.Failed != failed || got.Totals.Completed != 2-failed || got.Totals.OutputTokens != 2*max(0, r.output) {
				t.Errorf("totals %+v", got.Totals)
			}
		})
	}
}

// checkRung holds the rung of two answers to what is known of one.
func (r replay) checkRung(t *testing.T, got observed, streamed bool) {
	t.Helper()
	connections, latencies := int64(1), int64(0)
	if r.closes {
		connections = 2
	}
	if r.class == "" && streamed && r.outputs > 0 {
		latencies = 2
	}
	if got.Client.Connections != connections {
		t.Errorf("%d connections, want %d", got.Client.Connections, connections)
	}
	if got.TTFT.Count != latencies || got.TTFT.Mean.OK() != (latencies > 0) {
		t.Errorf("%d TTFT of %v ms, want %d", got.TTFT.Count, got.TTFT.Mean, latencies)
	}
	if notStreamed := strings.Contains(warned(got.Rung), "not_streamed"); notStreamed != (r.class == "" && !streamed) {
		t.Errorf("warnings %s", warned(got.Rung))
	}
	cached, told := record.Value{}, got.Telemetry
	if told != nil {
		cached = told.PrefixCacheHitRatio
	}
	if ratio, ok := cached.Float(); ok != (r.cached >= 0 && r.class == "") || ok && math.Abs(ratio-float64(r.cached)/float64(r.prompt)) > 1e-9 {
		t.Errorf("%v of the prompt was cached, want %d of %d", cached, r.cached, r.prompt)
	}
}

// replays are the answers, in the order of servers and names.
var replays = []replay{
	{"vllm/chat_nonstream", "vllm", "chat", 12, "", 12, 1, "usage", 11, -1, false},
	{"vllm/chat_stream_continuous", "vllm", "chat", 12, "", 12, 12, "running_usage", 11, -1, false},
	{"vllm/chat_stream_interval4_token_ids", "vllm", "chat", 10, "", 10, 4, "running_usage", 11, -1, false},
	{"vllm/chat_stream_logprobs", "vllm", "chat", 3, "", 3, 3, "events", 0, -1, false},
	{"vllm/chat_stream_max_tokens_1", "vllm", "chat", 1, "", 1, 1, "usage", 11, -1, false},
	{"vllm/chat_stream_n2", "vllm", "chat", 4, "", 8, 8, "usage", 11, -1, false},
	{"vllm/chat_stream_plain", "vllm", "chat", 6, "no_output", -1, 0, "", 0, -1, false},
	{"vllm/chat_stream_usage", "vllm", "chat", 12, "", 12, 11, "usage", 11, -1, false},
	{"vllm/completions_nonstream", "vllm", "completions", 4, "", 4, 1, "usage", 8, -1, false},
	{"vllm/completions_stream_batch2_ids", "vllm", "completions", 3, "", 6, 6, "usage", 12, -1, false},
	{"vllm/completions_stream_echo", "vllm", "completions", 2, "", 2, 2, "usage", 8, -1, false},
	{"vllm/completions_stream_ids", "vllm", "completions", 8, "", 8, 8, "usage", 8, -1, false},
	{"vllm/completions_stream_ids_token_ids", "vllm", "completions", 4, "", 4, 4, "running_usage", 8, -1, false},
	{"vllm/completions_stream_no_max_tokens", "vllm", "completions", 16, "", 16, 14, "usage", 8, -1, false},
	{"vllm/completions_stream_prompt300", "vllm", "completions", 4, "", 4, 4, "usage", 480, -1, false},
	{"vllm/disconnect_after_4_events", "vllm", "completions", 480, "truncated", 4, 4, "events", 0, -1, true},
	{"vllm/engine_dead_next_request", "vllm", "chat", 12, "http_5xx", -1, 0, "", 0, -1, true},
	{"vllm/engine_died_midstream", "vllm", "chat", 12, "stream_error", -1, 0, "", 0, -1, false},
	{"vllm/err_bad_json", "vllm", "chat", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"vllm/err_bad_model", "vllm", "chat", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"vllm/err_bad_type", "vllm", "chat", 2, "http_4xx", -1, 0, "", 0, -1, false},
	{"vllm/err_continuous_without_include", "vllm", "chat", 2, "", 1, 1, "events", 0, -1, false},
	{"vllm/err_max_tokens_negative", "vllm", "chat", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"vllm/err_max_tokens_too_large", "vllm", "chat", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"vllm/err_max_tokens_zero", "vllm", "chat", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"vllm/err_messages_no_max_tokens", "anthropic", "", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"vllm/err_priority_nonzero", "vllm", "chat", 2, "", 2, 1, "usage", 11, -1, false},
	{"vllm/err_prompt_too_long", "vllm", "completions", 4, "http_4xx", -1, 0, "", 0, -1, false},
	{"vllm/err_stream_options_without_stream", "vllm", "chat", 2, "http_4xx", -1, 0, "", 0, -1, false},
	{"vllm/err_token_id_out_of_vocab", "vllm", "completions", 4, "stream_error", -1, 0, "", 0, -1, false},
	{"vllm/messages_nonstream", "anthropic", "", 6, "", 6, 1, "usage", 11, -1, false},
	{"vllm/messages_stream", "anthropic", "", 6, "", 6, 5, "usage", 11, -1, false},
	{"vllm/ok_unknown_field", "vllm", "chat", 2, "", 2, 1, "usage", 11, -1, false},
	{"vllm-pressure/burst10_0", "vllm", "completions", 300, "", 300, 258, "usage", 100, -1, false},
	{"vllm-pressure/burst10_5", "vllm", "completions", 300, "http_5xx", -1, 0, "", 0, -1, false},
	{"vllm-pressure/reasoning_nonstream", "vllm", "chat", 6, "", 6, 1, "usage", 11, -1, false},
	{"vllm-pressure/reasoning_stream", "vllm", "chat", 6, "", 6, 6, "usage", 11, -1, false},
	{"vllm-pressure/reasoning_then_content_stream", "vllm", "chat", 8, "", 8, 0, "usage", 11, -1, false},
	{"llama-server/chat_nonstream", "llamacpp", "chat", 12, "", 12, 1, "usage", 36, 35, false},
	{"llama-server/chat_stream_continuous", "llamacpp", "chat", 4, "", 4, 4, "usage", 36, 35, true},
	{"llama-server/chat_stream_logprobs", "llamacpp", "chat", 3, "", 3, 3, "events", 0, -1, true},
	{"llama-server/chat_stream_max_tokens_0", "llamacpp", "chat", 16, "", 1, 1, "usage", 36, 35, true},
	{"llama-server/chat_stream_max_tokens_1", "llamacpp", "chat", 1, "", 1, 0, "usage", 36, 24, true},
	{"llama-server/chat_stream_max_tokens_1_temp0", "llamacpp", "chat", 1, "", 1, 1, "usage", 36, 35, true},
	{"llama-server/chat_stream_n2", "llamacpp", "chat", 3, "", 6, 6, "usage", 36, 24, true},
	{"llama-server/chat_stream_natural_stop", "llamacpp", "chat", 60, "", 7, 6, "usage", 40, 24, true},
	{"llama-server/chat_stream_plain", "llamacpp", "chat", 6, "", 6, 6, "events", 0, -1, true},
	{"llama-server/chat_stream_timings_progress", "llamacpp", "chat", 4, "", 4, 4, "usage", 265, 36, true},
	{"llama-server/chat_stream_usage", "llamacpp", "chat", 12, "", 12, 12, "usage", 36, 0, true},
	{"llama-server/chat_stream_utf8_emoji", "llamacpp", "chat", 24, "", 20, 10, "usage", 49, 24, true},
	{"llama-server/completions_nonstream", "llamacpp", "completions", 4, "", 4, 1, "usage", 8, 7, false},
	{"llama-server/completions_stream_batch2_ids", "llamacpp", "completions", 3, "", 6, 6, "usage", 8, 7, true},
	{"llama-server/completions_stream_ids", "llamacpp", "completions", 8, "", 8, 8, "usage", 8, 0, true},
	{"llama-server/completions_stream_ids_return_tokens", "llamacpp", "completions", 3, "", 3, 3, "usage", 8, 7, true},
	{"llama-server/completions_stream_max_tokens_1", "llamacpp", "completions", 1, "", 1, 1, "usage", 3, 2, true},
	{"llama-server/completions_stream_min_tokens", "llamacpp", "completions", 3, "", 3, 3, "usage", 8, 7, true},
	{"llama-server/disconnect_after_4_events", "llamacpp", "completions", 900, "truncated", 4, 4, "events", 0, -1, true},
	{"llama-server/err_bad_json", "llamacpp", "chat", 16, "http_4xx", -1, 0, "", 0, -1, true},
	{"llama-server/err_bad_type", "llamacpp", "chat", 2, "http_4xx", -1, 0, "", 0, -1, true},
	{"llama-server/err_max_tokens_negative", "llamacpp", "chat", 16, "http_4xx", -1, 0, "", 0, -1, true},
	{"llama-server/err_messages_no_max_tokens", "anthropic", "", 16, "truncated", 6, 6, "events", 36, 35, true},
	{"llama-server/err_prompt_too_long", "llamacpp", "completions", 4, "http_4xx", -1, 0, "", 0, -1, true},
	{"llama-server/err_token_id_out_of_vocab", "llamacpp", "completions", 4, "http_4xx", -1, 0, "", 0, -1, true},
	{"llama-server/messages_nonstream", "anthropic", "", 6, "", 6, 1, "usage", 36, 35, false},
	{"llama-server/messages_stream", "anthropic", "", 6, "", 6, 6, "usage", 36, 35, true},
	{"llama-server/native_completion_stream", "llamacpp", "native", 4, "", 4, 4, "running_usage", 8, 7, true},
	{"llama-server/native_completion_stream_cached", "llamacpp", "native", 2, "", 2, 2, "running_usage", 8, 7, true},
	{"llama-server/ok_bad_model", "llamacpp", "chat", 2, "", 2, 2, "events", 0, -1, true},
	{"llama-server/ok_unknown_field", "llamacpp", "chat", 2, "", 2, 1, "usage", 36, 35, false},
	{"llama-server/queued_5_of_6_np4", "llamacpp", "completions", 4, "", 4, 4, "usage", 4, 0, true},
	{"litellm/disconnect_after_4_events", "generic", "chat", 400, "truncated", 3, 3, "events", 0, -1, true},
	{"litellm/err_bad_key", "generic", "chat", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"litellm/err_bad_model", "generic", "chat", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"litellm/err_max_tokens_too_large", "generic", "chat", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"litellm/err_messages_no_max_tokens", "anthropic", "", 16, "http_4xx", -1, 0, "", 0, -1, false},
	{"litellm/ok_unknown_field", "generic", "chat", 2, "", 2, 1, "usage", 11, -1, false},
	{"litellm/smol_chat_stream_plain", "generic", "chat", 4, "", 4, 4, "events", 0, -1, false},
	{"litellm/smol_chat_stream_usage", "generic", "chat", 8, "", 8, 8, "usage", 36, 0, false},
	{"litellm/smol_completions_stream_ids", "generic", "completions", 4, "", 4, 4, "usage", 3, 0, false},
	{"litellm/smol_messages_stream", "anthropic", "", 8, "", 13, 12, "usage", 36, 35, false},
	{"litellm/tiny_chat_ignore_eos", "generic", "chat", 4, "", 4, 4, "events", 0, -1, false},
	{"litellm/tiny_chat_nonstream", "generic", "chat", 4, "", 4, 1, "usage", 11, -1, false},
	{"litellm/tiny_chat_stream_plain", "generic", "chat", 4, "", 4, 4, "events", 0, -1, false},
	{"litellm/tiny_chat_stream_usage", "generic", "chat", 8, "", 8, 8, "usage", 11, -1, false},
	{"litellm/tiny_completions_stream_ids", "generic", "completions", 4, "http_5xx", -1, 0, "", 0, -1, false},
	{"litellm/tiny_messages_nonstream", "anthropic", "", 4, "", 4, 1, "usage", 11, -1, false},
	{"litellm/tiny_messages_stream", "anthropic", "", 8, "", 8, 8, "usage", 11, 0, false},
	{"triton/disconnect_after_4_events", "triton", "", 200, "truncated", 4, 4, "token_ids", 0, -1, true},
	{"triton/err_bad_json", "triton", "", 16, "http_5xx", -1, 0, "", 0, -1, false},
	{"triton/err_bad_model", "triton", "", 2, "http_4xx", -1, 0, "", 0, -1, false},
	{"triton/err_bad_type", "triton", "", 16, "http_5xx", -1, 0, "", 0, -1, false},
	{"triton/generate_on_decoupled", "triton", "", 3, "stream_error", -1, 0, "", 0, -1, false},
	{"triton/generate_once_array", "triton", "", 3, "", 3, 1, "token_ids", 0, -1, false},
	{"triton/generate_stream", "triton", "", 6, "", 6, 6, "token_ids", 0, -1, false},
	{"triton/generate_stream_defaults", "triton", "", 1, "", 1, 1, "token_ids", 0, -1, false},
	{"triton/generate_stream_error_first", "triton", "", 6, "http_4xx", -1, 0, "", 0, -1, false},
	{"triton/generate_stream_error_mid", "triton", "", 6, "stream_error", 2, 2, "token_ids", 0, -1, false},
	{"triton/generate_stream_once_array", "triton", "", 3, "", 3, 1, "token_ids", 0, -1, false},
	{"triton/generate_stream_parameters", "triton", "", 2, "", 2, 2, "token_ids", 0, -1, false},
	{"triton/generate_stream_zero", "triton", "", 16, "no_output", -1, 0, "", 0, -1, false},
	{"triton/ok_unknown_field", "triton", "", 2, "", 2, 2, "token_ids", 0, -1, false},
}
