package connect_test

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/internal/wiretest"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// The public reports about load, schedules and statistics, from the requests
// that a server reads off its sockets to the rung's result. The server's
// service times are at least what a case says, so that every bound below is one
// that a slow machine keeps too.

// oneToken is an answer of one token, after so long at least.
func oneToken(service time.Duration) script {
	return atOnce(wiretest.Stream(data(word("a")), data(length, usage(1), done)), 0).slow(0, service)
}

// always gives every request the same answer.
func always(s script) func(asked) script { return func(asked) script { return s } }

// closed is a ladder of users whose rungs last so long, without warm-up.
func closed(measure time.Duration, users ...int) func(*profiles.Profile) {
	return func(p *profiles.Profile) {
		p.Load = profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: users}}
		p.Stage.Measure = profiles.Duration(measure)
	}
}

// constant is an open loop of evenly spaced requests.
func constant(measure time.Duration, rate float64, inFlight int) func(*profiles.Profile) {
	return func(p *profiles.Profile) {
		p.Load = profiles.Load{Open: &profiles.OpenLoad{Rate: []float64{rate}, Arrivals: "constant", MaxInFlight: inFlight}}
		p.Stage.Measure = profiles.Duration(measure)
	}
}

// offline sends so many requests at once.
func offline(requests, inFlight int) func(*profiles.Profile) {
	return func(p *profiles.Profile) {
		p.Load = profiles.Load{Offline: &profiles.OfflineLoad{Requests: requests, MaxInFlight: inFlight}}
	}
}

// of lists the requests of a rung in the order of their sending.
func (o tried) of(rung int) []record.RequestRecord {
	var lines []record.RequestRecord
	for _, l := range o.lines {
		if l.Rung == rung {
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(a, b record.RequestRecord) int { return a.Index - b.Index })
	return lines
}

// measured lists those that were wanted within the rung's window. The first
// request of a rung is wanted at its start.
func (o tried) measured(rung int) []record.RequestRecord {
	lines := o.of(rung)
	w, begin := o.rungs[rung].Window, lines[0].IntendedNS
	return slices.DeleteFunc(lines, func(l record.RequestRecord) bool {
		at := float64(l.IntendedNS-begin) / 1e9
		return at < w.StartS-1e-9 || at > w.EndS-1e-9
	})
}

// change is a request that begins, by 1, or ends, by -1.
type change struct {
	at int64
	by int
}

// mostAtOnce is the most that is there at once.
func mostAtOnce(changes []change) int {
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	most, now := 0, 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}

// atMost is the most requests that the server had at once: a request from when
// it had been read to when the last of its answer was about to be written.
func (o tried) atMost() int {
	var changes []change
	for _, a := range o.asked {
		changes = append(changes, change{a.at, 1}, change{a.answered, -1})
	}
	return mostAtOnce(changes)
}

// mean is the mean over requests of a time between two stamps, in nanoseconds.
func mean(lines []record.RequestRecord, between func(record.RequestRecord) int64) float64 {
	sum := 0.0
	for _, l := range lines {
		sum += float64(between(l))
	}
	return sum / float64(len(lines))
}

func sendLag(l record.RequestRecord) int64  { return *l.SentNS - l.IntendedNS }
func service(l record.RequestRecord) int64  { return *l.LastTokenNS - *l.SentNS }
func response(l record.RequestRecord) int64 { return *l.LastTokenNS - l.IntendedNS }

// complete says when a rung does not count every request that the server read,
// once each and as completed with one token.
func (o tried) complete(t *testing.T, rung int) {
	t.Helper()
	n, seen := int64(0), map[int]bool{}
	for _, a := range o.asked {
		if a.rung == rung {
			n++
			seen[a.index] = true
		}
	}
	totals := o.rungs[rung].Totals
	if totals.Sent != n || totals.Completed != n || totals.Failed != 0 || totals.OutputTokens != n || int64(len(seen)) != n || int64(len(o.of(rung))) != n {
		t.Errorf("rung %d: the server read %d requests, %d different; totals %+v, %d in the log", rung, n, len(seen), totals, len(o.of(rung)))
	}
}

// TestWaitBehindACap is vllm#54101: 8 requests at a rate whose requests take
// twice as long as they are apart, one at a time. Request i is wanted at 10i ms
// and is answered after 20(i+1) ms at the earliest.
func TestWaitBehindACap(t *testing.T) {
	const period, takes, n = 10 * time.Millisecond, 20 * time.Millisecond, 8
	got := trial{answer: always(oneToken(takes)), edit: constant(n*period, 100, 1)}.run(t)
	lines := got.of(0)
	got.complete(t, 0)
	if got.Requests.Completed != n || len(got.asked) != n || got.atMost() != 1 || got.InFlightMax.Or(1) != 1 {
		t.Fatalf("%d completed, the server read %d, %d at once, %v in flight; want 8 and 1", got.Requests.Completed, len(got.asked), got.atMost(), got.InFlightMax)
	}
	for i, l := range lines {
		if l.IntendedNS-lines[0].IntendedNS != int64(i)*int64(period) {
			t.Errorf("request %d is wanted at %d ns", i, l.IntendedNS-lines[0].IntendedNS)
		}
		if i > 0 && *l.SentNS < got.asked[i-1].answered {
			t.Errorf("request %d was sent before the one ahead was answered", i)
		}
	}
	same(t, "send lag", got.SendLag, mean(lines, sendLag))
	same(t, "service time", got.E2E, mean(lines, service))
	same(t, "response time", got.E2EResponse, mean(lines, response))
	same(t, "TTFT from the schedule", got.TTFTResponse, mean(lines, response))
	for name, least := range map[string]struct{ got, ms float64 }{
		"send lag, mean":         {got.SendLag.Mean.Or(0), 35}, // 10i, i from 0 to 7
		"service time, mean":     {got.E2E.Mean.Or(0), 20},
		"response time, mean":    {got.E2EResponse.Mean.Or(0), 55},
		"response time, maximum": {got.E2EResponse.Max.Or(0), 90},
	} {
		if least.got < least.ms {
			t.Errorf("%s is %.3f ms, which is below %v", name, least.got, least.ms)
		}
	}
	if strings.Contains(warned(got.Rung), "sent_ratio") {
		t.Errorf("requests that waited behind the cap count as unsent: %s", warned(got.Rung))
	}
}

// TestInFlightIsWhatWasAskedFor holds what a server has at once, and what the
// rung says of it, to the cap or the users.
func TestInFlightIsWhatWasAskedFor(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*profiles.Profile)
		want int
	}{
		{"vllm#3127 everything at once, and a cap", offline(32, 4), 4},
		{"vllm#3127 everything at once", offline(32, 0), 32},
		{"guidellm#120 10 users", closed(40*time.Millisecond, 10), 10},
		{"one user", closed(40*time.Millisecond, 1), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer := oneToken(time.Millisecond)
			answer.together = c.want
			got := trial{answer: always(answer), edit: func(p *profiles.Profile) {
				c.edit(p)
				p.Stage.MinRequests = 2 * c.want // however long they take
			}}.run(t)
			got.complete(t, 0)
			if got.atMost() != c.want || got.InFlightMax.Or(0) != float64(c.want) || got.InFlightMean.Or(0) > float64(c.want) {
				t.Errorf("the server had %d at once, the rung says %v at most and %v on average, want %d", got.atMost(), got.InFlightMax, got.InFlightMean, c.want)
			}
		})
	}
}

// TestEndsCountOnce is guidellm#266: two requests that end together leave
// together, and three that come after them are three. Every token, the first of
// each answer included, is in the throughput of the window that it came in.
func TestEndsCountOnce(t *testing.T) {
	got := trial{edit: constant(100*time.Millisecond, 50, 0), answer: func(a asked) script {
		answer := oneToken(0)
		answer.together = 5
		if a.index < 2 {
			answer.together = 2
		}
		return answer
	}}.run(t)
	got.complete(t, 0)
	lines, begin := got.of(0), got.of(0)[0].IntendedNS
	end := begin + int64(got.Window.EndS*1e9+0.5)
	var changes []change
	area, tokens, ended := 0.0, 0.0, 0.0
	for _, l := range lines {
		if from, to := *l.SentNS, min(*l.EndNS, end); from < to {
			changes = append(changes, change{from, 1}, change{to, -1})
			area += float64(to-from) / 1e9
		}
		if *l.LastTokenNS < end {
			tokens++
		}
		if *l.EndNS < end {
			ended++
		}
	}
	if most := mostAtOnce(changes); got.InFlightMax.Or(0) != float64(most) {
		t.Errorf("%v in flight at most, want %d", got.InFlightMax, most)
	}
	for name, v := range map[string][2]float64{
		"in flight, mean":    {got.InFlightMean.Or(0), area},
		"token throughput":   {got.OutputTokenThroughputPerS.Or(0), tokens},
		"request throughput": {got.RequestThroughputPerS.Or(0), ended},
	} {
		if sum := v[0] * got.Window.EndS; math.Abs(sum-v[1]) > 1e-3*v[1] {
			t.Errorf("%s over the window is %v, want %v", name, sum, v[1])
		}
	}
}

// TestScheduleIsAbsolute is evalscope#1367 and inference-perf#143: however long
// answers take, each request is wanted where the rate puts it, none is sent
// before, and all are sent.
func TestScheduleIsAbsolute(t *testing.T) {
	const period, n = 5 * time.Millisecond, 40
	got := trial{answer: always(oneToken(3 * period)), edit: constant(n*period, 200, 0)}.run(t)
	got.complete(t, 0)
	lines := got.of(0)
	if got.Requests.Sent != n || got.RatePerS.Or(0) != 200 || strings.Contains(warned(got.Rung), "sent_ratio") {
		t.Errorf("%d sent of %d at %v/s; %s", got.Requests.Sent, n, got.RatePerS, warned(got.Rung))
	}
	arrived := map[int]int64{}
	for _, a := range got.asked {
		arrived[a.index] = a.at
	}
	for i, l := range lines {
		if l.IntendedNS-lines[0].IntendedNS != int64(i)*int64(period) || *l.SentNS < l.IntendedNS || arrived[i] < *l.SentNS {
			t.Errorf("request %d is wanted at %d ns, sent %d ns after and read by the server %d ns after that",
				i, l.IntendedNS-lines[0].IntendedNS, *l.SentNS-l.IntendedNS, arrived[i]-*l.SentNS)
		}
	}
	same(t, "send lag", got.SendLag, mean(lines, sendLag))
	same(t, "response time", got.E2EResponse, mean(lines, response))
}

// TestExactlyAsManyAsPlanned is aiperf#289: the server reads as many requests as
// the load has, each once.
func TestExactlyAsManyAsPlanned(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*profiles.Profile)
		want int
	}{
		{"at a rate", constant(100*time.Millisecond, 1000, 0), 100},
		{"at a rate, behind a cap", constant(100*time.Millisecond, 1000, 3), 100},
		{"at once", offline(250, 0), 250},
		{"at once, behind a cap", offline(250, 7), 250},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := trial{answer: always(oneToken(0)), edit: c.edit}.run(t)
			got.complete(t, 0)
			if len(got.asked) != c.want || got.Requests.Completed != int64(c.want) || got.TTFT.Count != int64(c.want) {
				t.Errorf("the server read %d requests, the rung completed %d with %d TTFT, want %d", len(got.asked), got.Requests.Completed, got.TTFT.Count, c.want)
			}
		})
	}
}

// TestLateFinisherStaysInItsRung is perf_analyzer#195: the first rung's only
// request ends long after its window, and the second rung has nothing of it.
func TestLateFinisherStaysInItsRung(t *testing.T) {
	const window, late = 30 * time.Millisecond, 90 * time.Millisecond
	got := trial{edit: closed(window, 1, 4), answer: func(a asked) script {
		if a.rung == 0 {
			return oneToken(late)
		}
		return oneToken(time.Millisecond)
	}}.run(t)
	got.complete(t, 0)
	got.complete(t, 1)
	first, second := got.rungs[0], got.rungs[1]
	if first.Totals.Sent != 1 || first.Requests.Completed != 1 || first.E2E.Mean.Or(0) < late.Seconds()*1e3 || first.Window.EndS > late.Seconds() {
		t.Errorf("the first rung: %+v in %+v, E2E %v ms", first.Requests, first.Window, first.E2E.Mean)
	}
	for _, a := range got.asked[1:] {
		if a.rung != 1 || a.at < got.asked[0].answered {
			t.Errorf("request %s reached the server before the first rung's last was answered", a.id)
		}
	}
	in := got.measured(1)
	if second.Requests.Completed != int64(len(in)) || second.E2E.Count != int64(len(in)) {
		t.Errorf("the second rung has %d completed and %d E2E of %d", second.Requests.Completed, second.E2E.Count, len(in))
	}
	same(t, "service time of the second rung", second.E2E, mean(in, service))
}

// TestWarmupShorterThanTheUsersTakeToStart is perf_analyzer#112: the warm-up is
// over before any of 8 users has an answer.
func TestWarmupShorterThanTheUsersTakeToStart(t *testing.T) {
	answer := oneToken(5 * time.Millisecond)
	answer.together = 8
	got := trial{answer: always(answer), edit: func(p *profiles.Profile) {
		closed(40*time.Millisecond, 8)(p)
		p.Stage.Warmup.Fixed = profiles.Duration(time.Millisecond)
		p.Stage.MinRequests = 16
	}}.run(t)
	got.complete(t, 0)
	in := got.measured(0)
	if got.Requests.Completed < 16 || got.Requests.Completed != int64(len(in)) || got.InFlightMax.Or(0) != 8 {
		t.Errorf("%d completed of %d in the window, %v in flight", got.Requests.Completed, len(in), got.InFlightMax)
	}
	same(t, "TTFT", got.TTFT, mean(in, service))
}

// TestDrainIsLimited is InferenceX#2178: a request that never ends is cut at the
// drain's limit, is no failure and in no figure, and the ladder goes on.
func TestDrainIsLimited(t *testing.T) {
	got := trial{answer: func(a asked) script {
		if a.rung == 0 && a.index == 0 {
			return script{hangs: true}
		}
		return oneToken(time.Millisecond)
	}, edit: func(p *profiles.Profile) {
		closed(40*time.Millisecond, 4, 2)(p)
		p.Stage.Drain, p.Stage.Timeout = profiles.Duration(30*time.Millisecond), profiles.Duration(time.Hour)
	}}.run(t)
	r, in := got.rungs[0], got.measured(0)
	cut := slices.DeleteFunc(slices.Clone(got.asked), func(a asked) bool { return !a.gaveUp })
	if r.Requests.Censored != 1 || r.Requests.Failed != 0 || len(r.Requests.Failures) != 0 || len(cut) != 1 || cut[0].rung != 0 || cut[0].index != 0 {
		t.Errorf("requests %+v; cut %+v", r.Requests, cut)
	}
	good := slices.DeleteFunc(slices.Clone(in), func(l record.RequestRecord) bool { return l.Class != "ok" })
	if r.Requests.Completed != int64(len(good)) || len(good) != len(in)-1 || r.TTFT.Count != int64(len(good)) || !in[0].Censored {
		t.Errorf("%d completed and %d TTFT of %d", r.Requests.Completed, r.TTFT.Count, len(in))
	}
	same(t, "E2E", r.E2E, mean(good, service))
	got.complete(t, 1)
}

// TestPercentilesOfKnownValues is inference-benchmarker 6dcd931: the output
// lengths are 1 to 500, and percentiles are nearest-rank. It is fortio#606 too:
// one that 500 samples do not show is null. And fortio#746: what is below the
// first bound of its histogram, as a receive lag of 0 is, counts.
func TestPercentilesOfKnownValues(t *testing.T) {
	got := trial{dialect: "generic", asked: 512, edit: offline(500, 1), answer: func(a asked) script {
		return atOnce(wiretest.Stream(data(word("a")), data(length, usage(a.index+1), done)), 0)
	}}.run(t)
	d := got.OutputTokens
	for _, c := range []struct {
		name string
		got  record.Value
		want float64
	}{{"mean", d.Mean, 250.5}, {"min", d.Min, 1}, {"p05", d.P05, 25}, {"p50", d.P50, 250}, {"p90", d.P90, 450}, {"p95", d.P95, 475}, {"p99", d.P99, 495}, {"max", d.Max, 500}} {
		if v, ok := c.got.Float(); !ok || v != c.want {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}
	if d.P999.OK() || d.Count != 500 || got.Totals.OutputTokens != 500*501/2 {
		t.Errorf("p99.9 of %d is %v; %d tokens", d.Count, d.P999, got.Totals.OutputTokens)
	}
	if lag := got.ReceiveLag; lag.Count < 500 || lag.Min.Or(-1) != 0 || !lag.P50.OK() {
		t.Errorf("receive lag %+v", lag)
	}
}

// TestStartIsNotMeasured is dynamo#5287: answers of the start, slow ones, are in
// no figure of the window; and a window of fewer than 20 completions a user
// says so.
func TestStartIsNotMeasured(t *testing.T) {
	const warmup, slow = time.Second, 1300 * time.Millisecond
	got := trial{answer: func(a asked) script {
		if a.index < 4 {
			return oneToken(slow)
		}
		return oneToken(5 * time.Millisecond)
	}, edit: func(p *profiles.Profile) {
		closed(45*time.Millisecond, 4)(p)
		p.Stage.Warmup.Fixed, p.Stage.MinRequests = profiles.Duration(warmup), 8
	}}.run(t)
	got.complete(t, 0)
	all, in := got.of(0), got.measured(0)
	if len(in) == 0 || in[0].Index < 4 || len(in) > len(all)-4 || got.TTFT.Count != int64(len(in)) || got.Requests.Completed != int64(len(in)) {
		t.Fatalf("%d of %d requests are in the window, %d TTFT, %d completed", len(in), len(all), got.TTFT.Count, got.Requests.Completed)
	}
	same(t, "TTFT", got.TTFT, mean(in, service))
	// 45 ms of answers of 5 ms or more are 9 a user at most; a window that took
	// longer to have 8 requests has no more.
	if got.Verdict != record.Inconclusive || !strings.Contains(warned(got.Rung), "little_law") {
		t.Errorf("verdict %s for %s", got.Verdict, warned(got.Rung))
	}
}

// TestUselessDatasetSendsNothing is guidellm#787: a data set without a usable
// column is an error before the server is asked for anything.
func TestUselessDatasetSendsNothing(t *testing.T) {
	useless := filepath.Join(t.TempDir(), "d.jsonl")
	if err := os.WriteFile(useless, []byte("{\"id\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := trial{answer: always(oneToken(0)), edit: func(p *profiles.Profile) {
		offline(3, 1)(p)
		p.Workload.Dataset = &profiles.Dataset{File: useless}
	}}.try(t)
	if err == nil || !strings.Contains(err.Error(), "no field (prompt, text") || len(got.asked) != 0 || len(got.rungs) != 0 {
		t.Errorf("error %v, and the server was asked %d times", err, len(got.asked))
	}
}
