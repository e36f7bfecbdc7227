package knee

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

// agreement is how far apart the law and a running signal may be, as a ratio,
// to be weighed together.
const agreement = 1.25

// estimate is a load with the draws of its resamples.
type estimate struct {
	at    float64
	draws []float64
}

// locate sets the load of a knee that was found, with its interval.
func (k *Knee) locate(l *ladder, f ladderFit, o Options) {
	rng := stat.Rand(o.Seed, 0x6b6e6565)
	law := estimate{f.law.kink, resample(f.samples, f.law, f.family, noiseOf(f.samples, f.law, f.params, withinX(l.loads)), o.resamples(), rng)}
	signals := []estimate{law}
	k.LawInFlight = record.Known(law.at)
	k.HingeInFlight = record.Known(f.law.cap() * f.samples[0].n / math.Exp(f.samples[0].y))
	if f.run != nil {
		k.Running.InFlight, k.Running.Plateau = record.Known(f.running.kink), record.Known(f.running.cap())
		draws := resample(f.run, f.running, hingeAt, noiseOf(f.run, f.running, 2, withinRun(l.loads)), o.resamples(), rng)
		signals = k.agree(signals, estimate{f.running.kink, draws}, "the running requests")
	}
	if f.server != nil {
		k.Running.Server = record.Known(f.serverRunning.kink)
		draws := resample(f.server, f.serverRunning, hingeAt, noiseOf(f.server, f.serverRunning, 2, spreadWithin{}), o.resamples(), rng)
		signals = k.agree(signals, estimate{f.serverRunning.kink, draws}, "the server's own running requests")
	}
	at := weigh(signals)
	k.InFlight, k.InFlightCI95 = record.Known(at.at), interval(at.draws)
	k.throughput(l, f)
}

// agree adds a signal to those that are weighed where it is within 25 % of the
// law, and warns where it is not.
func (k *Knee) agree(signals []estimate, s estimate, what string) []estimate {
	law := signals[0].at
	if ratio := s.at / law; ratio < agreement && ratio > 1/agreement {
		return append(signals, s)
	}
	k.warn("signals_differ", "throughput bends at %.4g in flight, %s at %.4g: the law on throughput stands", law, what, s.at)
	return signals
}

// weigh joins estimates of one load in the log, each by the inverse of its
// variance over the resamples.
func weigh(signals []estimate) estimate {
	var sum, total float64
	joined := make([]float64, len(signals[0].draws))
	for _, s := range signals {
		w := 1 / math.Max(stat.Variance(logs(s.draws)), 1e-8)
		total += w
		sum += w * math.Log(s.at)
		for i, d := range s.draws {
			joined[i] += w * math.Log(d)
		}
	}
	for i := range joined {
		joined[i] = math.Exp(joined[i] / total)
	}
	return estimate{math.Exp(sum / total), joined}
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
