package knee

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

// server is a token server that steps all running requests at once.
type server struct {
	slots  int     // running at once; the others wait, first come first served
	a, b   float64 // seconds a step, and more for each running request
	tokens int     // of each answer
	jitter float64 // standard deviation of log step time
}

// request is one answer on its way.
type request struct {
	sent, first float64 // seconds
	left        int
}

// measure runs closed-loop users for a window of seconds, after a warm-up, and
// returns the rung that a perfect client would record.
func (s server) measure(users int, window float64, seed uint64) record.Rung {
	r := stat.Rand(seed, uint64(users))
	var waiting, running []*request
	service := float64(s.tokens) * (s.a + s.b*math.Min(float64(users), float64(s.slots)))
	starts := make([]float64, users)
	for i := range starts {
		starts[i] = service * float64(i) / float64(users)
	}
	begin := 3*service*math.Max(1, float64(users)/float64(s.slots)) + service
	end := begin + window
	c := counts{perRequest: s.tokens}
	now := 0.0
	for now < end {
		starts = slices.DeleteFunc(starts, func(at float64) bool {
			if at <= now {
				waiting = append(waiting, &request{sent: at, left: s.tokens})
			}
			return at <= now
		})
		for len(waiting) > 0 && len(running) < s.slots {
			running, waiting = append(running, waiting[0]), waiting[1:]
		}
		step := (s.a + s.b*float64(len(running))) * math.Exp(s.jitter*r.NormFloat64())
		if now >= begin {
			c.inFlight += step * float64(len(running)+len(waiting))
		}
		now += step
		running = slices.DeleteFunc(running, func(q *request) bool {
			c.token(q, now, step, begin, s.tokens)
			if q.left == 0 {
				waiting = append(waiting, &request{sent: now, left: s.tokens})
			}
			return q.left == 0
		})
	}
	return c.rung(users, now-begin)
}

// counts is what the client of a simulated server saw in its window.
type counts struct {
	inFlight       float64 // request seconds
	tokens         int64
	ttft, itl, e2e []float64 // ms
	speed          []float64 // tok/s
	perRequest     int       // tokens
}

func (c *counts) token(q *request, now, step, begin float64, tokens int) {
	q.left--
	if q.left == tokens-1 {
		q.first = now
	} else if now >= begin {
		c.itl = append(c.itl, step*1000)
	}
	if now < begin {
		return
	}
	c.tokens++
	if q.left == 0 {
		c.ttft = append(c.ttft, (q.first-q.sent)*1000)
		c.e2e = append(c.e2e, (now-q.sent)*1000)
		c.speed = append(c.speed, float64(tokens-1)/(now-q.first))
	}
}

func (c *counts) rung(users int, window float64) record.Rung {
	return record.Rung{
		Mode: record.Closed, Concurrency: users, Verdict: record.Valid,
		Window:                    record.Window{EndS: window},
		Requests:                  record.Requests{Sent: int64(len(c.e2e)), Completed: int64(len(c.e2e))},
		InFlightMean:              record.Known(c.inFlight / window),
		RequestThroughputPerS:     record.Known(float64(len(c.e2e)) / window),
		OutputTokenThroughputPerS: record.Known(float64(c.tokens) / window),
		OutputTokens:              record.Dist{Count: int64(len(c.e2e)), Mean: record.Known(float64(c.perRequest))},
		TTFT:                      distOf(c.ttft), ITL: distOf(c.itl), E2E: distOf(c.e2e), PerUserTokensPerS: distOf(c.speed),
	}
}

// distOf keeps percentiles only where the samples suffice.
func distOf(xs []float64) record.Dist {
	at := func(p float64, need int) record.Value {
		if len(xs) < need {
			return record.Value{}
		}
		return record.Known(stat.Quantile(xs, p))
	}
	return record.Dist{
		Count: int64(len(xs)), Mean: record.Known(stat.Mean(xs)), Min: at(0, 1), P05: at(0.05, 90), P50: at(0.5, 1),
		P90: at(0.9, 44), P95: at(0.95, 90), P99: at(0.99, 459), Max: at(1, 1),
	}
}

// disturb halves the speed of a rung, as if something else had run beside it.
func disturb(r record.Rung, rng *rand.Rand) record.Rung {
	f := 1.6 + 0.4*rng.Float64()
	slow := func(d record.Dist) record.Dist {
		for _, v := range []*record.Value{&d.Mean, &d.Min, &d.P05, &d.P50, &d.P90, &d.P95, &d.P99, &d.Max} {
			*v = v.Scale(f)
		}
		return d
	}
	r.RequestThroughputPerS = r.RequestThroughputPerS.Scale(1 / f)
	r.OutputTokenThroughputPerS = r.OutputTokenThroughputPerS.Scale(1 / f)
	r.TTFT, r.ITL, r.E2E = slow(r.TTFT), slow(r.ITL), slow(r.E2E)
	return r
}
