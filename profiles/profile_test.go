package profiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// minimal is the shortest valid profile; tests add to it or replace lines.
const minimal = `apiVersion: headway/v1
name: t
model: unknown
precision: unknown
hardware: unknown
serving: unknown
workload:
  input_tokens: 128
  output_tokens: 32
  sampling: {temperature: 0}
load:
  closed: {concurrency: [1, 2]}
`

func parse(t *testing.T, text string) *Profile {
	t.Helper()
	p, err := Parse(strings.NewReader(text), "t.yaml")
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, text)
	}
	return p
}

// roundTrip holds a profile to: written and read again it is the same.
func roundTrip(t *testing.T, p *Profile) {
	t.Helper()
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(strings.NewReader(string(text)), "again.yaml")
	if err != nil {
		t.Fatalf("what YAML wrote does not parse: %v\n%s", err, text)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("written and read profiles differ (-written +read):\n%s\n%s", diff, text)
	}
}

func TestBuiltins(t *testing.T) {
	for _, s := range Builtins() {
		t.Run(s.Name, func(t *testing.T) {
			p, err := Builtin(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			if p.Name != s.Name || p.About == "" {
				t.Errorf("name %q, about %q", p.Name, p.About)
			}
			if n := len(p.Unknowns()); n != 11 {
				t.Errorf("a workload names %d of 11 facts; they come by flag, file or server", 11-n)
			}
			roundTrip(t, p)
		})
	}
}

func TestBuiltinLengths(t *testing.T) {
	for _, test := range []struct {
		name               string
		input, output, pre int
	}{
		{"chat", 1024, 128, 0},
		{"summarisation", 8192, 256, 0},
		{"generation", 128, 2048, 0},
		{"rag", 4096, 256, 2048},
	} {
		p, err := Builtin(test.name)
		if err != nil {
			t.Fatal(err)
		}
		w := p.Workload
		if w.InputTokens.Value != test.input || w.OutputTokens.Value != test.output || w.Prefix.SharedTokens != test.pre {
			t.Errorf("%s: %v in, %v out, %d shared", test.name, w.InputTokens, w.OutputTokens, w.Prefix.SharedTokens)
		}
	}
}

func TestStarterAndDefaultRoundTrip(t *testing.T) {
	roundTrip(t, parse(t, string(Starter())))
	roundTrip(t, Default())
	if err := Default().Validate(); err != nil {
		t.Errorf("Default: %v", err)
	}
}

func TestParseForms(t *testing.T) {
	for _, test := range []struct {
		name, from, to string // replaced in minimal
		got            func(*Profile) any
		want           any
	}{
		{"fixed length", "input_tokens: 128", "input_tokens: 64", input, Fixed(64)},
		{"uniform", "input_tokens: 128", "input_tokens: {uniform: [8, 16]}", input, Length{Kind: LengthUniform, Min: 8, Max: 16}},
		{"normal", "input_tokens: 128", "input_tokens: {mean: 100, stddev: 10.5, min: 50, max: 150}", input, Length{Kind: LengthNormal, Mean: 100, StdDev: 10.5, Min: 50, Max: 150}},
		{"normal without bounds", "input_tokens: 128", "input_tokens: {mean: 100, stddev: 10}", input, Length{Kind: LengthNormal, Mean: 100, StdDev: 10, Min: 1, Max: 140}},
		{"lognormal", "input_tokens: 128", "input_tokens: {lognormal: {mean: 9, stddev: 4, min: 2, max: 30}}", input, Length{Kind: LengthLognormal, Mean: 9, StdDev: 4, Min: 2, Max: 30}},
		{"lognormal in a block", "input_tokens: 128", "input_tokens:\n    lognormal:\n      mean: 9\n      stddev: 4\n      max: 30", input, Length{Kind: LengthLognormal, Mean: 9, StdDev: 4, Min: 1, Max: 30}},
		{"values", "input_tokens: 128", "input_tokens: {values: [1, 5, 5]}", input, Length{Kind: LengthEmpirical, Values: []int{1, 5, 5}}},
		{"lengths of a dataset", "input_tokens: 128", "dataset: {file: a.jsonl}", input, Length{Kind: LengthDataset}},
		{"one length of a dataset", "input_tokens: 128", "dataset: {file: a.jsonl}", func(p *Profile) any { return p.Workload.OutputTokens }, Fixed(32)},
		{"lengths of a trace", "input_tokens: 128\n  output_tokens: 32\n  sampling: {temperature: 0}\nload:\n  closed: {concurrency: [1, 2]}", "sampling: {temperature: 0}\nload:\n  open: {trace: {file: t.jsonl}}", input, Length{Kind: LengthTrace}},
		{"no pause", "[1, 2]}", "[1, 2], think_time: 0s}", think, ThinkTime{}},
		{"fixed pause", "[1, 2]}", "[1, 2], think_time: 1.5s}", think, ThinkTime{Kind: ThinkFixed, Mean: Duration(1500 * time.Millisecond)}},
		{"exponential pause", "[1, 2]}", "[1, 2], think_time: {exponential: 2s}}", think, ThinkTime{Kind: ThinkExponential, Mean: Duration(2 * time.Second)}},
		{"lognormal pause", "[1, 2]}", "[1, 2], think_time: {lognormal: {mean: 2s, stddev: 500ms}}}", think, ThinkTime{Kind: ThinkLognormal, Mean: Duration(2 * time.Second), StdDev: Duration(500 * time.Millisecond)}},
		{"automatic warm-up", "name: t", "name: t\nstage: {warmup: auto}", warmup, Warmup{Auto: true}},
		{"fixed warm-up", "name: t", "name: t\nstage: {warmup: 5s}", warmup, Warmup{Fixed: Duration(5 * time.Second)}},
		{"no warm-up", "name: t", "name: t\nstage: {warmup: 0s}", warmup, Warmup{}},
		{"longest duration follows measure", "name: t", "name: t\nstage: {measure: 10m}", func(p *Profile) any { return p.Stage.MaxDuration }, Duration(40 * time.Minute)},
		{"a version keeps its zero", "model: unknown", "model: {family: llama, version: 3.10, size: 8B, id: a}", func(p *Profile) any { return p.Model.Version }, "3.10"},
		{"unknown count", "hardware: unknown", "hardware: {accelerator: H100, count: unknown}", func(p *Profile) any { return p.Hardware }, Hardware{Accelerator: "H100"}},
		{"default settings", "serving: unknown", "serving: {engine: vllm, version: auto, settings: {}}", func(p *Profile) any { return p.Serving.Settings }, map[string]string{}},
		{"unknown settings", "serving: unknown", "serving: {engine: vllm, version: auto, settings: unknown}", func(p *Profile) any { return p.Serving.Settings }, map[string]string(nil)},
		{"settings of any kind", "serving: unknown", "serving: {engine: vllm, version: auto, settings: {a: 1, b: true, c: x, max_num_batched_tokens: 8192}}", func(p *Profile) any { return p.Serving.Settings }, map[string]string{"a": "1", "b": "true", "c": "x", "max_num_batched_tokens": "8192"}},
		{"limits as a flag has them", "name: t", "name: t\nslo: ttft_p95=500ms,tps_p05>=20", func(p *Profile) any { return p.SLO }, SLOs{"ttft_p95": "500ms", "tps_p05": ">=20"}},
		{"matrix of numbers, words and distributions", "name: t", "name: t\nmatrix: {input_tokens: [1, {uniform: [1, 2]}], prompt: [auto, text]}", func(p *Profile) any { return p.Matrix }, map[string][]string{"input_tokens": {"1", "{uniform: [1, 2]}"}, "prompt": {"auto", "text"}}},
		{"shared prefix is one group", "input_tokens: 128", "input_tokens: 128\n  prefix: {shared_tokens: 64}", func(p *Profile) any { return p.Workload.Prefix.Groups }, 1},
		{"turns of a conversation", "input_tokens: 128", "input_tokens: 128\n  prompt: conversation\n  conversation: {think_time: 1s}", func(p *Profile) any { return p.Workload.Conversation.Turns }, Fixed(4)},
		{"open loop is Poisson", "closed: {concurrency: [1, 2]}", "open: {rate: [0.5, 2]}", func(p *Profile) any { return p.Load.Open }, &OpenLoad{Rate: []float64{0.5, 2}, Arrivals: "poisson"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(minimal, test.from) {
				t.Fatalf("minimal has no %q", test.from)
			}
			p := parse(t, strings.Replace(minimal, test.from, test.to, 1))
			if diff := cmp.Diff(test.want, test.got(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			roundTrip(t, p)
			jsonRoundTrip(t, p)
		})
	}
}

func input(p *Profile) any  { return p.Workload.InputTokens }
func think(p *Profile) any  { return p.Load.Closed.ThinkTime }
func warmup(p *Profile) any { return p.Stage.Warmup }

func jsonRoundTrip(t *testing.T, p *Profile) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	again := new(Profile)
	if err := json.Unmarshal(text, again); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("JSON written and read differ (-written +read):\n%s\n%s", diff, text)
	}
}

// TestJSONOfSmallNumbers: an exponent without a point is no number in YAML.
func TestJSONOfSmallNumbers(t *testing.T) {
	for _, stddev := range []string{"0.0000001", "0." + strings.Repeat("0", 320) + "5", "0.3", "12345678.123456789"} {
		jsonRoundTrip(t, parse(t, strings.Replace(minimal, "input_tokens: 128", "input_tokens: {mean: 9, stddev: "+stddev+", min: 1, max: 99}", 1)))
	}
}

func TestJSONIsReadable(t *testing.T) {
	p := parse(t, strings.Replace(minimal, "input_tokens: 128", "input_tokens: {lognormal: {mean: 9, stddev: 4, min: 2, max: 30}}", 1))
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"input_tokens":{"lognormal":{"mean":9,"stddev":4,"min":2,"max":30}}`,
		`"output_tokens":32`, `"warmup":"auto"`, `"measure":"1m"`, `"count":null`, `"settings":null`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestParseFaults holds each fault to its place, its words and the way out.
func TestParseFaults(t *testing.T) {
	for _, test := range []struct{ name, from, to, want string }{
		{"unknown key", "name: t", "nam: t", `t.yaml:2:1: nam: unknown key; did you mean "name"?`},
		{"key of another block", "name: t", "name: t\nconcurrency: [1]", `t.yaml:3:1: concurrency: unknown key; it belongs in load.closed.concurrency`},
		{"unknown key far from all", "name: t", "name: t\ntarget: {zzzzzz: 1}", `t.yaml:3:10: target.zzzzzz: unknown key; known are url, backend,`},
		{"key twice", "name: t", "name: t\nname: u", `t.yaml:3:1: name: stands twice; keep one of them`},
		{"missing block", "model: unknown\n", "", "t.yaml:1:1: model: is missing; name it, or write `model: unknown`"},
		{"missing fact", "model: unknown", "model: {family: llama, version: 3, size: 8B}", "t.yaml:3:8: model.id: is missing; name it, or write `id: unknown`"},
		{"empty fact", "model: unknown", `model: {family: "", version: 3, size: 8B, id: a}`, `t.yaml:3:17: model.family: is empty; name it, or write unknown`},
		{"no value", "name: t", "name:", `t.yaml:2:6: name: has no value; give a value or remove the key`},
		{"other version", "headway/v1", "headway/v2", `t.yaml:1:13: apiVersion: "headway/v2" is not known; write headway/v1`},
		{"name with a slash", "name: t", "name: a/b", `t.yaml:2:7: name: "a/b" is no name; use letters`},
		{"no lengths", "input_tokens: 128\n  ", "", `workload.input_tokens: is missing; write a token count, such as input_tokens: 128`},
		{"zero length", "input_tokens: 128", "input_tokens: 0", `t.yaml:8:17: workload.input_tokens: 0 is out of range; give 1 to`},
		{"negative length", "input_tokens: 128", "input_tokens: -4", `t.yaml:8:17: workload.input_tokens: -4 tokens is out of range`},
		{"length with a unit", "input_tokens: 128", "input_tokens: 128tok", `t.yaml:8:17: workload.input_tokens: needs a token count or a distribution, not "128tok"; write 128, {uniform`},
		{"unknown distribution", "input_tokens: 128", "input_tokens: {unifrom: [1, 2]}", `t.yaml:8:18: workload.input_tokens.unifrom: unknown key; did you mean "uniform"?`},
		{"uniform of three", "input_tokens: 128", "input_tokens: {uniform: [1, 2, 3]}", `needs the least and the greatest count; write uniform: [64, 256]`},
		{"uniform reversed", "input_tokens: 128", "input_tokens: {uniform: [9, 2]}", `the least count 9 is above the greatest 2`},
		{"mean outside", "input_tokens: 128", "input_tokens: {mean: 100, stddev: 1, max: 50}", `the mean 100 lies outside 1 to 50`},
		{"no values", "input_tokens: 128", "input_tokens: {values: []}", `workload.input_tokens: has no values`},
		{"dataset without one", "input_tokens: 128", "input_tokens: dataset", `comes from a dataset, and there is none; name the file in workload.dataset`},
		{"length beside a dataset", "input_tokens: 128", "input_tokens: 128\n  dataset: {file: a.jsonl}", `t.yaml:8:17: workload.input_tokens: 128 tokens have no effect: a dataset gives the length of each request; remove it, or write dataset`},
		{"length beside a trace", "closed: {concurrency: [1, 2]}", "open: {trace: {file: t.jsonl}}", `t.yaml:9:18: workload.output_tokens: 32 tokens have no effect: a trace gives`},
		{"conversations without a length of answers", "input_tokens: 128\n  output_tokens: 32", "conversation: {file: c.jsonl}", `workload.output_tokens: is missing; write a token count, such as output_tokens: 128`},
		{"cancel without a share", "input_tokens: 128", "input_tokens: 128\n  cancel: {after_tokens: 3}", `t.yaml:9:11: workload.cancel: ends no request; give after: 2s or after_tokens: 10, and the share`},
		{"cancel without an end", "input_tokens: 128", "input_tokens: 128\n  cancel: {share: 1}", `t.yaml:9:11: workload.cancel: ends no request`},
		{"prompt of a file", "input_tokens: 128", "input_tokens: 128\n  prompt: {dataset: a.jsonl}", `workload.prompt: needs one value, not a mapping; name the file of prompts in workload.dataset.file`},
		{"prefix longer than the prompt", "input_tokens: 128", "input_tokens: 128\n  prefix: {shared_tokens: 200}", `t.yaml:9:27: workload.prefix.shared_tokens: 200 is more than the 128 tokens of the shortest prompt`},
		{"temperature", "temperature: 0", "temperature: -1", `t.yaml:10:27: workload.sampling.temperature: -1 is out of range`},
		{"word for a number", "temperature: 0", "temperature: hot", `t.yaml:10:27: workload.sampling.temperature: needs a number, not "hot"`},
		{"not a number", "temperature: 0", "temperature: .nan", `t.yaml:10:27: workload.sampling.temperature: needs a number, not ".nan"`},
		{"word for a boolean", "temperature: 0", "force_length: yes", `force_length: needs true or false, not "yes"; write true or false`},
		{"no sampling", "  sampling: {temperature: 0}\n", "", `workload.sampling: is missing; add it`},
		{"no load", "  closed: {concurrency: [1, 2]}", "  refine: {rungs: 2}", `load: offers nothing; add closed:`},
		{"two loads", "closed: {concurrency: [1, 2]}", "closed: {concurrency: [1, 2]}\n  open: {rate: [1]}", `load: closed and open exclude each other; keep one of them`},
		{"list without brackets", "{concurrency: [1, 2]}", "\n    concurrency: 1,2", `t.yaml:13:18: load.closed.concurrency: needs a list, not "1,2"; write it in brackets: [1, 2, 4]`},
		{"half a user", "[1, 2]", "[1, 2.5]", `t.yaml:12:29: load.closed.concurrency[1]: needs a whole number, not "2.5"`},
		{"no user", "[1, 2]", "[0, 2]", `t.yaml:12:26: load.closed.concurrency[0]: 0 is out of range; give 1 to`},
		{"same load twice", "[1, 2]", "[1, 1]", `load.closed.concurrency[1]: 1 stands twice; raise stage.repeats`},
		{"rate of zero", "closed: {concurrency: [1, 2]}", "open: {rate: [0]}", `load.open.rate[0]: 0 is out of range; give requests per second above 0`},
		{"rate without end", "closed: {concurrency: [1, 2]}", "open: {rate: [.inf]}", `load.open.rate[0]: needs a number, not ".inf"`},
		{"unknown arrivals", "closed: {concurrency: [1, 2]}", "open: {rate: [1], arrivals: poison}", `load.open.arrivals: "poison" is not known; did you mean "poisson"?`},
		{"burstiness of Poisson", "closed: {concurrency: [1, 2]}", "open: {rate: [1], burstiness: 0.5}", `load.open.burstiness: has no effect on poisson arrivals; write arrivals: gamma, or remove it`},
		{"rate and ramp", "closed: {concurrency: [1, 2]}", "open: {rate: [1], ramp: {from: 1, to: 2, over: 1m}}", `load.open: has 2 of rate, ramp and trace`},
		{"duration without unit", "name: t", "name: t\nstage: {measure: 60}", `t.yaml:3:18: stage.measure: "60" has no unit; write 60s, 60ms or 60m`},
		{"duration in words", "name: t", "name: t\nstage: {measure: 60 seconds}", `t.yaml:3:18: stage.measure: "60 seconds" is no duration; write a time with its unit`},
		{"negative duration", "name: t", "name: t\nstage: {warmup: -5s}", `stage.warmup: "-5s" is negative`},
		{"measure above the maximum", "name: t", "name: t\nstage: {measure: 10m, max_duration: 5m}", `t.yaml:3:37: stage.max_duration: 5m is shorter than stage.measure, 10m`},
		{"repeats", "name: t", "name: t\nstage: {repeats: 0}", `stage.repeats: 0 is out of range; give 1 to 1000`},
		{"huge number", "name: t", "name: t\nstage: {repeats: 99999999999999999999}", `t.yaml:3:18: stage.repeats: `},
		{"unknown limit", "name: t", "name: t\nslo: {tfft_p95: 1s}", `t.yaml:3:17: slo.tfft_p95: unknown metric; did you mean "ttft_p95"?`},
		{"limit without unit", "name: t", "name: t\nslo: {ttft_p95: 500}", `t.yaml:3:17: slo.ttft_p95: "500" is no limit for it; write a time above 0 with its unit`},
		{"limit from the wrong side", "name: t", "name: t\nslo: {tps_p05: \"<=20\"}", `t.yaml:3:16: slo.tps_p05: is limited from the wrong side: more is better; write tps_p05>=20`},
		{"backend", "name: t", "name: t\ntarget: {backend: vlm}", `t.yaml:3:19: target.backend: "vlm" is not known; did you mean "vllm"?`},
		{"url without scheme", "name: t", "name: t\ntarget: {url: \"localhost:8000\"}", `t.yaml:3:15: target.url: is no http URL; write http://host:port`},
		{"url with a password", "name: t", "name: t\ntarget: {url: \"http://me:hunter2@h\"}", `target.url: carries credentials; remove user and password`},
		{"flag of the bundled server", "name: t", "name: t\ntarget: {serve: {executor: cpu, max_num_seqs: 4}}", `target.serve.max_num_seqs: the bundled server has no such flag; did you mean "max-num-seqs"?`},
		{"two targets", "name: t", "name: t\ntarget: {url: \"http://h\", serve: {executor: cpu}}", `target.serve: stands beside target.url; keep one of them`},
		{"matrix key", "name: t", "name: t\nmatrix: {input_token: [1]}", `t.yaml:3:24: matrix.input_token[0]: unknown key; did you mean`},
		{"matrix value", "name: t", "name: t\nmatrix: {input_tokens: [1, 0]}", `t.yaml:3:28: matrix.input_tokens[1]: 0 is out of range`},
		{"empty matrix", "name: t", "name: t\nmatrix: {input_tokens: []}", `matrix.input_tokens: is empty`},
		{"anchor", "name: t", "name: &a t", `anchors, aliases and tags are not part of a profile; write the value out`},
		{"tag", "name: t", "name: !!str t", `anchors, aliases and tags are not part of a profile`},
		{"second document", "load:\n  closed: {concurrency: [1, 2]}\n", "load:\n  closed: {concurrency: [1, 2]}\n---\na: 1\n", `holds a second document`},
		{"no YAML", "name: t", "name: {t", `is no YAML: `},
		{"scalar for a block", "load:\n  closed: {concurrency: [1, 2]}", "load: closed", `t.yaml:11:7: load: needs a mapping, not "closed"; its keys are closed, open, offline`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(minimal, test.from) {
				t.Fatalf("minimal has no %q", test.from)
			}
			_, err := Parse(strings.NewReader(strings.Replace(minimal, test.from, test.to, 1)), "t.yaml")
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %s\nwant %s", err, test.want)
			}
		})
	}
}

func TestParseTellsAllFaults(t *testing.T) {
	text := strings.NewReplacer("name: t", "name: a b", "[1, 2]", "[0]", "temperature: 0", "temprature: 0").Replace(minimal)
	_, err := Parse(strings.NewReader(text), "t.yaml")
	want := `t.yaml:2:7: name: "a b" is no name; use letters, digits, '.', '_' and '-', at most 100
t.yaml:10:14: workload.sampling.temprature: unknown key; did you mean "temperature"?
t.yaml:12:26: load.closed.concurrency[0]: 0 is out of range; give 1 to 1000000`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestNoSecretIsShown pastes a key wherever people put one.
func TestNoSecretIsShown(t *testing.T) {
	const key = "sk-proj-0123456789"
	for _, line := range []string{
		"target: {api_key: " + key + "}",
		"target: {api_key_env: " + key + "}",
		"target: {authorization: Bearer " + key + "}",
		"target: {url: \"http://user:" + key + "@h\"}",
		"target: {metrics: [\"http://user:" + key + "@h\"]}",
		"target: {serve: {executor: cpu, api_key: " + key + "}}",
		"api-key: " + key,
		"hf_token: " + key,
	} {
		_, err := Parse(strings.NewReader(minimal+line+"\n"), "t.yaml")
		if err == nil {
			t.Errorf("%s: accepted", line)
			continue
		}
		if strings.Contains(err.Error(), key) {
			t.Errorf("%s: shown in %v", line, err)
		}
		if !strings.Contains(err.Error(), "api_key_env") {
			t.Errorf("%s: no way out in %v", line, err)
		}
	}
	p := parse(t, strings.Replace(minimal, "serving: unknown", "serving: {engine: vllm, version: a, settings: {max_tokens: 5}}", 1))
	if err := p.Set("serving.settings.api_key", key); err == nil || strings.Contains(err.Error(), key) {
		t.Errorf("Set of a secret: %v", err)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(file, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := Open(file); err != nil || p.Name != "t" {
		t.Errorf("file: %v, %v", p, err)
	}
	if p, err := Open("chat"); err != nil || p.Name != "chat" {
		t.Errorf("built-in: %v, %v", p, err)
	}
	for name, want := range map[string]string{
		"chta":                           `there is no profile "chta", neither a file nor built in; did you mean "chat"?`,
		filepath.Join(dir, "other.yaml"): "there is no such file",
		dir:                              "is a directory",
	} {
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s): %v, want %s", name, err, want)
		}
	}
}

func TestParseBoundsItsInput(t *testing.T) {
	_, err := Parse(strings.NewReader("# "+strings.Repeat("x", maxSize)), "big.yaml")
	if err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("got %v", err)
	}
}

func TestParseBoundsDepth(t *testing.T) {
	for name, tail := range map[string]string{
		"brackets":      "x: " + strings.Repeat("[", 100_000),
		"braces":        "x: " + strings.Repeat("{a: ", 10_000),
		"dashes":        "x:\n  " + strings.Repeat("- ", 10_000),
		"question":      strings.Repeat("? ", 10_000) + "a",
		"anchors":       "x: " + strings.Repeat("&a ", 10_000) + "1",
		"hidden closes": "x: " + strings.Repeat(`["]", `, 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(strings.NewReader(minimal+"\n"+tail), "deep.yaml")
			if err == nil || !strings.Contains(err.Error(), "nests deeper than 100") {
				t.Errorf("got %.300v", err)
			}
			if err := new(Profile).Set("stage.measure", tail); err == nil {
				t.Error("Set took it")
			}
		})
	}
}

func TestParseBoundsItsFaults(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "k%d: 1\n", i)
	}
	_, err := Parse(strings.NewReader(text.String()), "many.yaml")
	if faults, ok := errors.AsType[Errors](err); !ok || len(faults) != maxFaults+1 || !strings.Contains(err.Error(), "more faults") {
		t.Errorf("%d faults: %.300v", len(faults), err)
	}
}

// TestParseRefusesLongLists: they would take the YAML parser minutes.
func TestParseRefusesLongLists(t *testing.T) {
	_, err := Parse(strings.NewReader(strings.Replace(minimal, "concurrency: [1, 2]", "concurrency: ["+strings.Repeat("1,", 100_000)+"1]", 1)), "p.yaml")
	if err == nil || !strings.Contains(err.Error(), "more than 40000 words and signs") {
		t.Errorf("%.300v", err)
	}
}

func TestParseTakesAByteOrderMark(t *testing.T) {
	if _, err := Parse(strings.NewReader("\ufeff"+minimal), "bom.yaml"); err != nil {
		t.Error(err)
	}
}

func TestParseTellsOneFaultOfWhatIsNoMapping(t *testing.T) {
	for _, text := range []string{"- a", "5", "null", "[1, 2]", "\x00\x01\x02"} {
		_, err := Parse(strings.NewReader(text), "p.yaml")
		if faults, ok := errors.AsType[Errors](err); !ok || len(faults) != 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseRefusesOctal(t *testing.T) {
	for value, want := range map[string]bool{"010": false, "+08": false, "0_1": false, "10": true, "0x10": true} {
		_, err := Parse(strings.NewReader(strings.Replace(minimal, "concurrency: [1, 2]", "concurrency: ["+value+"]", 1)), "p.yaml")
		if ok := err == nil; ok != want {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add(Starter())
	for _, name := range builtinNames() {
		text, err := library.ReadFile("library/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(minimal + "matrix: {input_tokens: [1, {uniform: [1, 2]}]}\nslo: {tps_p05: \">=20\"}\n"))
	f.Add([]byte(strings.Replace(minimal, "input_tokens: 128", "input_tokens: {mean: 9, stddev: 0.0000001, min: 1, max: 99}", 1)))
	f.Add([]byte(minimal + "about: \"\\x01 \\u00e9 # : {\"\nslo: ttft_p95=5ms\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(strings.NewReader(string(text)), "fuzz.yaml")
		if err != nil {
			if faults, ok := errors.AsType[Errors](err); !ok || len(faults) == 0 {
				t.Fatalf("no faults in %v", err)
			}
			return
		}
		roundTrip(t, p)
		jsonRoundTrip(t, p)
	})
}

// TestDocumented holds the page of the format to the format: each field is
// named in it, and its example is a profile.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "profile.md"))
	if err != nil {
		t.Fatal(err)
	}
	walkSchema(reflect.TypeFor[Profile](), "", func(path string) {
		if key := path[strings.LastIndex(path, ".")+1:]; !regexp.MustCompile(`\b` + key + `\b`).Match(page) {
			t.Errorf("%s is not in docs/profile.md", path)
		}
	})
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	parse(t, example)
}
