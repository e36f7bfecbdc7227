// Package profiles says what to run: the profile, its YAML form, its
// validation, its matrix and the built-in library. It knows no network, no
// clock and no secrets: of an API key it has the variable's name only.
package profiles

import "time"

// APIVersion is the only version of the profile format.
const APIVersion = "headway/v1"

// Unknown stands for a fact that nobody told. It is shown as such in every
// table, and publishing refuses it.
const Unknown = "unknown"

// Profile is one experiment: what is loaded, with what, how and for how long.
type Profile struct {
	APIVersion string              `yaml:"apiVersion" json:"apiVersion" profile:"required"`
	Name       string              `yaml:"name" json:"name" profile:"required"`
	About      string              `yaml:"about,omitempty" json:"about,omitempty"`
	Model      Model               `yaml:"model" json:"model" profile:"required,unknown"`
	Precision  Precision           `yaml:"precision" json:"precision" profile:"required,unknown"`
	Hardware   Hardware            `yaml:"hardware" json:"hardware" profile:"required,unknown"`
	Serving    Serving             `yaml:"serving" json:"serving" profile:"required,unknown"`
	Workload   Workload            `yaml:"workload" json:"workload" profile:"required"`
	Load       Load                `yaml:"load" json:"load" profile:"required"`
	Stage      Stage               `yaml:"stage" json:"stage"`
	SLO        SLOs                `yaml:"slo,omitempty" json:"slo,omitempty"`
	Cost       Cost                `yaml:"cost,omitempty" json:"cost,omitzero"`
	Target     Target              `yaml:"target,omitempty" json:"target,omitzero"`
	Matrix     map[string][]string `yaml:"matrix,omitempty" json:"matrix,omitempty"`
}

// Model names the weights. Every field may be Unknown.
type Model struct {
	Family  string `yaml:"family" json:"family" profile:"required"`
	Version string `yaml:"version" json:"version" profile:"required"`
	Size    string `yaml:"size" json:"size" profile:"required"`
	ID      string `yaml:"id" json:"id" profile:"required"` // as sent to the server
}

// Precision names number formats, such as bf16 or fp8.
type Precision struct {
	Weights string `yaml:"weights" json:"weights" profile:"required"`
	KVCache string `yaml:"kv_cache" json:"kv_cache" profile:"required"`
}

// Hardware names the accelerators that serve; Count 0 is unknown.
type Hardware struct {
	Accelerator string `yaml:"accelerator" json:"accelerator" profile:"required"`
	Count       int    `yaml:"count" json:"count" profile:"required,unknown"`
}

// Serving names the engine and how it was set up. Settings is nil when unknown
// and empty when the engine runs with its defaults.
type Serving struct {
	Engine   string            `yaml:"engine" json:"engine" profile:"required"`
	Version  string            `yaml:"version" json:"version" profile:"required"`
	Settings map[string]string `yaml:"settings" json:"settings" profile:"required,unknown"`
}

// Length is a distribution of token counts. Kind says which of the other
// fields count: "fixed" (Value), "uniform" (Min, Max, both included), "normal"
// (Mean, StdDev, clipped to Min..Max), "lognormal" (Mean, StdDev of the
// lengths themselves, clipped), "empirical" (Values, drawn with equal chance),
// "dataset" and "trace" (each request has the length that the file gives it).
type Length struct {
	Kind   string
	Value  int
	Mean   float64
	StdDev float64
	Min    int
	Max    int
	Values []int
}

// Workload is what each request asks.
type Workload struct {
	InputTokens  Length        `yaml:"input_tokens" json:"input_tokens"`
	OutputTokens Length        `yaml:"output_tokens" json:"output_tokens"`
	Prompt       string        `yaml:"prompt" json:"prompt"` // auto, token-ids, text, conversation
	Dataset      *Dataset      `yaml:"dataset,omitempty" json:"dataset,omitempty"`
	Conversation *Conversation `yaml:"conversation,omitempty" json:"conversation,omitempty"`
	Sampling     Sampling      `yaml:"sampling" json:"sampling" profile:"required"`
	Prefix       Prefix        `yaml:"prefix,omitempty" json:"prefix,omitzero"`
	Cancel       Cancel        `yaml:"cancel,omitempty" json:"cancel,omitzero"`
	Seed         int64         `yaml:"seed" json:"seed"`
}

// Dataset takes prompts from a file instead of making them.
type Dataset struct {
	File   string `yaml:"file" json:"file"`
	Format string `yaml:"format,omitempty" json:"format,omitempty"` // auto, sharegpt, jsonl, text
	Field  string `yaml:"field,omitempty" json:"field,omitempty"`   // of each JSONL object
}

// Conversation makes each user hold multi-turn sessions.
type Conversation struct {
	File      string   `yaml:"file,omitempty" json:"file,omitempty"` // JSONL; "" makes synthetic ones
	Turns     Length   `yaml:"turns,omitempty" json:"turns,omitzero"`
	ThinkTime Duration `yaml:"think_time,omitempty" json:"think_time,omitempty"`
}

// Sampling is how the next token is chosen.
type Sampling struct {
	Temperature *float64 `yaml:"temperature,omitempty" json:"temperature,omitempty"`
	TopP        *float64 `yaml:"top_p,omitempty" json:"top_p,omitempty"`
	TopK        *int     `yaml:"top_k,omitempty" json:"top_k,omitempty"`
	ForceLength bool     `yaml:"force_length" json:"force_length"`
}

// Prefix is text that all prompts share.
type Prefix struct {
	SharedTokens int `yaml:"shared_tokens" json:"shared_tokens"`
	// Groups is the number of different shared prefixes, 1 by default.
	Groups int `yaml:"groups,omitempty" json:"groups,omitempty"`
}

// Cancel ends requests from the client's side; zero values do not.
type Cancel struct {
	After       Duration `yaml:"after,omitempty" json:"after,omitempty"`
	AfterTokens int      `yaml:"after_tokens,omitempty" json:"after_tokens,omitempty"`
	Share       float64  `yaml:"share,omitempty" json:"share,omitempty"` // of requests, 0 to 1
}

// Load is the ladder. Exactly one of Closed, Open and Offline is set.
type Load struct {
	Closed  *ClosedLoad  `yaml:"closed,omitempty" json:"closed,omitempty"`
	Open    *OpenLoad    `yaml:"open,omitempty" json:"open,omitempty"`
	Offline *OfflineLoad `yaml:"offline,omitempty" json:"offline,omitempty"`
	Refine  Refine       `yaml:"refine,omitempty" json:"refine,omitzero"`
	// Between runs between rungs: a shell command, or the server's cache-reset
	// route with "reset-prefix-cache".
	Between string `yaml:"between,omitempty" json:"between,omitempty"`
}

// ClosedLoad keeps Concurrency users busy, one rung a value.
type ClosedLoad struct {
	Concurrency []int     `yaml:"concurrency" json:"concurrency"`
	ThinkTime   ThinkTime `yaml:"think_time,omitempty" json:"think_time,omitzero"`
	// Ramp spreads the users' starts over this time; 0 staggers them within
	// the first request's duration.
	Ramp Duration `yaml:"ramp,omitempty" json:"ramp,omitempty"`
}

// ThinkTime is the pause between an answer and the next request.
type ThinkTime struct {
	Kind   string   // fixed, exponential, lognormal
	Mean   Duration //
	StdDev Duration // lognormal
}

// Arrivals of an OpenLoad.
const (
	ArrivalsConstant = "constant"
	ArrivalsPoisson  = "poisson"
	ArrivalsGamma    = "gamma"
)

// OpenLoad sends on a schedule, whatever the server does, one rung a rate.
type OpenLoad struct {
	Rate       []float64 `yaml:"rate,omitempty" json:"rate,omitempty"`             // requests per second
	Arrivals   string    `yaml:"arrivals,omitempty" json:"arrivals,omitempty"`     // constant, poisson, gamma
	Burstiness float64   `yaml:"burstiness,omitempty" json:"burstiness,omitempty"` // gamma shape; 1 is Poisson, below 1 bursty
	Ramp       *Ramp     `yaml:"ramp,omitempty" json:"ramp,omitempty"`
	Trace      *Trace    `yaml:"trace,omitempty" json:"trace,omitempty"`
	// MaxInFlight caps requests in flight; waiting behind it counts in the
	// response time. 0 is no cap.
	MaxInFlight int `yaml:"max_in_flight,omitempty" json:"max_in_flight,omitempty"`
}

// Ramp changes the rate within one rung, linearly or in Steps equal steps.
type Ramp struct {
	From  float64  `yaml:"from" json:"from"` // requests per second
	To    float64  `yaml:"to" json:"to"`
	Over  Duration `yaml:"over" json:"over"`
	Steps int      `yaml:"steps,omitempty" json:"steps,omitempty"` // 0 is linear
}

// Trace replays recorded arrivals and lengths.
type Trace struct {
	File   string  `yaml:"file" json:"file"`
	Format string  `yaml:"format,omitempty" json:"format,omitempty"` // auto, mooncake, azure, burstgpt
	Speed  float64 `yaml:"speed,omitempty" json:"speed,omitempty"`   // 2 replays twice as fast
	Limit  int     `yaml:"limit,omitempty" json:"limit,omitempty"`   // requests
}

// OfflineLoad sends Requests at once; throughput is its only figure.
type OfflineLoad struct {
	Requests    int `yaml:"requests" json:"requests"`
	MaxInFlight int `yaml:"max_in_flight,omitempty" json:"max_in_flight,omitempty"`
}

// Refine places up to Rungs further rungs around the knee and the SLO
// boundary.
type Refine struct {
	Rungs int `yaml:"rungs" json:"rungs"`
}

// Stage is the timing of a rung.
type Stage struct {
	Warmup      Warmup   `yaml:"warmup" json:"warmup"`
	Measure     Duration `yaml:"measure" json:"measure"`
	MinRequests int      `yaml:"min_requests" json:"min_requests"`
	// MinRequestsPerUser raises MinRequests in a closed loop to so many a user:
	// with 20 Little's law can be judged in every rung.
	MinRequestsPerUser int      `yaml:"min_requests_per_user,omitempty" json:"min_requests_per_user,omitempty"`
	MaxDuration        Duration `yaml:"max_duration" json:"max_duration"`
	Drain              Duration `yaml:"drain" json:"drain"`
	Repeats            int      `yaml:"repeats" json:"repeats"`
	Timeout            Duration `yaml:"timeout" json:"timeout"` // of one request
	Retries            int      `yaml:"retries,omitempty" json:"retries,omitempty"`
	// Until is "" or "settled": end a rung early when every percentile that an
	// SLO asks for has settled.
	Until string `yaml:"until,omitempty" json:"until,omitempty"`
}

// Warmup is a fixed time, or found while running when Auto.
type Warmup struct {
	Auto  bool
	Fixed Duration
}

// SLOs are limits by name, as written: "ttft_p95" -> "500ms". Upper limits
// take "<=" or nothing, lower limits take ">=" before the value.
type SLOs map[string]string

// Cost prices the hardware for the time it is used.
type Cost struct {
	USDPerHour float64 `yaml:"usd_per_hour,omitempty" json:"usd_per_hour,omitempty"`
	MaxTokens  int64   `yaml:"max_tokens,omitempty" json:"max_tokens,omitempty"` // budget, 0 none
	MaxUSD     float64 `yaml:"max_usd,omitempty" json:"max_usd,omitempty"`       // budget, 0 none
	USDPerMIn  float64 `yaml:"usd_per_million_input_tokens,omitempty" json:"usd_per_million_input_tokens,omitempty"`
	USDPerMOut float64 `yaml:"usd_per_million_output_tokens,omitempty" json:"usd_per_million_output_tokens,omitempty"`
}

// Target is the server to load.
type Target struct {
	URL         string            `yaml:"url,omitempty" json:"url,omitempty"`
	Backend     string            `yaml:"backend,omitempty" json:"backend,omitempty"`
	BackendFile string            `yaml:"backend_file,omitempty" json:"backend_file,omitempty"`
	Endpoint    string            `yaml:"endpoint,omitempty" json:"endpoint,omitempty"` // chat, completions, native
	APIKeyEnv   string            `yaml:"api_key_env,omitempty" json:"api_key_env,omitempty"`
	Tokenizer   string            `yaml:"tokenizer,omitempty" json:"tokenizer,omitempty"` // DIR or FILE
	Serve       map[string]string `yaml:"serve,omitempty" json:"serve,omitempty"`         // flags of a bundled server to start, instead of URL
	CACert      string            `yaml:"cacert,omitempty" json:"cacert,omitempty"`
	Insecure    bool              `yaml:"insecure,omitempty" json:"insecure,omitempty"`
	HTTP2       bool              `yaml:"http2,omitempty" json:"http2,omitempty"`
	Metrics     []string          `yaml:"metrics,omitempty" json:"metrics,omitempty"` // further telemetry URLs
}

// Duration is a time.Duration that is written with its unit ("500ms").
type Duration time.Duration

// Std returns the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }
