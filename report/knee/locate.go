package knee

import (
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/stat"
)

// agreement is how far apart the law and the running signal may be, as a
// ratio, to be weighed together.
const agreement = 1.25

// locate sets the load of a knee that was found, with its interval.
func (k *Knee) locate(l *ladder, f ladderFit, o Options) {
	law, running := f.resample(o)
	k.LawInFlight = record.Known(f.law.kink)
	k.HingeInFlight = record.Known(f.law.cap() * f.samples[0].n / math.Exp(f.samples[0].y))
	at, draws := f.law.kink, law
	if f.run != nil {
		k.Running.InFlight = record.Known(f.running.kink)
		k.Running.Plateau = record.Known(f.running.cap())
		if ratio := f.running.kink / f.law.kink; ratio < agreement && ratio > 1/agreement {
			at, draws = weigh(f.law.kink, f.running.kink, law, running)
		} else {
			k.warn("signals_differ", "throughput bends at %.4g in flight, the running requests at %.4g: the law on throughput stands", f.law.kink, f.running.kink)
		}
	}
	k.InFlight = record.Known(at)
	k.InFlightCI95 = interval(draws)
	k.throughput(l, f)
	if l.mode == record.Open {
		k.locateRate(l, f, o)
	}
}

// weigh joins two estimates of one load in the log, each by the inverse of its
// variance over the resamples.
func weigh(a, b float64, as, bs []float64) (float64, []float64) {
	va := math.Max(stat.Variance(logs(as)), 1e-8)
	vb := math.Max(stat.Variance(logs(bs)), 1e-8)
	wa := vb / (va + vb)
	join := func(a, b float64) float64 { return math.Exp(wa*math.Log(a) + (1-wa)*math.Log(b)) }
	out := make([]float64, len(as))
	for i := range as {
		out[i] = join(as[i], bs[i])
	}
	return join(a, b), out
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
	perRequest := tokensPerRequest(l)
	if l.unit == tokensUnit {
		k.OutputTokenThroughputPerS = record.Known(cap)
		k.RequestThroughputPerS = record.Known(cap / perRequest)
		return
	}
	k.RequestThroughputPerS = record.Known(cap)
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
