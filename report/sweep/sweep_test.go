package sweep_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle/bundletest"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/sweep"
)

// A table that does not tell how many requests are behind a figure is not one
// that says 0.
func TestReadCounts(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     int64
	}{
		{"told", "concurrency,completed,output_token_throughput_per_s,ttft_p95_ms\n1,500,50,20\n", 500},
		{"nothing completed", "concurrency,completed,output_token_throughput_per_s,ttft_p95_ms\n1,0,50,20\n", 0},
		{"no column", "concurrency,output_token_throughput_per_s,ttft_p95_ms\n1,50,20\n", record.Untold},
		{"an empty cell", "concurrency,completed,output_token_throughput_per_s,ttft_p95_ms\n1,-,50,20\n", record.Untold},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sweeps, err := sweep.Read(strings.NewReader(tt.in), "s.csv")
			if err != nil {
				t.Fatal(err)
			}
			if g := sweeps[0].Rungs[0]; g.Requests.Completed != tt.want || g.TTFT.Count != tt.want {
				t.Errorf("%d completed, %d samples; want %d", g.Requests.Completed, g.TTFT.Count, tt.want)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", "it is empty"},
		{"header only", "concurrency,output_token_throughput_per_s\n", "no rung"},
		{"unknown column", "concurency,output_token_throughput_per_s\n1,2\n", `s.csv:1:1: not a sweep table: unknown column "concurency"; the nearest name is "concurrency"`},
		{"column twice", "concurrency,concurrency\n1,2\n", "s.csv:1:13:"},
		{"no load", "output_token_throughput_per_s\n1\n", "no column says the load"},
		{"no throughput", "concurrency\n1\n", "no column says the throughput"},
		{"text in a cell", "concurrency,output_token_throughput_per_s\n1,50\n2,fast\n", `s.csv:3:3: not a sweep table: output_token_throughput_per_s is "fast"`},
		{"negative", "concurrency,output_token_throughput_per_s\n-1,50\n", "s.csv:2:1:"},
		{"NaN", "concurrency,output_token_throughput_per_s\nNaN,50\n", "s.csv:2:1:"},
		{"infinite", "concurrency,output_token_throughput_per_s\n1,1e999\n", "s.csv:2:3:"},
		{"short row", "concurrency,output_token_throughput_per_s\n1\n", "s.csv:2:1: not a sweep table: the row does not have the 2 cells of the header"},
		{"mean for a cap", "concurrency,output_token_throughput_per_s\n7.8,50\n", "s.csv:2:1: not a sweep table: concurrency is \"7.8\"; it takes a whole number"},
		{"unknown mode", "mode,concurrency,output_token_throughput_per_s\nburst,1,50\n", "s.csv:2:1: not a sweep table: mode is \"burst\"; it takes one of [closed open offline]"},
		{"no name is near", "concurrency,output_token_throughput_per_s,gpu\n1,50,H100\n", "unknown column \"gpu\"; drop it"},
		{"control character", "result,concurrency,output_token_throughput_per_s\n\x1b[31m,1,50\n", "s.csv:2:1: not a sweep table: the result's name"},
		{"open quote", "concurrency,output_token_throughput_per_s\n\"1,2\n", "s.csv:2:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := sweep.Read(strings.NewReader(tt.in), "s.csv")
			if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, sweep.ErrTable) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// endless is a table that does not end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestReadIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 32 MiB")
	}
	if _, err := sweep.Read(endless{}, "s.csv"); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") {
		t.Error(err)
	}
}

func read(t *testing.T, in string) []sweep.Sweep {
	t.Helper()
	sweeps, err := sweep.Read(strings.NewReader(in), "s.csv")
	if err != nil {
		t.Fatal(err)
	}
	return sweeps
}

func TestRead(t *testing.T) {
	s := read(t, "\ufeffconcurrency, request_throughput_per_s, e2e_mean_ms, in_flight\r\n8,4,1500,-\r\n16,5,,12\r\n")[0]
	if len(s.Rungs) != 2 || s.Derived != 1 {
		t.Fatalf("%+v", s)
	}
	a, b := s.Rungs[0], s.Rungs[1]
	if a.InFlightMean.Or(0) != 6 || b.InFlightMean.Or(0) != 12 || b.E2E.Mean.OK() {
		t.Errorf("in flight %v and %v, E2E %v", a.InFlightMean, b.InFlightMean, b.E2E.Mean)
	}
	if a.Mode != record.Closed || a.Verdict != record.Valid || b.Index != 1 {
		t.Errorf("mode %s, verdict %s, index %d", a.Mode, a.Verdict, b.Index)
	}
}

func TestModeOfATable(t *testing.T) {
	tests := []struct {
		name, in string
		want     record.Mode
	}{
		{"rates", "rate_req_per_s,request_throughput_per_s\n1,1\n2,2\n", record.Open},
		{"rates under one cap", "concurrency,rate_req_per_s,request_throughput_per_s\n256,1,1\n256,2,2\n", record.Open},
		{"a rate beside caps", "concurrency,rate_req_per_s,request_throughput_per_s\n1,10,1\n2,10,2\n", record.Closed},
		{"in flight alone", "in_flight,request_throughput_per_s\n1,1\n2,2\n", record.Closed},
		{"as it says", "mode,rate_req_per_s,request_throughput_per_s\noffline,1,1\noffline,2,2\n", record.Offline},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(t, tt.in)[0].Rungs[0].Mode; got != tt.want {
				t.Errorf("mode %s, want %s", got, tt.want)
			}
		})
	}
}

// What a result is written as reads as the same rungs, also two results in one
// table.
func TestRoundTrip(t *testing.T) {
	one, two := bundletest.Result().Rungs, bundletest.Result().Rungs[:3]
	two[2].Verdict = record.Invalid
	two[2].TTFT.P95 = record.Value{}
	var b bytes.Buffer
	if err := sweep.Write(&b, sweep.Sweep{Name: "one", Rungs: one}, sweep.Sweep{Name: "two, \"quoted\"", Rungs: two}); err != nil {
		t.Fatal(err)
	}
	got := read(t, b.String())
	if len(got) != 2 || got[0].Name != "one" || got[1].Name != "two, \"quoted\"" || got[0].Derived != 0 {
		t.Fatalf("%d sweeps, %q", len(got), got[0].Name)
	}
	for i, want := range [][]record.Rung{one, two} {
		if len(got[i].Rungs) != len(want) {
			t.Fatalf("%d rungs, want %d", len(got[i].Rungs), len(want))
		}
		for j, w := range want {
			g := got[i].Rungs[j]
			if g.Index != w.Index || g.Mode != w.Mode || g.Verdict != w.Verdict || g.Concurrency != w.Concurrency || g.Requests.Failed != w.Requests.Failed {
				t.Errorf("rung %d of %d reads as %+v, want %+v", j, i, g, w)
			}
			same(t, "in flight", g.InFlightMean, w.InFlightMean)
			same(t, "tok/s", g.OutputTokenThroughputPerS, w.OutputTokenThroughputPerS)
			same(t, "TTFT", g.TTFT.P95, w.TTFT.P95)
			same(t, "ITL", g.ITL.Mean, w.ITL.Mean)
			same(t, "E2E", g.E2E.P99, w.E2E.P99)
			same(t, "speed", g.PerUserTokensPerS.P05, w.PerUserTokensPerS.P05)
		}
	}
	a, c := knee.Fit(knee.FromRungs(one), knee.Options{}), knee.Fit(knee.FromRungs(got[0].Rungs), knee.Options{})
	if a.Status != c.Status || math.Abs(a.InFlight.Or(0)/c.InFlight.Or(0)-1) > 0.02 {
		t.Errorf("knee %s at %v, of the table, which has no blocks, %s at %v", a.Status, a.InFlight, c.Status, c.InFlight)
	}
}

// same compares within the nine digits of a table.
func same(t *testing.T, name string, got, want record.Value) {
	t.Helper()
	if got.OK() != want.OK() || math.Abs(got.Or(0)-want.Or(0)) > 1e-8*want.Or(0) {
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}

func TestLacks(t *testing.T) {
	foreign := read(t, "concurrency,output_token_throughput_per_s,ttft_p95_ms,itl_mean_ms,completed\n1,50,20,,9\n2,90,-,,9\n")[0]
	open := read(t, "rate_req_per_s,request_throughput_per_s,ttft_response_p95_ms,failed\n1,1,20,0\n2,2,20,0\n")[0]
	tests := []struct {
		s    sweep.Sweep
		slo  string
		want string // the column; "" for none
	}{
		{foreign, "ttft_p95=1s", ""},
		{foreign, "ttft_p99=1s", "ttft_p99_ms"},
		{foreign, "itl_mean=50ms", "itl_mean_ms"},
		{foreign, "error_rate=1%", "failed"},
		{foreign, "tps_p05>=20", "per_user_tokens_per_s_p05"},
		{foreign, "goodput>=2", "goodput_req_per_s"},
		{foreign, "kv_cache_usage=95%", "kv_cache_usage_max"},
		{foreign, "preemptions=0", "preemptions"},
		{foreign, "output_token_throughput>=20", ""},
		{open, "ttft_p95=1s", ""},
		{open, "error_rate=1%", ""},
	}
	for _, tt := range tests {
		t.Run(tt.slo, func(t *testing.T) {
			slos, err := profiles.ParseSLOs(tt.slo)
			if err != nil {
				t.Fatal(err)
			}
			column, lacks := tt.s.Lacks(slos[0])
			if lacks != (tt.want != "") || lacks && column != tt.want {
				t.Errorf("lacks %v, column %q, want %q", lacks, column, tt.want)
			}
		})
	}
}

// What reads is fitted without a panic, and what is written reads again.
func FuzzRead(f *testing.F) {
	f.Add("concurrency,output_token_throughput_per_s\n1,51.67\n5,218.48\n25,623.4\n50,814.37\n100,917\n250,920\n")
	f.Add("rate_req_per_s,request_throughput_per_s,e2e_mean_ms\n1,1,480\n40,40,560\n80,79,3000\n120,79,4000\n160,78,4200\n")
	f.Add("in_flight,request_throughput_per_s\n-,1\n1,-\n1e300,1e300\n1e-300,1\n0,0\n2,3\n")
	f.Add("result,\"concurrency\",itl_mean_ms,output_token_throughput_per_s,mode,verdict\na,1,,2,open,valid\nb,1,,2,,invalid\n")
	f.Fuzz(func(t *testing.T, in string) {
		sweeps, err := sweep.Read(strings.NewReader(in), "fuzz.csv")
		if err != nil {
			if !errors.Is(err, sweep.ErrTable) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		var b bytes.Buffer
		if err := sweep.Write(&b, sweeps...); err != nil {
			t.Fatal(err)
		}
		if again, err := sweep.Read(&b, "again.csv"); err != nil || len(again[0].Rungs) != len(sweeps[0].Rungs) {
			t.Fatalf("what was written does not read: %v", err)
		}
		for _, s := range sweeps[:min(len(sweeps), 3)] {
			if len(s.Rungs) > 40 {
				continue // a fit of many takes too long here
			}
			k := knee.Fit(knee.FromRungs(s.Rungs), knee.Options{Resamples: 3})
			if at, ok := k.InFlight.Float(); ok && !(at > 0) {
				t.Fatalf("knee at %v", at)
			}
			if k.Status == knee.Found && !k.InFlight.OK() && !k.RatePerS.OK() {
				t.Fatal("found nowhere")
			}
		}
	})
}
