package render_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/bundle/bundletest"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/render"
)

const evil = "</script><script>alert(1)</script>|`x` **b** [l](http://192.0.2.1) @all \x1b[31mred \u202eabc\n# h"

// variants are results of all shapes that a table has to hold.
func variants() map[string]*bundle.Result {
	open := bundletest.Result()
	for i := range open.Rungs {
		g := &open.Rungs[i]
		g.Mode, g.Concurrency, g.RatePerS = record.Open, 0, record.Known(float64(i)*1234.56+0.25)
	}
	open.Knee.RatePerS, open.Knee.RateCI95 = record.Known(1290.5), &[2]record.Value{record.Known(1200), record.Known(1333)}
	hostile := bundletest.Result()
	hostile.Profile.Name, hostile.Profile.Model.ID = evil, evil+strings.Repeat("x", 1<<20)
	hostile.Warnings = []bundle.Warning{{Code: "x", Message: evil}}
	hostile.Rungs[1].Verdict, hostile.Rungs[1].Reasons = record.Invalid, []record.Reason{reason(evil)}
	huge := bundletest.Result()
	for i := range huge.Rungs {
		g := &huge.Rungs[i]
		g.OutputTokenThroughputPerS, g.RequestThroughputPerS = record.Known(98765432.1), record.Known(0.000123)
		g.TTFT.P95, g.E2E.P95, g.Elasticity = record.Known(3599999.9), record.Known(1e7), record.Known(-12.345)
		g.Concurrency = 100_000
	}
	empty := bundletest.Result()
	empty.Rungs, empty.Knee, empty.Status = nil, knee.Knee{Status: knee.Insufficient}, bundle.Failed
	empty.OperatingPoint, empty.Peak, empty.SingleUser = bundle.Point{Status: knee.PointNone}, bundle.Point{Status: knee.PointNone}, bundle.Point{Status: knee.PointNone}
	doubtful := bundletest.Result()
	for i := range doubtful.Rungs {
		doubtful.Rungs[i].Verdict = record.Inconclusive
	}
	limits, _ := doubtful.Profile.SLO.List()
	doubtful.OperatingPoint = knee.OperatingPoint(doubtful.Rungs, limits, knee.Economics{})
	doubtful.Knee.Warnings = []record.Reason{reason("every rung is inconclusive")}
	doubtful.Rungs = append(doubtful.Rungs, huge.Rungs...)
	bare := bundletest.Result()
	bare.Profile = profiles.Profile{APIVersion: profiles.APIVersion, Name: "bare"}
	bare.Rungs = []record.Rung{{Mode: record.Offline, Verdict: record.Inconclusive}}
	return map[string]*bundle.Result{"closed": bundletest.Result(), "open": open, "hostile": hostile, "huge numbers": huge, "empty": empty, "bare": bare, "inconclusive": doubtful}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestTableFits(t *testing.T) {
	for name, r := range variants() {
		for _, width := range []int{80, 120} {
			for _, color := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", width, " ", color), func(t *testing.T) {
					var b bytes.Buffer
					if err := render.Table(&b, r, render.Options{Width: width, Color: color}); err != nil {
						t.Fatal(err)
					}
					if !color && strings.Contains(b.String(), "\x1b") {
						t.Error("an escape sequence without colour")
					}
					for line := range strings.Lines(escapes.ReplaceAllString(b.String(), "")) {
						line = strings.TrimRight(line, "\n")
						if n := utf8.RuneCountInString(line); n > width {
							t.Errorf("%d columns: %s", n, line[:min(len(line), 200)])
						}
					}
					again := bytes.Buffer{}
					render.Table(&again, r, render.Options{Width: width, Color: color})
					if !bytes.Equal(b.Bytes(), again.Bytes()) {
						t.Error("the same result gives other bytes")
					}
				})
			}
		}
	}
}

// Every form says how load was offered, for how long, and the limits; the page
// tells repeats apart and says a status once.
func TestRunConditionsAreSaid(t *testing.T) {
	closed := bundletest.Result()
	closed.Rungs[7].Repeat = 1
	closed.Knee.Status = knee.NotReached
	open := variants()["open"]
	open.Profile.Load = profiles.Load{Open: &profiles.OpenLoad{Rate: []float64{1}, Arrivals: "poisson"}}
	open.Profile.Stage.Warmup = profiles.Warmup{Fixed: profiles.Duration(5e9)}
	traced := variants()["open"]
	traced.Profile.Load = profiles.Load{Open: &profiles.OpenLoad{Trace: &profiles.Trace{File: "t.jsonl"}}}
	ramp := variants()["open"]
	ramp.Profile.Load = profiles.Load{Open: &profiles.OpenLoad{Ramp: &profiles.Ramp{From: 1, To: 9, Over: profiles.Duration(6e10)}}}
	ramp.Rungs = ramp.Rungs[:1]
	ramp.Rungs[0].RatePerS = record.Value{}
	html := func(b *bytes.Buffer, r *bundle.Result) error { return render.HTML(b, &bundle.Bundle{Result: r}) }
	table := func(b *bytes.Buffer, r *bundle.Result) error { return render.Table(b, r, render.Options{}) }
	for _, tt := range []struct {
		name  string
		write func(*bytes.Buffer, *bundle.Result) error
		r     *bundle.Result
		want  string
	}{
		{"table, closed loop", table, closed, "closed loop, warm-up auto, windows of at least 1m and 200 requests, repeats 1, limits itl_p95<=50ms, ttft_p95<=500ms"},
		{"markdown, open loop", func(b *bytes.Buffer, r *bundle.Result) error { return render.Markdown(b, r) }, open, "open loop, poisson arrivals, warm-up 5s"},
		{"table, trace", table, traced, "open loop, arrivals of a trace, repeats 1"},
		{"table, ramp", table, ramp, "verdict flight tok/s /user p50 p95 p95 p95 % ticity p50 ms ms ms ms varied"},
		{"page, closed loop", html, closed, "closed loop, warm-up auto, windows of at least 1m and 200 requests"},
		{"page, a repeat", html, closed, "<td>128, repeat 2</td><td class=\"text\">TTFT, ms</td>"},
		{"page, a knee that was not reached", html, closed, "<bdi>throughput still grows at the highest load; add higher loads"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := tt.write(&b, tt.r); err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(text, tt.want) {
				t.Errorf("it lacks %q:\n%.600s", tt.want, text)
			}
		})
	}
}

// A verdict has one word in every form, and what no valid rung shows is marked.
func TestInconclusiveIsSaid(t *testing.T) {
	r := variants()["inconclusive"]
	for name, write := range map[string]func(*bytes.Buffer) error{
		"80 columns":  func(b *bytes.Buffer) error { return render.Table(b, r, render.Options{Width: 80}) },
		"120 columns": func(b *bytes.Buffer) error { return render.Table(b, r, render.Options{Width: 120}) },
		"markdown":    func(b *bytes.Buffer) error { return render.Markdown(b, r) },
		"html":        func(b *bytes.Buffer) error { return render.HTML(b, &bundle.Bundle{Result: r}) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		for _, want := range []string{"inconclusive", "INCONCLUSIVE: no valid rung shows it", "every rung is inconclusive"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		if strings.Contains(text, "unclear") {
			t.Errorf("%s calls an inconclusive rung unclear", name)
		}
	}
}

func TestEveryFormatTakesEveryResult(t *testing.T) {
	for name, r := range variants() {
		t.Run(name, func(t *testing.T) {
			for format, write := range map[string]func(*bytes.Buffer) error{
				"markdown": func(b *bytes.Buffer) error { return render.Markdown(b, r) },
				"csv":      func(b *bytes.Buffer) error { return render.CSV(b, &bundle.Bundle{Result: r}) },
				"json":     func(b *bytes.Buffer) error { return render.JSON(b, r) },
				"html":     func(b *bytes.Buffer) error { return render.HTML(b, &bundle.Bundle{Result: r}) },
			} {
				var once, twice bytes.Buffer
				if err := errors.Join(write(&once), write(&twice)); err != nil {
					t.Fatalf("%s: %v", format, err)
				}
				if !bytes.Equal(once.Bytes(), twice.Bytes()) {
					t.Errorf("%s: the same result gives other bytes", format)
				}
				if strings.Contains(once.String(), "NaN") && format != "html" {
					t.Errorf("%s holds NaN", format)
				}
			}
		})
	}
}

func TestMarkdownEscapes(t *testing.T) {
	var b bytes.Buffer
	if err := render.Markdown(&b, variants()["hostile"]); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "](http:/", "**b**", "\x1b", "\u202e", "@all", "\n# h"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("Markdown holds %q", bad)
		}
	}
	var clean bytes.Buffer
	if err := render.Markdown(&clean, bundletest.Result()); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.md", clean.Bytes())
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := render.CSV(&b, &bundle.Bundle{Result: bundletest.Result()}); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.csv", b.Bytes())
	rows, err := csv.NewReader(bytes.NewReader(b.Bytes())).ReadAll()
	if err != nil || len(rows) != 1+len(bundletest.Loads) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
}

func TestJSONIsResultJSON(t *testing.T) {
	var one, two bytes.Buffer
	r := bundletest.Result()
	if err := render.JSON(&one, r); err != nil {
		t.Fatal(err)
	}
	if want, _ := bundle.Encode(r); !bytes.Equal(one.Bytes(), want) {
		t.Error("JSON differs from result.json")
	}
	if err := render.JSONArray(&two, []*bundle.Result{r, r}); err != nil {
		t.Fatal(err)
	}
	if all, err := bundle.Read(&two, "array"); err != nil || len(all) != 2 {
		t.Errorf("%d results in the array, %v", len(all), err)
	}
}

func TestPublish(t *testing.T) {
	if err := render.Publish(bundletest.Result()); err != nil {
		t.Errorf("a result that names everything: %v", err)
	}
	r := bundletest.Result()
	r.Profile.Hardware = profiles.Hardware{Accelerator: profiles.Unknown}
	r.Profile.Precision.KVCache = ""
	r.Server.Version, r.Profile.Serving.Version = "", "auto"
	var missing *render.UnknownFieldsError
	err := render.Publish(r)
	if !errors.As(err, &missing) {
		t.Fatalf("%v, want UnknownFieldsError", err)
	}
	want := "hardware.accelerator hardware.count precision.kv_cache serving.version"
	if got := strings.Join(missing.Fields, " "); got != want {
		t.Errorf("unknown %s, want %s", got, want)
	}
	for _, f := range missing.Fields {
		if !strings.Contains(err.Error(), f) {
			t.Errorf("%q does not name %s", err, f)
		}
	}
}
