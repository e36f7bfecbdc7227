package record

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
)

func TestMSER5(t *testing.T) {
	noise := func(n int, f func(i int) float64) []float64 {
		r := rand.New(rand.NewPCG(1, 2))
		x := make([]float64, n)
		for i := range x {
			x[i] = f(i) + r.NormFloat64()
		}
		return x
	}
	for _, c := range []struct {
		name     string
		x        []float64
		from, to int // the cut lies in between
		ok       bool
	}{
		{"fewer than a hundred", noise(99, func(int) float64 { return 100 }), 0, 0, false},
		{"constant", make([]float64, 100), 0, 0, true},
		{"steady from the start", noise(200, func(int) float64 { return 100 }), 0, 40, true},
		{"a step at 50", noise(200, func(i int) float64 {
			if i < 50 {
				return 20
			}
			return 100
		}), 50, 60, true},
		{"a ramp to 40", noise(200, func(i int) float64 { return 100 * min(float64(i)/40, 1) }), 30, 55, true},
		{"an overshoot that decays", noise(200, func(i int) float64 {
			if i < 30 {
				return 300 - 6*float64(i)
			}
			return 100
		}), 30, 45, true},
		{"a drift without end", noise(200, func(i int) float64 { return float64(i) }), 0, 200, false},
		{"a step in the second half", noise(200, func(i int) float64 {
			if i < 150 {
				return 20
			}
			return 100
		}), 0, 200, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cut, ok := MSER5(c.x)
			if ok != c.ok || ok && (cut < c.from || cut > c.to) {
				t.Errorf("cut %d, %v; want %d to %d, %v", cut, ok, c.from, c.to, c.ok)
			}
		})
	}
}

// TestMSERBestCut holds the running sums to the definition.
func TestMSERBestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		x := make([]float64, 30)
		for i := range x {
			x[i] = r.NormFloat64() + 10/float64(i+1)
		}
		best, want := 0.0, -1
		for d := 0; d <= len(x)-mserBatch; d++ {
			rest, mean, sum := x[d:], 0.0, 0.0
			for _, v := range rest {
				mean += v / float64(len(rest))
			}
			for _, v := range rest {
				sum += (v - mean) * (v - mean)
			}
			if s := sum / float64(len(rest)*len(rest)); want < 0 || s < best {
				best, want = s, d
			}
		}
		if got := mser(x); got != want {
			t.Fatalf("cut %d, want %d of %v", got, want, x)
		}
	}
}

func TestSteadyWaitsForRequestsInFlight(t *testing.T) {
	s := NewSteady(base, 10*time.Millisecond)
	for i := range int64(130) { // each lasts 500 ms: bins younger than that lack tokens
		s.Add(request{intended: 10 * i, sent: 10 * i, first: 10*i + 300, gap: 100, tokens: 3}.timeline())
	}
	if _, ok := s.Found(base + 1400*ms); ok {
		t.Error("found on 90 whole bins")
	}
	if since, ok := s.Found(base + 1500*ms); !ok || since < base+300*ms || since > base+500*ms {
		t.Errorf("since %d ms, %v; want 300 to 500", (since-base)/ms, ok)
	}
}

func TestSteadyIgnoresFailures(t *testing.T) {
	s := NewSteady(base, 10*time.Millisecond)
	for i := range int64(200) {
		q := request{intended: 10 * i, sent: 10 * i, first: 10*i + 1, gap: 1, tokens: 2}
		if i%2 == 0 {
			q.class, q.tokens, q.end = backends.HTTP5xx, 0, 10*i+1
		}
		s.Add(q.timeline())
	}
	if _, ok := s.Found(base + 2000*ms); !ok {
		t.Error("not found although good requests are steady")
	}
}

func TestConway(t *testing.T) {
	for _, c := range []struct {
		name string
		x    []float64
		want int
	}{
		{"within from the first", []float64{5, 1, 9, 4, 6, 5, 4, 6}, 0},
		{"three below the second half", []float64{0, 1, 2, 5, 4, 6, 5, 4}, 3},
		{"one above, then within", []float64{99, 5, 0, 5, 4, 6, 5, 4}, 1},
		{"at the edge of the range", []float64{0, 6, 5, 5, 4, 6, 5, 4}, 1},
	} {
		if got := conway(c.x); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestSteadyWhereAllFail(t *testing.T) {
	s := NewSteady(base, 10*time.Millisecond)
	if _, ok := s.Found(base + 5000*ms); ok {
		t.Error("found before any request has ended")
	}
	for i := range int64(300) {
		s.Add(request{intended: 10 * i, sent: 10 * i, end: 10*i + 1, class: backends.HTTP5xx}.timeline())
	}
	if _, ok := s.Found(base + 1990*ms); ok {
		t.Error("found while the first good request may be under way")
	}
	if since, ok := s.Found(base + 2000*ms); !ok || since != base {
		t.Errorf("since %d, %v; want the start: it fails steadily", since-base, ok)
	}
}
