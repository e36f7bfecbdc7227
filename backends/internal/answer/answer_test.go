package answer

import (
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// read has f read one value, as the only one of an event.
func read(a *Answer, value string, f func()) (wire.Decoded, error) {
	d := wire.Decoded{Completion: -1}
	a.Begin([]byte(value))
	f()
	return d, a.Finish([]byte(value), &d)
}

// TestValues are values as servers write them where each method reads one.
func TestValues(t *testing.T) {
	var a Answer
	text, ids := func() { a.Outputs(backends.KindText) }, func() { a.IDs() }
	raw, running := func() { a.OutputRaw(backends.KindTool) }, func() { a.Running() }
	for _, c := range []struct {
		name, value string
		read        func()
		kind        backends.Kind
		text        string
		ids, count  int
	}{
		{"text", `"a\u00e9"`, text, backends.KindText, "a\u00e9", 0, -1},
		{"texts", `["a",null,"","b"]`, text, backends.KindText, "ab", 0, -1},
		{"no text", `""`, text, 0, "", 0, -1},
		{"an object in place of text", `{"a":"b"}`, text, 0, "", 0, -1},
		{"an id", `7`, ids, backends.KindTokenIDs, "", 1, -1},
		{"ids", `[7,8]`, ids, backends.KindTokenIDs, "", 2, -1},
		{"no ids", `[]`, ids, 0, "", 0, -1},
		{"a text in place of ids", `"7"`, ids, 0, "", 0, -1},
		{"arguments", `{"a":1}`, raw, backends.KindTool, `{"a":1}`, 0, -1},
		{"arguments as text", `"{}"`, raw, backends.KindTool, "{}", 0, -1},
		{"no arguments", `null`, raw, 0, "", 0, -1},
		{"a running count", `3`, running, backends.KindUsageStep, "", 0, 3},
		{"a running count of nothing", `0`, running, 0, "", 0, 0},
		{"no count", `null`, running, 0, "", 0, -1},
	} {
		a.Reset()
		d, err := read(&a, c.value, c.read)
		if err != nil || d.Kind != c.kind || string(d.Text) != c.text || d.TokenIDs != c.ids || d.Completion != c.count {
			t.Errorf("%s: %+v, %v", c.name, d, err)
		}
	}
}

// TestCounts: what can't be a count is unknown, and said to be.
func TestCounts(t *testing.T) {
	for value, want := range map[string]int{"0": 0, "7": 7, "7.0": 7, "null": -1, "-1": -1, "1.5": -1, `"7"`: -1, "1e12": -1, "{}": -1} {
		var a Answer
		a.Reset()
		if _, err := read(&a, value, func() { a.Total(&a.Usage.Prompt) }); err != nil {
			t.Fatal(err)
		}
		sum := a.Sum()
		if sum.Usage.Prompt != want || (len(sum.Warnings) > 0) != (want < 0 && value != "null") {
			t.Errorf("%s counts %d, warned %v; want %d", value, sum.Usage.Prompt, sum.Warnings, want)
		}
	}
}

// TestFaults: an error is a value that says something.
func TestFaults(t *testing.T) {
	for value, want := range map[string]bool{"null": false, "false": false, `""`: false, "{}": false, "[]": false, "0": false, `"x"`: true, `{"message":"x"}`: true, "true": true, "500": true} {
		var a Answer
		a.Reset()
		d, err := read(&a, value, func() { a.Fault() })
		if err != nil || (d.Failure != "") != want {
			t.Errorf("%s: %q, %v", value, d.Failure, err)
		}
	}
}

// TestRunning: a running count grows by steps and never falls.
func TestRunning(t *testing.T) {
	var a Answer
	a.Reset()
	for i, c := range []struct {
		value string
		count int
		step  bool
	}{{"1", 1, true}, {"3", 3, true}, {"3", 3, false}, {"2", 3, false}, {"4", 4, true}} {
		d, err := read(&a, c.value, a.Running)
		if err != nil || d.Completion != c.count || (d.Kind&backends.KindUsageStep != 0) != c.step {
			t.Errorf("event %d: %+v, %v", i, d, err)
		}
	}
	if sum := a.Sum(); sum.Usage.Completion != 4 || !sum.Running {
		t.Errorf("%+v", sum)
	}
}

// TestZeroBesideOutput: a usage of 0 is not believed where output was seen.
func TestZeroBesideOutput(t *testing.T) {
	var a Answer
	a.Reset()
	if _, err := read(&a, `"a"`, func() { a.Output(backends.KindText) }); err != nil {
		t.Fatal(err)
	}
	a.Usage.Completion = 0
	if sum := a.Sum(); sum.Usage.Completion != -1 || len(sum.Warnings) != 1 {
		t.Errorf("%+v", sum)
	}
}

// TestReason is cut to what may be kept.
func TestReason(t *testing.T) {
	var a Answer
	for value, want := range map[string]string{`"stop"`: "stop", `"length"`: "length", `"a\tb"`: "a\tb", `""`: "", "null": "", "7": "", `"` + strings.Repeat("x", 100) + `"`: strings.Repeat("x", maxReason)} {
		a.Reset()
		if _, err := read(&a, value, func() { a.Reason() }); err != nil || a.Ended() != want {
			t.Errorf("%s: %q, %v, want %q", value, a.Ended(), err, want)
		}
	}
}
