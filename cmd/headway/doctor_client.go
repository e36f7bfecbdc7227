package main

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/sched"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
)

// clientCheckup is what this machine can do as a client.
type clientCheckup struct {
	CPUs          int            `json:"cpus"`
	MemoryBytes   record.Value   `json:"memory_bytes"`
	OpenFiles     record.Value   `json:"open_files"` // soft limit
	OpenFilesHard record.Value   `json:"open_files_hard"`
	LocalPorts    record.Value   `json:"local_ports"`
	Scheduling    string         `json:"scheduling"` // what a run's threads get on a busy machine
	Timer         timerCheckup   `json:"timer"`
	Capacity      clientCapacity `json:"capacity"`
}

// timerCheckup is how well this machine keeps time.
type timerCheckup struct {
	ClockStepNS record.Value `json:"clock_step_ns"` // smallest step of the clock
	ClockReadNS record.Value `json:"clock_read_ns"` // cost of reading it
	WakeUpP50MS record.Value `json:"wake_up_p50_ms"`
	WakeUpP99MS record.Value `json:"wake_up_p99_ms"`
	WakeUpMaxMS record.Value `json:"wake_up_max_ms"`
}

// examineClient looks at this machine.
func examineClient(ctx context.Context) clientCheckup {
	m := loadgen.ThisMachine()
	c := clientCheckup{CPUs: runtime.NumCPU(), MemoryBytes: told(memoryBytes()),
		OpenFiles: told(m.OpenFiles), OpenFilesHard: told(m.OpenFilesHard), LocalPorts: told(m.LocalPorts), Timer: examineTimer()}
	ctx, cancel := context.WithTimeout(ctx, clientTime)
	defer cancel()
	c.Capacity = measureCapacity(ctx)
	c.Scheduling = sched.Raise().String()
	return c
}

// told is a number of which 0 says that it was not told.
func told[N int | int64 | uint64](n N) record.Value {
	if n == 0 {
		return record.Value{}
	}
	return record.Known(float64(n))
}

// The timer is tried with so many wake-ups, a period apart.
const (
	wakeUps      = 250
	wakeUpPeriod = 2 * time.Millisecond
)

func examineTimer() timerCheckup {
	step, cost := clockSteps()
	late := loadgen.WakeUps(wakeUps, wakeUpPeriod)
	slices.Sort(late)
	at := func(q float64) record.Value {
		return record.Known(late[min(len(late)-1, int(q*float64(len(late))))].Seconds() * 1e3)
	}
	return timerCheckup{ClockStepNS: step, ClockReadNS: cost, WakeUpP50MS: at(0.5), WakeUpP99MS: at(0.99), WakeUpMaxMS: at(1)}
}

// clockSteps is the clock's smallest step, and the cost of a reading where
// nothing came between.
func clockSteps() (step, cost record.Value) {
	const rounds, readings = 20, 1000
	smallest, cheapest := int64(0), int64(0)
	for range rounds {
		start := clock.Now()
		before := start
		for range readings {
			now := clock.Now()
			if d := now - before; d > 0 && (smallest == 0 || d < smallest) {
				smallest = d
			}
			before = now
		}
		if took := before - start; took > 0 && (cheapest == 0 || took < cheapest) {
			cheapest = took
		}
	}
	if smallest == 0 {
		return step, cost
	}
	return record.Known(float64(smallest)), record.Known(float64(cheapest) / readings)
}
