package main

import (
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
)

// view shows a run on a terminal. It reads no keys, so that an interrupt stays
// a signal, and leaves the terminal as it was.
type view struct {
	program *tea.Program
	plain   io.Writer // takes the notes when the program has ended
	start   time.Time
	seen    int           // rungs begun
	ended   chan struct{} // closed when the program has ended
}

// newView takes the terminal until close.
func newView(w *os.File, title string, rungs int) *view {
	v := &view{plain: w, start: time.Now(), ended: make(chan struct{})}
	v.program = tea.NewProgram(screen{title: printable(title), planned: rungs},
		tea.WithOutput(w), tea.WithInput(nil), tea.WithoutSignalHandler(), tea.WithFPS(framesPerS))
	go func() {
		defer close(v.ended)
		// A view that can't be drawn is no reason to end a run: the notes go on
		// as plain lines.
		_, _ = v.program.Run()
	}()
	return v
}

// framesPerS bounds how often the screen is drawn: it costs the client's CPU.
const framesPerS = 10

func (v *view) rung(target string, r loadgen.Rung, recorder *record.Recorder) {
	number := v.seen
	v.seen++
	meter := record.StartHealth()
	v.program.Send(rungBegan{name: target + loadOf(r), at: time.Since(v.start), watch: func() sample {
		health := meter.Stop()
		meter = record.StartHealth()
		return sample{rung: number, at: time.Since(v.start), stats: recorder.Live(clock.Now()), health: health}
	}})
}

func (v *view) done(_ string, r record.Rung) {
	v.program.Send(rungDone{at: time.Since(v.start), result: r})
}

func (v *view) ending(text string) {
	v.program.Send(runEnding{})
	v.note(text)
}

// note prints a line that stays above the view.
func (v *view) note(text string) {
	select {
	case <-v.ended:
		plainLine(v.plain, text)
	default:
		v.program.Send(tea.Println(printable(text))())
	}
}

func (v *view) close() {
	v.program.Send(runClosed{})
	<-v.ended
}
