package telemetry

// quantity is one thing that a server tells of itself.
type quantity uint8

// The quantities. Gauges are as they are at the time of a scrape, counters
// grow until the server is started again.
const (
	running    quantity = iota // requests that are being computed
	waiting                    // requests that wait for a slot or for memory
	kvUsage                    // share of the KV cache in use, 0 to 1
	hitRate                    // share of prompt tokens found in a prefix cache, where no counter tells
	acceptRate                 // share of draft tokens accepted, where no counter tells

	preemptions    // requests that lost their KV cache
	requests       // requests that ended well
	outputTokens   //
	lookedUp       // prompt tokens (or blocks) looked up in a prefix cache
	found          // those of them that were there
	draftTokens    // tokens proposed by speculative decoding
	acceptedTokens // those of them that were accepted
	ttftSum        // seconds
	ttftCount      //
	queueSum       // seconds
	queueCount     //

	quantities
	counters = preemptions // the first of them
)

// words say what a source tells of that has the quantity; "" is said by
// another one.
var words = [quantities]string{
	running: "running", waiting: "waiting", kvUsage: "KV cache", preemptions: "preemptions", requests: "requests",
	outputTokens: "output tokens", lookedUp: "prefix cache", hitRate: "prefix cache", draftTokens: "drafts", acceptRate: "drafts",
	ttftCount: "TTFT", queueCount: "queue time",
}

// metric says which quantity a name on a metrics page is.
type metric struct {
	// name is the metric's, without the _total that some exporters add.
	name string
	is   quantity
	// count takes the count of a histogram, whose sum is takes; 0 takes none.
	count quantity
	// scale turns the value into the quantity's unit; 0 is 1.
	scale float64
	// label and value choose among the series; "" takes them all.
	label, value string
	// largest takes the largest of the series instead of their sum.
	largest bool
	// adds adds to what an earlier row of the same quantity found; else the
	// first row that is there counts.
	adds bool
}

// engine is a kind of server with the metrics that it has.
type engine struct {
	name, prefix string
	metrics      []metric
}

// engines are the known ones, by what their sources and documents say. Newer
// names stand before older ones.
var engines = []engine{
	{"vllm", "vllm:", []metric{
		{name: "vllm:num_requests_running", is: running},
		{name: "vllm:num_requests_waiting", is: waiting},
		{name: "vllm:kv_cache_usage_perc", is: kvUsage, largest: true},
		{name: "vllm:gpu_cache_usage_perc", is: kvUsage, largest: true},
		{name: "vllm:num_preemptions", is: preemptions},
		{name: "vllm:request_success", is: requests},
		{name: "vllm:generation_tokens", is: outputTokens},
		{name: "vllm:prefix_cache_queries", is: lookedUp},
		{name: "vllm:prefix_cache_hits", is: found},
		{name: "vllm:gpu_prefix_cache_queries", is: lookedUp},
		{name: "vllm:gpu_prefix_cache_hits", is: found},
		{name: "vllm:spec_decode_num_draft_tokens", is: draftTokens},
		{name: "vllm:spec_decode_num_accepted_tokens", is: acceptedTokens},
		{name: "vllm:time_to_first_token_seconds", is: ttftSum, count: ttftCount},
		{name: "vllm:request_queue_time_seconds", is: queueSum, count: queueCount},
	}},
	{"tensorrt-llm", "trtllm_", []metric{
		{name: "trtllm_num_requests_running", is: running},
		{name: "trtllm_num_requests_waiting", is: waiting},
		{name: "trtllm_kv_cache_utilization", is: kvUsage, largest: true},
		{name: "trtllm_request_success", is: requests},
		{name: "trtllm_generation_tokens", is: outputTokens},
		{name: "trtllm_prompt_tokens", is: lookedUp},
		{name: "trtllm_prompt_cached_tokens", is: found},
		{name: "trtllm_kv_cache_reused_blocks", is: found},
		{name: "trtllm_kv_cache_reused_blocks", is: lookedUp},
		{name: "trtllm_kv_cache_missed_blocks", is: lookedUp, adds: true},
		{name: "trtllm_kv_cache_hit_rate", is: hitRate, largest: true},
		{name: "trtllm_spec_decode_num_draft_tokens", is: draftTokens},
		{name: "trtllm_spec_decode_num_accepted_tokens", is: acceptedTokens},
		{name: "trtllm_time_to_first_token_seconds", is: ttftSum, count: ttftCount},
		{name: "trtllm_request_queue_time_seconds", is: queueSum, count: queueCount},
	}},
	{"sglang", "sglang:", []metric{
		{name: "sglang:num_running_reqs", is: running},
		{name: "sglang:num_queue_reqs", is: waiting},
		{name: "sglang:token_usage", is: kvUsage, largest: true},
		{name: "sglang:num_retracted_requests", is: preemptions},
		{name: "sglang:num_retracted_reqs", is: preemptions},
		{name: "sglang:num_requests", is: requests},
		{name: "sglang:generation_tokens", is: outputTokens},
		{name: "sglang:prompt_tokens", is: lookedUp},
		{name: "sglang:cached_tokens", is: found},
		{name: "sglang:cache_hit_rate", is: hitRate, largest: true},
		{name: "sglang:spec_accept_rate", is: acceptRate, largest: true},
		{name: "sglang:time_to_first_token_seconds", is: ttftSum, count: ttftCount},
		{name: "sglang:queue_time_seconds", is: queueSum, count: queueCount},
	}},
	{"tgi", "tgi_", []metric{
		{name: "tgi_batch_current_size", is: running},
		{name: "tgi_queue_size", is: waiting},
		{name: "tgi_request_success", is: requests},
		{name: "tgi_request_generated_tokens", is: outputTokens},
		{name: "tgi_request_queue_duration", is: queueSum, count: queueCount},
	}},
	{"llama.cpp", "llamacpp:", []metric{
		{name: "llamacpp:requests_processing", is: running},
		{name: "llamacpp:requests_deferred", is: waiting},
		{name: "llamacpp:kv_cache_usage_ratio", is: kvUsage, largest: true},
		{name: "llamacpp:tokens_predicted", is: outputTokens},
		{name: "llamacpp:prompt_tokens_cached", is: found},
		{name: "llamacpp:prompt_tokens_cached", is: lookedUp},
		{name: "llamacpp:prompt_tokens", is: lookedUp, adds: true}, // it leaves out the cached ones
		{name: "llamacpp:spec_decode_num_draft_tokens", is: draftTokens},
		{name: "llamacpp:spec_decode_num_accepted_tokens", is: acceptedTokens},
	}},
	{"triton", "nv_", []metric{
		// An ensemble counts a request once for itself and once for each step, so
		// the largest count is that of the requests.
		{name: "nv_inference_request_success", is: requests, largest: true},
		{name: "nv_trt_llm_request_metrics", label: "request_type", value: "active", is: running},
		{name: "nv_trt_llm_request_metrics", label: "request_type", value: "waiting", is: waiting},
		{name: "nv_inference_pending_request_count", is: waiting, largest: true},
		{name: "nv_trt_llm_kv_cache_block_metrics", label: "kv_cache_block_type", value: "fraction", is: kvUsage, largest: true},
		{name: "nv_inference_queue_duration_us", is: queueSum, scale: 1e-6},
		{name: "nv_inference_request_success", is: queueCount},
	}},
}

// exporter is a kind of page that tells of accelerators.
type exporter struct {
	name, id                   string // id is the label of the device's unique id
	power, utilisation, memory string
	share, mebibyte            float64 // scales of the last two
}

var exporters = []exporter{
	{"dcgm", "UUID", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", 0.01, 1},
	{"triton", "gpu_uuid", "nv_gpu_power_usage", "nv_gpu_utilization", "nv_gpu_memory_used_bytes", 1, 1.0 / (1 << 20)},
}
