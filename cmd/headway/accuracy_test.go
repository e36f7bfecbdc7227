//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
)

// headwayCommand starts this test binary as headway, a process of its own.
func headwayCommand(b *testing.B, args ...string) *exec.Cmd {
	b.Helper()
	path, err := exec.LookPath("headway") // testscript puts it there
	if err != nil {
		b.Fatal(err)
	}
	return exec.CommandContext(b.Context(), path, args...)
}

// measuredServer is a `headway serve` that logs its own times.
type measuredServer struct {
	url, log string
	cmd      *exec.Cmd
}

func startMeasured(b *testing.B, args ...string) *measuredServer {
	b.Helper()
	s := &measuredServer{log: filepath.Join(b.TempDir(), "emission.jsonl")}
	s.cmd = headwayCommand(b, append([]string{"serve", "--addr", "127.0.0.1:0", "--executor", "sim", "--emission-log", s.log}, args...)...)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.stop() })
	var bound struct {
		Addr string `json:"addr"`
	}
	if err := json.NewDecoder(out).Decode(&bound); err != nil {
		b.Fatal(err)
	}
	s.url = "http://" + bound.Addr
	return s
}

// stop ends the server and with it its log.
func (s *measuredServer) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
}

// emitted is what the server wrote down of a request.
type emitted struct {
	RequestID  string  `json:"request_id"`
	AcceptedNS int64   `json:"accepted_ns"`
	ArrivalNS  int64   `json:"arrival_ns"`
	TokenNS    []int64 `json:"token_ns"`
}

// emissions reads the server's log.
func (s *measuredServer) emissions(b *testing.B) map[string]emitted {
	b.Helper()
	f, err := os.Open(s.log)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	all := map[string]emitted{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e emitted
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			b.Fatal(err)
		}
		if e.RequestID != "" {
			all[e.RequestID] = e
		}
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	return all
}

// measure runs `headway run` and returns its one rung and every request.
func measure(b *testing.B, args ...string) (record.Rung, []record.RequestRecord) {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "run"+strconv.FormatInt(time.Now().UnixNano(), 36))
	cmd := headwayCommand(b, append([]string{"run", "--quiet", "--out", dir}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != exitNoResult {
		b.Fatalf("headway run: %v\n%s", err, out)
	}
	opened, err := bundle.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, bundle.RequestsFile))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	defer z.Close()
	var all []record.RequestRecord
	for r, err := range record.ReadRequests(z) {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, r)
	}
	return opened.Result.Rungs[0], all
}

// hog keeps every processor busy, so many loops each, until the benchmark ends.
func hog(b *testing.B, each int) {
	b.Helper()
	for range each * runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		// The time limit holds even when the benchmark is killed.
		limit := exec.Command("sh", "-c", fmt.Sprintf("sleep 100; kill -9 %d", cmd.Process.Pid))
		if err := limit.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = limit.Process.Kill()
			_ = limit.Wait()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// timingError is how far the client's times are from the server's, in
// milliseconds.
type timingError struct {
	gap     []float64 // of each gap between events
	ttft    []float64 // of each time to first token, from the server's own arrival
	seen    []float64 // from the client's send to the server's having read the request
	receive []float64 // from the server's write of the first token to its stamp
	least   float64   // the least TTFT
}

// joinTruth joins the requests that were wanted after the warm-up.
func joinTruth(requests []record.RequestRecord, truth map[string]emitted, warmup time.Duration) timingError {
	out := timingError{least: math.Inf(1)}
	first := int64(math.MaxInt64)
	for _, r := range requests {
		first = min(first, r.IntendedNS)
	}
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	for _, r := range requests {
		e, ok := truth[r.RequestID]
		if !ok || r.Class != "ok" || r.SentNS == nil || len(r.Chunks) == 0 || len(e.TokenNS) == 0 || r.IntendedNS < first+int64(warmup) {
			continue
		}
		out.least = min(out.least, ms(r.Chunks[0].At-*r.SentNS))
		out.seen = append(out.seen, ms(e.ArrivalNS-*r.SentNS))
		out.receive = append(out.receive, ms(r.Chunks[0].At-e.TokenNS[0]))
		out.ttft = append(out.ttft, ms((r.Chunks[0].At-*r.SentNS)-(e.TokenNS[0]-e.ArrivalNS)))
		token, at := -1, int64(0)
		for i, c := range r.Chunks {
			last := token + int(c.Tokens.Or(1))
			if last >= len(e.TokenNS) {
				break
			}
			if i > 0 {
				out.gap = append(out.gap, math.Abs(ms((c.At-at)-(e.TokenNS[last]-e.TokenNS[token]))))
			}
			token, at = last, c.At
		}
	}
	for _, s := range [][]float64{out.gap, out.ttft, out.seen, out.receive} {
		slices.Sort(s)
	}
	return out
}

// quantile is the quantile of sorted values by the nearest rank.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// codes are the reasons of a rung's verdict.
func codes(r record.Rung) string {
	var all []string
	for _, why := range r.Reasons {
		all = append(all, why.Code)
	}
	return strings.Join(all, ",")
}

// report prints one line and the metrics that go test collects.
func (e *timingError) report(b *testing.B, r record.Rung) {
	b.Logf("n=%d gaps=%d stamps=%s | gap err p50 %.3f p99 %.3f max %.2f | TTFT err p50 %.3f p99 %.3f = seen p50 %.3f p99 %.3f + receive p50 %.3f p99 %.3f | least TTFT %.2f | receive lag p99 %.3f send lag p99 %.3f merged %.4f cpu %.2f sched p99 %.2f | %s %s",
		len(e.ttft), len(e.gap), r.Stamps, quantile(e.gap, 0.5), quantile(e.gap, 0.99), quantile(e.gap, 1),
		quantile(e.ttft, 0.5), quantile(e.ttft, 0.99), quantile(e.seen, 0.5), quantile(e.seen, 0.99),
		quantile(e.receive, 0.5), quantile(e.receive, 0.99), e.least,
		r.ReceiveLag.P99.Or(math.NaN()), r.SendLag.P99.Or(math.NaN()), r.MergedReadRatio.Or(math.NaN()), r.Client.CPURatio.Or(math.NaN()),
		r.Client.SchedulingLatencyP99ms.Or(math.NaN()), r.Verdict, codes(r))
	b.ReportMetric(quantile(e.gap, 0.99), "gap-p99-ms")
	b.ReportMetric(quantile(e.ttft, 0.5), "ttft-p50-ms")
	b.ReportMetric(quantile(e.ttft, 0.99), "ttft-p99-ms")
	b.ReportMetric(quantile(e.seen, 0.99), "server-late-p99-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAccuracy holds the client's times against those that the server
// wrote down: TTFT 50 ms, ITL 10 ms, in steady state, on an idle machine and
// with loops that keep every processor busy. It is run once:
//
//	go test ./cmd/headway -run '^$' -bench Accuracy -benchtime 1x
func BenchmarkAccuracy(b *testing.B) {
	for _, c := range []struct {
		stamps        string
		hogs, streams int
	}{
		{"kernel", 0, 64}, {"kernel", 0, 256}, {"kernel", 1, 64}, {"kernel", 1, 256},
		{"user", 0, 64}, {"user", 0, 256}, {"user", 1, 64}, {"user", 1, 256},
		// These may be more than the machine can do; then the rung must say so.
		{"kernel", 2, 64}, {"kernel", 2, 256}, {"kernel", 0, 5000},
	} {
		b.Run(fmt.Sprintf("stamps=%s/hogs=%d/streams=%d", c.stamps, c.hogs, c.streams), func(b *testing.B) {
			hog(b, c.hogs)
			accuracy(b, c.streams, 3*time.Second, c.stamps == "user")
		})
	}
}

// BenchmarkQuiet repeats the measurement of 64 streams on an otherwise idle
// machine and fails when one is not valid:
//
//	go test ./cmd/headway -run '^$' -bench Quiet -benchtime 20x
func BenchmarkQuiet(b *testing.B) {
	for b.Loop() {
		if rung := accuracy(b, 64, time.Second, false); rung.Verdict != record.Valid {
			b.Errorf("the run is %s: %s", rung.Verdict, codes(rung))
		}
	}
}

// accuracy measures so many streams once and reports how far off the client is.
func accuracy(b *testing.B, streams int, warmup time.Duration, user bool) record.Rung {
	b.Helper()
	s := startMeasured(b, "--law", "ttft=50ms,itl=10ms", "--max-num-seqs", strconv.Itoa(streams))
	args := []string{"--target", s.url, "--concurrency", strconv.Itoa(streams), "--input-tokens", "64", "--output-tokens", "32",
		"--warmup", warmup.String(), "--measure", "8s", "--repeats", "1"}
	if user {
		args = append(args, "--user-stamps")
	}
	rung, requests := measure(b, args...)
	s.stop()
	e := joinTruth(requests, s.emissions(b), warmup)
	e.report(b, rung)
	return rung
}

// BenchmarkPacing offers rates to a server that answers at once: what was
// achieved, and how late requests left. It is run once.
func BenchmarkPacing(b *testing.B) {
	for _, arrivals := range []string{"constant", "poisson"} {
		for _, rate := range []int{1000, 2000, 5000} {
			b.Run(fmt.Sprintf("%s/rate=%d", arrivals, rate), func(b *testing.B) {
				measured := "10s"
				if rate == 1000 {
					measured = "30s"
				}
				s := startMeasured(b, "--law", "ttft=0ms,itl=0ms")
				rung, requests := measure(b, "--target", s.url, "--rate", strconv.Itoa(rate), "--arrivals", arrivals,
					"--input-tokens", "32", "--output-tokens", "1", "--warmup", "1s", "--measure", measured, "--repeats", "1")
				start, end := rung.Window.StartS, rung.Window.EndS
				sent, wanted := 0, 0
				first := int64(math.MaxInt64)
				for _, r := range requests {
					first = min(first, r.IntendedNS)
				}
				in := func(at int64) bool { s := float64(at-first) / 1e9; return s >= start && s < end }
				for _, r := range requests {
					if in(r.IntendedNS) {
						wanted++
					}
					if r.SentNS != nil && in(*r.SentNS) {
						sent++
					}
				}
				offered, achieved := float64(wanted)/(end-start), float64(sent)/(end-start)
				b.Logf("offered %.1f/s, achieved %.1f/s (%+.2f %%), of the nominal rate %+.2f %% | send lag p50 %.3f p99 %.3f max %.2f ms | receive lag p99 %.3f cpu %.2f | %s %s",
					offered, achieved, 100*(achieved/offered-1), 100*(achieved/float64(rate)-1),
					rung.SendLag.P50.Or(math.NaN()), rung.SendLag.P99.Or(math.NaN()), rung.SendLag.Max.Or(math.NaN()),
					rung.ReceiveLag.P99.Or(math.NaN()), rung.Client.CPURatio.Or(math.NaN()), rung.Verdict, codes(rung))
				b.ReportMetric(achieved, "sent/s")
				b.ReportMetric(rung.SendLag.P99.Or(math.NaN()), "send-lag-p99-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkOverload offers 12 requests a second to 4 slots that serve 8, and
// holds the response times to a first-come-first-served queue computed from
// the times at which the requests were wanted. It is run once.
func BenchmarkOverload(b *testing.B) {
	const service = 500 * time.Millisecond
	for _, most := range []int{0, 8} {
		b.Run(fmt.Sprintf("max-in-flight=%d", most), func(b *testing.B) {
			s := startMeasured(b, "--law", "slots=4,ttft=500ms,itl=10ms")
			rung, requests := measure(b, "--target", s.url, "--rate", "12", "--arrivals", "poisson",
				"--set", "load.open.max_in_flight="+strconv.Itoa(most), "--input-tokens", "32", "--output-tokens", "1", "--warmup", "0s", "--measure", "20s", "--drain", "60s", "--repeats", "1")
			slices.SortFunc(requests, func(x, y record.RequestRecord) int { return int(x.IntendedNS - y.IntendedNS) })
			var free [4]int64
			var queue, seen, served []float64
			for _, r := range requests {
				slices.Sort(free[:])
				free[0] = max(r.IntendedNS, free[0]) + int64(service)
				queue = append(queue, float64(free[0]-r.IntendedNS)/1e6)
				if r.LastTokenNS != nil && r.SentNS != nil {
					seen = append(seen, float64(*r.LastTokenNS-r.IntendedNS)/1e6)
					served = append(served, float64(*r.LastTokenNS-*r.SentNS)/1e6)
				}
			}
			for _, v := range [][]float64{queue, seen, served} {
				slices.Sort(v)
			}
			b.Logf("n=%d response p99 %.1f ms, by the queue %.1f (%+.2f %%), reported p50 %.1f max %.1f; service p99 %.1f | %s %s",
				len(seen), quantile(seen, 0.99), quantile(queue, 0.99), 100*(quantile(seen, 0.99)/quantile(queue, 0.99)-1),
				rung.E2EResponse.P50.Or(math.NaN()), rung.E2EResponse.Max.Or(math.NaN()), quantile(served, 0.99), rung.Verdict, codes(rung))
			b.ReportMetric(quantile(seen, 0.99), "response-p99-ms")
			b.ReportMetric(quantile(queue, 0.99), "queue-p99-ms")
			b.ReportMetric(quantile(served, 0.99), "service-p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
