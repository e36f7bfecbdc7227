package loadgen

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

func TestRungsNeverMix(t *testing.T) { // perf_analyzer#195
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 700 * time.Millisecond, itl: 300 * time.Millisecond}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) { p.Load = closed(1, 8, 2) }), nil)
		if err != nil {
			t.Fatal(err)
		}
		var sent int64
		for i, r := range rungs {
			last := int64(0)
			for _, q := range f.requests[:sent] {
				last = max(last, q.end)
			}
			if int(sent) < len(f.requests) && f.requests[sent].start < last {
				t.Errorf("rung %d starts before the one below has ended", i)
			}
			sent += r.Totals.Sent
		}
		if int(sent) != len(f.requests) {
			t.Errorf("rungs count %d requests, the target saw %d", sent, len(f.requests))
		}
	})
}

func TestOfflineSendsExactlyItsRequests(t *testing.T) { // aiperf#289, vllm#3127
	for _, inFlight := range []int{0, 1, 7, 64, 1000} {
		bubble(t, func(t *testing.T) {
			f := &fake{ttft: 100 * time.Millisecond, itl: 10 * time.Millisecond}
			rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
				p.Load = profiles.Load{Offline: &profiles.OfflineLoad{Requests: 500, MaxInFlight: inFlight}}
				p.Stage.Warmup, p.Stage.MaxDuration = profiles.Warmup{}, 0
			}), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.requests) != 500 || rungs[0].Totals.Completed != 500 {
				t.Errorf("cap %d: the target saw %d requests, the rung %+v", inFlight, len(f.requests), rungs[0].Totals)
			}
			want := 500
			if inFlight > 0 {
				want = min(want, inFlight)
			}
			if f.most != want {
				t.Errorf("cap %d: %d in flight at most, want %d", inFlight, f.most, want)
			}
			// 130 ms each, so many at a time: the window ends with the last.
			if x := 500 / (0.130 * float64((500+want-1)/want)); !near(rungs[0].RequestThroughputPerS.Or(0), x, 0.001) {
				t.Errorf("cap %d: %v requests/s in %+v, want %v", inFlight, rungs[0].RequestThroughputPerS, rungs[0].Window, x)
			}
		})
	}
}

func TestCappedOpenLoopCountsItsQueue(t *testing.T) { // vllm#54101
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 500 * time.Millisecond, tokens: 1}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Load = open(profiles.OpenLoad{Rate: []float64{10}, Arrivals: "constant", MaxInFlight: 1})
			p.Stage.Warmup, p.Stage.Measure = profiles.Warmup{}, dur(800*time.Millisecond)
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := rungs[0]
		if r.Requests.Completed != 8 || f.most != 1 {
			t.Fatalf("%d requests completed, %d in flight at most; want 8 and 1", r.Requests.Completed, f.most)
		}
		// Request i is wanted at 0.1 i and sent at 0.5 i: it waits 0.4 i, 1.4 s
		// on average, and ends 0.5 s later; the last after 3.3 s.
		for _, c := range []struct {
			name      string
			got       record.Value
			wantMilli float64
		}{
			{"send lag, mean", r.SendLag.Mean, 1400},
			{"service time, mean", r.E2E.Mean, 500},
			{"response time, mean", r.E2EResponse.Mean, 1900},
			{"response time, maximum", r.E2EResponse.Max, 3300},
		} {
			if !near(c.got.Or(0), c.wantMilli, 0.002) {
				t.Errorf("%s is %v ms, want %v", c.name, c.got, c.wantMilli)
			}
		}
	})
}

// The time that a connection takes to open is in the response time and in no
// other figure: not in flight, where Little's law would miss it, nor in the lag
// of this machine. A request that this machine sends late, it answers for, also
// behind a cap.
func TestTimeBeforeSending(t *testing.T) {
	for _, c := range []struct {
		name     string
		f        *fake
		load     profiles.Load
		response float64 // ms
		verdict  record.Verdict
	}{
		{"open loop, slow to connect", &fake{connect: 50 * time.Millisecond},
			open(profiles.OpenLoad{Rate: []float64{80}, Arrivals: "constant"}), 150, record.Valid},
		{"open loop behind a cap, slow to connect", &fake{connect: 50 * time.Millisecond},
			open(profiles.OpenLoad{Rate: []float64{50}, Arrivals: "constant", MaxInFlight: 8}), 150, record.Valid},
		{"open loop, sent late", &fake{late: 50 * time.Millisecond},
			open(profiles.OpenLoad{Rate: []float64{80}, Arrivals: "constant"}), 150, record.Invalid},
		{"open loop behind a cap, sent late", &fake{late: 50 * time.Millisecond},
			open(profiles.OpenLoad{Rate: []float64{50}, Arrivals: "constant", MaxInFlight: 8}), 150, record.Invalid},
		{"open loop held back by the cap", &fake{},
			open(profiles.OpenLoad{Rate: []float64{90}, Arrivals: "constant", MaxInFlight: 8}), 0, record.Valid},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c.f.ttft, c.f.tokens = 100*time.Millisecond, 1
				rungs, err := climb(t, c.f, profile(func(p *profiles.Profile) { p.Load = c.load }), nil)
				if err != nil {
					t.Fatal(err)
				}
				r := rungs[0]
				if r.Verdict != c.verdict || c.verdict == record.Invalid && r.Reasons[0].Code != "send_lag" {
					t.Errorf("%s: %+v", r.Verdict, r.Reasons)
				}
				if x := r.RequestThroughputPerS.Or(0); !near(r.InFlightMean.Or(0), x*0.100, 0.01) {
					t.Errorf("%v in flight at %v requests/s of 100 ms", r.InFlightMean, x)
				}
				if !near(r.TTFT.Mean.Or(0), 100, 0.002) || c.response > 0 && !near(r.TTFTResponse.Mean.Or(0), c.response, 0.002) {
					t.Errorf("TTFT %v ms of service and %v ms of response", r.TTFT.Mean, r.TTFTResponse.Mean)
				}
			})
		})
	}
}

func TestCapChangesServiceTimeAndNotResponseTime(t *testing.T) {
	p99 := map[int]record.Rung{}
	for _, limit := range []int{0, 8} { // peers-measured g: 4 slots of 0.5 s at 12/s for 10 s
		bubble(t, func(t *testing.T) {
			f := &fake{ttft: 500 * time.Millisecond, tokens: 1, slots: make(chan struct{}, 4)}
			rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
				p.Load = open(profiles.OpenLoad{Rate: []float64{12}, Arrivals: "constant", MaxInFlight: limit})
				p.Stage.Warmup, p.Stage.Drain = profiles.Warmup{}, dur(time.Minute)
			}), nil)
			if err != nil {
				t.Fatal(err)
			}
			p99[limit] = rungs[0]
		})
	}
	// First come first served by hand: request i is wanted at i/12 s, starts
	// when it and a slot are there, and takes 0.5 s.
	var free [4]float64
	var response []float64
	for i := range 120 {
		at := float64(i) / 12
		slot := i % 4
		free[slot] = max(at, free[slot]) + 0.5
		response = append(response, (free[slot]-at)*1e3)
	}
	slices.Sort(response)
	for limit, r := range p99 {
		if r.Requests.Completed != 120 {
			t.Errorf("cap %d: %d requests, want 120", limit, r.Requests.Completed)
		}
		if !near(r.E2EResponse.Max.Or(0), response[119], 0.002) || !near(r.E2EResponse.P50.Or(0), response[59], 0.01) {
			t.Errorf("cap %d: response time p50 %v and maximum %v ms, by hand %.0f and %.0f",
				limit, r.E2EResponse.P50, r.E2EResponse.Max, response[59], response[119])
		}
	}
	if capped, free := p99[8].E2E.Max.Or(0), p99[0].E2E.Max.Or(0); capped > 1010 || free < 5000 {
		t.Errorf("service time at most %v ms capped, %v ms uncapped", capped, free)
	}
}

func TestWarmupShorterThanTheUsersTakeToStart(t *testing.T) { // perf_analyzer#112
	for _, warmup := range []time.Duration{0, time.Millisecond} {
		bubble(t, func(t *testing.T) {
			f := &fake{ttft: time.Second, itl: time.Second}
			rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
				p.Load = closed(8)
				p.Stage.Warmup.Fixed, p.Stage.Measure = dur(warmup), dur(20*time.Second)
			}), nil)
			if err != nil || rungs[0].Requests.Completed == 0 {
				t.Errorf("warm-up %v: %d completed, %v", warmup, rungs[0].Requests.Completed, err)
			}
		})
	}
}

func TestAutoWarmupEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 50 * time.Millisecond, itl: 10 * time.Millisecond}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Load = closed(8)
			p.Stage.Warmup = profiles.Warmup{Auto: true}
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if w := rungs[0].Window; !w.Steady || w.Method != "mser5" || w.EndS-w.StartS < 10 || w.EndS > 31 {
			t.Errorf("window %+v", w)
		}
	})
}

func TestDrainIsLimited(t *testing.T) { // InferenceX#2178
	bubble(t, func(t *testing.T) {
		f := &fake{hang: true}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Load = closed(4)
			p.Stage.Timeout = dur(time.Hour)
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := rungs[0]
		if r.Requests.Failed != 0 || r.Totals.Sent != 4 {
			t.Errorf("requests cut by the drain: %+v, totals %+v", r.Requests, r.Totals)
		}
		for _, q := range f.requests {
			if !q.cut {
				t.Error("a request was not cut")
			}
		}
	})
}

func TestTimeoutsDoNotHangTheRun(t *testing.T) { // inference-perf#555
	bubble(t, func(t *testing.T) {
		f := &fake{hang: true}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Load = closed(4)
			p.Stage.Timeout = dur(time.Second)
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := rungs[0].Requests; got.Failures["timeout"] == 0 || got.Completed != 0 {
			t.Errorf("requests %+v", got)
		}
	})
}

func TestInterrupts(t *testing.T) {
	for _, c := range []struct {
		name     string
		cancel   bool          // the second interrupt instead of the first
		longest  time.Duration // until the rung has ended
		censored bool
	}{
		{"the first drains", false, 2500 * time.Millisecond, false},
		{"the second cuts", true, 50 * time.Millisecond, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{ttft: 2 * time.Second, tokens: 1}
				p := profile(func(p *profiles.Profile) { p.Load = closed(4, 8) })
				plan, err := NewPlan(p, 1)
				if err != nil {
					t.Fatal(err)
				}
				var rungs []record.Rung
				l := &Ladder{Plan: plan, Generators: []*Generator{generator(t, f, p)},
					OnRung: func(_ int, r record.Rung, _ record.Histograms) error { rungs = append(rungs, r); return nil }}
				ctx, cancel := context.WithCancel(t.Context())
				at := time.Now()
				time.AfterFunc(5*time.Second, l.Stop)
				if c.cancel {
					time.AfterFunc(5*time.Second+time.Millisecond, cancel)
				}
				err = l.Run(ctx)
				cancel()
				if !errors.Is(err, ErrInterrupted) {
					t.Errorf("error %v, want ErrInterrupted", err)
				}
				if took := time.Since(at) - 5*time.Second; took > c.longest {
					t.Errorf("ended %v after the interrupt, want %v", took, c.longest)
				}
				if len(rungs) != 1 || rungs[0].Totals.Completed == 0 {
					t.Fatalf("%d rungs kept", len(rungs))
				}
				cut := slices.ContainsFunc(f.requests, func(q seen) bool { return q.cut })
				if cut != c.censored {
					t.Errorf("requests cut: %v, want %v", cut, c.censored)
				}
			})
		})
	}
}

func TestLadderStopsAfterTwoFailingRungs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 100 * time.Millisecond, tokens: 1}
		f.fail = func(int64) backends.Class {
			f.mu.Lock()
			many := f.inFlight > 3
			f.mu.Unlock()
			if many {
				time.Sleep(100 * time.Millisecond)
				return backends.HTTP5xx
			}
			return backends.OK
		}
		var notes []Note
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Load = closed(1, 2, 20, 40, 80, 160)
			p.Stage.Repeats = 2
		}), func(l *Ladder) { l.OnNote = func(n Note) { notes = append(notes, n) } })
		if err != nil {
			t.Fatal(err)
		}
		var users []int
		for _, r := range rungs {
			users = append(users, r.Concurrency)
		}
		if want := []int{1, 2, 20, 40, 2, 1}; !slices.Equal(users, want) {
			t.Errorf("rungs at %v users, want %v", users, want)
		}
		if len(notes) != 1 || notes[0].Code != "most_failed" {
			t.Errorf("notes %v", notes)
		}
	})
}

func TestBudgetIsNeverOverdrawn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 100 * time.Millisecond, tokens: 1}
		var notes []Note
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) { p.Load = closed(1, 8, 16) }), func(l *Ladder) {
			l.Budget = Budget{Tokens: 5000} // 16 + 1 a request; the first rung takes 110 of them
			l.OnNote = func(n Note) { notes = append(notes, n) }
		})
		if err != nil || len(rungs) != 2 || len(notes) != 1 || notes[0].Code != "budget" {
			t.Fatalf("%d rungs, notes %v, %v", len(rungs), notes, err)
		}
		var spent int64
		for _, r := range rungs {
			spent += r.Totals.InputTokens + r.Totals.OutputTokens
		}
		if spent > 5000 || spent < 5000-8*20 || spent != int64(17*len(f.requests)) {
			t.Errorf("%d tokens spent of 5000, the target saw %d requests", spent, len(f.requests))
		}
	})
}

func TestTwoTargetsAreInterleaved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &fake{ttft: 100 * time.Millisecond, tokens: 1}
		b := &fake{ttft: 200 * time.Millisecond, tokens: 1}
		p := profile(func(p *profiles.Profile) { p.Load = closed(1, 2, 4) })
		plan, err := NewPlan(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		l := &Ladder{Plan: plan, Generators: []*Generator{generator(t, a, p), generator(t, b, p)},
			OnRung: func(target int, _ record.Rung, _ record.Histograms) error { order = append(order, target); return nil }}
		if err := l.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []int{0, 1, 1, 0, 0, 1}; !slices.Equal(order, want) {
			t.Errorf("targets in order %v, want %v", order, want)
		}
	})
}

func TestThinkTimes(t *testing.T) {
	for _, kind := range []string{"fixed", "exponential", "lognormal"} {
		bubble(t, func(t *testing.T) {
			f := &fake{ttft: 100 * time.Millisecond, tokens: 1}
			rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
				p.Load = closed(20)
				p.Load.Closed.ThinkTime = profiles.ThinkTime{Kind: kind, Mean: dur(400 * time.Millisecond), StdDev: dur(200 * time.Millisecond)}
				p.Stage.Measure, p.Stage.MaxDuration = dur(200*time.Second), dur(300*time.Second)
			}), nil)
			if err != nil {
				t.Fatal(err)
			}
			// The interactive response-time law: N = X (R + Z).
			if x := rungs[0].RequestThroughputPerS.Or(0); !near(x, 20/0.5, 0.02) {
				t.Errorf("%s: %v requests/s, want 40", kind, x)
			}
		})
	}
}

func TestClientCancellation(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel profiles.Cancel
		share  float64
	}{
		{"after a time", profiles.Cancel{After: dur(55 * time.Millisecond), Share: 1}, 1},
		{"after tokens", profiles.Cancel{AfterTokens: 2, Share: 1}, 1},
		{"a share of requests", profiles.Cancel{AfterTokens: 2, Share: 0.25}, 0.25},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{ttft: 50 * time.Millisecond, itl: 10 * time.Millisecond}
				rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
					p.Load, p.Workload.Cancel = closed(16), c.cancel
				}), nil)
				if err != nil {
					t.Fatal(err)
				}
				r := rungs[0].Requests
				if got := float64(r.Cancelled) / float64(r.Completed+r.Cancelled); !near(got, c.share, 0.1) || r.Censored != 0 {
					t.Errorf("share %.3f cancelled, want %v: %+v", got, c.share, r)
				}
			})
		})
	}
}

func TestRampIsOneWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 100 * time.Millisecond, tokens: 1}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Load = open(profiles.OpenLoad{Ramp: &profiles.Ramp{From: 10, To: 90, Over: dur(40 * time.Second)}, Arrivals: "constant"})
			p.Stage.Warmup = profiles.Warmup{Auto: true}
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := rungs[0]
		if r.Requests.Completed != 2000 || r.Window.StartS != 0 || !near(r.Window.EndS, 40, 0.001) {
			t.Errorf("%+v in %+v, want 2000 requests in 40 s", r.Requests, r.Window)
		}
	})
}

func TestEndOfARampIsDrained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{hang: true}
		start := time.Now()
		_, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Load = open(profiles.OpenLoad{Ramp: &profiles.Ramp{From: 1, To: 9, Over: dur(4 * time.Second)}})
			p.Stage.Timeout = dur(time.Hour)
		}), nil)
		if took := time.Since(start); err != nil || took > 10*time.Second {
			t.Errorf("ended after %v, want 4 s and 5 s of drain; %v", took, err)
		}
	})
}

// brokenLog takes so many requests, and then its disk dies.
type brokenLog struct{ takes int }

func (l *brokenLog) Add(*record.Timeline) error {
	if l.takes--; l.takes < 0 {
		return &os.PathError{Op: "write", Path: "requests.jsonl.zst", Err: syscall.EIO}
	}
	return nil
}

func TestDeadDiskEndsTheLadder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 100 * time.Millisecond, tokens: 1}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) { p.Load = closed(4, 8) }), func(l *Ladder) {
			l.Generators[0].Log = &brokenLog{takes: 50}
		})
		if !errors.Is(err, syscall.EIO) || len(rungs) != 1 || rungs[0].Requests.Completed == 0 {
			t.Fatalf("%d rungs, %v", len(rungs), err)
		}
		if n := rungs[0].Totals; n.Completed < 51 || n.Completed > 54 || n.Sent != n.Completed {
			t.Errorf("totals %+v, want those of 50 requests and of the users in flight then", n)
		}
	})
}

func TestStopBetweenRungs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 100 * time.Millisecond, tokens: 1}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) { p.Load = closed(1, 2) }), func(l *Ladder) {
			l.Between = func(context.Context, int, Rung) error { return nil }
			keep := l.OnRung
			l.OnRung = func(target int, r record.Rung, h record.Histograms) error {
				l.Stop()
				return keep(target, r, h)
			}
		})
		if !errors.Is(err, ErrInterrupted) || len(rungs) != 1 {
			t.Errorf("%d rungs, %v", len(rungs), err)
		}
	})
}
