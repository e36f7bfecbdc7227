package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/headway-bench/headway/loadgen/record"
)

// play draws a screen after messages, and fails when taking one changed the
// value before it.
func play(t *testing.T, s screen, messages ...tea.Msg) (screen, string) {
	t.Helper()
	for _, m := range messages {
		before := s.View().Content
		next, _ := s.Update(m)
		if after := s.View().Content; after != before {
			t.Errorf("%T changed the value that it was given:\n%s\n%s", m, before, after)
		}
		s = next.(screen)
	}
	return s, s.View().Content
}

// live is a rung that does so many tokens a second.
func live(rung int, at time.Duration, tokens float64, change func(*sample)) sample {
	m := sample{rung: rung, at: at, stats: record.LiveStats{InFlight: 4, RequestsPerS: tokens / 10, OutputTokPerS: tokens,
		TTFTP95MS: record.Known(52.31), ITLP95MS: record.Known(10.04), Measuring: true, Left: 12 * time.Second},
		health: record.ClientHealth{CPURatio: record.Known(0.12), SchedulingLatencyP99ms: record.Known(0.0721)}}
	if change != nil {
		change(&m)
	}
	return m
}

func begins(name string, at time.Duration) rungBegan {
	return rungBegan{name: name, at: at, watch: func() sample { return sample{} }}
}

func ends(at time.Duration, tokens float64, change func(*record.Rung)) rungDone {
	r := record.Rung{Verdict: record.Valid, RequestThroughputPerS: record.Known(tokens / 10), OutputTokenThroughputPerS: record.Known(tokens)}
	r.TTFT.P95 = record.Known(52.3)
	if change != nil {
		change(&r)
	}
	return rungDone{at: at, result: r}
}

func TestScreen(t *testing.T) {
	wide, low := tea.WindowSizeMsg{Width: 100, Height: 24}, tea.WindowSizeMsg{Width: 48, Height: 11}
	first := []tea.Msg{begins("concurrency 1", 0), live(0, time.Second, 50, nil), live(0, 2*time.Second, 100, nil)}
	second := append(append([]tea.Msg{}, first...), ends(20*time.Second, 100, nil),
		begins("concurrency 2", 20*time.Second), live(1, 25*time.Second, 200, nil))
	third := append(append([]tea.Msg{}, second...),
		ends(40*time.Second, 190, func(r *record.Rung) { r.Verdict, r.Requests.Failed = record.Invalid, 3 }),
		begins("concurrency 4", 40*time.Second))
	for _, c := range []struct {
		name     string
		messages []tea.Msg
	}{
		{"unsized", nil},
		{"opening", []tea.Msg{wide}},
		{"warm-up", []tea.Msg{wide, begins("concurrency 1", 0), live(0, time.Second, 50, func(m *sample) { m.stats.Measuring = false })}},
		{"measuring", append([]tea.Msg{wide}, first...)},
		{"second rung", append([]tea.Msg{wide}, second...)},
		{"errors and a busy client", append(append([]tea.Msg{wide}, third...), live(2, 45*time.Second, 20, func(m *sample) {
			m.stats.Failures = map[string]int64{"truncated": 2, "http_5xx": 7}
			m.health.CPURatio = record.Known(0.93)
		}))},
		{"narrow and low", append(append([]tea.Msg{}, third...), low, live(2, 45*time.Second, 300, nil))},
		{"ending", append(append([]tea.Msg{wide}, second...), runEnding{})},
		{"late sample of a rung that is done", append(append([]tea.Msg{wide}, first...), ends(20*time.Second, 100, nil), live(0, 21*time.Second, 900, nil))},
		{"more rungs than planned", append(append([]tea.Msg{wide}, third...), ends(60*time.Second, 200, nil),
			begins("concurrency 3", 60*time.Second), live(3, 61*time.Second, 150, nil))},
		{"closed", append(append([]tea.Msg{wide}, second...), runClosed{})},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got := play(t, screen{title: "chat", planned: 3}, c.messages...)
			golden(t, "screen/"+strings.ReplaceAll(c.name, " ", "-"), strings.ReplaceAll(got, "\x1b", "^"))
			for _, line := range strings.Split(ansi.Strip(got), "\n") {
				if strings.HasSuffix(c.name, "low") && ansi.StringWidth(line) > 48 {
					t.Errorf("%q is wider than its terminal", line)
				}
			}
		})
	}
}

// golden holds a text to a file; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name)+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got+"\n"); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

// A rung is asked for samples as long as it runs and no longer.
func TestScreenPollsTheRunningRung(t *testing.T) {
	s, _ := play(t, screen{planned: 2}, tea.WindowSizeMsg{Width: 80, Height: 24})
	for _, c := range []struct {
		name  string
		msg   tea.Msg
		polls bool
	}{
		{"begins", begins("concurrency 1", 0), true},
		{"sample", live(0, time.Second, 10, nil), true},
		{"done", ends(2*time.Second, 10, nil), false},
		{"late sample", live(0, 3*time.Second, 10, nil), false},
		{"next begins", begins("concurrency 2", 3*time.Second), true},
		{"sample of the one before", live(0, 4*time.Second, 10, nil), false},
		{"its own", live(1, 4*time.Second, 10, nil), true},
	} {
		next, cmd := s.Update(c.msg)
		if (cmd != nil) != c.polls {
			t.Errorf("%s: asks for a further sample: %v, want %v", c.name, cmd != nil, c.polls)
		}
		s = next.(screen)
	}
}

// A trend holds any number of values in its cells and keeps their mean.
func TestTrend(t *testing.T) {
	var tr trend
	for i := range 1000 {
		tr = tr.add(float64(i))
		if len(tr.cells) > trendCells {
			t.Fatalf("%d cells after %d values", len(tr.cells), i+1)
		}
	}
	for i := 1; i < len(tr.cells); i++ {
		if tr.cells[i] <= tr.cells[i-1] {
			t.Errorf("rising values give cells %v", tr.cells)
		}
	}
	if got := (trend{cells: []float64{0, 1, 4, 8, 12}}).spark(8); got != "▁▂▅██" {
		t.Errorf("spark %s", got)
	}
	if got := (trend{cells: []float64{0, 0}}).spark(0); got != "▁▁" {
		t.Errorf("spark of nothing %s", got)
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("model \x1b[2Jm\u202eevil\r\n  next\a"); got != "model [2Jmevil\n  next" {
		t.Errorf("%q", got)
	}
}

func TestPhase(t *testing.T) {
	for want, s := range map[string]record.LiveStats{
		"warm-up":            {Left: time.Second},
		"3 s left":           {Measuring: true, Left: 3 * time.Second},
		"12 requests to go":  {Measuring: true, Missing: 12},
		"percentiles settle": {Measuring: true, Settling: true},
	} {
		if got := phase(s, fmt.Sprintf("%.0f s", s.Left.Seconds())); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
