package arrival

import (
	"fmt"
	"math"
	"time"
)

// Options say how arrivals scatter about the rate.
type Options struct {
	// Arrivals is "constant", "poisson" or "gamma"; "" is poisson.
	Arrivals string
	// Burstiness is the gamma shape, 1 by default.
	Burstiness float64
	Seed       uint64
}

// points returns the process of unit rate that the options name.
func (o Options) points() (process, error) {
	switch o.Arrivals {
	case "constant":
		return &even{}, nil
	case "", "poisson":
		return newRenewal(1, o.Seed)
	case "gamma":
		if o.Burstiness == 0 {
			return newRenewal(1, o.Seed)
		}
		return newRenewal(o.Burstiness, o.Seed)
	}
	return nil, fmt.Errorf("arrivals %q are unknown; use constant, poisson or gamma", o.Arrivals)
}

// New returns a schedule of constant rate, in requests per second.
func New(rate float64, o Options) (Schedule, error) {
	if err := checkRate("rate", rate); err != nil {
		return nil, err
	}
	p, err := o.points()
	if err != nil {
		return nil, err
	}
	return &timed{points: p, rate: constant(rate)}, nil
}

// Ramp returns a schedule whose rate goes from one rate to another (requests
// per second, of which one may be 0) over a time, at which it ends: linearly, or in so many equal
// steps of equal length when steps is above 0, of which the first has the
// first rate and the last has the last.
func Ramp(from, to float64, over time.Duration, steps int, o Options) (Schedule, error) {
	if from != 0 || to == 0 { // one end may be nothing
		if err := checkRate("ramp.from", from); err != nil {
			return nil, err
		}
	}
	if to != 0 {
		if err := checkRate("ramp.to", to); err != nil {
			return nil, err
		}
	}
	if over <= 0 {
		return nil, fmt.Errorf("ramp.over of %v is no time to ramp in", over)
	}
	if steps < 0 || steps == 1 {
		return nil, fmt.Errorf("ramp.steps of %d is no ramp; use 2 or more, or 0 for a line", steps)
	}
	p, err := o.points()
	if err != nil {
		return nil, err
	}
	if steps == 0 {
		return &timed{points: p, rate: linear{from, to, over.Seconds()}}, nil
	}
	return &timed{points: p, rate: staircase{from, to, over.Seconds(), steps}}, nil
}

// linear is the rate r(t) = a + (b-a) t/T on [0, T]. Its integral is
// L(t) = a t + (b-a) t^2 / (2T), and of the two roots of L(t) = u the one that
// starts at 0 is, without cancellation,
//
//	t = 2u / (a + sqrt(a^2 + 2 (b-a) u/T))
//
// with a, b in requests/s, t, T in seconds, u in requests.
type linear struct{ a, b, over float64 }

func (r linear) when(u float64) (float64, bool) {
	if u >= (r.a+r.b)/2*r.over {
		return 0, false
	}
	if u == 0 {
		return 0, true
	}
	slope := (r.b - r.a) / r.over
	return 2 * u / (r.a + math.Sqrt(max(0, float64(r.a*r.a)+float64(2*slope*u)))), true
}

// staircase is the rate of n steps of length T/n, step j = 0..n-1 at
// r_j = a + (b-a) j/(n-1) requests/s. Within step j,
// t = j T/n + (u - L_j)/r_j, where L_j is what the steps before it sent.
type staircase struct {
	a, b, over float64
	n          int
}

func (r staircase) when(u float64) (float64, bool) {
	step := r.over / float64(r.n)
	for j := range r.n {
		rate := r.a + float64((r.b-r.a)*float64(j))/float64(r.n-1)
		sent := float64(rate * step)
		if u < sent {
			return float64(step*float64(j)) + u/rate, true
		}
		u -= sent
	}
	return 0, false
}
