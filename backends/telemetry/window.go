package telemetry

import (
	"math"
	"time"
)

// Figures are what the sources told over one window. NaN is unknown.
//
// Over several series and several sources, requests, tokens, preemptions,
// power and memory are sums; the use of the KV cache is that of the fullest
// one, since requests wait for the one that is full; utilisation is the mean
// over the accelerators; ratios and mean times are those of the sums.
type Figures struct {
	// Sources name what was read, Silent what never answered.
	Sources, Silent []string
	// Scrapes and Failures count the scrapes of all sources. A failed one is a
	// gap.
	Scrapes, Failures int64
	// BlockSize is the number of tokens in a block of the KV cache, 0 unknown.
	BlockSize int

	KVUsageMax      float64       // 0 to 1
	RunningMean     float64       // requests
	RunningMax      float64       // requests; over several sources the sum of their maxima
	WaitingMean     float64       // requests
	Preemptions     float64       //
	PrefixHitRatio  float64       // 0 to 1
	PrefixLookups   float64       // prompt tokens (or blocks) looked up in a prefix cache
	QueueTimeMean   float64       // seconds
	TTFTMean        float64       // seconds
	DraftAcceptance float64       // accepted of the tokens drafted by speculative decoding, 0 to 1
	GPUPowerMean    float64       // watts, all accelerators together
	GPUUtilisation  float64       // 0 to 1
	GPUMemoryMaxMiB float64       // all accelerators together
	Requests        float64       // ended well, over the whole watch
	OutputTokens    float64       // over the whole watch
	interval        time.Duration // between scrapes
}

// figures puts together what the tracks hold of the window from start to
// before end.
func figures(tracks []*track, start, end int64, interval time.Duration) Figures {
	f := Figures{KVUsageMax: math.NaN(), RunningMean: math.NaN(), RunningMax: math.NaN(), WaitingMean: math.NaN(), interval: interval}
	grown := [quantities]float64{}
	for q := range grown {
		grown[q] = math.NaN()
	}
	var hits, accepts mean
	f.Requests, f.OutputTokens = math.NaN(), math.NaN()
	for _, t := range tracks {
		f.Scrapes += t.scrapes
		f.Failures += t.failures
		if len(t.readings) == 0 {
			f.Silent = append(f.Silent, t.source.Name)
			continue
		}
		f.Sources = append(f.Sources, t.named())
		t.fill()
		w := window{t.readings, start, end, interval}
		for q := counters; q < quantities; q++ {
			grown[q] = total(grown[q], w.growth(q))
		}
		f.KVUsageMax = largest(f.KVUsageMax, w.max(kvUsage))
		f.RunningMean = total(f.RunningMean, w.mean(running))
		f.RunningMax = total(f.RunningMax, w.max(running))
		f.WaitingMean = total(f.WaitingMean, w.mean(waiting))
		hits.add(w.mean(hitRate))
		accepts.add(w.mean(acceptRate))
		if t.whole {
			whole := w
			whole.start, whole.end = t.readings[0].at, t.readings[len(t.readings)-1].at
			f.Requests = total(f.Requests, whole.growth(requests))
			f.OutputTokens = total(f.OutputTokens, whole.growth(outputTokens))
		}
		if b := t.readings[len(t.readings)-1].block; b > 0 {
			f.BlockSize = b
		}
	}
	f.Preemptions = grown[preemptions]
	f.PrefixLookups = grown[lookedUp]
	f.PrefixHitRatio = share(grown[found], grown[lookedUp], hits.value())
	f.DraftAcceptance = share(grown[acceptedTokens], grown[draftTokens], accepts.value())
	f.QueueTimeMean = share(grown[queueSum], grown[queueCount], math.NaN())
	f.TTFTMean = share(grown[ttftSum], grown[ttftCount], math.NaN())
	f.accelerators(tracks, start, end)
	return f
}

// total adds two numbers of which either may be unknown.
func total(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return a + b
}

// share is part of all, or otherwise when there is no such pair.
func share(part, all, otherwise float64) float64 {
	if math.IsNaN(part) || !(all > 0) {
		return otherwise
	}
	return part / all
}

// window is a stretch of the readings of one source.
type window struct {
	readings   []reading
	start, end int64
	interval   time.Duration
}

// gap is the time between two readings beyond which nothing is said of what
// lies between.
func (w window) gap() int64 {
	return max(int64(w.interval)*5/2, (w.end-w.start)/10)
}

// growth is how much a counter grew between the readings nearest to the
// window's edges. A counter that falls has been started again from 0.
func (w window) growth(q quantity) float64 {
	first, last := w.nearest(w.start, q), w.nearest(w.end, q)
	if first < 0 || last <= first {
		return math.NaN()
	}
	sum, before := 0.0, w.readings[first].values[q]
	for _, r := range w.readings[first+1 : last+1] {
		v := r.values[q]
		switch {
		case math.IsNaN(v):
			continue
		case v >= before:
			sum += v - before
		default:
			sum += v
		}
		before = v
	}
	return sum
}

// nearest is the reading of q nearest to a time, -1 when there is none close
// enough.
func (w window) nearest(at int64, q quantity) int {
	best, distance := -1, w.gap()
	for i, r := range w.readings {
		if d := max(r.at-at, at-r.at); d <= distance && !math.IsNaN(r.values[q]) {
			best, distance = i, d
		}
	}
	return best
}

// within yields the known values of a gauge in the window.
func (w window) within(q quantity) func(func(float64) bool) {
	return func(yield func(float64) bool) {
		for _, r := range w.readings {
			if r.at >= w.start && r.at < w.end && !math.IsNaN(r.values[q]) && !yield(r.values[q]) {
				return
			}
		}
	}
}

// max is the largest value of a gauge in the window.
func (w window) max(q quantity) float64 {
	out := math.NaN()
	for v := range w.within(q) {
		out = largest(out, v)
	}
	return out
}

// mean is the time average of a gauge over the window.
func (w window) mean(q quantity) float64 {
	var points []point
	for _, r := range w.readings {
		points = append(points, point{r.at, r.values[q]})
	}
	return w.average(points)
}

// point is a value at a time.
type point struct {
	at int64
	v  float64
}

// average is the time average over the window of the line through the points.
// Times between two points too far apart do not count, nor do unknown ones;
// where that leaves nothing, it is the mean of the points in the window.
func (w window) average(points []point) float64 {
	var area, covered float64
	var inside mean
	before := point{v: math.NaN()}
	for _, p := range points {
		if math.IsNaN(p.v) {
			continue
		}
		if p.at >= w.start && p.at < w.end {
			inside.add(p.v)
		}
		from, to := max(before.at, w.start), min(p.at, w.end)
		if !math.IsNaN(before.v) && to > from && p.at-before.at <= w.gap() {
			slope := (p.v - before.v) / float64(p.at-before.at)
			middle := float64((from-before.at)+(to-before.at)) / 2
			area += (before.v + slope*middle) * float64(to-from)
			covered += float64(to - from)
		}
		before = p
	}
	if covered > 0 {
		return area / covered
	}
	return inside.value()
}

// accelerators sums up the devices. One that several sources tell of counts
// once, as the first of them tells it.
func (f *Figures) accelerators(tracks []*track, start, end int64) {
	f.GPUPowerMean, f.GPUMemoryMaxMiB = math.NaN(), math.NaN()
	var busy mean
	seen := map[string]bool{}
	for _, t := range tracks {
		w := window{t.readings, start, end, f.interval}
		for _, id := range t.devices() {
			if seen[id] {
				continue
			}
			seen[id] = true
			var power, use []point
			memory := math.NaN()
			for _, r := range t.readings {
				for _, g := range r.gpus {
					if g.id != id {
						continue
					}
					power, use = append(power, point{r.at, g.power}), append(use, point{r.at, g.utilisation})
					if r.at >= start && r.at < end {
						memory = largest(memory, g.memory)
					}
				}
			}
			f.GPUPowerMean = total(f.GPUPowerMean, w.average(power))
			f.GPUMemoryMaxMiB = total(f.GPUMemoryMaxMiB, memory)
			busy.add(w.average(use))
		}
	}
	f.GPUUtilisation = busy.value()
}
