package render_test

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/headway-bench/headway/report/bundle/bundletest"
	"github.com/headway-bench/headway/report/render"
)

// TestLargeBundle makes a page of a bundle with as many requests as
// HEADWAY_LARGE_REQUESTS says, a million for the promise of 10 s and 500 MiB,
// and prints time and memory. Without it the page is held to be bounded in
// size.
func TestLargeBundle(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("HEADWAY_LARGE_REQUESTS"))
	if n == 0 {
		n = 20_000
	}
	small, large := pageSize(t, 10_000), pageSize(t, n)
	if large > small+small/10 {
		t.Errorf("the page grows with the requests: %d bytes at 10,000, %d at %d", small, large, n)
	}
}

// pageSize returns the bytes of the page of a bundle with n requests.
func pageSize(t *testing.T, n int) int64 {
	r := bundletest.Result()
	for i := range r.Rungs {
		r.Rungs[i].Totals.Sent = int64(n/len(r.Rungs) + 1)
	}
	b := written(t, r, n)
	start := time.Now()
	size := &counter{}
	if err := render.HTML(size, b); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d requests: page of %d bytes in %.2f s, %d MiB taken from the system", n, size.n, time.Since(start).Seconds(), m.Sys>>20)
	return size.n
}

// counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return io.Discard.Write(p)
}
