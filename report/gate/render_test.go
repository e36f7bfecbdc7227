package gate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
)

// hostile is a verdict whose every text tries to break out of its format.
func hostile() Verdict {
	const evil = "a<script>alert(1)</script>|`*_\"'&]]>\n\x00\x1b[31m\u202e\xff end"
	v := newVerdict("slo")
	for _, s := range []Status{Pass, Fail, Inconclusive, Usage} {
		v.add(Check{Name: evil, Load: evil, Status: s, Unit: "ms", Value: record.Known(1), Message: evil + strings.Repeat("x", 1<<20)})
	}
	v.warn("evil", "%s", evil)
	return v
}

func TestJUnitIsWellFormed(t *testing.T) {
	var b bytes.Buffer
	if err := Render(&b, hostile(), "junit"); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 20_000 {
		t.Errorf("%d bytes: long text is not cut", b.Len())
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
	}
	var got junitSuites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 5 || got.Failures != 1 || got.Errors != 2 || len(got.Suite.Cases) != 5 {
		t.Errorf("counts %+v", got)
	}
	if name := got.Suite.Cases[0].Name; !strings.Contains(name, "<script>") {
		t.Errorf("text was lost: %q", name)
	}
}

// Of several results each check and note names its own, in every format.
func TestVerdictOfAResult(t *testing.T) {
	v := newVerdict("slo")
	v.add(Check{Name: "ttft_p95", Load: "concurrency=8", Status: Fail, Message: "900 ms is over the limit"})
	v.warn("errors", "some failed")
	named := Join(v.Of("run/a"), v.Of("run/b"))
	if v.Checks[0].Result != "" || v.Warnings[0].Message != "some failed" {
		t.Errorf("the verdict itself was changed: %+v", v)
	}
	for _, format := range Formats {
		var b bytes.Buffer
		if err := Render(&b, named, format); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"run/a", "run/b"} {
			if n := strings.Count(b.String(), name); n < 2 {
				t.Errorf("%s names %s %d times:\n%s", format, name, n, b.String())
			}
		}
	}
}

// A verdict that is worse than its checks has a red case of its own.
func TestJUnitShowsAnInvalidMeasurement(t *testing.T) {
	v := newVerdict("slo")
	v.add(Check{Name: "ttft_p95", Status: Pass})
	v.raise(Invalid)
	v.warn("send_lag", "sent late")
	var b bytes.Buffer
	if err := Render(&b, v, "junit"); err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Errors != 1 || got.Suite.Cases[1].Error == nil {
		t.Errorf("got %s", b.String())
	}
}

func TestMarkdownEscapes(t *testing.T) {
	var b bytes.Buffer
	if err := Render(&b, hostile(), "markdown"); err != nil {
		t.Fatal(err)
	}
	s := b.String()
	if strings.Contains(s, "<script") {
		t.Error("HTML passes through")
	}
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		bars := strings.Count(line, "|") - strings.Count(line, "\\|")
		if bars != 8 {
			t.Errorf("a row has %d bars: %q", bars, line)
		}
	}
}

func TestJSONIsTheVerdict(t *testing.T) {
	var b bytes.Buffer
	if err := Render(&b, hostile(), "json"); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Status   Status
		ExitCode int `json:"exit_code"`
		Checks   []struct{ Lo *float64 }
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Status != Usage || got.ExitCode != 2 || len(got.Checks) != 4 || got.Checks[0].Lo != nil {
		t.Errorf("got %+v", got)
	}
}

func TestUnknownFormat(t *testing.T) {
	if err := Render(io.Discard, Verdict{}, "yaml"); err == nil {
		t.Error("an unknown format is accepted")
	}
}
