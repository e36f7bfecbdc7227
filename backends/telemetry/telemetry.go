// Package telemetry reads what servers and accelerators tell of themselves
// while a load runs: Prometheus pages of the engines, TensorRT-LLM's list of
// iterations, DCGM exporters and nvidia-smi. A scrape that fails is a gap and
// nothing else. Nothing here knows what a figure will prove.
package telemetry

import (
	"context"
	"math"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/headway-bench/headway/backends/clock"
)

// Source is one place that telemetry is read from.
type Source struct {
	// Name is how the source is reported; it holds no secret.
	Name string
	// Get returns the page as it now is.
	Get func(context.Context) ([]byte, error)

	parse func([]byte) (reading, error)
}

// Page is a metrics page of an engine or an exporter, which get fetches.
func Page(name string, get func(context.Context) ([]byte, error)) Source {
	return Source{Name: name, Get: get, parse: parsePage}
}

// smiQuery asks nvidia-smi for what parseSMI reads.
var smiQuery = []string{"--query-gpu=uuid,power.draw,utilization.gpu,memory.used", "--format=csv,noheader,nounits"}

// NvidiaSMI is the nvidia-smi of this machine; ok is false when there is none.
func NvidiaSMI() (s Source, ok bool) {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return Source{}, false
	}
	return Source{Name: "nvidia-smi", parse: parseSMI, Get: func(ctx context.Context) ([]byte, error) {
		return exec.CommandContext(ctx, path, smiQuery...).Output()
	}}, true
}

// Look is what one reading of a source shows.
type Look struct {
	// Kinds are the engines and exporters whose names it has, none for a page
	// without a known name.
	Kinds []string
	// Tells says in words what it tells of.
	Tells []string
	// KVTokens is how many tokens the KV cache holds, 0 unknown.
	KVTokens int
}

// Look reads the source once. Its error says that it can't be read.
func (s Source) Look(ctx context.Context) (Look, error) {
	page, err := s.Get(ctx)
	if err != nil {
		return Look{}, err
	}
	r, err := s.parse(page)
	if err != nil {
		return Look{}, err
	}
	return Look{Kinds: r.kinds, Tells: r.tells(), KVTokens: r.kvTokens}, nil
}

const (
	// Interval is the usual time between two scrapes of a source.
	Interval = 500 * time.Millisecond
	// timeout bounds a scrape.
	timeout = 2 * time.Second
	// settling and settleSteps are how long, and how often, a server may still
	// tell of running requests after the last has ended.
	settling    = 50 * time.Millisecond
	settleSteps = 10
	// maxReadings bounds what is kept of a source; beyond it every second
	// reading goes, and scrapes get rarer.
	maxReadings = 1 << 13
)

// Watch reads its sources again and again until it is stopped. It is not safe
// for concurrent use.
type Watch struct {
	ctx      context.Context
	cancel   context.CancelFunc
	interval time.Duration
	tracks   []*track
	wg       sync.WaitGroup
}

// Start reads every source once, and then again after each interval. It
// returns when each has answered or failed once, so that what comes after is
// counted in full.
func Start(ctx context.Context, sources []Source, interval time.Duration) *Watch {
	w := &Watch{ctx: ctx, interval: interval}
	polling, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	var first sync.WaitGroup
	for _, s := range sources {
		t := &track{source: s}
		w.tracks = append(w.tracks, t)
		first.Add(1)
		w.wg.Go(func() {
			pace := rate.NewLimiter(rate.Every(interval), 1)
			pace.Allow()
			t.whole = t.scrape(polling)
			first.Done()
			t.poll(polling, pace)
		})
	}
	first.Wait()
	return w
}

// Stop reads every source for the last time and returns the figures of the
// window from start to before end, on package clock. Servers that still tell
// of running requests are asked again for half a second.
func (w *Watch) Stop(start, end int64) Figures {
	w.cancel()
	w.wg.Wait()
	for _, t := range w.tracks {
		w.wg.Go(func() { t.whole = t.settle(w.ctx) && t.whole })
	}
	w.wg.Wait()
	return figures(w.tracks, start, end, w.interval)
}

// track is what one source has told.
type track struct {
	source            Source
	readings          []reading
	scrapes, failures int64
	ended             float64 // requests, of a source that does not count them
	// whole says that the first scrape and the last one worked.
	whole bool
}

// poll scrapes at the pace until the context ends.
func (t *track) poll(ctx context.Context, pace *rate.Limiter) {
	for pace.Wait(ctx) == nil {
		t.scrape(ctx)
		if len(t.readings) >= maxReadings {
			t.thin()
			pace.SetLimit(pace.Limit() / 2)
		}
	}
}

// settle scrapes until the server tells of no request that runs or waits, and
// says whether the last scrape worked.
func (t *track) settle(ctx context.Context) bool {
	pace := rate.NewLimiter(rate.Every(settling), 1)
	for range settleSteps {
		if pace.Wait(ctx) != nil || !t.scrape(ctx) {
			return false
		}
		last := t.readings[len(t.readings)-1]
		if !(last.values[running] > 0) && !(last.values[waiting] > 0) {
			return true
		}
	}
	return true
}

// scrape reads the source once and says whether that worked. A scrape that
// was called off counts as none.
func (t *track) scrape(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	asked := clock.Now()
	page, err := t.source.Get(limited)
	answered := clock.Now()
	if ctx.Err() != nil {
		return false
	}
	t.scrapes++
	var r reading
	if err == nil {
		r, err = t.source.parse(page)
	}
	if err != nil {
		t.failures++
		return false
	}
	r.at = asked + (answered-asked)/2
	if !math.IsNaN(r.ended) {
		if len(t.readings) > 0 { // the first page tells of what was before
			t.ended += r.ended
		}
		r.values[requests] = t.ended
	}
	t.readings = append(t.readings, r)
	return true
}

// thin drops every second reading but the first and the last.
func (t *track) thin() {
	kept := t.readings[:1]
	for i := 2; i < len(t.readings)-1; i += 2 {
		kept = append(kept, t.readings[i])
	}
	t.readings = append(kept, t.readings[len(t.readings)-1])
}

// fill sets the counters to 0 that stand on no page before some later one:
// exporters make a counter when it is first used. What a list of iterations
// lacks is not known.
func (t *track) fill() {
	for q := counters; q < quantities; q++ {
		first := slices.IndexFunc(t.readings, func(r reading) bool { return !math.IsNaN(r.values[q]) })
		for i := range max(first, 0) {
			if math.IsNaN(t.readings[i].ended) {
				t.readings[i].values[q] = 0
			}
		}
	}
}

// named is the source with the kinds of what it told.
func (t *track) named() string {
	var kinds []string
	for _, r := range t.readings {
		for _, k := range r.kinds {
			if !slices.Contains(kinds, k) && k != t.source.Name {
				kinds = append(kinds, k)
			}
		}
	}
	if len(kinds) == 0 {
		return t.source.Name
	}
	return t.source.Name + " (" + strings.Join(kinds, ", ") + ")"
}

// devices are the ids of the accelerators that the source tells of.
func (t *track) devices() []string {
	var ids []string
	for _, r := range t.readings {
		for _, g := range r.gpus {
			if !slices.Contains(ids, g.id) {
				ids = append(ids, g.id)
			}
		}
	}
	return ids
}
