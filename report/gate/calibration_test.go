package gate

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

var calibrationTable = flag.Bool("calibration", false, "print the full calibration table of docs/gate.md")

// noise is how the runs of a simulated server differ.
type noise struct {
	run      float64 // standard deviation of log speed between runs
	ar       float64 // correlation of the logs of successive requests in a run
	sigma    float64 // standard deviation of log TTFT between requests
	requests int     // a run
}

// noise of the machine that two interleaved targets share: a random walk from
// pair to pair.
const drift = 0.03

// simulateRun makes one run of one rung, slower by factor. Latencies are
// log-normal, follow an AR(1) process, and all shift together from run to run.
func simulateRun(n noise, factor float64, r *rand.Rand) Run {
	speed := factor * math.Exp(n.run*r.NormFloat64())
	shared := newAR(n.ar, r)
	own := newAR(n.ar, r)
	var ttft, itl, e2e []float64
	for range n.requests {
		s := shared.next() // a busy moment hits prefill and decode alike
		t := 100 * speed * math.Exp(n.sigma*(0.7*s+0.7*own.next()))
		i := 15 * speed * math.Exp(0.15*s+0.05*r.NormFloat64())
		ttft, itl, e2e = append(ttft, t), append(itl, i), append(e2e, t+127*i)
	}
	const users, tokens = 32, 128
	x := users / (stat.Mean(e2e) / 1000)
	return Run{Rungs: []record.Rung{{
		Mode: record.Closed, Concurrency: users, Verdict: record.Valid,
		Requests:              record.Requests{Sent: int64(n.requests), Completed: int64(n.requests)},
		RequestThroughputPerS: record.Known(x), OutputTokenThroughputPerS: record.Known(tokens * x),
		TTFT: sampled(ttft), ITL: sampled(itl), E2E: sampled(e2e),
	}}}
}

// ar is a stationary AR(1) process of unit variance.
type ar struct {
	phi, at float64
	r       *rand.Rand
}

func newAR(phi float64, r *rand.Rand) *ar { return &ar{phi: phi, at: r.NormFloat64(), r: r} }

func (a *ar) next() float64 {
	a.at = a.phi*a.at + math.Sqrt(1-a.phi*a.phi)*a.r.NormFloat64()
	return a.at
}

func sampled(xs []float64) record.Dist {
	mean := stat.Mean(xs)
	slices.Sort(xs)
	q := func(p float64) record.Value { return record.Known(xs[int(p*float64(len(xs)-1))]) }
	return record.Dist{Count: int64(len(xs)), Mean: record.Known(mean), Min: q(0), P05: q(0.05), P50: q(0.5), P90: q(0.9), P95: q(0.95), Max: q(1)}
}

// rates are the shares of verdicts over many trials.
type rates struct{ pass, fail, open float64 }

// judged is one way to compare runs.
type judged struct {
	name   string
	shared float64 // of the noise, by the n-th run of both sides
	judge  func(base, fresh []Run) Verdict
}

var ways = []judged{
	{"baseline", 0, func(base, fresh []Run) Verdict { return JudgeBaseline(fresh, base, Options{}) }},
	{"interleaved", drift, func(base, fresh []Run) Verdict {
		var a, b Run
		for i := range base {
			a.Rungs, b.Rungs = append(a.Rungs, base[i].Rungs...), append(b.Rungs, fresh[i].Rungs...)
		}
		return JudgePair(a, b, Options{})
	}},
}

func (j judged) rates(n noise, runs int, factor float64, trials int) rates {
	var out rates
	for trial := range trials {
		r := stat.Rand(uint64(trial), uint64(runs)<<32|uint64(1e6*factor)<<8|uint64(1e3*n.run))
		var base, fresh []Run
		machine := 0.0
		for range runs {
			machine += j.shared * r.NormFloat64()
			base = append(base, simulateRun(n, math.Exp(machine), r))
			fresh = append(fresh, simulateRun(n, factor*math.Exp(machine), r))
		}
		switch j.judge(base, fresh).Status {
		case Pass:
			out.pass += 1 / float64(trials)
		case Fail:
			out.fail += 1 / float64(trials)
		default:
			out.open += 1 / float64(trials)
		}
	}
	return out
}

// usual is the noise of a quiet machine and 1000 requests a run.
var usual = noise{run: 0.01, ar: 0.5, sigma: 0.3, requests: 1000}

// withRun is a machine whose runs differ by so much.
func withRun(n noise, sd float64) noise {
	n.run = sd
	return n
}

// Equal runs rarely fail and mostly pass, and a 10 % regression is found, with
// all metrics judged together and 10 runs a side, up to 1.5 % between runs. At
// 2 % the answer is open more often, but not wrong.
func TestCalibration(t *testing.T) {
	for _, way := range ways {
		for _, at := range []struct {
			run         float64
			trials      int
			pass, found float64 // at least
		}{{0.01, 60, 0.90, 0.95}, {0.015, 100, 0.90, 0.95}, {0.02, 60, 0.80, 0.85}} {
			t.Run(fmt.Sprintf("%s, %.1f %% between runs", way.name, 100*at.run), func(t *testing.T) {
				t.Parallel()
				n := withRun(usual, at.run)
				equal := way.rates(n, 10, 1, at.trials)
				slower := way.rates(n, 10, 1.10, at.trials)
				t.Logf("equal: %+v", equal)
				t.Logf("10 %% slower: %+v", slower)
				if equal.fail > 0.02 || equal.pass < at.pass {
					t.Errorf("equal runs: %+v, at most 2 %% may fail and %.0f %% must pass", equal, 100*at.pass)
				}
				if slower.fail < at.found || slower.pass > 0 {
					t.Errorf("10 %% slower: %+v, %.0f %% must fail and none pass", slower, 100*at.found)
				}
			})
		}
	}
}

func TestCalibrationTable(t *testing.T) {
	if !*calibrationTable {
		t.Skip("prints the table of docs/gate.md; run with -calibration")
	}
	fmt.Println("| judged | between runs | AR(1) | sd of log TTFT | requests | runs a side | equal: pass / fail / open | 5 % slower | 10 % slower |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	const trials = 100
	noises := []noise{usual, withRun(usual, 0.015), withRun(usual, 0.02), withRun(usual, 0.03),
		{0.02, 0.5, 0.3, 3000}, {0.01, 0.9, 0.3, 1000}, {0.01, 0.5, 0.6, 1000}, {0.01, 0.5, 0.3, 300}}
	for _, way := range ways {
		for _, n := range noises {
			for _, runs := range []int{3, 5, 10} {
				row := fmt.Sprintf("| %s | %.3g %% | %.1f | %.1f | %d | %d |", way.name, 100*n.run, n.ar, n.sigma, n.requests, runs)
				for _, factor := range []float64{1, 1.05, 1.10} {
					r := way.rates(n, runs, factor, trials)
					row += fmt.Sprintf(" %.1f / %.1f / %.1f %% |", 100*r.pass, 100*r.fail, 100*r.open)
				}
				fmt.Println(row)
			}
		}
	}
}
