package telemetry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// script answers scrape after scrape; an empty page is a failure, and the last
// one is repeated.
func script(pages ...string) func(context.Context) ([]byte, error) {
	n := 0
	return func(ctx context.Context) ([]byte, error) {
		page := pages[min(n, len(pages)-1)]
		n++
		if page == "" {
			return nil, errors.New("no answer")
		}
		return []byte(page), nil
	}
}

func vllmPage(requests, busy int) string {
	return fmt.Sprintf("vllm:request_success_total %d\nvllm:num_requests_running %d\n", requests, busy)
}

// TestWatch counts what happens between the first scrape, which is before
// Start returns, and the last, which waits for the server to be done.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Start(t.Context(), []Source{
			Page("server", script(vllmPage(100, 0), vllmPage(104, 2), "", vllmPage(107, 2), vllmPage(108, 1), vllmPage(110, 0))),
			Page("gone", script("")),
		}, time.Second)
		start := clock.Now()
		time.Sleep(2500 * time.Millisecond)
		f := w.Stop(start, clock.Now())
		if f.Requests != 10 || f.Scrapes != 6+4 || f.Failures != 1+4 {
			t.Errorf("%v requests, %d scrapes, %d failures", f.Requests, f.Scrapes, f.Failures)
		}
		if len(f.Sources) != 1 || f.Sources[0] != "server (vllm)" || len(f.Silent) != 1 {
			t.Errorf("sources %v, silent %v", f.Sources, f.Silent)
		}
	})
}

// TestSlowScrape gives a scrape up after its time.
func TestSlowScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		w := Start(t.Context(), []Source{Page("slow", hang)}, time.Second)
		if took := time.Since(began); took != timeout {
			t.Errorf("the first scrape took %v", took)
		}
		if f := w.Stop(0, 1); f.Failures != 2 || f.Scrapes != 2 {
			t.Errorf("%d of %d scrapes failed", f.Failures, f.Scrapes)
		}
	})
}

// TestBusyServer ends the wait for a server that others keep busy.
func TestBusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Start(t.Context(), []Source{Page("server", script(vllmPage(1, 9)))}, time.Second)
		began := time.Now()
		f := w.Stop(clock.Now(), clock.Now()+1)
		if took := time.Since(began); took != (settleSteps-1)*settling || f.Requests != 0 {
			t.Errorf("it took %v, %v requests", took, f.Requests)
		}
	})
}

// TestIterations adds up what a server tells only once.
func TestIterations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := func(n int) string { return fmt.Sprintf(`[{"numCompletedRequests": %d, "numActiveRequests": 0}]`, n) }
		w := Start(t.Context(), []Source{Page("server", script(step(50), step(2), "[]", step(3)))}, time.Second)
		time.Sleep(2500 * time.Millisecond)
		if f := w.Stop(0, 1); f.Requests != 5 {
			t.Errorf("%v requests", f.Requests)
		}
	})
}
