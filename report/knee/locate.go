package knee

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

// agreement is how far apart the law and a running signal may be, as a ratio,
// to be weighed together.
const agreement = 1.25

// estimate is a load with the draws of its resamples, whose median it is: a
// kink jumps from rung to rung with the noise of one of them, and the median
// over resamples (bagging, Breiman 1996) does so less.
type estimate struct {
	at    float64
	draws []float64
}

// locate sets the load of a knee that was found, with its interval.
func (k *Knee) locate(l *ladder, f ladderFit, o Options) {
	k.LawInFlight = record.Known(f.law.kink)
	k.HingeInFlight = record.Known(f.law.cap() * f.samples[0].n / math.Exp(f.samples[0].y))
	law := source{samples: f.samples, curve: f.law, family: f.family, noise: noiseOf(f.samples, f.law, f.params, withinX(l.loads))}
	sources := []source{law}
	if f.run != nil {
		k.Running.InFlight, k.Running.Plateau = record.Known(f.running.kink), record.Known(f.running.cap())
		running := source{samples: f.run, curve: f.running, family: hingeAt, noise: noiseOf(f.run, f.running, 2, withinRun(l.loads))}
		running.tie = tieOf(law, running)
		sources = k.agree(sources, running, "the running requests")
	}
	if f.server != nil {
		k.Running.Server = record.Known(f.serverRunning.kink)
		counted := source{samples: f.server, curve: f.serverRunning, family: hingeAt, noise: noiseOf(f.server, f.serverRunning, 2, spreadWithin{})}
		sources = k.agree(sources, counted, "the server's own running requests")
	}
	signals := make([]estimate, len(sources))
	for i, draws := range resample(sources, o.resamples(), stat.Rand(o.Seed, 0x6b6e6565)) {
		signals[i] = estimate{stat.Median(draws), draws}
	}
	at, shares := weigh(signals)
	k.InFlight, k.InFlightCI95 = record.Known(at.at), k.widen(interval(at.draws), at.at, sources, shares)
	k.throughput(l, f)
}

// agree adds a signal to those that are weighed where it is within 25 % of the
// law and surely bends, and warns where it is not within.
func (k *Knee) agree(sources []source, s source, what string) []source {
	law, at := sources[0].curve.kink, s.curve.kink
	if ratio := at / law; ratio < agreement && ratio > 1/agreement {
		if flattens(s.samples, s.curve) < decisive {
			return sources
		}
		return append(sources, s)
	}
	k.warn("signals_differ", "throughput bends at %.4g in flight, %s at %.4g: the law on throughput stands", law, what, at)
	return sources
}

// weigh joins estimates of one load in the log, each by the inverse of its
// variance over the resamples. Where they lie further apart than their
// variances allow, the draws are spread by as much (Birge's ratio). The shares
// of the signals add up to 1.
func weigh(signals []estimate) (joint estimate, shares []float64) {
	var sum, total float64
	joined := make([]float64, len(signals[0].draws))
	weights := make([]float64, len(signals))
	for i, s := range signals {
		w := 1 / math.Max(stat.Variance(logs(s.draws)), 1e-8)
		weights[i] = w
		total += w
		sum += w * math.Log(s.at)
		for i, d := range s.draws {
			joined[i] += w * math.Log(d)
		}
	}
	center, chi2 := sum/total, 0.0
	for i, s := range signals {
		d := math.Log(s.at) - center
		chi2 += weights[i] * d * d
	}
	ratio := math.Max(1, math.Sqrt(chi2/math.Max(float64(len(signals)-1), 1)))
	for i := range joined {
		joined[i] = math.Exp(center + ratio*(joined[i]/total-center))
	}
	for i := range weights {
		weights[i] /= total
	}
	return estimate{math.Exp(center), joined}, weights
}

func logs(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = math.Log(x)
	}
	return out
}

func interval(draws []float64) *[2]record.Value {
	if len(draws) == 0 {
		return nil
	}
	return &[2]record.Value{record.Known(stat.Quantile(draws, 0.025)), record.Known(stat.Quantile(draws, 0.975))}
}

// throughput sets what the server completes at the knee.
func (k *Knee) throughput(l *ladder, f ladderFit) {
	cap := f.law.cap()
	if l.unit == requestsUnit {
		k.RequestThroughputPerS = record.Known(cap)
		return
	}
	k.OutputTokenThroughputPerS = record.Known(cap)
	k.RequestThroughputPerS = record.Known(cap / tokensPerRequest(l))
}

// tokensPerRequest is the median over the loads, NaN where unknown.
func tokensPerRequest(l *ladder) float64 {
	var ratios []float64
	for _, d := range l.loads {
		if r := d.x / d.req; !math.IsNaN(r) {
			ratios = append(ratios, r)
		}
	}
	return stat.Median(ratios)
}
