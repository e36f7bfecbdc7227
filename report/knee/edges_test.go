package knee

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

// law12 is a server of 12 slots: throughput 12/0.02 tok/s at the cap.
func law12(n float64) float64 { return min(n, 12) / (0.01 + 0.01*min(n, 12)/12) }

func pointsAt(x func(float64) float64, loads ...float64) []Point {
	var out []Point
	for _, n := range loads {
		out = append(out, Point{InFlight: record.Known(n), TokensS: record.Known(x(n)), Mode: record.Closed})
	}
	return out
}

func codes(k Knee) string {
	var out []string
	for _, w := range k.Warnings {
		out = append(out, w.Code)
	}
	return strings.Join(out, " ")
}

func TestStatuses(t *testing.T) {
	free := func(n float64) float64 { return n / (0.005 + 0.0005*n) }
	tests := []struct {
		name   string
		points []Point
		status Status
		knee   float64
		warns  string
	}{
		{"a plain cap", pointsAt(law12, 1, 2, 4, 8, 16, 32, 64), Found, 12, ""},
		{"rows in any order", pointsAt(law12, 64, 2, 32, 1, 16, 4, 8), Found, 12, ""},
		{"duplicates", pointsAt(law12, 1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32), Found, 12, ""},
		{"a law that bends without a cap", pointsAt(free, 1, 2, 4, 8, 16, 32, 64), NotReached, 0, ""},
		{"growth only", pointsAt(law12, 1, 2, 4, 6, 8, 10), NotReached, 0, ""},
		{"one rung just on the cap is not enough", pointsAt(law12, 1, 2, 4, 8, 12.5), NotReached, 0, ""},
		{"saturated from the start", pointsAt(law12, 16, 32, 64, 128, 256), NotLinear, 0, ""},
		{"three loads", pointsAt(law12, 1, 8, 32), Insufficient, 0, "few_loads"},
		{"many rungs at three loads", pointsAt(law12, 1, 1.01, 1.02, 8, 8.1, 32, 32.5), Insufficient, 0, "few_loads"},
		{"four loads take the hinge", pointsAt(func(n float64) float64 { return 100 * min(n, 10) }, 1, 4, 20, 40), Found, 10, "few_loads"},
		{"nothing", nil, Insufficient, 0, "few_loads"},
		{"no throughput", []Point{{InFlight: record.Known(1)}, {InFlight: record.Known(2)}}, Insufficient, 0, "few_loads"},
		{"zeros and unknowns between", append(pointsAt(law12, 1, 2, 4, 8, 16, 32), Point{InFlight: record.Known(3)}, Point{TokensS: record.Known(1)}, Point{InFlight: record.Known(5), TokensS: record.Known(0)}), Found, 12, ""},
		{"a rung at half speed", append(pointsAt(law12, 1, 2, 4, 16, 32, 64, 128), pointsAt(func(n float64) float64 { return law12(n) / 2 }, 8)...), Found, 12, "odd_rung"},
		{"invalid rungs are passed over", append(pointsAt(law12, 1, 2, 4, 8, 16, 32), Point{InFlight: record.Known(64), TokensS: record.Known(1), Invalid: true}), Found, 12, "invalid_rungs"},
		{"falling beyond the peak", pointsAt(func(n float64) float64 { return law12(n) * math.Pow(max(n/12, 1), -0.3) }, 1, 2, 4, 8, 16, 32, 64, 128), Found, 12, "retrograde"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := Fit(tt.points, Options{Resamples: 50})
			if k.Status != tt.status {
				t.Fatalf("status %s, want %s (%s)", k.Status, tt.status, codes(k))
			}
			if at := k.InFlight.Or(0); math.Abs(at-tt.knee) > 0.06*tt.knee {
				t.Errorf("knee at %v, want %v", at, tt.knee)
			}
			if !strings.Contains(codes(k), tt.warns) {
				t.Errorf("warnings %q, want %q among them", codes(k), tt.warns)
			}
			if _, err := json.Marshal(k); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCapsThatWereNeverReached(t *testing.T) {
	var points []Point
	for _, c := range []float64{1, 2, 4, 8, 16, 32, 64} {
		n := min(c, 7)
		points = append(points, Point{Concurrency: record.Known(c), InFlight: record.Known(n), TokensS: record.Known(100 * n)})
	}
	k := Fit(points, Options{})
	if k.Status == Found || !strings.Contains(codes(k), "cap_never_reached") {
		t.Errorf("a false plateau over the caps is %s with %q", k.Status, codes(k))
	}
}

func TestKneeIsDeterministic(t *testing.T) {
	m := makeLadder("batching", 5, 0.05, true)
	a, _ := json.Marshal(Fit(m.points, Options{}))
	b, _ := json.Marshal(Fit(m.points, Options{}))
	if string(a) != string(b) {
		t.Error("two fits of the same points differ")
	}
}

// Repeats that scatter widen the interval.
func TestRepeatsAreInTheInterval(t *testing.T) {
	width := func(noise float64) float64 {
		r := stat.Rand(1, 1)
		var points []Point
		for range 3 {
			for _, p := range pointsAt(law12, 1, 2, 4, 8, 16, 32) {
				p.TokensS = p.TokensS.Scale(math.Exp(noise * r.NormFloat64()))
				points = append(points, p)
			}
		}
		k := Fit(points, Options{})
		if k.Status != Found {
			t.Fatalf("status %s", k.Status)
		}
		return math.Log(k.InFlightCI95[1].Or(0) / k.InFlightCI95[0].Or(1))
	}
	if quiet, loud := width(0.005), width(0.08); loud < 3*quiet {
		t.Errorf("interval of width %.3f at 0.5 %% noise, %.3f at 8 %%", quiet, loud)
	}
}

func TestElasticities(t *testing.T) {
	var rungs []record.Rung
	for _, n := range []int{16, 1, 2, 4, 8, 16} {
		rungs = append(rungs, record.Rung{Mode: record.Closed, Concurrency: n, Verdict: record.Valid,
			InFlightMean: record.Known(float64(n)), OutputTokenThroughputPerS: record.Known(100 * min(float64(n), 8))})
	}
	Elasticities(rungs)
	want := []float64{0, -1, 1, 1, 1, 0}
	for i, r := range rungs {
		if e := r.Elasticity.Or(-1); math.Abs(e-want[i]) > 1e-9 {
			t.Errorf("rung of %d users has elasticity %v, want %v", r.Concurrency, e, want[i])
		}
	}
}

// rungsOf makes rungs of 12 slots, changed beyond the knee.
func rungsOf(change func(*record.Rung)) []record.Rung {
	var out []record.Rung
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64} {
		x := law12(float64(n))
		r := record.Rung{Mode: record.Closed, Concurrency: n, Verdict: record.Valid, InFlightMean: record.Known(float64(n)),
			OutputTokenThroughputPerS: record.Known(x), RequestThroughputPerS: record.Known(x / 100),
			ITL:      record.Dist{Count: 100, Mean: record.Known(1000 * min(float64(n), 12) / x)},
			Requests: record.Requests{Sent: 1000, Completed: 1000, Failures: map[string]int64{}}}
		if n > 12 {
			change(&r)
		}
		out = append(out, r)
	}
	return out
}

// A knee of which one side has no valid rung is marked.
func TestKneesOfInconclusiveRungs(t *testing.T) {
	for _, tt := range []struct {
		name  string
		doubt func(users int) bool
		want  string
	}{
		{"all valid", func(int) bool { return false }, ""},
		{"some of each side", func(users int) bool { return users == 4 || users == 32 }, ""},
		{"the plateau", func(users int) bool { return users > 12 }, "at and beyond the knee every rung is inconclusive"},
		{"the growth", func(users int) bool { return users < 12 }, "below the knee every rung is inconclusive"},
		{"all", func(int) bool { return true }, "every rung is inconclusive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rungs := rungsOf(func(*record.Rung) {})
			for i := range rungs {
				if tt.doubt(rungs[i].Concurrency) {
					rungs[i].Verdict = record.Inconclusive
				}
			}
			k := Fit(FromRungs(rungs), Options{Resamples: 50})
			if k.Status != Found {
				t.Fatalf("status %s", k.Status)
			}
			said := ""
			for _, w := range k.Warnings {
				if w.Code == "inconclusive_rungs" {
					said = w.Message
				}
			}
			if !strings.HasPrefix(said, tt.want) || tt.want == "" && said != "" {
				t.Errorf("says %q, want %q", said, tt.want)
			}
		})
	}
}

func TestCauses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*record.Rung)
		cause  Cause
		code   string
	}{
		{"slots", func(*record.Rung) {}, CauseServer, "running_flat"},
		{"kv cache full", func(r *record.Rung) { r.Telemetry = &record.Telemetry{KVCacheUsageMax: record.Known(0.99)} }, CauseKVMemory, "kv_cache"},
		{"preemption", func(r *record.Rung) { r.Telemetry = &record.Telemetry{Preemptions: record.Known(3)} }, CauseKVMemory, "kv_cache"},
		{"the server runs all", func(r *record.Rung) { r.Telemetry = &record.Telemetry{RequestsWaitingMean: record.Known(0.1)} }, CauseServer, "server_running"},
		{"the server lets them wait", func(r *record.Rung) { r.Telemetry = &record.Telemetry{RequestsWaitingMean: r.InFlightMean.Scale(0.5)} }, CauseServer, "server_waiting"},
		{"rate limit", func(r *record.Rung) { r.Requests.Failures["http_429"] = 100 }, CauseRateLimit, "http_429"},
		{"connections refused", func(r *record.Rung) { r.Requests.Failures["connect"] = 100 }, CauseNetwork, "connect"},
		{"client processor", func(r *record.Rung) { r.Client.CPURatio = record.Known(0.95) }, CauseClient, "client_cpu"},
		{"client too slow", func(r *record.Rung) {
			if r.Concurrency == 64 {
				r.Verdict, r.Reasons = record.Invalid, []record.Reason{{Code: "send_lag"}}
			}
		}, CauseClient, "send_lag"},
		{"every request slows", func(r *record.Rung) {
			r.ITL.Mean = record.Known(1000 * float64(r.Concurrency) / r.OutputTokenThroughputPerS.Or(1))
		}, CauseServer, "running_grows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := Fit(FromRungs(rungsOf(tt.change)), Options{Resamples: 50})
			if k.Status != Found || k.Cause != tt.cause || len(k.Evidence) == 0 || k.Evidence[0].Code != tt.code {
				t.Errorf("%s, cause %s, evidence %+v; want %s by %s", k.Status, k.Cause, k.Evidence, tt.cause, tt.code)
			}
		})
	}
	k := Fit(pointsAt(law12, 1, 2, 4, 8, 16, 32), Options{Resamples: 50})
	if k.Cause != CauseUnknown {
		t.Errorf("throughput alone names the cause %s", k.Cause)
	}
}

// Simulated servers of known slots, measured from 1 to 64 users.
func TestSimulatedServers(t *testing.T) {
	tests := []struct {
		name   string
		s      server
		status Status
		knee   float64
	}{
		{"12 slots, itl 5 ms", server{slots: 12, a: 0.005, tokens: 40, jitter: 0.02}, Found, 12},
		{"32 slots, itl 5 ms + 0.5 ms*n", server{slots: 32, a: 0.005, b: 0.0005, tokens: 40, jitter: 0.02}, Found, 32},
		{"no limit of slots", server{slots: 10000, a: 0.005, b: 0.0005, tokens: 40, jitter: 0.02}, NotReached, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var rungs []record.Rung
			for _, users := range []int{1, 2, 4, 8, 16, 32, 64} {
				rungs = append(rungs, tt.s.measure(users, 5, 3))
			}
			k := Fit(FromRungs(rungs), Options{})
			if k.Status != tt.status || math.Abs(k.InFlight.Or(0)-tt.knee) > 0.1*tt.knee {
				t.Errorf("%s at %v, want %s at %v within 10 %%: %s", k.Status, k.InFlight.Or(0), tt.status, tt.knee, codes(k))
			}
			t.Logf("%s at %v, law %v", k.Status, k.InFlight.Or(0), k.LawInFlight.Or(0))
		})
	}
}
