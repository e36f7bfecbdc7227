// Package record turns the events of requests into the figures of a rung:
// timelines into histograms, windows and totals, and says whether the
// measurement can be trusted.
package record

// Untold is a count that the source of a figure does not tell. It is in no
// result: there a count of 0 says that nothing was counted.
const Untold = -1

// Dist describes one distribution in the unit of its key. Percentiles that
// have too few samples are unknown, and Need says how many they take.
type Dist struct {
	Count int64 `json:"count"`
	Mean  Value `json:"mean"`
	Min   Value `json:"min"`
	P05   Value `json:"p05"`
	P50   Value `json:"p50"`
	P90   Value `json:"p90"`
	P95   Value `json:"p95"`
	P99   Value `json:"p99"`
	P999  Value `json:"p999"`
	Max   Value `json:"max"`
}

// Stat returns the statistic of a name: mean, min, p05, p50, p90, p95, p99, p999
// or max; nil for another.
func (d *Dist) Stat(name string) *Value {
	switch name {
	case "mean":
		return &d.Mean
	case "min":
		return &d.Min
	case "p05":
		return &d.P05
	case "p50":
		return &d.P50
	case "p90":
		return &d.P90
	case "p95":
		return &d.P95
	case "p99":
		return &d.P99
	case "p999":
		return &d.P999
	case "max":
		return &d.Max
	}
	return nil
}

// Reason is one finding against a rung: the code of the rule, what it saw and
// the limit it holds to.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Value   Value  `json:"value"`
	Limit   Value  `json:"limit"`
}

// Verdict says whether the measurement of a rung can be trusted; it says
// nothing about how good the server was.
type Verdict string

// The verdicts.
const (
	Valid        Verdict = "valid"
	Invalid      Verdict = "invalid"
	Inconclusive Verdict = "inconclusive"
)

// Mode is how load was offered.
type Mode string

// The modes.
const (
	Closed  Mode = "closed"
	Open    Mode = "open"
	Offline Mode = "offline"
)

// Window is the measured part of a rung, in seconds from the rung's start.
type Window struct {
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	// Steady says that the steady state was found before or within the window.
	Steady bool `json:"steady"`
	// Method is how the warm-up was chosen: "mser5", "fixed" or "none".
	Method string `json:"method"`
}

// Requests counts the requests whose intended time lies in the window.
type Requests struct {
	Sent       int64            `json:"sent"`
	Completed  int64            `json:"completed"`
	Failed     int64            `json:"failed"`
	Cancelled  int64            `json:"cancelled"`
	Censored   int64            `json:"censored"`
	Reconnects int64            `json:"reconnects"`
	Retries    int64            `json:"retries"`
	Failures   map[string]int64 `json:"failures"`
	// FirstErrors is what the first failed request of a class said, of those
	// that said anything.
	FirstErrors map[string]string `json:"first_errors,omitempty"`
}

// Totals counts over warm-up, window and drain, to be held against the
// server's own counters. Probes are not in them.
type Totals struct {
	Sent         int64 `json:"sent"`
	Completed    int64 `json:"completed"`
	Failed       int64 `json:"failed"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// Tokens says how many tokens went in and out in the window and who counted.
type Tokens struct {
	Input           int64  `json:"input"`
	Output          int64  `json:"output"`
	OutputRequested int64  `json:"output_requested"`
	Source          string `json:"source"` // running_usage, token_ids, usage, tokenizer, events (estimated)
	// MismatchRatio is by how many output tokens the client's count and the
	// server's usage differ, of the latter; InputMismatchRatio by how many
	// prompt tokens the server's usage and what was asked for, of the latter.
	MismatchRatio      Value `json:"mismatch_ratio"`
	InputMismatchRatio Value `json:"input_mismatch_ratio"`
}

// ClientHealth is what the rung cost this machine.
type ClientHealth struct {
	CPURatio               Value `json:"cpu_ratio"` // of all cores, 0 to 1
	SchedulingLatencyP99ms Value `json:"scheduling_latency_p99_ms"`
	GCPauseP99ms           Value `json:"gc_pause_p99_ms"`
	RemoteAddresses        int   `json:"remote_addresses"`
	Connections            int64 `json:"connections"`
}

// Telemetry is what the server and its accelerator told of themselves during
// the window.
type Telemetry struct {
	Source               string `json:"source"`
	Scrapes              int64  `json:"scrapes"`
	ScrapeFailures       int64  `json:"scrape_failures"`
	KVCacheUsageMax      Value  `json:"kv_cache_usage_max"` // 0 to 1
	RequestsRunningMean  Value  `json:"requests_running_mean"`
	RequestsRunningMax   Value  `json:"requests_running_max"`
	RequestsWaitingMean  Value  `json:"requests_waiting_mean"`
	Preemptions          Value  `json:"preemptions"`
	PrefixCacheHitRatio  Value  `json:"prefix_cache_hit_ratio"`
	QueueTimeMeanMS      Value  `json:"queue_time_mean_ms"`
	ServerTTFTMeanMS     Value  `json:"server_ttft_mean_ms"`
	ServerRequests       Value  `json:"server_requests"`
	ServerOutputTokens   Value  `json:"server_output_tokens"`
	SpecDecodeAcceptance Value  `json:"spec_decode_acceptance"`
	GPUPowerWMean        Value  `json:"gpu_power_w_mean"`
	GPUUtilisationMean   Value  `json:"gpu_utilisation_mean"` // 0 to 1
	GPUMemoryUsedMaxMiB  Value  `json:"gpu_memory_used_max_mib"`
}

// Block is one of the equal parts that a window is cut into, so that the
// spread within a rung can be judged.
type Block struct {
	StartS                    float64 `json:"start_s"`
	EndS                      float64 `json:"end_s"`
	Completed                 int64   `json:"completed"`
	InFlightMean              Value   `json:"in_flight_mean"`
	RequestThroughputPerS     Value   `json:"request_throughput_per_s"`
	OutputTokenThroughputPerS Value   `json:"output_token_throughput_per_s"`
	TTFTMeanMS                Value   `json:"ttft_mean_ms"`
	TTFTP95MS                 Value   `json:"ttft_p95_ms"`
	ITLMeanMS                 Value   `json:"itl_mean_ms"`
	ITLP95MS                  Value   `json:"itl_p95_ms"`
	TPOTMeanMS                Value   `json:"tpot_mean_ms"`
	E2EMeanMS                 Value   `json:"e2e_mean_ms"`
	E2EP95MS                  Value   `json:"e2e_p95_ms"`
}

// Rung is one measured step of a ladder. It is written as it stands into
// result.json; units are in the keys, unknown is null.
type Rung struct {
	Index        int      `json:"index"`
	Mode         Mode     `json:"mode"`
	Concurrency  int      `json:"concurrency"`    // asked for; 0 in open loop without a cap
	RatePerS     Value    `json:"rate_req_per_s"` // asked for, open loop
	Repeat       int      `json:"repeat"`         // counted from 0
	Refined      bool     `json:"refined"`        // placed by refinement
	Verdict      Verdict  `json:"verdict"`        //
	Reasons      []Reason `json:"reasons"`        // of the verdict
	Warnings     []Reason `json:"warnings"`       // findings that change no verdict
	StartUnixNS  int64    `json:"start_unix_ns"`  // wall clock
	Window       Window   `json:"window"`         //
	Requests     Requests `json:"requests"`       //
	Totals       Totals   `json:"totals"`         //
	Tokens       Tokens   `json:"tokens"`         //
	InputTokens  Dist     `json:"input_tokens"`   //
	OutputTokens Dist     `json:"output_tokens"`  //
	InFlightMean Value    `json:"in_flight_mean"` //
	InFlightMax  Value    `json:"in_flight_max"`  //

	RequestThroughputPerS     Value `json:"request_throughput_per_s"`
	OutputTokenThroughputPerS Value `json:"output_token_throughput_per_s"`
	InputTokenThroughputPerS  Value `json:"input_token_throughput_per_s"`
	TotalTokenThroughputPerS  Value `json:"total_token_throughput_per_s"`
	FailedTokenThroughputPerS Value `json:"failed_token_throughput_per_s"`
	GoodputReqPerS            Value `json:"goodput_req_per_s"`
	GoodputTokensPerS         Value `json:"goodput_tokens_per_s"`
	Elasticity                Value `json:"elasticity"`

	PerUserTokensPerS Dist `json:"per_user_tokens_per_s"`
	E2ETokensPerS     Dist `json:"e2e_tokens_per_s"`
	TTFT              Dist `json:"ttft_ms"`
	TTFTResponse      Dist `json:"ttft_response_ms"`
	TTFO              Dist `json:"ttfo_ms"`
	ITL               Dist `json:"itl_ms"`
	ICL               Dist `json:"icl_ms"`
	TPOT              Dist `json:"tpot_ms"`
	E2E               Dist `json:"e2e_ms"`
	E2EResponse       Dist `json:"e2e_response_ms"`
	SendLag           Dist `json:"send_lag_ms"`
	ReceiveLag        Dist `json:"receive_lag_ms"`
	Connect           Dist `json:"connect_ms"`

	Stamps          string       `json:"stamps"` // kernel or user
	MergedReadRatio Value        `json:"merged_read_ratio"`
	Client          ClientHealth `json:"client"`
	Telemetry       *Telemetry   `json:"telemetry"`
	Blocks          []Block      `json:"blocks"`
}
