package record

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
)

// TestRecorderAgainstDefinition holds a recorder fed in any order to sums
// written down straight from the definitions.
func TestRecorderAgainstDefinition(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []request
		for range 300 {
			at := r.Int64N(12000) - 1000
			q := request{intended: at, sent: at + r.Int64N(50), gap: r.Int64N(60), tokens: 1 + r.IntN(30)}
			q.first = q.sent + 1 + r.Int64N(500)
			q.end = q.first + int64(q.tokens-1)*q.gap + r.Int64N(20)
			switch r.IntN(10) {
			case 0:
				q.class = backends.HTTP5xx
			case 1:
				q.class, q.censored = backends.Cancelled, true
			}
			all = append(all, q)
		}
		const from, to = int64(1000), int64(9000) // ms
		var completed, tokens, failed, latencies, area int64
		var starts, ends []int64
		for _, q := range all {
			if q.end >= from && q.end < to && q.class == backends.OK {
				completed++
			}
			for i := range int64(q.tokens) {
				if at := q.first + i*q.gap; at >= from && at < to {
					if q.class == backends.OK || q.censored {
						tokens++
					} else {
						failed++
					}
				}
			}
			if q.intended >= from && q.intended < to && q.class == backends.OK {
				latencies++
			}
			if a, b := max(q.sent, from), min(q.end, to); a < b {
				area += b - a
				starts, ends = append(starts, a), append(ends, b)
			}
		}
		most := 0
		for _, at := range starts { // the most is reached at a start
			n := 0
			for i := range starts {
				if starts[i] <= at && ends[i] > at {
					n++
				}
			}
			most = max(most, n)
		}
		rung, _ := recorded(fixed(from, to-from), all...)
		const s = float64(to-from) / 1000
		wantValue(t, "request throughput", rung.RequestThroughputPerS, float64(completed)/s)
		wantValue(t, "output-token throughput", rung.OutputTokenThroughputPerS, float64(tokens)/s)
		wantValue(t, "failed-token throughput", rung.FailedTokenThroughputPerS, float64(failed)/s)
		wantValue(t, "in flight", rung.InFlightMean, float64(area)/float64(to-from))
		wantValue(t, "most in flight", rung.InFlightMax, float64(most))
		if rung.E2E.Count != latencies {
			t.Errorf("%d latencies, want %d", rung.E2E.Count, latencies)
		}
		var parts, partTokens, partArea float64
		for _, b := range rung.Blocks {
			parts += float64(b.Completed)
			partTokens += b.OutputTokenThroughputPerS.Or(0) * (b.EndS - b.StartS)
			partArea += b.InFlightMean.Or(0) * (b.EndS - b.StartS)
		}
		wantValue(t, "completed in all blocks", Known(parts), float64(completed))
		wantValue(t, "tokens in all blocks", Known(partTokens), float64(tokens))
		wantValue(t, "in flight in all blocks", Known(partArea), float64(area)/1000)
	}
}

// FuzzTimeline holds any stream of events to what is true of every timeline:
// no time is negative, all tokens arrive, and no more gaps count than anyone
// tells of tokens.
func FuzzTimeline(f *testing.F) {
	f.Add([]byte{1, 10, 1, 0, 1, 10, 1, 0}, 2, uint8(0))
	f.Add([]byte{1, 10, 3, 3, 0, 10, 3, 6, 16, 1, 0, 0, 1, 1, 1, 2}, -7, uint8(3))
	f.Add([]byte{2, 255, 0, 0, 8, 0, 5, 0}, 1<<40, uint8(8))
	f.Add(bytes.Repeat([]byte{3, 10, 1, 255}, 10), 5, uint8(0)) // ten tokens of text, five by the usage
	f.Fuzz(func(t *testing.T, script []byte, completion int, class uint8) {
		tl := NewTimeline()
		defer tl.Release()
		tl.Reset("f", base, 4)
		tl.Count = func(b []byte) int { return len(b) }
		tl.Sent(base)
		at, read := base, uint64(0)
		for ; len(script) >= 4; script = script[4:] {
			at += int64(int8(script[1])) * ms // backwards too
			if script[0]&1 == 1 {
				read++
			}
			running := int(int8(script[3]))
			if script[2]&2 != 0 {
				running = int(int32(binary.LittleEndian.Uint32(script)))
			}
			tl.Event(backends.Event{At: at, Returned: at + int64(script[1])*1000, Read: read, Kind: backends.Kind(script[0] >> 1),
				TokenIDs: int(script[2] >> 6), Completion: running, Text: script[:script[2]&3]})
		}
		o := ended(backends.Class(class%14), completion)
		o.NotStreamed = class&64 != 0
		tl.Finish(o)
		for name, get := range map[string]func() (time.Duration, bool){"TTFT": tl.TTFT, "TTFO": tl.TTFO, "TPOT": tl.TPOT, "E2E": tl.E2E, "ITL": tl.MeanITL} {
			if d, ok := get(); ok && d < 0 {
				t.Fatalf("%s = %v", name, d)
			}
		}
		n, _ := tl.OutputTokens()
		arrived := 0
		tl.Arrivals(func(at int64, k int) {
			if k < 0 || at < base {
				t.Fatalf("%d tokens at %d", k, at-base)
			}
			arrived += k
		})
		if arrived != max(n, 0) {
			t.Fatalf("%d tokens arrived of %d", arrived, n)
		}
		gaps := 0
		tl.Gaps(func(gap time.Duration, k int) {
			if gap < 0 || k < 0 {
				t.Fatalf("a gap of %v before %d tokens", gap, k)
			}
			gaps += k
		})
		if told := max(n, tl.ids, tl.bytes) + 1; gaps > told { // a text has a token a byte here
			t.Fatalf("%d gaps between %d tokens", gaps, told)
		}
		r := NewRecorder(fixed(0, 1000))
		r.Add(tl)
		r.Close(base + sec)
		if rung, _ := r.Result(Evidence{}); rung.Requests.Sent != 1 {
			t.Fatalf("%+v", rung.Requests)
		}
	})
}
