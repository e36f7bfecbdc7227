package knee

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/slo"
)

// OperatingStatus says whether a point could be named.
type OperatingStatus string

// The statuses.
const (
	PointFound OperatingStatus = "found"
	PointNone  OperatingStatus = "none"   // no valid rung keeps every limit
	PointNoSLO OperatingStatus = "no_slo" // no limit was given
)

// Operating is the POINT of a result: the figures of one load, its repeats
// together.
type Operating struct {
	Status OperatingStatus `json:"status"`
	Rungs  []int           `json:"rungs"` // Rung.Index of the repeats
	// Verdict is valid, or inconclusive where none of the rungs is valid; "" is
	// no point, or that of a result which does not tell.
	Verdict                   record.Verdict `json:"verdict,omitempty"`
	Concurrency               record.Value   `json:"concurrency"`
	RatePerS                  record.Value   `json:"rate_req_per_s"`
	InFlightMean              record.Value   `json:"in_flight_mean"`
	RequestThroughputPerS     record.Value   `json:"request_throughput_per_s"`
	OutputTokenThroughputPerS record.Value   `json:"output_token_throughput_per_s"`
	TokensPerSPerAccelerator  record.Value   `json:"output_token_throughput_per_s_per_accelerator"`
	GoodputReqPerS            record.Value   `json:"goodput_req_per_s"`
	PerUserTokensPerS         record.Value   `json:"per_user_tokens_per_s"` // median, or mean where only that is known
	TTFTP95MS                 record.Value   `json:"ttft_p95_ms"`
	ITLP95MS                  record.Value   `json:"itl_p95_ms"`
	E2EP95MS                  record.Value   `json:"e2e_p95_ms"`
	// Binding is the limit that stops the next step up, or why there is no
	// point; "" where the ladder ends first.
	Binding                   string       `json:"binding"`
	USDPerMillionOutputTokens record.Value `json:"usd_per_million_output_tokens"`
	USDPerMillionInputTokens  record.Value `json:"usd_per_million_input_tokens"`
	TokensPerJoule            record.Value `json:"tokens_per_joule"`

	load []record.Rung
}

// Load returns the rungs of the point, nil where there is none.
func (p Operating) Load() []record.Rung { return p.load }

// Economics prices a point; zero fields are unknown.
type Economics struct {
	USDPerHour   float64
	Accelerators int
	// InputPriceRatio is the cost of an input token over that of an output
	// token. Where it is known the cost of the hardware is shared between
	// both; otherwise each kind is priced as if it bore the whole.
	InputPriceRatio float64
}

// sameThroughput is the ratio within which two throughputs are one: of equal
// ones the lower load is better, as nothing but waiting is added above it.
const sameThroughput = 1.01

// sameSpeed is the ratio within which two speeds are one: that is about the
// error of a speed.
const sameSpeed = 1.01

// OperatingPoint is the load of the highest throughput at which every limit
// surely holds: on the repeats that are not invalid, each limit with its confidence bound; of
// throughputs within 1 % the one at the lowest load. Binding is what stops the
// next load above it.
func OperatingPoint(rungs []record.Rung, slos []profiles.SLO, e Economics) Operating {
	if len(slos) == 0 {
		return Operating{Status: PointNoSLO, Rungs: []int{}}
	}
	best := Operating{Status: PointNone, Rungs: []int{}}
	for _, repeats := range ByLoad(rungs) {
		load := trusted(repeats)
		if len(load) == 0 {
			best.bind("measurement: " + untrusted(repeats))
			continue
		}
		if broken := firstBroken(load, slos); broken != "" {
			best.bind(broken)
			continue
		}
		if p := pointOf(load, e); best.Status == PointNone || throughput(p) > sameThroughput*throughput(best) {
			best = p
		} else {
			best.bind("throughput no longer grows")
		}
	}
	return best
}

// Peak is the valid load of the highest throughput, whatever its latency. The
// rate of a handful of completions, as an interrupted rung leaves them, is no
// peak where there is another load.
func Peak(rungs []record.Rung, e Economics) Operating {
	best := Operating{Status: PointNone, Rungs: []int{}}
	points := validPoints(slices.DeleteFunc(slices.Clone(rungs), handful), e)
	if len(points) == 0 {
		points = validPoints(rungs, e)
	}
	for _, p := range points {
		if best.Status == PointNone || throughput(p) > throughput(best) {
			best = p
		}
	}
	return best
}

// mostAlone is the mean in-flight up to which a request is alone on the server
// for most of its time.
const mostAlone = 1.5

// SingleUser is the load that shows what one user gets with the server to
// himself. Of the valid loads with up to 1.5 requests in flight it is that of
// the best speed: the most output tokens per second and user, or the least mean
// E2E where that is unknown; of speeds within 1 % the lowest load. A ladder
// that starts higher has none, as the speed there is shared.
func SingleUser(rungs []record.Rung, e Economics) Operating {
	best := Operating{Status: PointNone, Rungs: []int{}}
	lowest := math.Inf(1)
	for _, p := range validPoints(rungs, e) {
		n := p.InFlightMean.Or(p.Concurrency.Or(math.Inf(1)))
		lowest = math.Min(lowest, n)
		if n <= mostAlone && (best.Status == PointNone || speed(p) > sameSpeed*speed(best)) {
			best = p
		}
	}
	if best.Status == PointNone && !math.IsInf(lowest, 1) {
		best.bind(fmt.Sprintf("the lowest load has %.3g requests in flight; add one with a single user", lowest))
	}
	return best
}

// bind keeps the first limit seen beyond the best point so far.
func (p *Operating) bind(limit string) {
	if p.Binding == "" {
		p.Binding = limit
	}
}

// ByLoad groups the rungs that were asked for the same load, repeats together,
// by ascending load; closed, then open, then offline. Where a closed loop's
// concurrency is unknown its in-flight stands in.
func ByLoad(rungs []record.Rung) [][]record.Rung {
	type key struct {
		mode record.Mode
		at   float64
	}
	keyOf := func(r record.Rung) key {
		switch {
		case r.Mode == record.Open:
			return key{r.Mode, r.RatePerS.Or(0)}
		case r.Mode == record.Closed && r.Concurrency == 0:
			return key{r.Mode, r.InFlightMean.Or(0)}
		}
		return key{r.Mode, float64(r.Concurrency)}
	}
	groups := map[key][]record.Rung{}
	var keys []key
	for _, r := range rungs {
		k := keyOf(r)
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], r)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.mode, b.mode), cmp.Compare(a.at, b.at))
	})
	out := make([][]record.Rung, len(keys))
	for i, k := range keys {
		out[i] = groups[k]
	}
	return out
}

// trusted returns the repeats of a load that are not invalid.
func trusted(load []record.Rung) []record.Rung {
	var out []record.Rung
	for _, r := range load {
		if r.Verdict != record.Invalid {
			out = append(out, r)
		}
	}
	return out
}

// handful says that a rung was judged to have too few completions for a rate:
// too few a user for Little's law, or fewer than 20 in all.
func handful(r record.Rung) bool {
	const least = 20
	return r.Verdict == record.Inconclusive && slices.ContainsFunc(r.Reasons, func(why record.Reason) bool {
		return why.Code == "little_law" || why.Code == "too_few_requests" && r.Requests.Completed < least
	})
}

// validPoints are the loads that have a repeat that is not invalid and of which
// anything completed, ascending.
func validPoints(rungs []record.Rung, e Economics) []Operating {
	var out []Operating
	for _, repeats := range ByLoad(rungs) {
		load := trusted(repeats)
		if len(load) == 0 {
			continue
		}
		if p := pointOf(load, e); p.RequestThroughputPerS.Or(1) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// untrusted is why a load has no valid repeat.
func untrusted(load []record.Rung) string {
	for _, r := range load {
		if r.Verdict == record.Invalid && len(r.Reasons) > 0 {
			return r.Reasons[0].Code
		}
	}
	return "invalid"
}

// firstBroken returns the first limit that does not surely hold, with what it
// is at, or "".
func firstBroken(load []record.Rung, slos []profiles.SLO) string {
	for _, s := range slos {
		r := slo.Read(load, s.Metric, s.Stat)
		if r.Surely(s) {
			continue
		}
		switch r.State {
		case slo.Missing:
			return s.String() + " (not measured)"
		case slo.FewSamples:
			return fmt.Sprintf("%s (%d samples, needs %d)", s, r.Samples, r.Need)
		}
		bound := r.Hi
		if s.AtLeast {
			bound = r.Lo
		}
		if v := r.Value.Or(0); slo.Holds(s, v) {
			return fmt.Sprintf("%s (%s, within its error of the limit: %s)", s, slo.Format(s.Metric, r.Value), slo.Format(s.Metric, bound))
		}
		return fmt.Sprintf("%s (%s)", s, slo.Format(s.Metric, r.Value))
	}
	return ""
}

func throughput(p Operating) float64 {
	return p.OutputTokenThroughputPerS.Or(p.RequestThroughputPerS.Or(0))
}

func speed(p Operating) float64 {
	if v, ok := p.PerUserTokensPerS.Float(); ok {
		return v
	}
	if v, ok := slo.Read(p.load, "e2e", "mean").Value.Float(); ok && v > 0 {
		return 1 / v
	}
	return 0
}

// pointOf reads the figures of one load.
func pointOf(load []record.Rung, e Economics) Operating {
	read := func(metric, stat string) record.Value { return slo.Read(load, metric, stat).Value }
	p := Operating{
		Status: PointFound, load: load,
		InFlightMean:              average(load, func(r record.Rung) record.Value { return r.InFlightMean }),
		RequestThroughputPerS:     read("request_throughput", ""),
		OutputTokenThroughputPerS: read("output_token_throughput", ""),
		GoodputReqPerS:            read("goodput", ""),
		PerUserTokensPerS:         cmp.Or(read("tps", "p50"), read("tps", "mean")),
		TTFTP95MS:                 read("ttft", "p95"),
		ITLP95MS:                  read("itl", "p95"),
		E2EP95MS:                  read("e2e", "p95"),
	}
	p.Verdict = record.Inconclusive
	for _, r := range load {
		p.Rungs = append(p.Rungs, r.Index)
		if r.Verdict == record.Valid {
			p.Verdict = record.Valid
		}
	}
	if load[0].Concurrency > 0 {
		p.Concurrency = record.Known(float64(load[0].Concurrency))
	}
	p.RatePerS = load[0].RatePerS
	p.price(load, e)
	return p
}

// price sets what a token costs in money and energy.
func (p *Operating) price(load []record.Rung, e Economics) {
	out := p.OutputTokenThroughputPerS
	in := average(load, func(r record.Rung) record.Value { return r.InputTokenThroughputPerS })
	if e.Accelerators > 0 {
		p.TokensPerSPerAccelerator = out.Scale(1 / float64(e.Accelerators))
	}
	if e.USDPerHour > 0 {
		perSecond := 1e6 * e.USDPerHour / 3600
		shared := e.InputPriceRatio
		o, okOut := out.Float()
		i, okIn := in.Float()
		switch {
		case shared > 0 && okOut && okIn && o+shared*i > 0:
			p.USDPerMillionOutputTokens = record.Known(perSecond / (o + shared*i))
			p.USDPerMillionInputTokens = record.Known(shared * perSecond / (o + shared*i))
		default:
			p.USDPerMillionOutputTokens = over(perSecond, out)
			p.USDPerMillionInputTokens = over(perSecond, in)
		}
	}
	watts := average(load, func(r record.Rung) record.Value {
		if r.Telemetry == nil {
			return record.Value{}
		}
		return r.Telemetry.GPUPowerWMean
	})
	if w, ok := watts.Float(); ok && w > 0 {
		p.TokensPerJoule = out.Scale(1 / w)
	}
}

func over(x float64, v record.Value) record.Value {
	y, ok := v.Float()
	if !ok || y <= 0 {
		return record.Value{}
	}
	return record.Known(x / y)
}

// average is the mean over the repeats that know the figure.
func average(load []record.Rung, figure func(record.Rung) record.Value) record.Value {
	sum, n := 0.0, 0.0
	for _, r := range load {
		if v, ok := figure(r).Float(); ok {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return record.Value{}
	}
	return record.Known(math.Max(sum/n, 0))
}
