//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// cost is what one client process took.
type cost struct {
	cpu, wall time.Duration
	rss       float64 // MiB at most
}

// costOf sends n requests of so many tokens, c at a time, by one of the
// clients, and returns what its process took.
func costOf(b *testing.B, client, url string, n, c, tokens int) cost {
	b.Helper()
	if client == "headway" {
		return costOfRun(b, url, "--offline", strconv.Itoa(n), "--set", "load.offline.max_in_flight="+strconv.Itoa(c), "--output-tokens", strconv.Itoa(tokens))
	}
	path, err := exec.LookPath("bareclient")
	if err != nil {
		b.Fatal(err)
	}
	return costOfProcess(b, exec.CommandContext(b.Context(), path, "-url", url, "-n", strconv.Itoa(n), "-c", strconv.Itoa(c), "-tokens", strconv.Itoa(tokens)))
}

// costOfRun is what a whole `headway run` takes.
func costOfRun(b *testing.B, url string, flags ...string) cost {
	b.Helper()
	return costOfProcess(b, headwayCommand(b, append([]string{"run", "--quiet", "--target", url, "--out", filepath.Join(b.TempDir(), "run"),
		"--input-tokens", "32", "--repeats", "1"}, flags...)...))
}

func costOfProcess(b *testing.B, cmd *exec.Cmd) cost {
	b.Helper()
	start := time.Now()
	// A flood, or a window without a whole answer, is no valid measurement of
	// latency, and is not asked to be one.
	if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != exitNoResult {
		b.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	wall := time.Since(start)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	unit := 1024.0 // of Maxrss, in bytes
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return cost{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), wall: wall, rss: float64(usage.Maxrss) * unit / (1 << 20)}
}

// BenchmarkCost is what `headway run` costs, as a process and with everything
// that it writes, beside the barest client of the same server. What a process
// takes to start is subtracted: two runs of different length or width. It is
// run once:
//
//	go test ./cmd/headway -run '^$' -bench Cost -benchtime 1x
func BenchmarkCost(b *testing.B) {
	// perEvent is the processor time of an event in microseconds: two lengths
	// of the same requests.
	perEvent := func(b *testing.B, client, law string, n, c, short, long int) float64 {
		s := startMeasured(b, "--law", law)
		defer s.stop()
		a, z := costOf(b, client, s.url, n, c, short), costOf(b, client, s.url, n, c, long)
		return float64((z.cpu - a.cpu).Microseconds()) / float64(n*(long-short))
	}
	b.Run("flooded", func(b *testing.B) {
		ratio(b, "cpu-us/event", func(client string) float64 { return perEvent(b, client, "ttft=0ms,itl=0ms", 640, 16, 64, 512) })
	})
	b.Run("256streams-20ms", func(b *testing.B) {
		ratio(b, "cpu-us/event", func(client string) float64 { return perEvent(b, client, "ttft=20ms,itl=20ms", 256, 256, 64, 256) })
	})
	// The same with the threads kept prompt, as where latencies are measured:
	// offline runs have that off.
	b.Run("256streams-20ms-prompt", func(b *testing.B) {
		ratio(b, "cpu-us/event", func(client string) float64 {
			if client == "bare" {
				return perEvent(b, client, "ttft=20ms,itl=20ms", 256, 256, 64, 256)
			}
			// Two windows of one long answer each.
			closed := func(measure string) (cost, int) {
				s := startMeasured(b, "--law", "ttft=20ms,itl=20ms", "--max-num-seqs", "256")
				took := costOfRun(b, s.url, "--concurrency", "256", "--output-tokens", "2000", "--warmup", "1s", "--measure", measure, "--drain", "100ms",
					"--min-requests", "0", "--set", "stage.min_requests_per_user=0")
				s.stop()
				tokens := 0
				for _, e := range s.emissions(b) {
					tokens += len(e.TokenNS)
				}
				return took, tokens
			}
			a, least := closed("2s")
			z, most := closed("7s")
			return float64((z.cpu - a.cpu).Microseconds()) / float64(most-least)
		})
	})
	b.Run("requests-C=32", func(b *testing.B) {
		ratio(b, "req/s", func(client string) float64 {
			s := startMeasured(b, "--law", "ttft=0ms,itl=0ms")
			defer s.stop()
			a, z := costOf(b, client, s.url, 2000, 32, 1), costOf(b, client, s.url, 32000, 32, 1)
			return 30000 / (z.wall - a.wall).Seconds()
		})
	})
	b.Run("memory", func(b *testing.B) {
		ratio(b, "KiB/stream", func(client string) float64 {
			s := startMeasured(b, "--law", "ttft=1s,itl=500ms")
			defer s.stop()
			a, z := costOf(b, client, s.url, 1000, 1000, 8), costOf(b, client, s.url, 5000, 5000, 8)
			b.Logf("%s: %.0f MiB at 1,000 streams, %.0f at 5,000", client, a.rss, z.rss)
			return (z.rss - a.rss) * 1024 / 4000
		})
	})
	b.Run("200000requests", func(b *testing.B) {
		s := startMeasured(b, "--law", "ttft=0ms,itl=0ms")
		defer s.stop()
		b.ReportMetric(costOf(b, "headway", s.url, 200_000, 64, 4).rss, "MiB")
	})
	b.Run("10requests", func(b *testing.B) {
		ratio(b, "s", func(client string) float64 {
			s := startMeasured(b, "--law", "ttft=0ms,itl=0ms")
			defer s.stop()
			return costOf(b, client, s.url, 10, 10, 1).wall.Seconds()
		})
	})
}

// ratio reports the median of a figure of the two clients, measured in turn,
// and headway's over the bare one's.
func ratio(b *testing.B, unit string, figure func(client string) float64) {
	b.Helper()
	var bare, own []float64
	for range 3 {
		bare = append(bare, figure("bare"))
		own = append(own, figure("headway"))
	}
	slices.Sort(bare)
	slices.Sort(own)
	b.Logf("%s: bare %.2f, headway %.2f: ratio of the medians %.2f", unit, bare, own, own[1]/bare[1])
	b.ReportMetric(bare[1], "bare-"+unit)
	b.ReportMetric(own[1], unit)
	b.ReportMetric(own[1]/bare[1], "ratio")
	b.ReportMetric(0, "ns/op")
}
