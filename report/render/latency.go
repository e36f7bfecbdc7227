package render

import "github.com/headway-bench/headway/loadgen/record"

// latency is one latency of a rung: its key in the contract, its name for
// people, and where it is.
type latency struct {
	key, name string
	of        func(*record.Rung) *record.Dist
}

var latencies = []latency{
	{"ttft", "TTFT", func(g *record.Rung) *record.Dist { return &g.TTFT }},
	{"ttft_response", "TTFT (response)", func(g *record.Rung) *record.Dist { return &g.TTFTResponse }},
	{"ttfo", "TTFO", func(g *record.Rung) *record.Dist { return &g.TTFO }},
	{"itl", "ITL", func(g *record.Rung) *record.Dist { return &g.ITL }},
	{"icl", "ICL", func(g *record.Rung) *record.Dist { return &g.ICL }},
	{"tpot", "TPOT", func(g *record.Rung) *record.Dist { return &g.TPOT }},
	{"e2e", "E2E", func(g *record.Rung) *record.Dist { return &g.E2E }},
	{"e2e_response", "E2E (response)", func(g *record.Rung) *record.Dist { return &g.E2EResponse }},
	{"send_lag", "send lag", func(g *record.Rung) *record.Dist { return &g.SendLag }},
	{"receive_lag", "receive lag", func(g *record.Rung) *record.Dist { return &g.ReceiveLag }},
}
