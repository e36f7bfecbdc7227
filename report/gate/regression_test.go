package gate

import (
	"math"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

// series makes runs of one load, each slower by factor and a little noise.
func series(count int, factor float64, seed uint64) []Run {
	r := stat.Rand(seed, 1)
	var out []Run
	for range count {
		f := factor * math.Exp(0.005*r.NormFloat64())
		out = append(out, Run{Name: "run", Rungs: []record.Rung{with(rung(32, 0), func(r *record.Rung) { slow(r, f) })}})
	}
	return out
}

// slow makes a rung slower by a factor.
func slow(r *record.Rung, f float64) {
	for _, d := range []*record.Dist{&r.TTFT, &r.ITL, &r.TPOT, &r.E2E} {
		for _, v := range []*record.Value{&d.Mean, &d.Min, &d.P05, &d.P50, &d.P90, &d.P95, &d.P99, &d.Max} {
			*v = v.Scale(f)
		}
	}
	r.RequestThroughputPerS = r.RequestThroughputPerS.Scale(1 / f)
	r.OutputTokenThroughputPerS = r.OutputTokenThroughputPerS.Scale(1 / f)
}

func TestJudgeBaseline(t *testing.T) {
	change := func(runs []Run, f func(*record.Rung)) []Run {
		for i := range runs {
			f(&runs[i].Rungs[0])
		}
		return runs
	}
	tests := []struct {
		name       string
		base, runs []Run
		o          Options
		exit       int
	}{
		{"equal", series(5, 1, 1), series(5, 1, 2), Options{}, 0},
		{"10 % slower", series(5, 1, 1), series(5, 1.1, 2), Options{}, 1},
		{"10 % faster is no regression", series(5, 1, 1), series(5, 1/1.1, 2), Options{}, 0},
		{"10 % slower within a limit of 20 %", series(5, 1, 1), series(5, 1.1, 2), Options{MaxRegression: 0.2}, 0},
		{"at the limit", series(5, 1, 1), series(5, 1.05, 2), Options{}, 4},
		{"one run each, equal", series(1, 1, 1), series(1, 1, 1), Options{Metrics: []Metric{{"ttft", "p50", false}}}, 4},
		{"one run each, twice as slow", series(1, 1, 1), series(1, 2, 2), Options{Metrics: []Metric{{"ttft", "p95", false}}}, 1},
		{"no common load", series(3, 1, 1), change(series(3, 1, 2), func(r *record.Rung) { r.Concurrency = 8 }), Options{}, 2},
		{"a load that was not run", series(3, 1, 1), series(3, 1, 2), Options{At: At{Concurrency: 8}}, 2},
		{"no run", series(3, 1, 1), nil, Options{}, 2},
		{"invalid base", change(series(5, 1, 1), func(r *record.Rung) { r.Verdict = record.Invalid }), series(5, 1, 2), Options{}, 3},
		{"a metric on one side only", change(series(5, 1, 1), func(r *record.Rung) { r.ITL = record.Dist{} }), series(5, 1, 2), Options{}, 2},
		{"too few samples", change(series(5, 1, 1), func(r *record.Rung) { r.TTFT.Count, r.TTFT.P95 = 50, record.Value{} }), series(5, 1, 2), Options{}, 4},
		{"errors rose", series(5, 1, 1), change(series(5, 1, 2), func(r *record.Rung) { r.Requests.Failed = 50 }), Options{}, 1},
		{"errors that may have risen", series(1, 1, 1), change(series(1, 1, 1), func(r *record.Rung) { r.Requests.Failed = 8 }), Options{Metrics: []Metric{{"ttft", "p95", false}}, MaxRegression: 0.5}, 4},
		{"a metric that nobody has", series(5, 1, 1), series(5, 1, 2), Options{Metrics: []Metric{{"ttfo", "p50", false}}}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := JudgeBaseline(tt.runs, tt.base, tt.o)
			if v.ExitCode() != tt.exit {
				t.Errorf("exit %d, want %d: %+v", v.ExitCode(), tt.exit, v)
			}
			for _, c := range v.Checks {
				if c.Status == Inconclusive && c.Need == 0 {
					t.Errorf("%s is inconclusive and does not say what it needs", c.Name)
				}
			}
		})
	}
}

// pairsOf interleaves two targets over a drifting machine.
func pairsOf(factor float64, loads []int, repeats int) (a, b Run) {
	r := stat.Rand(3, 3)
	machine := 0.0
	at := func(users, repeat int, f float64) record.Rung {
		machine += 0.02
		return with(rung(users, repeat), func(rg *record.Rung) { slow(rg, f*math.Exp(machine+0.005*r.NormFloat64())) })
	}
	for _, users := range loads {
		for repeat := range repeats {
			if repeat%2 == 0 { // AB, then BA
				a.Rungs = append(a.Rungs, at(users, repeat, 1))
				b.Rungs = append(b.Rungs, at(users, repeat, factor))
			} else {
				b.Rungs = append(b.Rungs, at(users, repeat, factor))
				a.Rungs = append(a.Rungs, at(users, repeat, 1))
			}
		}
	}
	return a, b
}

func TestJudgePair(t *testing.T) {
	loads := []int{1, 8, 32}
	a, same := pairsOf(1, loads, 4)
	if v := JudgePair(a, same, Options{}); v.Status != Pass {
		t.Errorf("equal targets on a drifting machine: %+v", v)
	}
	for i := range same.Rungs {
		same.Rungs[i].Verdict = record.Inconclusive
	}
	if v := JudgePair(a, same, Options{}); v.Status != Pass || v.Warnings[0].Code != "inconclusive_rungs" {
		t.Errorf("short rungs that agree: %+v", v)
	}
	a, slower := pairsOf(1.10, loads, 4)
	if v := JudgePair(a, slower, Options{}); v.Status != Fail {
		t.Errorf("10 %% slower: %+v", v)
	}
	if v := JudgePair(a, Run{}, Options{}); v.ExitCode() != 2 {
		t.Errorf("nothing to pair: %+v", v)
	}
	damage := func(r Run, every int) Run {
		out := Run{Rungs: append([]record.Rung{}, r.Rungs...)}
		for i := range out.Rungs {
			if i%every == 0 {
				out.Rungs[i].Verdict = record.Invalid
			}
		}
		return out
	}
	if v := JudgePair(damage(a, 6), slower, Options{}); v.Status != Fail || v.Warnings[0].Code != "invalid_pair" {
		t.Errorf("two of twelve pairs are invalid: %+v", v)
	}
	if v := JudgePair(damage(a, 1), slower, Options{}); v.Status != Invalid {
		t.Errorf("every pair is invalid: %+v", v)
	}
	short := Run{Rungs: slower.Rungs[:len(slower.Rungs)-1]}
	if v := JudgePair(a, short, Options{}); v.Status != Fail || len(v.Warnings) == 0 {
		t.Errorf("a lone rung is left out in silence: %+v", v)
	}
}
