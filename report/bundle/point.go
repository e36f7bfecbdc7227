package bundle

import "github.com/headway-bench/headway/loadgen/record"

// Point is one load of interest: the POINT of the contract.
type Point struct {
	Status                    string       `json:"status"` // found, none or no_slo
	Rungs                     []int        `json:"rungs"`
	InFlightMean              record.Value `json:"in_flight_mean"`
	RequestThroughputPerS     record.Value `json:"request_throughput_per_s"`
	OutputTokenThroughputPerS record.Value `json:"output_token_throughput_per_s"`
	PerUserTokensPerS         record.Value `json:"per_user_tokens_per_s"`
	TTFTP95MS                 record.Value `json:"ttft_p95_ms"`
	ITLP95MS                  record.Value `json:"itl_p95_ms"`
	E2EP95MS                  record.Value `json:"e2e_p95_ms"`
	// Binding is the SLO or limit that stops the next step.
	Binding                   string       `json:"binding"`
	USDPerMillionOutputTokens record.Value `json:"usd_per_million_output_tokens"`
	TokensPerJoule            record.Value `json:"tokens_per_joule"`
}
