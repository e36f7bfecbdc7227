package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// progress shows a run on stderr while it runs. note and ending may be called
// from any goroutine.
type progress interface {
	// rung is told of each rung as it starts. target is in front of its name:
	// "" where there is one target only.
	rung(target string, r loadgen.Rung, recorder *record.Recorder)
	// done is told of the figures of the rung that started last.
	done(target string, r record.Rung)
	// ending is told that the run was asked to end.
	ending(text string)
	// note shows one line.
	note(text string)
	close()
}

// progress chooses how the run is shown: as a live view on a terminal, else as
// plain lines.
func (f *runFlags) progress(cmd *cobra.Command, p *profiles.Profile, rungs int) progress {
	stderr := cmd.ErrOrStderr()
	if f.quiet {
		return silence{}
	}
	if _, terminal := terminalWidth(stderr); terminal && !f.noView && os.Getenv("TERM") != "dumb" {
		return newView(stderr.(*os.File), p.Name, rungs)
	}
	return newLines(stderr, rungs)
}

// printable drops what would move the cursor of a terminal or fool its reader
// from a text that a server may have written.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)) {
			return -1
		}
		return c
	}, text)
}

// plainLine prints one line. One that can't be written is no reason to end a
// run.
func plainLine(w io.Writer, text string) { _, _ = fmt.Fprintln(w, printable(text)) }

// noteWriter notes each line that is written to it.
type noteWriter struct {
	note func(string)
	rest []byte // of a line that has not ended
}

// maxNote bounds a line that is noted, in bytes.
const maxNote = 4 << 10

func (w *noteWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 && len(w.rest) < maxNote {
			return len(p), nil
		}
		if end < 0 {
			end = len(w.rest) - 1
		}
		w.note(strings.TrimSuffix(string(w.rest[:end+1]), "\n"))
		w.rest = w.rest[end+1:]
	}
}

// silence shows nothing.
type silence struct{}

func (silence) rung(string, loadgen.Rung, *record.Recorder) {}
func (silence) done(string, record.Rung)                    {}
func (silence) ending(string)                               {}
func (silence) note(string)                                 {}
func (silence) close()                                      {}

// lines shows a run as plain lines.
type lines struct {
	rungs int // planned, over all targets
	seen  int // begun

	mu   sync.Mutex
	w    io.Writer
	stop chan struct{} // ends the ticker of the rung that runs
}

func newLines(w io.Writer, rungs int) *lines { return &lines{w: w, rungs: rungs} }

// lineEvery is the time between two lines of one rung.
const lineEvery = 2 * time.Second

func (l *lines) rung(target string, r loadgen.Rung, recorder *record.Recorder) {
	l.halt()
	l.seen++
	name := l.place() + " " + target + loadOf(r)
	stop := make(chan struct{})
	l.mu.Lock()
	l.stop = stop
	l.mu.Unlock()
	go func() {
		tick := time.NewTicker(lineEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.note(name + "  " + liveLine(recorder.Live(clock.Now())))
			case <-stop:
				return
			}
		}
	}()
}

// place is the rung that started last among those planned.
func (l *lines) place() string { return fmt.Sprintf("rung %d/%d", l.seen, max(l.rungs, l.seen)) }

func (l *lines) done(target string, r record.Rung) {
	l.halt()
	text := fmt.Sprintf("%s %sdone  %s req/s  %s tok/s  TTFT p95 %s ms  %d failed  %s", l.place(), target, figure(r.RequestThroughputPerS), figure(r.OutputTokenThroughputPerS), figure(r.TTFT.P95), r.Requests.Failed, r.Verdict)
	if words := r.Requests.FailureText(); words != "" {
		text += "\n  errors: " + words
	}
	for _, reason := range r.Reasons {
		text += "\n  " + reason.Message
	}
	l.note(text)
}

func (l *lines) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	plainLine(l.w, text)
}

func (l *lines) ending(text string) { l.note(text) }

func (l *lines) close() { l.halt() }

// halt ends the lines of the rung that runs.
func (l *lines) halt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		close(l.stop)
		l.stop = nil
	}
}

// loadOf words what a rung offers.
func loadOf(r loadgen.Rung) string {
	switch r.Mode {
	case record.Closed:
		return fmt.Sprintf("concurrency %d", r.Users)
	case record.Offline:
		return fmt.Sprintf("%d requests at once", r.Limit)
	}
	if r.Rate == 0 {
		return "ramp"
	}
	return fmt.Sprintf("%.4g req/s", r.Rate)
}

// phase words where a rung is: in its warm-up, or what its window waits for,
// which is the time left until that has passed.
func phase(s record.LiveStats, left string) string {
	switch {
	case !s.Measuring:
		return "warm-up"
	case s.Missing > 0:
		return fmt.Sprintf("%d requests to go", s.Missing)
	case s.Settling:
		return "percentiles settle"
	}
	return left + " left"
}

// liveLine words how a rung is doing.
func liveLine(s record.LiveStats) string {
	text := fmt.Sprintf("%s  in flight %d  %.4g req/s  %.4g tok/s  TTFT p95 %s ms", phase(s, fmt.Sprintf("%.0f s", s.Left.Seconds())), s.InFlight,
		s.RequestsPerS, s.OutputTokPerS, figure(s.TTFTP95MS))
	words := failureWords(s)
	if words == "" {
		return text + "  0 errors"
	}
	return text + "  errors: " + words
}

// failureWords words how many requests of each class failed so far, "" for
// none.
func failureWords(s record.LiveStats) string {
	counts := record.Requests{Failures: s.Failures}
	return counts.FailureText()
}

// figure words a number with four digits, or "-" when it is unknown.
func figure(v record.Value) string {
	n, ok := v.Float()
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.4g", n)
}
