// Package arrival holds the schedules of an open loop: when each request is
// meant to be sent, as offsets from the rung's start, absolute and known
// beforehand. Everything is pure and seeded: the same seed gives the same
// schedule on every platform. Nothing here knows a clock.
//
// A schedule is a point process of unit rate, seen through a rate that may
// change: with points u_1 < u_2 < ... of the process and the integral of the
// rate, L(t), request i is sent at L^-1(u_i). (Time change of a point process:
// Çinlar, "Introduction to Stochastic Processes", 1975, section 4.7.)
package arrival

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/headway-bench/headway/loadgen/internal/draw"
)

// The rates a schedule takes, in requests per second.
const (
	MinRate = 0.01
	MaxRate = 20_000
)

// Schedule gives the intended times of requests in order. It is not safe for
// concurrent use.
type Schedule interface {
	// Next returns the offset of the next request from the rung's start, never
	// before the one before it; false when the schedule has ended. It does not
	// allocate.
	Next() (at time.Duration, ok bool)
}

// process is a point process of unit rate: next returns the sum of its gaps so
// far.
type process interface{ next() float64 }

// rate is a rate over time, by the inverse of its integral.
type rate interface {
	// when returns the time in seconds at which u requests are due; false when
	// that never comes.
	when(u float64) (seconds float64, ok bool)
}

// timed is a process seen through a rate.
type timed struct {
	points process
	rate   rate
	ended  bool
}

// Next implements Schedule.
func (s *timed) Next() (time.Duration, bool) {
	if s.ended {
		return 0, false
	}
	t, ok := s.rate.when(s.points.next())
	if !ok || t > float64(math.MaxInt64/2)/1e9 {
		s.ended = true
		return 0, false
	}
	return time.Duration(math.Round(t * 1e9)), true
}

// even is the process of equal gaps: u_i = i, the first at 0.
type even struct{ i float64 }

func (p *even) next() float64 { p.i++; return p.i - 1 }

// renewal is the process of independent gaps of mean 1, gamma distributed with
// the given shape k: variance 1/k. Shape 1 is the Poisson process.
type renewal struct {
	draw  *draw.Source
	shape float64
	sum   float64
}

func (p *renewal) next() float64 {
	if p.shape == 1 {
		p.sum += p.draw.Exp()
	} else {
		p.sum += p.draw.Gamma(p.shape) / p.shape
	}
	return p.sum
}

// constant is a rate that stays: L(t) = r*t, L^-1(u) = u/r.
type constant float64

func (r constant) when(u float64) (float64, bool) { return u / float64(r), true }

// Constant sends every 1/rate seconds, the first at 0: t_i = i/r. rate is in
// requests per second.
func Constant(rate float64) (Schedule, error) {
	if err := checkRate("rate", rate); err != nil {
		return nil, err
	}
	return &timed{points: &even{}, rate: constant(rate)}, nil
}

// Poisson sends with independent exponential gaps of mean 1/rate seconds:
// t_i = (e_1 + ... + e_i)/r, e = -ln U, U uniform on (0, 1].
func Poisson(rate float64, seed uint64) (Schedule, error) { return Gamma(rate, 1, seed) }

// Gamma sends with independent gamma gaps of mean 1/rate seconds and squared
// coefficient of variation 1/burstiness: gap = g/(k*r), g of shape k and scale
// 1. burstiness is the shape k: 1 is Poisson, below 1 bursts, above 1 evens
// out.
func Gamma(rate, burstiness float64, seed uint64) (Schedule, error) {
	if err := checkRate("rate", rate); err != nil {
		return nil, err
	}
	p, err := newRenewal(burstiness, seed)
	if err != nil {
		return nil, err
	}
	return &timed{points: p, rate: constant(rate)}, nil
}

func newRenewal(burstiness float64, seed uint64) (*renewal, error) {
	if !(burstiness >= 0.01 && burstiness <= 10_000) {
		return nil, fmt.Errorf("burstiness %v is outside 0.01 to 10000; 1 is Poisson", burstiness)
	}
	return &renewal{draw: draw.New(seed, streamArrivals), shape: burstiness}, nil
}

// streamArrivals keeps arrivals apart from other draws of the same seed.
const streamArrivals = 0xa1

func checkRate(name string, r float64) error {
	if !(r >= MinRate && r <= MaxRate) {
		return fmt.Errorf("%s of %v requests/s is outside %v to %v", name, r, MinRate, float64(MaxRate))
	}
	return nil
}

// Burst sends n requests at 0.
func Burst(n int64) Schedule { return &burst{n} }

type burst struct{ left int64 }

func (b *burst) Next() (time.Duration, bool) {
	b.left--
	return 0, b.left >= 0
}

// Limit ends a schedule after n requests.
func Limit(s Schedule, n int64) Schedule { return &limited{s, n} }

type limited struct {
	s    Schedule
	left int64
}

func (l *limited) Next() (time.Duration, bool) {
	if l.left <= 0 {
		return 0, false
	}
	l.left--
	return l.s.Next()
}

// Stripe is the share of instance i of n in a schedule: its requests i, i+n,
// i+2n, ... The stripes of one schedule are disjoint and their union is the
// schedule, with no word between the instances. Each instance needs a schedule
// of its own, made with the same seed.
func Stripe(s Schedule, i, n int) (Schedule, error) {
	if n < 1 || i < 0 || i >= n {
		return nil, fmt.Errorf("stripe %d of %d does not exist; stripes count from 0", i, n)
	}
	return &stripe{s: s, skip: i, n: n}, nil
}

type stripe struct {
	s       Schedule
	skip, n int
}

func (s *stripe) Next() (time.Duration, bool) {
	for ; s.skip > 0; s.skip-- {
		if _, ok := s.s.Next(); !ok {
			return 0, false
		}
	}
	s.skip = s.n - 1
	return s.s.Next()
}

// Hash is the SHA-256 of the first n times of a schedule, in hexadecimal: two
// runs of equal hash were offered the same arrivals. It uses the schedule up.
func Hash(s Schedule, n int) string {
	h := sha256.New()
	var b [8]byte
	for range n {
		at, ok := s.Next()
		if !ok {
			break
		}
		binary.BigEndian.PutUint64(b[:], uint64(at))
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
