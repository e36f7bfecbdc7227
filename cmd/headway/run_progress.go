package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// progress shows a run on stderr while it runs. Its methods may be called from
// any goroutine.
type progress interface {
	// rung is told of each rung as it starts.
	rung(loadgen.Rung, *record.Recorder)
	// done is told of each rung's figures.
	done(record.Rung)
	// note shows one line.
	note(string)
	close()
}

// progress chooses how the run is shown.
func (f *runFlags) progress(cmd *cobra.Command, _ *profiles.Profile, rungs int) progress {
	if f.quiet {
		return silence{}
	}
	return newLines(cmd.ErrOrStderr(), rungs)
}

// silence shows nothing.
type silence struct{}

func (silence) rung(loadgen.Rung, *record.Recorder) {}
func (silence) done(record.Rung)                    {}
func (silence) note(string)                         {}
func (silence) close()                              {}

// lines shows a run as plain lines.
type lines struct {
	rungs int // planned

	mu   sync.Mutex
	w    io.Writer
	stop chan struct{} // ends the ticker of the rung that runs
	seen int
}

func newLines(w io.Writer, rungs int) *lines { return &lines{w: w, rungs: rungs} }

// lineEvery is the time between two lines of one rung.
const lineEvery = 2 * time.Second

func (l *lines) rung(r loadgen.Rung, recorder *record.Recorder) {
	l.halt()
	l.mu.Lock()
	l.seen++
	name := fmt.Sprintf("rung %d/%d %s", l.seen, max(l.rungs, l.seen), loadOf(r))
	stop := make(chan struct{})
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

func (l *lines) done(r record.Rung) {
	l.halt()
	text := fmt.Sprintf("rung %d/%d done  %s req/s  %s tok/s  TTFT p95 %s ms  %d failed  %s", r.Index+1, max(l.rungs, r.Index+1),
		figure(r.RequestThroughputPerS), figure(r.OutputTokenThroughputPerS), figure(r.TTFT.P95), r.Requests.Failed, r.Verdict)
	for _, reason := range r.Reasons {
		text += "\n  " + reason.Message
	}
	l.note(text)
}

func (l *lines) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A progress line that can't be written is no reason to end a run.
	_, _ = fmt.Fprintln(l.w, text)
}

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

// liveLine words how a rung is doing.
func liveLine(s record.LiveStats) string {
	phase := "warm-up"
	if s.Measuring {
		phase = fmt.Sprintf("%.0f s left", s.Left.Seconds())
	}
	text := fmt.Sprintf("%s  in flight %d  %.4g req/s  %.4g tok/s  TTFT p95 %s ms", phase, s.InFlight,
		s.RequestsPerS, s.OutputTokPerS, figure(s.TTFTP95MS))
	if len(s.Failures) == 0 {
		return text + "  0 errors"
	}
	var failures []string
	for class, n := range s.Failures {
		failures = append(failures, fmt.Sprintf("%s %d", class, n))
	}
	slices.Sort(failures)
	return text + "  errors: " + strings.Join(failures, ", ")
}

// figure words a number with four digits, or "-" when it is unknown.
func figure(v record.Value) string {
	n, ok := v.Float()
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.4g", n)
}
