package knee

import (
	"fmt"
	"math"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/stat"
)

// window is the measured time of every simulated rung, in seconds.
const window = 3.0

// limitsOf parses limits; none for "".
func limitsOf(t *testing.T, list string) []profiles.SLO {
	t.Helper()
	if list == "" {
		return nil
	}
	slos, err := profiles.ParseSLOs(list)
	if err != nil {
		t.Fatal(err)
	}
	return slos
}

// refineFully runs a search from nothing until the boundary is tight, and
// returns its rungs.
func refineFully(slos []profiles.SLO, measure func(users, n int) record.Rung) []record.Rung {
	var done []record.Rung
	for range 30 {
		next, ok := Refine(done, slos, Budget{Rungs: 1})
		if !ok || next.Why != "slo" {
			break
		}
		r := measure(next.Concurrency, len(done))
		r.Index, r.Refined = len(done), true
		done = append(done, r)
	}
	return done
}

// ladderFor is the smallest ladder of powers of two with 1, 3, 7, ... midpoints
// an octave, run upwards to the first load that breaks a limit or brings no
// more, whose operating point is within 5 % of want.
func ladderFor(s server, slos []profiles.SLO, want float64) (rungs []record.Rung) {
	for parts := 2; parts <= 64; parts *= 2 {
		rungs = nil
		for _, users := range powersAndMidpoints(parts) {
			r := s.measure(users, window, 5)
			r.Index = len(rungs)
			rungs = append(rungs, r)
			if p := OperatingPoint(rungs, slos, Economics{}); p.Binding != "" && p.Status == PointFound {
				break
			}
		}
		if at := OperatingPoint(rungs, slos, Economics{}).Concurrency.Or(0); math.Abs(at/want-1) <= 0.05 {
			return rungs
		}
	}
	return rungs
}

func powersAndMidpoints(parts int) (loads []int) {
	for octave := 1; octave <= 512; octave *= 2 {
		for part := range parts {
			if users := octave + octave*part/parts; len(loads) == 0 || users > loads[len(loads)-1] {
				loads = append(loads, users)
			}
		}
	}
	return loads
}

func seconds(rungs []record.Rung) float64 {
	sum := 0.0
	for _, r := range rungs {
		sum += r.Window.EndS
	}
	return sum
}

func TestRefineFindsTheOperatingPoint(t *testing.T) {
	tests := []struct {
		name string
		s    server
		slo  string
		want float64 // users: the slots, or where the law meets the limit
	}{
		{"16 slots, 0.2 s service", server{slots: 16, a: 0.01, tokens: 20, jitter: 0.01}, "ttft_p95=20ms", 16},
		{"13 slots", server{slots: 13, a: 0.01, tokens: 20, jitter: 0.01}, "ttft_p95=20ms", 13},
		{"37 slots", server{slots: 37, a: 0.01, tokens: 20, jitter: 0.01}, "ttft_p95=20ms", 37},
		{"90 slots, batching", server{slots: 90, a: 0.008, b: 0.0001, tokens: 16, jitter: 0.01}, "ttft_p95=60ms", 90},
		{"waiting allowed", server{slots: 21, a: 0.01, tokens: 20, jitter: 0.01}, "ttft_p95=100ms", 21},
		{"itl binds below the knee", server{slots: 64, a: 0.005, b: 0.0005, tokens: 20, jitter: 0.01}, "itl_p95=20ms", 29},
		{"e2e binds above the knee", server{slots: 24, a: 0.005, b: 0.0002, tokens: 20, jitter: 0.01}, "e2e_p95=300ms", 24},
	}
	var took, ladderTook float64
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			slos := limitsOf(t, tt.slo)
			done := refineFully(slos, func(users, _ int) record.Rung { return tt.s.measure(users, window, 5) })
			got := OperatingPoint(done, slos, Economics{}).Concurrency.Or(0)
			ladder := ladderFor(tt.s, slos, tt.want)
			took, ladderTook = took+seconds(done), ladderTook+seconds(ladder)
			t.Logf("truth %v, found %v in %.0f s of measuring (%v); the ladder takes %.0f s", tt.want, got, seconds(done), loadsOf(done), seconds(ladder))
			if math.Abs(got/tt.want-1) > 0.05 {
				t.Errorf("found %v, want %v within 5 %%", got, tt.want)
			}
			if seconds(done) > 1.01*seconds(ladder)/2 {
				t.Errorf("took %.0f s of measuring, the ladder %.0f s: more than half", seconds(done), seconds(ladder))
			}
			if tt.s.slots == 16 && (got != 16 || seconds(done) > 30) {
				t.Errorf("found %v in %.0f s, want exactly 16 within 30 s", got, seconds(done))
			}
		})
	}
	t.Logf("all: %.0f s of measuring, ladders %.0f s", took, ladderTook)
}

func loadsOf(rungs []record.Rung) string {
	out := ""
	for _, r := range rungs {
		out += fmt.Sprintf(" %d", r.Concurrency)
	}
	return out
}

// One rung that something disturbed does not mislead the search, whichever it
// is.
func TestRefineIsRobustToOneNoisyRung(t *testing.T) {
	s := server{slots: 37, a: 0.01, tokens: 20, jitter: 0.01}
	slos := limitsOf(t, "ttft_p95=20ms")
	for bad := range 6 {
		t.Run(fmt.Sprint("rung ", bad), func(t *testing.T) {
			rng := stat.Rand(9, uint64(bad))
			done := refineFully(slos, func(users, n int) record.Rung {
				r := s.measure(users, window, 5)
				if n == bad {
					r = disturb(r, rng)
				}
				return r
			})
			got := OperatingPoint(done, slos, Economics{}).Concurrency.Or(0)
			t.Logf("found %v by%s", got, loadsOf(done))
			if math.Abs(got/37-1) > 0.05 {
				t.Errorf("found %v, want 37 within 5 %%", got)
			}
		})
	}
}

// A rung that can't be trusted shows the way, and is measured again where it
// decides.
func TestRefineMeasuresInvalidRungsAgain(t *testing.T) {
	s := server{slots: 16, a: 0.01, tokens: 20, jitter: 0.01}
	slos := limitsOf(t, "ttft_p95=20ms")
	for bad := range 8 {
		t.Run(fmt.Sprint("rung ", bad), func(t *testing.T) {
			done := refineFully(slos, func(users, n int) record.Rung {
				r := s.measure(users, window, 5)
				if n == bad {
					r.Verdict = record.Invalid
				}
				return r
			})
			p := OperatingPoint(done, slos, Economics{})
			t.Logf("found %v by%s", p.Concurrency, loadsOf(done))
			if p.Concurrency.Or(0) != 16 {
				t.Errorf("found %v, want 16", p.Concurrency)
			}
		})
	}
}

// In open loop the search is on the rate: a server that completes 40/s and
// whose TTFT is over the limit beyond 34/s.
func TestRefineRates(t *testing.T) {
	slos := limitsOf(t, "ttft_p95=500ms")
	var done []record.Rung
	for range 20 {
		next, ok := Refine(done, slos, Budget{Rungs: 1, Open: true})
		if !ok || next.Why != "slo" {
			break
		}
		if next.Mode != record.Open || next.RatePerS <= 0 {
			t.Fatalf("load %+v", next)
		}
		x := math.Min(next.RatePerS, 40)
		v := record.Known(50 + 450*math.Pow(next.RatePerS/34, 12))
		done = append(done, record.Rung{
			Index: len(done), Mode: record.Open, RatePerS: record.Known(next.RatePerS), Verdict: record.Valid, Refined: true,
			Requests:     record.Requests{Sent: 1000, Completed: 1000},
			InFlightMean: record.Known(x), RequestThroughputPerS: record.Known(x),
			TTFTResponse: record.Dist{Count: 1000, Mean: v, Min: v, P05: v, P50: v, P90: v, P95: v, P99: v, Max: v},
		})
	}
	p := OperatingPoint(done, slos, Economics{})
	if rate := p.RatePerS.Or(0); rate > 34 || rate < 34*0.94 || len(done) > 12 {
		t.Errorf("found %v/s in %d rungs, want 34/s or up to 6 %% below", rate, len(done))
	}
}

func TestRefineStops(t *testing.T) {
	slos := limitsOf(t, "ttft_p95=500ms")
	if _, ok := Refine(nil, slos, Budget{}); ok {
		t.Error("a rung is placed without a budget")
	}
	// A server that fails at one user, twice, has no lower load to try.
	alone := []record.Rung{loaded(0, 1, 50, 900)}
	if next, ok := Refine(alone, slos, Budget{Rungs: 1}); !ok || next.Why != "slo" || next.Concurrency != 1 {
		t.Errorf("one failing rung is believed: %+v", next)
	}
	if next, ok := Refine(append(alone, loaded(1, 1, 50, 900)), slos, Budget{Rungs: 1}); ok && next.Why == "slo" {
		t.Errorf("goes on to %+v", next)
	}
	// A load that is measured again counts its repeats.
	if next, _ := Refine(alone, slos, Budget{Rungs: 1}); next.Repeat != 1 {
		t.Errorf("repeat %d, want 1", next.Repeat)
	}
	// The budget's highest concurrency is kept to.
	next, ok := Refine([]record.Rung{loaded(0, 16, 800, 20)}, slos, Budget{Rungs: 1, MaxConcurrency: 24})
	if !ok || next.Concurrency != 24 {
		t.Errorf("placed %+v, want 24", next)
	}
}

// Without limits the rungs gather around the knee, and end.
func TestRefineTheKnee(t *testing.T) {
	s := server{slots: 20, a: 0.01, tokens: 20, jitter: 0.03}
	var done []record.Rung
	for _, users := range []int{1, 4, 16, 64} {
		done = append(done, s.measure(users, window, 5))
	}
	placed := 0
	for ; placed < 10; placed++ {
		next, ok := Refine(done, nil, Budget{Rungs: 1})
		if !ok {
			break
		}
		if next.Concurrency < 10 || next.Concurrency > 40 {
			t.Errorf("a rung at %d is far from the knee at 20", next.Concurrency)
		}
		done = append(done, s.measure(next.Concurrency, window, 5))
	}
	k := Fit(FromRungs(done), Options{})
	if placed == 0 || placed == 10 || math.Abs(k.InFlight.Or(0)-20) > 1 {
		t.Errorf("knee at %v after %d rungs, want 20 within 5 %%", k.InFlight.Or(0), placed)
	}
}
