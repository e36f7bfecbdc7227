package knee

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

// made is a ladder of known truth.
type made struct {
	kind   string
	status Status
	knee   float64 // requests in flight; 0 where none is in the ladder
	noise  float64 // standard deviation of log X and of log ITL
	itl    bool
	points []Point
}

// truth is the server behind a made ladder.
type truth struct {
	a, b  float64 // seconds a token, and more for each running request
	slots float64 // +Inf without a cap
	fall  float64 // exponent of the decline beyond fallAt
	at    float64
	share float64 // of in-flight requests that decode; the rest prefill
}

// throughput is noise-free output tok/s at n in flight.
func (s truth) throughput(n float64) float64 {
	m := min(n, s.slots)
	x := m / (s.a + s.b*m)
	if s.fall > 0 && n > s.at {
		x *= math.Pow(n/s.at, -s.fall)
	}
	return x
}

// itl is the noise-free mean inter-token latency in seconds.
func (s truth) itl(n float64) float64 { return s.share * min(n, s.slots) / s.throughput(n) }

// makeLadder draws one ladder of a kind. Loads are spread evenly in the log
// with jitter, so that the knee falls anywhere between two of them.
func makeLadder(kind string, seed uint64, noise float64, itl bool) made {
	r := stat.Rand(seed, 2024)
	between := func(lo, hi float64) float64 { return lo + r.Float64()*(hi-lo) }
	logBetween := func(lo, hi float64) float64 { return math.Exp(between(math.Log(lo), math.Log(hi))) }
	m := made{kind: kind, status: Found, noise: noise, itl: itl}
	s := truth{a: logBetween(0.005, 0.05), slots: logBetween(8, 256), share: between(0.85, 1)}
	bend := between(0.1, 0.8) // b*C, the share of a step at the knee that grows with the batch
	s.b = s.a * bend / (1 - bend) / s.slots
	first, last := s.slots*logBetween(1.0/64, 1.0/5), s.slots*logBetween(2, 6)
	switch kind {
	case "hinge":
		s.b = 0
	case "retrograde":
		s.fall, s.at = between(0.15, 0.5), s.slots*between(1, 1.5)
		last = s.slots * logBetween(3, 6)
	case "bending":
		m.status = NotReached
		half := s.a / s.b
		s.slots = math.Inf(1)
		first, last = half*logBetween(1.0/32, 1.0/8), half*logBetween(0.2, 3)
	case "below the cap":
		m.status = NotReached
		last = s.slots * between(0.3, 0.85)
		first = min(first, last/8)
	case "plateau":
		m.status = NotLinear
		first = s.slots * between(1.2, 3)
		last = first * logBetween(4, 32)
	}
	if m.status == Found {
		m.knee = s.slots
	}
	count := 6 + r.IntN(10)
	for i := range count {
		n := first * math.Pow(last/first, (float64(i)+between(-0.25, 0.25))/float64(count-1))
		p := Point{InFlight: record.Known(n), Mode: record.Closed}
		p.TokensS = record.Known(s.throughput(n) * math.Exp(noise*r.NormFloat64()))
		itlNoise := math.Exp(noise * r.NormFloat64())
		if itl {
			p.ITLMeanMS = record.Known(1000 * s.itl(n) * itlNoise)
		}
		m.points = append(m.points, p)
	}
	r.Shuffle(count, func(i, j int) { m.points[i], m.points[j] = m.points[j], m.points[i] })
	return m
}

// makeLadders is the fixed set: half batching laws with a cap, the rest hinge,
// retrograde, unsaturated and plateau only; noise 2 to 10 %, with and without
// ITL.
func makeLadders(base uint64, fixedNoise float64) []made {
	kinds := slices.Concat(
		slices.Repeat([]string{"batching"}, 100), slices.Repeat([]string{"hinge"}, 25), slices.Repeat([]string{"retrograde"}, 25),
		slices.Repeat([]string{"bending"}, 12), slices.Repeat([]string{"below the cap"}, 13), slices.Repeat([]string{"plateau"}, 25),
	)
	out := make([]made, len(kinds))
	for i, kind := range kinds {
		noise := 0.02 + 0.08*rand.New(rand.NewPCG(base+uint64(i), 7)).Float64()
		if fixedNoise > 0 {
			noise = fixedNoise
		}
		out[i] = makeLadder(kind, base+uint64(i), noise, fixedNoise > 0 || i%2 == 0)
	}
	return out
}

// score collects how estimates compare with the truth.
type score struct {
	errors                  []float64 // |log(estimate/truth)|
	covered, counted, wrong int
	wrongs                  []string
	hinge, kneedle          []float64
}

func (s *score) add(m made, k Knee) {
	if k.Status != m.status {
		s.wrong++
		s.wrongs = append(s.wrongs, fmt.Sprintf("%s noise %.0f %% itl %v %d points: %s, want %s", m.kind, 100*m.noise, m.itl, len(m.points), k.Status, m.status))
		return
	}
	if m.status != Found {
		return
	}
	off := func(v record.Value) float64 { return math.Abs(v.Or(math.Inf(1))/m.knee - 1) }
	s.errors = append(s.errors, off(k.InFlight))
	s.hinge = append(s.hinge, off(k.HingeInFlight))
	s.kneedle = append(s.kneedle, off(k.Others.Kneedle))
	s.counted++
	if ci := k.InFlightCI95; ci[0].Or(0) <= m.knee && m.knee <= ci[1].Or(0) {
		s.covered++
	}
}

func (s *score) coverage() float64 { return float64(s.covered) / float64(s.counted) }

func TestGeneratedLadders(t *testing.T) {
	var all, clean, byKind = score{}, score{}, map[string]*score{}
	ladders := makeLadders(1, 0)
	for _, m := range ladders {
		k := Fit(m.points, Options{Resamples: 200})
		all.add(m, k)
		key := fmt.Sprintf("%s itl=%v", m.kind, m.itl)
		if byKind[key] == nil {
			byKind[key] = &score{}
		}
		byKind[key].add(m, k)
	}
	for _, m := range makeLadders(1001, 0.05) {
		clean.add(m, Fit(m.points, Options{Resamples: 200}))
	}
	for key, s := range byKind {
		t.Logf("%-24s n %2d median error %5.1f %% hinge %5.1f %% kneedle %5.1f %% coverage %3d/%3d wrong %d", key, len(s.errors)+s.wrong,
			100*stat.Median(s.errors), 100*stat.Median(s.hinge), 100*stat.Median(s.kneedle), s.covered, s.counted, s.wrong)
	}
	for _, w := range all.wrongs {
		t.Log("wrong: ", w)
	}
	wrong := float64(all.wrong) / float64(len(ladders))
	t.Logf("200 ladders, noise 2 to 10 %%: median error %.1f %% (hinge %.1f %%, kneedle %.1f %%), coverage %.1f %%, wrong statuses %.1f %%",
		100*stat.Median(all.errors), 100*stat.Median(all.hinge), 100*stat.Median(all.kneedle), 100*all.coverage(), 100*wrong)
	t.Logf("with ITL at 5 %% noise: median error %.1f %% (hinge %.1f %%, kneedle %.1f %%), coverage %.1f %%, wrong statuses %.1f %%",
		100*stat.Median(clean.errors), 100*stat.Median(clean.hinge), 100*stat.Median(clean.kneedle), 100*clean.coverage(), float64(clean.wrong)/2)
	if e := stat.Median(clean.errors); e > 0.10 {
		t.Errorf("median error with ITL at 5 %% noise %.3f, at most 0.10", e)
	}
	if c := all.coverage(); c < 0.85 {
		t.Errorf("the interval covers the truth in %.3f, at least 0.85", c)
	}
	if wrong > 0.05 {
		t.Errorf("wrong statuses %.3f, at most 0.05", wrong)
	}
}
