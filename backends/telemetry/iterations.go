package telemetry

import (
	"encoding/json"
	"fmt"
	"math"
)

// iteration is one step of TensorRT-LLM's engine as its /metrics route tells
// it. The route hands out each step once; what stands in it as a total counts
// from the engine's start.
type iteration struct {
	Active    *float64 `json:"numActiveRequests"`
	Queued    *float64 `json:"numQueuedRequests"`
	Completed *float64 `json:"numCompletedRequests"` // in this step
	KV        *struct {
		Max    float64 `json:"maxNumBlocks"`
		Used   float64 `json:"usedNumBlocks"`
		Reused float64 `json:"reusedBlocks"` // from the start
		Missed float64 `json:"missedBlocks"` // from the start
		Tokens int     `json:"tokensPerBlock"`
	} `json:"kvCacheStats"`
	InFlight *struct {
		Scheduled *float64 `json:"numScheduledRequests"`
	} `json:"inflightBatchingStats"`
}

// parseIterations reads the steps since the last scrape: their mean requests,
// the fullest KV cache, and the latest totals.
func parseIterations(page []byte) (reading, error) {
	var steps []iteration
	if err := json.Unmarshal(page, &steps); err != nil {
		return reading{}, fmt.Errorf("not a list of iterations: %w", err)
	}
	r := newReading()
	r.ended = 0
	r.kinds = []string{"tensorrt-llm"}
	var scheduled, queued mean
	for _, s := range steps {
		switch {
		case s.InFlight != nil && s.InFlight.Scheduled != nil:
			scheduled.add(*s.InFlight.Scheduled)
		case s.Active != nil:
			scheduled.add(*s.Active)
		}
		if s.Queued != nil {
			queued.add(*s.Queued)
		}
		if s.Completed != nil {
			r.ended += *s.Completed
		}
		if kv := s.KV; kv != nil {
			if kv.Max > 0 {
				r.values[kvUsage] = largest(r.values[kvUsage], kv.Used/kv.Max)
			}
			r.values[found], r.values[lookedUp] = kv.Reused, kv.Reused+kv.Missed
			r.block = max(0, kv.Tokens)
		}
	}
	r.values[running], r.values[waiting] = scheduled.value(), queued.value()
	return r, nil
}

// mean is an arithmetic mean; NaN of nothing.
type mean struct{ sum, n float64 }

func (m *mean) add(v float64) {
	if !math.IsNaN(v) {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

func (m mean) value() float64 { return m.sum / m.n }

// largest is the larger of two numbers of which either may be NaN.
func largest(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}
