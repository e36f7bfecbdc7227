package profiles

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSet(t *testing.T) {
	for _, test := range []struct {
		path, value string
		got         func(*Profile) any
		want        any
	}{
		{"name", "other", func(p *Profile) any { return p.Name }, "other"},
		{"model.id", "meta-llama/Llama-3.1-8B", func(p *Profile) any { return p.Model.ID }, "meta-llama/Llama-3.1-8B"},
		{"model.version", "3.10", func(p *Profile) any { return p.Model.Version }, "3.10"},
		{"hardware.count", "8", func(p *Profile) any { return p.Hardware.Count }, 8},
		{"hardware.count", "unknown", func(p *Profile) any { return p.Hardware.Count }, 0},
		{"hardware", "{accelerator: H100, count: 2}", func(p *Profile) any { return p.Hardware }, Hardware{"H100", 2}},
		{"model", "unknown", func(p *Profile) any { return p.Model }, Model{Unknown, Unknown, Unknown, Unknown}},
		{"serving.settings.max_num_seqs", "256", func(p *Profile) any { return p.Serving.Settings }, map[string]string{"max_num_seqs": "256"}},
		{"serving.settings.a.b", "x", func(p *Profile) any { return p.Serving.Settings }, map[string]string{"a.b": "x"}},
		{"workload.input_tokens", "512", input, Fixed(512)},
		{"workload.input_tokens", "{uniform: [1, 9]}", input, Length{Kind: LengthUniform, Min: 1, Max: 9}},
		{"workload.sampling.temperature", "0.7", func(p *Profile) any { return *p.Workload.Sampling.Temperature }, 0.7},
		{"workload.sampling.force_length", "false", func(p *Profile) any { return p.Workload.Sampling.ForceLength }, false},
		{"workload.dataset.file", "a.jsonl", func(p *Profile) any { return p.Workload.Dataset }, &Dataset{File: "a.jsonl"}},
		{"workload.dataset.file", "a.jsonl", lengths, []Length{{Kind: LengthDataset}, Fixed(128)}},
		{"load.open.trace.file", "t.jsonl", lengths, []Length{{Kind: LengthTrace}, {Kind: LengthTrace}}},
		{"load.closed.concurrency", "1,2,4", func(p *Profile) any { return p.Load.Closed.Concurrency }, []int{1, 2, 4}},
		{"load.closed.concurrency", "[1, 2]", func(p *Profile) any { return p.Load.Closed.Concurrency }, []int{1, 2}},
		{"load.closed.think_time", "{exponential: 2s}", think, ThinkTime{Kind: ThinkExponential, Mean: Duration(2 * time.Second)}},
		{"load.open.rate", "0.5,1", func(p *Profile) any { return p.Load }, Load{Open: &OpenLoad{Rate: []float64{0.5, 1}, Arrivals: "poisson"}, Refine: Refine{4}}},
		{"load.offline.requests", "100", func(p *Profile) any { return p.Load.Offline }, &OfflineLoad{Requests: 100}},
		{"stage.warmup", "5s", warmup, Warmup{Fixed: Duration(5 * time.Second)}},
		{"stage.measure", "10s", func(p *Profile) any { return p.Stage.Measure }, Duration(10 * time.Second)},
		{"slo.tps_p05", ">=20", func(p *Profile) any { return p.SLO["tps_p05"] }, ">=20"},
		{"slo", "tps_p05>=20,error_rate=1%", func(p *Profile) any { return p.SLO }, SLOs{"tps_p05": ">=20", "error_rate": "1%"}},
		{"slo", "{ttft_p95: 1s}", func(p *Profile) any { return p.SLO }, SLOs{"ttft_p95": "1s"}},
		{"cost.max_usd", "2.5", func(p *Profile) any { return p.Cost.MaxUSD }, 2.5},
		{"target.url", "http://h:8000", func(p *Profile) any { return p.Target.URL }, "http://h:8000"},
		{"target.metrics", "http://h:1,http://h:2", func(p *Profile) any { return p.Target.Metrics }, []string{"http://h:1", "http://h:2"}},
		{"target.serve.executor", "sim", func(p *Profile) any { return p.Target.Serve["executor"] }, "sim"},
		{"matrix.input_tokens", "128,1024", func(p *Profile) any { return p.Matrix }, map[string][]string{"input_tokens": {"128", "1024"}}},
	} {
		t.Run(test.path+"="+test.value, func(t *testing.T) {
			p, err := Builtin("chat")
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Set(test.path, test.value); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, test.got(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			roundTrip(t, p)
		})
	}
}

func lengths(p *Profile) any { return []Length{p.Workload.InputTokens, p.Workload.OutputTokens} }

func TestSetFaults(t *testing.T) {
	for _, test := range []struct{ path, value, want string }{
		{"", "1", `unknown key`},
		{"nam", "x", `nam: unknown key; did you mean "name"?`},
		{"concurrency", "4", `concurrency: unknown key; it belongs in load.closed.concurrency`},
		{"load.closed.concurency", "4", `load.closed.concurency: unknown key; did you mean "concurrency"?`},
		{"load.closed.concurrency", "0", `load.closed.concurrency[0]: 0 is out of range`},
		{"load.closed.concurrency", "four", `needs a whole number, not "four"`},
		{"workload.input_tokens.mean", "4", `set workload.input_tokens as a whole`},
		{"workload.input_tokens", "{uniform", `"{uniform" is no value; write it as it stands in a profile's YAML`},
		{"workload.input_tokens", "", `is no value`},
		{"workload.seed", "1.5", `needs a whole number, not "1.5"`},
		{"stage.measure", "60", `"60" has no unit; write 60s, 60ms or 60m`},
		{"slo.ttft_p95", "500", `slo.ttft_p95: "500" is no limit for it`},
		{"slo.nonsense", "5ms", `slo.nonsense: unknown metric`},
		{"target.backend", "vlm", `did you mean "vllm"?`},
		{"matrix.input_tokens", "128,0", `matrix.input_tokens[1]: 0 is out of range`},
	} {
		t.Run(test.path+"="+test.value, func(t *testing.T) {
			p, err := Builtin("chat")
			if err != nil {
				t.Fatal(err)
			}
			before := clone(p)
			err = p.Set(test.path, test.value)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if diff := cmp.Diff(before, p); diff != "" {
				t.Errorf("a failed Set changed the profile:\n%s", diff)
			}
		})
	}
}

// TestSetLeavesOrder sets two fields that only fit together.
func TestSetLeavesOrder(t *testing.T) {
	p := Default()
	if err := p.Set("stage.measure", "20m"); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "stage.max_duration: 5m is shorter than stage.measure, 20m") {
		t.Errorf("Validate: %v", err)
	}
	if err := p.Set("stage.max_duration", "1h"); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

func TestExpand(t *testing.T) {
	p := Default()
	p.Matrix = map[string][]string{
		"output_tokens":           {"16", "{uniform: [16, 32]}"},
		"input_tokens":            {"1024", "128"},
		"load.closed.concurrency": {"[1, 2]"},
	}
	cells, err := Expand(p)
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, c := range cells {
		labels = append(labels, c.Label)
		if c.Profile.Matrix != nil || len(c.Values) != 3 || len(c.Profile.Load.Closed.Concurrency) != 2 {
			t.Errorf("%s: %v, %v", c.Label, c.Values, c.Profile.Matrix)
		}
	}
	want := []string{
		"input_tokens=1024,load.closed.concurrency=1-2,output_tokens=16",
		"input_tokens=1024,load.closed.concurrency=1-2,output_tokens=uniform-16-32",
		"input_tokens=128,load.closed.concurrency=1-2,output_tokens=16",
		"input_tokens=128,load.closed.concurrency=1-2,output_tokens=uniform-16-32",
	}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got := cells[3].Profile.Workload; got.InputTokens.Value != 128 || got.OutputTokens.Max != 32 {
		t.Errorf("last cell: %v in, %v out", got.InputTokens, got.OutputTokens)
	}
	if p.Workload.InputTokens.Value != 1024 || len(p.Matrix) != 3 {
		t.Errorf("Expand changed its argument: %+v", p)
	}
}

func TestExpandEdges(t *testing.T) {
	cells, err := Expand(Default())
	if err != nil || len(cells) != 1 || cells[0].Label != "" {
		t.Errorf("without a matrix: %v, %v", cells, err)
	}
	p := Default()
	p.Matrix = map[string][]string{"prompt": {"text", "text"}}
	cells, err = Expand(p)
	if err != nil || cells[0].Label == cells[1].Label {
		t.Errorf("equal values share the label %q, %v", cells[0].Label, err)
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = "1"
	}
	p.Matrix = map[string][]string{"input_tokens": many, "output_tokens": many}
	if _, err := Expand(p); err == nil || !strings.Contains(err.Error(), "has too many combinations; keep at most 1000") {
		t.Errorf("1600 combinations: %v", err)
	}
	p.Matrix = map[string][]string{"workload.prefix.shared_tokens": {"0", "2000"}}
	if _, err := Expand(p); err == nil || !strings.Contains(err.Error(), "more than the 1024 tokens of the shortest prompt") {
		t.Errorf("a cell that does not go together: %v", err)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"concurrency", "think_time", "ramp"}
	for word, want := range map[string]string{
		"concurency": "concurrency", "conurrcency": "concurrency", "Ramp": "ramp", "rmap": "ramp",
		"think-time": "think_time", "nothing": "", "": "", "r": "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
