package loadgen

import (
	"context"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/profiles"
)

// instant answers at once with one token, at no cost.
type instant struct{ fake }

func (*instant) Stream(_ context.Context, r *backends.Request, sink backends.Sink) backends.Outcome {
	at := clock.Now()
	sink.Sent(at)
	sink.FirstByte(at)
	sink.Event(backends.Event{At: at, Returned: at, Read: 1, Kind: backends.KindText, Text: []byte("a"), Completion: 1})
	return backends.Outcome{Class: backends.OK, Finish: "length", Stamps: "user", End: at,
		Usage: backends.Usage{Prompt: len(r.Prompt.IDs), Completion: 1, Cached: -1, Reasoning: -1}}
}

// BenchmarkRequest is what one request costs beyond its client: issue rule,
// prompt, timeline and recording, with 32 in flight.
func BenchmarkRequest(b *testing.B) {
	p := profile(func(p *profiles.Profile) {
		p.Load = profiles.Load{Offline: &profiles.OfflineLoad{Requests: b.N, MaxInFlight: 32}}
		p.Workload.OutputTokens = fixed(1)
		p.Stage.Warmup, p.Stage.MaxDuration = profiles.Warmup{}, 0
	})
	c := &instant{}
	source, err := prompt.New(b.Context(), prompt.Config{Workload: &p.Workload, Client: c, Run: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	plan, err := NewPlan(p, 1)
	if err != nil {
		b.Fatal(err)
	}
	g := &Generator{Client: c, Source: source, RunID: "bench"}
	b.ReportAllocs()
	b.ResetTimer()
	r, _, err := g.Run(b.Context(), plan.Rungs[0])
	if err != nil {
		b.Fatal(err)
	}
	if r.Totals.Completed != int64(b.N) {
		b.Fatalf("%d requests of %d", r.Totals.Completed, b.N)
	}
}
