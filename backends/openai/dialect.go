// Package openai speaks the OpenAI-compatible chat and completions routes, in
// the dialects of the servers that have them.
package openai

import "slices"

// Priorities is how a dialect takes a request's priority.
type Priorities uint8

// The ways.
const (
	NoPriority Priorities = iota
	LowFirst              // an integer, the lower is served first
	HighFirst             // an integer, the higher is served first
	Unit                  // a number from 0 to 1, the higher is served first
)

// Dialect is how one server's routes differ from another's. Field names and
// routes are "" where the server has none.
type Dialect struct {
	Name string
	// Engine is the server software that the dialect is named after.
	Engine string
	// ChatLimit and TextLimit are the fields of the output limit on the chat
	// and on the completions route.
	ChatLimit, TextLimit string
	// IgnoreEOS and MinTokens say that these fields force the output length.
	IgnoreEOS, MinTokens bool
	// TextIDs says that a completions prompt may be token ids; ChatIDs is the
	// field for them on the chat route.
	TextIDs bool
	ChatIDs string
	// Usage says that stream_options.include_usage may be asked for, Running
	// that continuous_usage_stats may.
	Usage, Running bool
	// TopK says that there is a top_k.
	TopK     bool
	Priority Priorities
	// Salt is the field that parts prefix caches.
	Salt string
	// KeyHeader carries the API key; "" is Authorization: Bearer.
	KeyHeader string
	// ModelInURL says that the route names the model.
	ModelInURL bool
	// TokenIDsOut says that the ids of the output can be asked for.
	TokenIDsOut bool

	// Routes from the server's root.
	Health, Version, Metrics, Tokenize, CacheReset string
	// MetricPrefix begins the names on the metrics page.
	MetricPrefix string
	// PrefixCaching says that the server caches prefixes unless told not to.
	PrefixCaching bool
}

// dialects are the known ones, by what their sources and documents say.
var dialects = []Dialect{
	{
		Name: "vllm", Engine: "vllm", ChatLimit: "max_tokens", TextLimit: "max_tokens",
		IgnoreEOS: true, MinTokens: true, TextIDs: true, Usage: true, Running: true, TopK: true,
		Priority: LowFirst, Salt: "cache_salt", TokenIDsOut: true,
		Health: "/health", Version: "/version", Metrics: "/metrics", Tokenize: "/tokenize",
		CacheReset: "/reset_prefix_cache", MetricPrefix: "vllm:", PrefixCaching: true,
	},
	{
		Name: "trtllm", Engine: "tensorrt-llm", ChatLimit: "max_tokens", TextLimit: "max_tokens",
		IgnoreEOS: true, MinTokens: true, TextIDs: true, ChatIDs: "prompt_token_ids",
		Usage: true, Running: true, TopK: true, Priority: Unit, Salt: "cache_salt",
		Health: "/health", Version: "/version", Metrics: "/prometheus/metrics", Tokenize: "/_internal/tokenize",
		MetricPrefix: "trtllm_", PrefixCaching: true,
	},
	{
		Name: "sglang", Engine: "sglang", ChatLimit: "max_tokens", TextLimit: "max_tokens",
		IgnoreEOS: true, MinTokens: true, TextIDs: true, ChatIDs: "input_ids",
		Usage: true, TopK: true, Priority: HighFirst, TokenIDsOut: true,
		Health: "/health", Version: "/get_server_info", Metrics: "/metrics",
		CacheReset: "/flush_cache", MetricPrefix: "sglang:", PrefixCaching: true,
	},
	{
		Name: "tgi", Engine: "tgi", ChatLimit: "max_tokens", TextLimit: "max_tokens", Usage: true,
		Health: "/health", Version: "/info", Metrics: "/metrics", Tokenize: "/tokenize", MetricPrefix: "tgi_",
	},
	{
		Name: "llamacpp", Engine: "llama.cpp", ChatLimit: "max_tokens", TextLimit: "max_tokens",
		IgnoreEOS: true, TextIDs: true, Usage: true, TopK: true,
		Health: "/health", Metrics: "/metrics", Tokenize: "/tokenize", MetricPrefix: "llamacpp:", PrefixCaching: true,
	},
	{
		Name: "ollama", Engine: "ollama", ChatLimit: "max_tokens", TextLimit: "max_tokens", Usage: true,
		Version: "/api/version", PrefixCaching: true,
	},
	{
		Name: "groq", Engine: "groq", ChatLimit: "max_completion_tokens", TextLimit: "max_tokens", Usage: true,
	},
	{
		Name: "openai", Engine: "openai", ChatLimit: "max_completion_tokens", TextLimit: "max_tokens",
		TextIDs: true, Usage: true, PrefixCaching: true,
	},
	{
		Name: "azure", Engine: "azure", ChatLimit: "max_completion_tokens", TextLimit: "max_tokens",
		TextIDs: true, Usage: true, KeyHeader: "api-key", ModelInURL: true, PrefixCaching: true,
	},
	{
		// What every server takes, for one that is not known.
		Name: "generic", ChatLimit: "max_tokens", TextLimit: "max_tokens", Usage: true,
		Health: "/health", Version: "/version", Metrics: "/metrics",
	},
}

// Find returns the dialect of that name.
func Find(name string) (Dialect, bool) {
	i := slices.IndexFunc(dialects, func(d Dialect) bool { return d.Name == name })
	if i < 0 {
		return Dialect{}, false
	}
	return dialects[i], true
}

// Names lists the dialects.
func Names() []string {
	names := make([]string, len(dialects))
	for i, d := range dialects {
		names[i] = d.Name
	}
	return names
}
