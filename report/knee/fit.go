package knee

import (
	"math"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

const (
	// noiseFloor is the smallest error of log X that is believed in: no
	// difference below 1 % is evidence for a bend.
	noiseFloor = 0.01
	// lastElasticity is the elasticity at the last rung above which the cap is
	// not seen.
	lastElasticity = 0.2
	// decisive is the difference of the information criterion that settles a
	// question from one signal alone.
	decisive = 6.0
)

// ladderFit is the curves of one ladder.
type ladderFit struct {
	family   signal // lawAt, or hingeAt where b cannot be told
	params   int
	samples  []sample // throughput
	run      []sample // running requests; nil where ITL is unknown
	law      curve    // best kink on throughput
	uncapped curve
	flat     curve
	running  curve    // best kink on running; zero without run
	server   []sample // running requests as the server counts them; nil where unknown
	// serverRunning is the best kink on server.
	serverRunning curve
	peak          int // index of the peak where the ladder is retrograde, else -1
	bad           int // index of the load that was left out, else -1
	rel           float64
}

// fitLadder fits every curve that the verdict needs.
func fitLadder(l *ladder) ladderFit {
	growth, params := lawAt, 3
	if len(l.loads) < minLawLoads {
		growth, params = hingeAt, 2
	}
	f := ladderFit{family: growth, params: params, peak: -1, bad: -1}
	for _, d := range l.loads {
		f.samples = append(f.samples, newSample(d.n, math.Log(d.x), d.weight()))
		if !math.IsNaN(d.run) {
			f.run = append(f.run, newSample(d.n, math.Log(d.run), d.weight()))
		}
	}
	f.server = serverSamples(l.loads)
	if p, falls := fallsFrom(f.samples); falls {
		f.peak = p
		f.family, f.params = falling(f.family), f.params+1
	}
	if i, bad := oddOneOut(f.samples, f.family, f.params); bad {
		f.bad = i
		n := f.samples[i].n
		f.samples = slices.Delete(slices.Clone(f.samples), i, i+1)
		f.run = slices.DeleteFunc(slices.Clone(f.run), func(s sample) bool { return s.n == n })
	}
	f.law = bestKink(f.samples, f.family)
	f.uncapped = growth(f.samples, math.Inf(1))
	f.flat = flat(f.samples)
	f.rel = spread(f.law.rss, len(f.samples), f.params)
	f.run, f.running = runningKink(f.run)
	f.server, f.serverRunning = runningKink(f.server)
	return f
}

// runningKink fits a running signal; fewer than 4 loads say nothing.
func runningKink(samples []sample) ([]sample, curve) {
	if len(samples) < minLoads {
		return nil, curve{}
	}
	return samples, bestKink(samples, hingeAt)
}

// serverSamples are the running requests that the server itself counted.
func serverSamples(loads []load) []sample {
	var out []sample
	for _, d := range loads {
		var ys []float64
		for _, p := range d.points {
			if p.Rung == nil || p.Rung.Telemetry == nil {
				continue
			}
			if v := p.Rung.Telemetry.RequestsRunningMean.Or(0); v > 0 {
				ys = append(ys, math.Log(v))
			}
		}
		if len(ys) > 0 {
			out = append(out, newSample(d.n, centre(ys), float64(len(ys))))
		}
	}
	return out
}

// fallsFrom finds the peak of a ladder whose throughput falls after it: at
// least two rungs beyond, by more than 10 % and with a slope against log N that
// is below 0 at 99 % confidence.
func fallsFrom(samples []sample) (peak int, falling bool) {
	for i, s := range samples {
		if s.y > samples[peak].y {
			peak = i
		}
	}
	tail := samples[peak:]
	if len(tail) < 3 || samples[peak].y-samples[len(samples)-1].y < math.Log(1/0.9) {
		return peak, false
	}
	slope, se := slopeOf(tail)
	limit := stat.StudentT(0.01, float64(len(tail)-2))
	return peak, slope < 0 && slope/math.Max(se, 1e-9) < limit
}

// slopeOf regresses y on log n and returns the slope and its standard error.
func slopeOf(samples []sample) (slope, se float64) {
	var mx, my float64
	for _, s := range samples {
		mx += math.Log(s.n) / float64(len(samples))
		my += s.y / float64(len(samples))
	}
	var sxx, sxy float64
	for _, s := range samples {
		d := math.Log(s.n) - mx
		sxx += d * d
		sxy += d * (s.y - my)
	}
	slope = sxy / sxx
	var rss float64
	for _, s := range samples {
		r := s.y - my - slope*(math.Log(s.n)-mx)
		rss += r * r
	}
	return slope, math.Sqrt(rss / math.Max(float64(len(samples)-2), 1) / sxx)
}

// oddOneOut finds the one load that does not belong to the curve of the
// others: the one whose externally studentised residual is beyond Student's
// 99.5 % point, and by more than 10 % of its throughput. Ladders of fewer loads
// than the parameters and 3 are left alone: too little would remain.
func oddOneOut(samples []sample, family signal, params int) (index int, bad bool) {
	dof := len(samples) - 1 - params
	if dof < 2 {
		return 0, false
	}
	all := bestKink(samples, family)
	limit := stat.StudentT(0.995, float64(dof))
	most := 0.0
	for i := range samples {
		rest := slices.Delete(slices.Clone(samples), i, i+1)
		without := bestKink(rest, family)
		variance := math.Max(without.rss/float64(dof), noiseFloor*noiseFloor)
		t := math.Sqrt(math.Max(all.rss-without.rss, 0) / variance)
		if t > most && t > limit && math.Abs(samples[i].y-without.log(samples[i].n)) > 0.1 {
			index, bad, most = i, true, t
		}
	}
	return index, bad
}

// criterion is the Bayesian information criterion of a fit with p parameters,
// its variance held above the noise floor.
func criterion(rss float64, n, p int) float64 {
	v := rss/float64(n) + noiseFloor*noiseFloor
	return float64(n)*math.Log(v) + float64(p)*math.Log(float64(n))
}

// describe sets the status and what is known whatever it is.
func (k *Knee) describe(l *ladder, f ladderFit) {
	k.Status = f.status()
	k.Retrograde = f.peak >= 0
	if k.Retrograde {
		k.warn("retrograde", "throughput falls beyond %.4g in flight: the cap is kept at the peak", l.loads[f.peak].n)
	}
	if f.bad >= 0 {
		k.warn("odd_rung", "the rung at %.4g in flight fits no curve of the others and is left out", l.loads[f.bad].n)
	}
	if len(l.loads) < minLawLoads {
		k.warn("few_loads", "%d distinct loads: the batching term b can't be told from 0, so the plain hinge is used", len(l.loads))
	}
	shape := f.law
	if k.Status == NotReached {
		shape = f.uncapped
	}
	if shape.b > 0 {
		k.Method = Batching
		k.HalfSaturationInFlight = record.Known(shape.a / shape.b)
	}
	if k.Status != NotLinear {
		k.Law.A, k.Law.B = record.Known(shape.a), record.Known(shape.b)
	}
	if k.Status != NotReached {
		k.Law.Cap = record.Known(f.law.cap())
	}
	k.Law.Rel = record.Known(f.rel)
}

// status weighs the curves against each other. Where noise hides whether the
// ladder bends to a cap or without one, the cap is seen if even the curve
// without one is flat at its end and the last step up is no sure growth.
func (f ladderFit) status() Status {
	first := f.samples[0].n
	switch {
	case f.law.kink <= first*sameLoad || f.grows() <= 0:
		return NotLinear
	case f.topElasticity(f.law) > lastElasticity:
		return NotReached
	case f.bends() <= 0 && (f.topElasticity(f.uncapped) > lastElasticity || f.growsToTheEnd()):
		return NotReached
	}
	return Found
}

// grows is the evidence, as a difference of the information criterion, that
// there is growth below the cap and not a flat line. A kink that is looked for
// along the whole ladder counts as two parameters. Where throughput alone does
// not settle it the running requests do.
func (f ladderFit) grows() float64 {
	n := len(f.samples)
	evidence := criterion(f.flat.rss, n, 1) - criterion(f.law.rss, n, f.params+1)
	if f.run != nil && math.Abs(evidence) < decisive {
		m := len(f.run)
		evidence = criterion(flat(f.run).rss, m, 1) - criterion(f.running.rss, m, 3)
	}
	return evidence
}

// bends is the evidence that there is a cap and not growth alone.
func (f ladderFit) bends() float64 {
	n := len(f.samples)
	evidence := criterion(f.uncapped.rss, n, 2) - criterion(f.law.rss, n, f.params)
	if f.run != nil && math.Abs(evidence) < decisive {
		evidence = flattens(f.run, f.running)
	}
	return evidence
}

// growsToTheEnd says that growth without a cap decisively beats a cap at the
// last load but one.
func (f ladderFit) growsToTheEnd() bool {
	n := len(f.samples)
	level := f.family(f.samples, f.samples[n-2].n)
	return criterion(level.rss, n, 2)-criterion(f.uncapped.rss, n, 2) > decisive
}

// flattens is the evidence that a running signal stops growing at the kink of
// its curve.
func flattens(samples []sample, c curve) float64 {
	n := len(samples)
	return criterion(hingeAt(samples, math.Inf(1)).rss, n, 1) - criterion(c.rss, n, 2)
}

// topElasticity is the elasticity of a fitted curve between the last two
// loads: the raw one, less its noise.
func (f ladderFit) topElasticity(c curve) float64 {
	n := len(f.samples)
	lo, hi := f.samples[n-2].n, f.samples[n-1].n
	return (c.log(hi) - c.log(lo)) / math.Log(hi/lo)
}
