package loadgen

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

func TestPlanInterleavesRepeats(t *testing.T) {
	p := profile(func(p *profiles.Profile) {
		p.Load, p.Stage.Repeats = closed(1, 2, 4), 3
	})
	plan, err := NewPlan(p, 42)
	if err != nil {
		t.Fatal(err)
	}
	var users, repeats []int
	seeds := map[uint64]bool{}
	for i, r := range plan.Rungs {
		users, repeats = append(users, r.Users), append(repeats, r.Repeat)
		seeds[r.Seed] = true
		if r.Index != i {
			t.Errorf("rung %d has index %d", i, r.Index)
		}
	}
	if !slices.Equal(users, []int{1, 2, 4, 4, 2, 1, 1, 2, 4}) || !slices.Equal(repeats, []int{0, 0, 0, 1, 1, 1, 2, 2, 2}) {
		t.Errorf("users %v, repeats %v", users, repeats)
	}
	if len(seeds) != 9 {
		t.Errorf("%d seeds of 9 rungs", len(seeds))
	}
}

func TestScheduleHash(t *testing.T) {
	hash := func(seed int64, edit func(*profiles.Profile)) string {
		plan, err := NewPlan(profile(edit), seed)
		if err != nil {
			t.Fatal(err)
		}
		return plan.ScheduleHash
	}
	base := func(p *profiles.Profile) {
		p.Load = open(profiles.OpenLoad{Rate: []float64{5, 50}, Arrivals: "poisson"})
		p.Workload.InputTokens = profiles.Length{Kind: "uniform", Min: 1, Max: 99}
	}
	want := hash(1, base)
	if got := hash(1, base); got != want {
		t.Error("the same load has two hashes")
	}
	// It may never change: a bundle that is run again promises it.
	if golden := "edba8b70bd55afb98e0275fc4298838e88f7ecdd47094a4fa0c3a93a3a45933a"; want != golden {
		t.Errorf("hash %s, want %s", want, golden)
	}
	// The same on every platform, for every process and distribution.
	for golden, edit := range map[string]func(*profiles.Profile){
		"cefe7624918e81a030225826000031e171eaf48747ed481d60c7904f06e277e7": func(p *profiles.Profile) {
			p.Load = open(profiles.OpenLoad{Arrivals: "gamma", Burstiness: 0.3, Ramp: &profiles.Ramp{From: 3, To: 97, Over: dur(time.Minute), Steps: 7}})
			p.Workload.InputTokens = profiles.Length{Kind: "normal", Mean: 1000.3, StdDev: 333.3, Min: 1}
		},
		"ee0669384eb2ed7e17a5d3679ca5a60e3adf0fe0476a00938d0cc13fc3c9b0b0": func(p *profiles.Profile) {
			p.Load = open(profiles.OpenLoad{Arrivals: "poisson", Ramp: &profiles.Ramp{From: 3, To: 97, Over: dur(time.Minute)}})
			p.Workload.OutputTokens = profiles.Length{Kind: "lognormal", Mean: 1000.3, StdDev: 3333.3, Min: 1}
		},
	} {
		if got := hash(1, edit); got != golden {
			t.Errorf("hash %s, want %s", got, golden)
		}
	}
	for name, edit := range map[string]func(*profiles.Profile){
		"rate":    func(p *profiles.Profile) { p.Load.Open.Rate[1] = 51 },
		"process": func(p *profiles.Profile) { p.Load.Open.Arrivals = "constant" },
		"length":  func(p *profiles.Profile) { p.Workload.InputTokens.Max = 98 },
		"cap":     func(p *profiles.Profile) { p.Load.Open.MaxInFlight = 3 },
		"window":  func(p *profiles.Profile) { p.Stage.Measure++ },
	} {
		if hash(1, func(p *profiles.Profile) { base(p); edit(p) }) == want {
			t.Errorf("another %s has the same hash", name)
		}
	}
	if hash(2, base) == want {
		t.Error("another seed has the same hash")
	}
}

func TestRungsWaitForRequestsOfEachUser(t *testing.T) {
	for _, c := range []struct {
		name string
		load profiles.Load
		want []int
	}{
		{"closed", closed(1, 4, 5, 32), []int{90, 90, 100, 640}},
		{"open", open(profiles.OpenLoad{Rate: []float64{32}}), []int{90}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := NewPlan(profile(func(p *profiles.Profile) {
				p.Load, p.Stage.MinRequests, p.Stage.MinRequestsPerUser = c.load, 90, 20
			}), 1)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, r := range plan.Rungs {
				got = append(got, r.Recording(0, record.Limits{}, nil).MinRequests)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("rungs wait for %v requests, want %v", got, c.want)
			}
		})
	}
}

func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		name      string
		edit      func(*profiles.Profile)
		requests  record.Value
		in, out   record.Value
		usd       record.Value
		longest   time.Duration
		connected int
	}{
		{"closed", func(p *profiles.Profile) { p.Load, p.Stage.Repeats = closed(1, 8), 2 },
			record.Value{}, record.Value{}, record.Value{}, record.Value{}, 4 * 65 * time.Second, 8},
		{"open", func(p *profiles.Profile) {
			p.Load = open(profiles.OpenLoad{Rate: []float64{2, 3}, MaxInFlight: 9})
			p.Cost = profiles.Cost{USDPerHour: 36, USDPerMIn: 1, USDPerMOut: 10}
		}, record.Known(300), record.Known(4800), record.Known(1200), record.Known(1.3 + 0.0048 + 0.012), 130 * time.Second, 9},
		{"offline", func(p *profiles.Profile) { p.Load = profiles.Load{Offline: &profiles.OfflineLoad{Requests: 50}} },
			record.Known(50), record.Known(800), record.Known(200), record.Value{}, 65 * time.Second, 50},
		{"ramp", func(p *profiles.Profile) {
			p.Load = open(profiles.OpenLoad{Ramp: &profiles.Ramp{From: 1, To: 9, Over: dur(10 * time.Second)}})
		}, record.Known(50), record.Known(800), record.Known(200), record.Value{}, 15 * time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := NewPlan(profile(c.edit), 1)
			if err != nil {
				t.Fatal(err)
			}
			e := plan.Estimate()
			for name, pair := range map[string][2]record.Value{"requests": {e.Requests, c.requests},
				"input tokens": {e.InputTokens, c.in}, "output tokens": {e.OutputTokens, c.out}, "USD": {e.USD, c.usd}} {
				if pair[0].OK() != pair[1].OK() || !near(pair[0].Or(0), pair[1].Or(0), 1e-9) {
					t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
				}
			}
			if e.Time != c.longest || plan.Connections() != c.connected {
				t.Errorf("%v and %d connections, want %v and %d", e.Time, plan.Connections(), c.longest, c.connected)
			}
		})
	}
}

func TestImpossiblePlans(t *testing.T) {
	for _, c := range []struct {
		name, want string
		load       profiles.Load
	}{
		{"nothing", "load: no rung", profiles.Load{}},
		{"no users", "load.closed.concurrency: 0 users", closed(0)},
		{"no requests", "load.offline.requests: 0 requests", profiles.Load{Offline: &profiles.OfflineLoad{}}},
		{"rate too high", "load: rate of 30000", open(profiles.OpenLoad{Rate: []float64{30_000}})},
		{"unknown arrivals", `load: arrivals "x"`, open(profiles.OpenLoad{Rate: []float64{1}, Arrivals: "x"})},
		{"a ramp within the warm-up", "load.open: it lasts 1s, all of it within stage.warmup of 1s",
			open(profiles.OpenLoad{Ramp: &profiles.Ramp{From: 1, To: 9, Over: dur(time.Second)}})},
		{"no trace", "load.open.trace: ", open(profiles.OpenLoad{Trace: &profiles.Trace{File: "missing"}})},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewPlan(profile(func(p *profiles.Profile) { p.Load = c.load }), 1)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want %s...", err, c.want)
			}
		})
	}
}

func TestTraceIsReplayed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.jsonl")
	lines := `{"timestamp": 1000, "input_length": 10, "output_length": 2}
{"timestamp": 1500, "input_length": 20, "output_length": 3}
{"timestamp": 4000, "input_length": 30, "output_length": 4}
`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 100 * time.Millisecond, itl: 10 * time.Millisecond}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Load = open(profiles.OpenLoad{Trace: &profiles.Trace{File: file, Speed: 2}})
			p.Stage.Warmup = profiles.Warmup{}
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := rungs[0].Totals; r.InputTokens != 60 || r.OutputTokens != 9 || r.Completed != 3 {
			t.Errorf("totals %+v", r)
		}
		// The window ends with the load, long before the stage's measure.
		if r := rungs[0]; !near(r.Window.EndS, 1.5, 0.001) || r.Requests.Completed != 3 || !near(r.RequestThroughputPerS.Or(0), 2/1.5, 0.001) {
			t.Errorf("%v requests/s in %+v", r.RequestThroughputPerS, r.Window)
		}
		for i, want := range []time.Duration{0, 250 * time.Millisecond, 1500 * time.Millisecond} {
			if got := time.Duration(f.requests[i].start - f.requests[0].start); got != want {
				t.Errorf("request %d is sent at %v, want %v", i, got, want)
			}
		}
	})
}
