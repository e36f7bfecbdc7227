package record

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// HealthMeter measures what a window costs this process: from StartHealth to
// Stop. It is not safe for concurrent use.
type HealthMeter struct {
	at      int64
	cpu     time.Duration
	cpuOK   bool
	samples []metrics.Sample
	before  [2][]uint64
}

// The runtime's histograms, in seconds.
const (
	schedulingMetric = "/sched/latencies:seconds"
	pauseMetric      = "/sched/pauses/total/gc:seconds"
)

// StartHealth takes the first reading.
func StartHealth() *HealthMeter {
	h := &HealthMeter{at: clock.Now(), samples: []metrics.Sample{{Name: schedulingMetric}, {Name: pauseMetric}}}
	h.cpu, h.cpuOK = processCPU()
	metrics.Read(h.samples)
	for i, s := range h.samples {
		if s.Value.Kind() == metrics.KindFloat64Histogram {
			h.before[i] = append([]uint64(nil), s.Value.Float64Histogram().Counts...)
		}
	}
	return h
}

// Stop reports the time since StartHealth: the share of the cores that Go may
// use, the wait of runnable goroutines, and the pauses of the garbage
// collector. What the system does not tell, or what did not happen, is
// unknown.
func (h *HealthMeter) Stop() ClientHealth {
	var out ClientHealth
	wall := time.Duration(clock.Now() - h.at)
	if cpu, ok := processCPU(); ok && h.cpuOK && wall > 0 {
		out.CPURatio = Known(float64(cpu-h.cpu) / float64(wall) / float64(runtime.GOMAXPROCS(0)))
	}
	metrics.Read(h.samples)
	p99 := [2]Value{}
	for i, s := range h.samples {
		if s.Value.Kind() == metrics.KindFloat64Histogram {
			now := s.Value.Float64Histogram()
			p99[i] = upperQuantile(now.Buckets, now.Counts, h.before[i], 0.99).Scale(1e3)
		}
	}
	out.SchedulingLatencyP99ms, out.GCPauseP99ms = p99[0], p99[1]
	return out
}

// upperQuantile returns the upper edge of the bucket that the quantile q of
// the counts since before lies in, its lower edge in the last, endless one.
func upperQuantile(edges []float64, counts, before []uint64, q float64) Value {
	if len(before) != len(counts) || len(edges) != len(counts)+1 {
		return Value{}
	}
	total := uint64(0)
	for i := range counts {
		total += counts[i] - before[i]
	}
	if total == 0 {
		return Value{}
	}
	rank, seen := uint64(math.Ceil(q*float64(total))), uint64(0)
	for i := range counts {
		if seen += counts[i] - before[i]; seen >= rank {
			if math.IsInf(edges[i+1], 1) {
				return Known(edges[i])
			}
			return Known(edges[i+1])
		}
	}
	return Value{}
}
