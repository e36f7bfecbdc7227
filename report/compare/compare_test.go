package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/stat"
)

// result is a ladder of three repeats a load against a server of some speed.
func result(name string, speed float64, seed uint64) Input {
	r := stat.Rand(seed, 1)
	in := Input{Name: name, Profile: profiles.Profile{
		Model:     profiles.Model{Family: "llama", Version: "3.1", Size: "8B", ID: "m"},
		Precision: profiles.Precision{Weights: "bf16", KVCache: "bf16"},
		Workload: profiles.Workload{
			InputTokens: profiles.Length{Kind: "fixed", Value: 1024}, OutputTokens: profiles.Length{Kind: "fixed", Value: 128}, Prompt: "token-ids",
		},
		SLO:  profiles.SLOs{"ttft_p95": "2s"},
		Cost: profiles.Cost{USDPerHour: 3}, Hardware: profiles.Hardware{Accelerator: "H100", Count: 2},
	}}
	for _, users := range []int{1, 4, 16, 64} {
		for repeat := range 3 {
			in.Rungs = append(in.Rungs, rung(users, repeat, speed*math.Exp(0.005*r.NormFloat64()), r))
			in.Rungs[len(in.Rungs)-1].Index = len(in.Rungs) - 1
		}
	}
	return in
}

func rung(users, repeat int, speed float64, r *rand.Rand) record.Rung {
	n := min(float64(users), 20)
	x := speed * n / (0.01 + 0.0002*n)
	dist := func(v float64) record.Dist {
		k := func(f float64) record.Value { return record.Known(v * f * math.Exp(0.005*r.NormFloat64())) }
		return record.Dist{Count: 500, Mean: k(1), Min: k(0.5), P05: k(0.6), P50: k(1), P90: k(1.3), P95: k(1.5), P99: k(1.8), Max: k(2)}
	}
	return record.Rung{
		Mode: record.Closed, Concurrency: users, Repeat: repeat, Verdict: record.Valid,
		Requests: record.Requests{Sent: 500, Completed: 500}, InFlightMean: record.Known(float64(users)),
		OutputTokenThroughputPerS: record.Known(x), RequestThroughputPerS: record.Known(x / 128),
		TTFT: dist(50 / speed), ITL: dist(1000 * n / x), E2E: dist(1000 * 128 * float64(users) / x), PerUserTokensPerS: dist(x / n),
	}
}

func TestEqualServersShowNoDifference(t *testing.T) {
	c, err := Compare([]Input{result("a", 1, 1), result("b", 1, 2)}, Options{})
	if err != nil || c.Refused {
		t.Fatalf("%v, refused %v", err, c.Refused)
	}
	if c.Finding != Same {
		t.Errorf("finding %q, want %q: %+v", c.Finding, Same, c.AtLoad)
	}
	if len(c.AtLoad) != 4 || len(c.AtPoint.Rows) == 0 || len(c.AtSLO.Rows) == 0 || len(c.Knees) != 2 {
		t.Errorf("tables are missing: %d loads, %d, %d, %d knees", len(c.AtLoad), len(c.AtPoint.Rows), len(c.AtSLO.Rows), len(c.Knees))
	}
}

func TestTheSameResultShowsNoDifference(t *testing.T) {
	c, err := Compare([]Input{result("a", 1, 1), result("a again", 1, 1)}, Options{})
	if err != nil || c.Finding != Same {
		t.Errorf("finding %q, %v", c.Finding, err)
	}
}

// Servers that are alike at every load they share, of which one also ran a load
// that is better within the limits, are not alike as a whole.
func TestTheHeadlineTellsOperatingPointsApart(t *testing.T) {
	short := result("b", 1, 2)
	short.Rungs = short.Rungs[:6] // 1 and 4 users
	none := result("b", 1, 2)
	for i := range none.Rungs {
		if none.Rungs[i].Concurrency > 1 {
			none.Rungs[i].Concurrency++
		}
		none.Rungs[i].TTFT.P95 = record.Known(5000)
	}
	elsewhere := result("b", 1, 2)
	for i := range elsewhere.Rungs {
		elsewhere.Rungs[i].Concurrency++
	}
	for _, tt := range []struct {
		name     string
		other    Input
		finding  Finding
		headline string
	}{
		{"the same ladder", result("b", 1, 2), Same, "no difference found"},
		{"a ladder that ends early", short, Same, "no difference found at equal load; the operating points differ: concurrency=64, concurrency=4"},
		{"limits that never hold", none, Worse, "worse at equal load; the operating points differ: concurrency=64, none"},
		{"no common load", elsewhere, Same, "no difference found at their operating points"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Compare([]Input{result("a", 1, 1), tt.other}, Options{})
			if err != nil || c.Finding != tt.finding || c.Headline != tt.headline {
				t.Errorf("%v, finding %q, headline %q; want %q, %q", err, c.Finding, c.Headline, tt.finding, tt.headline)
			}
		})
	}
}

// Better here and worse there is neither, and not for lack of data.
func TestMixedFindings(t *testing.T) {
	other := result("b", 1.2, 2)
	for i := range other.Rungs {
		d := &other.Rungs[i].TTFT
		d.P50, d.P95 = d.P50.Scale(3), d.P95.Scale(3)
	}
	if c, err := Compare([]Input{result("a", 1, 1), other}, Options{}); err != nil || c.Finding != Mixed {
		t.Errorf("%v, finding %q, want %q", err, c.Finding, Mixed)
	}
}

func TestInconclusiveRungsAreTold(t *testing.T) {
	doubtful := result("b", 1, 2)
	for i := range doubtful.Rungs {
		if doubtful.Rungs[i].Concurrency == 64 {
			doubtful.Rungs[i].Verdict = record.Inconclusive
		}
	}
	c, err := Compare([]Input{result("a", 1, 1), doubtful}, Options{})
	var codes []string
	for _, w := range c.Warnings {
		codes = append(codes, w.Code)
	}
	if want := []string{"inconclusive_load", "inconclusive_point"}; err != nil || !slices.Equal(codes, want) {
		t.Errorf("%v, warnings %v, want %v", err, codes, want)
	}
}

func TestASlowerServerIsWorse(t *testing.T) {
	c, err := Compare([]Input{result("a", 1, 1), result("b", 0.85, 2)}, Options{})
	if err != nil || c.Finding != Worse {
		t.Errorf("finding %q, %v, want worse", c.Finding, err)
	}
	c, err = Compare([]Input{result("a", 1, 1), result("b", 1.2, 2)}, Options{})
	if err != nil || c.Finding != Better {
		t.Errorf("finding %q, %v, want better", c.Finding, err)
	}
}

func TestUnlikeResultsAreRefused(t *testing.T) {
	cold := 0.7
	tests := []struct {
		field  string
		change func(*Input)
	}{
		{"model.id", func(in *Input) { in.Profile.Model.ID = "other" }},
		{"precision.weights", func(in *Input) { in.Profile.Precision.Weights = "fp8" }},
		{"workload.input_tokens", func(in *Input) { in.Profile.Workload.InputTokens.Value = 512 }},
		{"workload.output_tokens", func(in *Input) {
			in.Profile.Workload.OutputTokens = profiles.Length{Kind: "uniform", Min: 1, Max: 255}
		}},
		{"workload.sampling", func(in *Input) { in.Profile.Workload.Sampling.Temperature = &cold }},
		{"definition.itl", func(in *Input) { in.Definitions = map[string]string{"itl": "gap between chunks"} }},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			other := result("b", 1, 2)
			tt.change(&other)
			inputs := []Input{result("a", 1, 1), other}
			c, err := Compare(inputs, Options{})
			if err != nil || !c.Refused || len(c.Differences) != 1 || c.Differences[0].Field != tt.field || len(c.AtLoad) != 0 {
				t.Fatalf("%v, %+v", err, c)
			}
			c, err = Compare(inputs, Options{Allow: []string{tt.field}})
			if err != nil || c.Refused || !c.Differences[0].Allowed {
				t.Errorf("allowed by name but %v, %+v", err, c.Differences)
			}
		})
	}
}

func TestOddInputs(t *testing.T) {
	if _, err := Compare([]Input{result("a", 1, 1)}, Options{}); err == nil {
		t.Error("one result is compared")
	}
	if _, err := Compare([]Input{result("a", 1, 1), result("b", 1, 2)}, Options{Allow: []string{"model.di"}}); err == nil {
		t.Error("a mistyped name is allowed")
	}
	empty := result("b", 1, 2)
	empty.Rungs = nil
	c, err := Compare([]Input{result("a", 1, 1), empty}, Options{})
	if err != nil || c.Finding != Unknown {
		t.Errorf("finding %q, %v, want unknown", c.Finding, err)
	}
}
