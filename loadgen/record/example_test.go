package record_test

import (
	"fmt"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/loadgen/record"
)

// A rung of one user who is answered 40 times, with four tokens 10 ms apart
// after 50 ms. Times are given, so that nothing waits.
func ExampleRecorder() {
	const start, ms = int64(time.Hour), int64(time.Millisecond)
	r := record.NewRecorder(record.Config{Mode: record.Closed, Concurrency: 1, Start: start,
		Measure: 4 * time.Second, MinRequests: 40})
	t := record.NewTimeline()
	defer t.Release()
	for now := start; !r.Over(now); now += 100 * ms {
		t.Reset("request", now, 4)
		r.Began()
		t.Sent(now)
		for i := range int64(4) {
			t.Event(backends.Event{At: now + (50+10*i)*ms, Returned: now + (50+10*i)*ms, Read: uint64(i),
				Kind: backends.KindText, Completion: int(i + 1)})
		}
		t.Finish(backends.Outcome{Usage: backends.NoUsage, End: now + 80*ms})
		r.Add(t)
	}
	rung, _ := r.Result(record.Evidence{})
	show := func(name string, v record.Value) {
		if f, ok := v.Float(); ok {
			fmt.Printf("%-12s %.3g\n", name, f)
		} else {
			fmt.Printf("%-12s -\n", name)
		}
	}
	fmt.Println(rung.Verdict)
	show("req/s", rung.RequestThroughputPerS)
	show("tok/s", rung.OutputTokenThroughputPerS)
	show("in flight", rung.InFlightMean)
	show("TTFT mean ms", rung.TTFT.Mean)
	show("ITL mean ms", rung.ITL.Mean)
	show("TTFT p95 ms", rung.TTFT.P95) // takes 90 requests
	// Output:
	// valid
	// req/s        10
	// tok/s        40
	// in flight    0.8
	// TTFT mean ms 50
	// ITL mean ms  10
	// TTFT p95 ms  -
}
