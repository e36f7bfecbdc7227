package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/headway-bench/headway/loadgen/record"
)

// screen is the live view as a value: what Update makes of a message and what
// View draws depend on nothing but the value and the message.
type screen struct {
	title         string
	planned       int // rungs
	width, height int
	rungs         []screenRung
	watch         func() sample // of the rung that runs
	stats         record.LiveStats
	health        record.ClientHealth
	now           time.Duration // since the run began
	ending        bool          // an interrupt was seen
	closed        bool
}

// screenRung is one rung of the screen's list.
type screenRung struct {
	name       string
	start, end time.Duration // since the run began; end is 0 while it runs
	speed      trend         // output tokens per second
	result     record.Rung   // once it is done
}

// The messages that a screen takes beside those of the terminal.
type (
	// rungBegan opens a rung; watch is asked for its samples until it is done.
	rungBegan struct {
		name  string
		at    time.Duration
		watch func() sample
	}
	// sample is how a rung is doing.
	sample struct {
		rung   int // its number, from 0
		at     time.Duration
		stats  record.LiveStats
		health record.ClientHealth
	}
	// rungDone closes the rung that runs.
	rungDone struct {
		at     time.Duration
		result record.Rung
	}
	// runEnding says that the run was asked to end.
	runEnding struct{}
	// runClosed takes the view off the terminal.
	runClosed struct{}
)

// pollEvery is the time between two samples of a rung.
const pollEvery = 250 * time.Millisecond

// poll takes the next sample of a rung.
func poll(watch func() sample) tea.Cmd {
	return tea.Tick(pollEvery, func(time.Time) tea.Msg { return watch() })
}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case rungBegan:
		s.rungs = append(slices.Clone(s.rungs), screenRung{name: m.name, start: m.at})
		s.stats, s.health, s.now, s.watch = record.LiveStats{}, record.ClientHealth{}, m.at, m.watch
		return s, poll(s.watch)
	case sample:
		running, ok := s.running()
		if !ok || m.rung != len(s.rungs)-1 {
			return s, nil // the last sample of a rung that is done
		}
		running.speed = running.speed.add(m.stats.OutputTokPerS)
		s.rungs = append(slices.Clone(s.rungs[:m.rung]), running)
		s.stats, s.health, s.now = m.stats, m.health, m.at
		return s, poll(s.watch)
	case rungDone:
		if running, ok := s.running(); ok {
			running.end, running.result = m.at, m.result
			s.rungs = append(slices.Clone(s.rungs[:len(s.rungs)-1]), running)
		}
		s.now = m.at
	case runEnding:
		s.ending = true
	case runClosed:
		s.closed = true
		return s, tea.Quit
	}
	return s, nil
}

// running is the rung that runs.
func (s screen) running() (screenRung, bool) {
	if n := len(s.rungs); n > 0 && s.rungs[n-1].end == 0 {
		return s.rungs[n-1], true
	}
	return screenRung{}, false
}

// View implements tea.Model.
func (s screen) View() tea.View {
	if s.closed || s.width == 0 {
		return tea.NewView("")
	}
	lines := append(s.head(), s.list()...)
	for i, line := range lines {
		lines[i] = ansi.Truncate(strings.TrimRight(line, " "), s.width, "…")
	}
	return tea.NewView(strings.Join(lines, "\n"))
}

var (
	strong = ansi.NewStyle().Bold()
	alarm  = ansi.NewStyle().Bold().ForegroundColor(ansi.Red)
)

// head is the part of the screen about now.
func (s screen) head() []string {
	title := strong.Styled("headway " + s.title)
	if len(s.rungs) == 0 {
		return []string{title, "opening"}
	}
	place := fmt.Sprintf("rung %d of %d", len(s.rungs), max(s.planned, len(s.rungs)))
	running, ok := s.running()
	switch {
	case !ok:
		place += "  done"
	case s.ending:
		place += "  " + running.name + "  ending: waiting for what is in flight"
	default:
		place += "  " + running.name + "  " + phase(s.stats, minutes(s.stats.Left))
	}
	if left, ok := s.left(); ok && !s.ending {
		place += "  about " + minutes(left) + " in all"
	}
	errors := "none"
	if words := failureWords(s.stats); words != "" {
		errors = alarm.Styled(words)
	}
	return []string{
		title,
		place,
		"",
		fmt.Sprintf("  throughput  %10s req/s  %10s tok/s     in flight %d", number(s.stats.RequestsPerS), number(s.stats.OutputTokPerS), s.stats.InFlight),
		fmt.Sprintf("  p95         %10s ms TTFT  %8s ms ITL", figure(s.stats.TTFTP95MS), figure(s.stats.ITLP95MS)),
		"  errors      " + errors,
		"  client      " + s.client(),
		"",
	}
}

// busy is the share of its processors from which a client may be late.
const busy = 0.85

// client words how this machine is doing.
func (s screen) client() string {
	cpu := "-"
	if ratio, ok := s.health.CPURatio.Float(); ok {
		cpu = fmt.Sprintf("%.0f %%", ratio*100)
		if ratio > busy {
			cpu = alarm.Styled(cpu)
		}
	}
	return fmt.Sprintf("CPU %s  scheduling p99 %s ms  GC pause p99 %s ms", cpu,
		figure(s.health.SchedulingLatencyP99ms), figure(s.health.GCPauseP99ms))
}

// left estimates the time to the end of the plan, of the rungs that are done.
func (s screen) left() (time.Duration, bool) {
	var spent time.Duration
	done := 0
	for _, r := range s.rungs {
		if r.end > 0 {
			spent += r.end - r.start
			done++
		}
	}
	if done == 0 {
		return 0, false
	}
	each := spent / time.Duration(done)
	left := each * time.Duration(max(0, s.planned-done))
	if running, ok := s.running(); ok {
		left -= min(each, s.now-running.start)
	}
	return left, left > 0
}

// list is a line a rung, the last ones where the terminal is low.
func (s screen) list() []string {
	top := 0.0
	for _, r := range s.rungs {
		top = max(top, r.speed.most())
	}
	rungs := s.rungs
	if room := max(1, s.height-headLines-1); s.height > 0 && len(rungs) > room {
		rungs = rungs[len(rungs)-room:]
	}
	var lines []string
	for _, r := range rungs {
		line := fmt.Sprintf("  %-20s %-*s", r.name, trendCells, r.speed.spark(top))
		if r.end > 0 {
			line += fmt.Sprintf("  %s req/s  %s tok/s  p95 TTFT %s ms, ITL %s ms  %s", figure(r.result.RequestThroughputPerS),
				figure(r.result.OutputTokenThroughputPerS), figure(r.result.TTFT.P95), figure(r.result.ITL.P95), verdictWords(r.result))
		}
		lines = append(lines, line)
	}
	return lines
}

// headLines is the number of lines of head.
const headLines = 8

// verdictWords is a rung's verdict with its failures.
func verdictWords(r record.Rung) string {
	text := string(r.Verdict)
	if r.Verdict == record.Invalid {
		text = alarm.Styled(text)
	}
	if r.Requests.Failed > 0 {
		text += alarm.Styled(fmt.Sprintf("  %d failed", r.Requests.Failed))
	}
	return text
}

// minutes words a time to the second.
func minutes(d time.Duration) string { return d.Round(time.Second).String() }

// number words a figure with four digits.
func number(v float64) string { return fmt.Sprintf("%.4g", v) }

// trend is the course of one figure, in at most as many cells as a sparkline
// has: when they are full, two become one.
type trend struct {
	cells []float64
	each  int // values of a cell
	last  int // values of the last cell
}

// trendCells is the width of a sparkline.
const trendCells = 16

// add takes the next value and leaves the old trend as it was.
func (t trend) add(v float64) trend {
	cells := slices.Clone(t.cells)
	each, last := max(1, t.each), t.last
	switch {
	case len(cells) > 0 && last < each:
		n := len(cells) - 1
		cells[n] += (v - cells[n]) / float64(last+1)
		return trend{cells, each, last + 1}
	case len(cells) == trendCells:
		for i := range trendCells / 2 {
			cells[i] = (cells[2*i] + cells[2*i+1]) / 2
		}
		cells, each = cells[:trendCells/2], 2*each
	}
	return trend{append(cells, v), each, 1}
}

// most is the highest cell.
func (t trend) most() float64 {
	if len(t.cells) == 0 {
		return 0
	}
	return slices.Max(t.cells)
}

// spark draws the trend, a full block for top.
func (t trend) spark(top float64) string {
	blocks := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range t.cells {
		i := 0
		if top > 0 {
			i = min(len(blocks)-1, int(v/top*float64(len(blocks))))
		}
		b.WriteRune(blocks[max(0, i)])
	}
	return b.String()
}
