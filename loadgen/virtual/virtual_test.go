package virtual

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/reference/sim"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

func fixed(n int) profiles.Length { return profiles.Length{Kind: "fixed", Value: n} }

func dur(d time.Duration) profiles.Duration { return profiles.Duration(d) }

func profile(load profiles.Load) *profiles.Profile {
	return &profiles.Profile{Load: load,
		Workload: profiles.Workload{InputTokens: fixed(64), OutputTokens: fixed(32)},
		Stage: profiles.Stage{Warmup: profiles.Warmup{Fixed: dur(5 * time.Second)}, Measure: dur(30 * time.Second),
			MaxDuration: dur(2 * time.Minute), Drain: dur(30 * time.Second), Repeats: 1, Timeout: dur(time.Minute)}}
}

// simulator follows a law.
func simulator(t *testing.T, text string) *Simulator {
	t.Helper()
	law, err := sim.ParseLaw(text)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := sim.Model("tiny-llama-3.1")
	if err != nil {
		t.Fatal(err)
	}
	return &Simulator{Server: Server{Executor: sim.NewLaw(law, shape.Info("tiny-llama-3.1")),
		Scheduler: reference.SchedulerConfig{MaxNumSeqs: law.Slots, KV: reference.KVConfig{Blocks: 1 << 16, BlockSize: 16}}}}
}

func ladder(t *testing.T, s *Simulator, p *profiles.Profile) []record.Rung {
	t.Helper()
	plan, err := loadgen.NewPlan(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	rungs, _, err := s.Ladder(t.Context(), plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rungs
}

func near(got record.Value, want, tolerance float64) bool {
	v, ok := got.Float()
	return ok && math.Abs(v-want) <= tolerance*want
}

func TestLadderFollowsItsLaw(t *testing.T) {
	s := simulator(t, "slots=12,ttft=20ms,itl=5ms")
	service := 0.020 + 31*0.005 // of one request, in seconds
	for _, r := range ladder(t, s, profile(profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: []int{1, 4, 12, 24, 48}}})) {
		n := float64(r.Concurrency)
		busy := min(n, 12)
		for _, c := range []struct {
			name string
			got  record.Value
			want float64
			tol  float64
		}{
			{"req/s", r.RequestThroughputPerS, busy / service, 0.02},
			{"output tok/s", r.OutputTokenThroughputPerS, 32 * busy / service, 0.02},
			{"in flight", r.InFlightMean, n, 0.01},
			{"ITL mean", r.ITL.Mean, 5, 0.002},
			// Little's law: a request waits until N/X has passed.
			{"E2E mean", r.E2E.Mean, 1e3 * n * service / busy, 0.02},
		} {
			if !near(c.got, c.want, c.tol) {
				t.Errorf("%v users: %s is %v, want %v", n, c.name, c.got, c.want)
			}
		}
		if r.Requests.Failed != 0 || r.Requests.Censored != 0 {
			t.Errorf("%v users: %+v", n, r.Requests)
		}
	}
}

// The same seed against a real server's timing would be no proof: an
// independent first-come-first-served queue is. A cap on requests in flight
// moves the waiting from the server to the client: the service time gets
// shorter, the response time stays.
func TestOpenLoopMatchesAFIFOQueue(t *testing.T) {
	const slots, service = 4, 500 * time.Millisecond
	s := simulator(t, "slots=4,ttft=500ms,itl=1ms")
	for _, most := range []int{0, 8, slots} {
		t.Run(fmt.Sprintf("max_in_flight=%d", most), func(t *testing.T) {
			p := profile(profiles.Load{Open: &profiles.OpenLoad{Rate: []float64{12}, Arrivals: "poisson", MaxInFlight: most}})
			p.Workload.OutputTokens = fixed(1)
			p.Stage.Warmup, p.Stage.Measure, p.Stage.Drain = profiles.Warmup{}, dur(20*time.Second), dur(time.Minute)
			r := ladder(t, s, p)[0]

			plan, err := loadgen.NewPlan(p, 1)
			if err != nil {
				t.Fatal(err)
			}
			schedule, err := plan.Rungs[0].Schedule()
			if err != nil {
				t.Fatal(err)
			}
			var free [slots]time.Duration
			var ends []time.Duration
			var response, served []float64
			for at, ok := schedule.Next(); ok && at < 20*time.Second; at, ok = schedule.Next() {
				sent := at
				if n := len(ends); most > 0 && n >= most {
					sent = max(at, ends[n-most])
				}
				slices.Sort(free[:])
				free[0] = max(at, free[0]) + service
				ends = append(ends, free[0])
				response = append(response, (free[0]-at).Seconds()*1e3)
				served = append(served, (free[0]-sent).Seconds()*1e3)
			}
			if r.Requests.Completed != int64(len(response)) {
				t.Fatalf("%d requests, the schedule has %d", r.Requests.Completed, len(response))
			}
			for _, c := range []struct {
				name      string
				got       record.Value
				of        []float64
				quantile  float64
				tolerance float64
			}{
				{"longest response", r.E2EResponse.Max, response, 1, 0.001},
				{"p95 response", r.E2EResponse.P95, response, 0.95, 0.02},
				{"median response", r.E2EResponse.P50, response, 0.5, 0.01},
				{"longest service", r.E2E.Max, served, 1, 0.001},
				{"median service", r.E2E.P50, served, 0.5, 0.01},
			} {
				slices.Sort(c.of)
				if want := c.of[int(math.Ceil(c.quantile*float64(len(c.of))))-1]; !near(c.got, want, c.tolerance) {
					t.Errorf("%s %v ms, by hand %.1f", c.name, c.got, want)
				}
			}
		})
	}
}

// The lowest and the highest rate are offered as they are asked for.
func TestRatesAtTheirEnds(t *testing.T) {
	for _, c := range []struct {
		rate    float64
		measure time.Duration
	}{{0.01, 30 * time.Hour}, {20_000, 2 * time.Second}} {
		for _, arrivals := range []string{profiles.ArrivalsConstant, profiles.ArrivalsPoisson, profiles.ArrivalsGamma} {
			t.Run(fmt.Sprintf("%v/s %s", c.rate, arrivals), func(t *testing.T) {
				p := profile(profiles.Load{Open: &profiles.OpenLoad{Rate: []float64{c.rate}, Arrivals: arrivals}})
				if arrivals == profiles.ArrivalsGamma {
					p.Load.Open.Burstiness = 4
				}
				p.Workload.OutputTokens = fixed(1)
				p.Stage.Warmup, p.Stage.Measure, p.Stage.MaxDuration = profiles.Warmup{}, dur(c.measure), dur(c.measure)
				r := ladder(t, simulator(t, "ttft=2ms,itl=1ms"), p)[0]
				n := c.rate * c.measure.Seconds()
				off := math.Abs(float64(r.Requests.Sent) - n)
				if arrivals == profiles.ArrivalsConstant && off > 0.5 || off > 4*math.Sqrt(n) {
					t.Errorf("%d requests sent, want %v", r.Requests.Sent, n)
				}
				if r.Requests.Completed != r.Requests.Sent || !near(r.TTFTResponse.Max, 2, 0.002) || r.Verdict != record.Valid {
					t.Errorf("%+v, TTFT at most %v ms, %s %+v", r.Requests, r.TTFTResponse.Max, r.Verdict, r.Reasons)
				}
			})
		}
	}
}

// Service times scatter, for the lengths of the answers do. What has settled
// ends its rung before the measured time, what has not, at the longest.
func TestUntilSettled(t *testing.T) {
	for _, c := range []struct {
		name    string
		asked   record.Asked
		lengths profiles.Length
		settles bool
	}{
		{"the median of a narrow spread", record.Asked{Metric: "e2e", Quantile: 0.5}, profiles.Length{Kind: "uniform", Min: 90, Max: 110}, true},
		{"p99 of a wide spread", record.Asked{Metric: "e2e", Quantile: 0.99}, profiles.Length{Kind: "lognormal", Mean: 100, StdDev: 400}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := profile(profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: []int{8}}})
			p.Workload.OutputTokens, p.Stage.Until = c.lengths, "settled"
			s := simulator(t, "ttft=50ms,itl=10ms")
			s.Settle = []record.Asked{c.asked}
			r := ladder(t, s, p)[0]
			warned := slices.ContainsFunc(r.Warnings, func(w record.Reason) bool { return w.Code == "not_settled" })
			measured := r.Window.EndS - r.Window.StartS
			if c.settles && (measured >= 30 || warned) || !c.settles && (r.Window.EndS != 120 || !warned) {
				t.Errorf("measured for %v s until %v, warnings %+v", measured, r.Window.EndS, r.Warnings)
			}
		})
	}
}

func TestTimeoutsAndTheDrainEndRequests(t *testing.T) {
	s := simulator(t, "slots=1,ttft=10s,itl=1s")
	p := profile(profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: []int{4}}})
	p.Stage.Timeout = dur(2 * time.Second)
	if r := ladder(t, s, p)[0]; r.Requests.Failures["timeout"] == 0 || r.Requests.Completed != 0 {
		t.Errorf("with a time-out: %+v", r.Requests)
	}
	p.Stage.Timeout, p.Stage.Drain = 0, dur(time.Second)
	if r := ladder(t, s, p)[0]; r.Requests.Failed != 0 || r.Totals.Sent == 0 || r.Totals.Completed > 3 {
		t.Errorf("cut by the drain: %+v, totals %+v", r.Requests, r.Totals)
	}
}

func TestRooflineSaturates(t *testing.T) {
	shape, err := sim.Model("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := sim.ParseGPU("H100-SXM-80GB")
	if err != nil {
		t.Fatal(err)
	}
	roofline, err := sim.NewRoofline(gpu, "llama-3.1-8b", shape)
	if err != nil {
		t.Fatal(err)
	}
	s := &Simulator{Server: Server{Executor: roofline,
		Scheduler: reference.SchedulerConfig{MaxNumSeqs: 16, KV: reference.KVConfig{Blocks: 1 << 14, BlockSize: 16}}}}
	p := profile(profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: []int{1, 16, 64}}})
	p.Stage.Warmup = profiles.Warmup{Auto: true}
	r := ladder(t, s, p)
	one, full, over := r[0].OutputTokenThroughputPerS.Or(0), r[1].OutputTokenThroughputPerS.Or(0), r[2].OutputTokenThroughputPerS.Or(0)
	if one <= 0 || full < 4*one || math.Abs(over/full-1) > 0.1 {
		t.Errorf("output tok/s %v, %v, %v at 1, 16, 64 users of 16 slots", one, full, over)
	}
	if m := r[2].Telemetry.RequestsRunningMax.Or(0); m != 16 {
		t.Errorf("%v ran at once, want 16", m)
	}
}

func TestPromptsThatDoNotFitAreRefused(t *testing.T) {
	s := simulator(t, "slots=4,ttft=10ms,itl=1ms")
	s.Server.Scheduler.KV.Blocks = 4
	r := ladder(t, s, profile(profiles.Load{Offline: &profiles.OfflineLoad{Requests: 10}}))[0]
	if r.Requests.Failures["http_4xx"] != 10 {
		t.Errorf("%+v", r.Requests)
	}
}

func BenchmarkLadder(b *testing.B) {
	law, err := sim.ParseLaw("slots=12,ttft=20ms,itl=5ms")
	if err != nil {
		b.Fatal(err)
	}
	shape, err := sim.Model("tiny-llama-3.1")
	if err != nil {
		b.Fatal(err)
	}
	plan, err := loadgen.NewPlan(profile(profiles.Load{Closed: &profiles.ClosedLoad{Concurrency: []int{1, 2, 4, 8, 16, 32, 64}}}), 1)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := &Simulator{Server: Server{Executor: sim.NewLaw(law, shape.Info("tiny-llama-3.1")),
			Scheduler: reference.SchedulerConfig{MaxNumSeqs: 12, KV: reference.KVConfig{Blocks: 1 << 16, BlockSize: 16}}}}
		if _, _, err := s.Ladder(b.Context(), plan, nil); err != nil {
			b.Fatal(err)
		}
	}
}
