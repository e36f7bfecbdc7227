package gate

import (
	"fmt"
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/slo"
	"github.com/headway-bench/headway/report/stat"
)

// JudgePair compares two targets that were run in turns, rung by rung: b is
// the one that may not be worse than a. Rungs of the same load and repeat are a
// pair; in the order ABBA a drift of the machine falls on both, and what is
// left of a linear one cancels over two pairs. The unit is the log ratio of a
// pair, over all loads together: the question is whether b is slower, and one
// answer holds for the ladder. One error rate holds for the whole set. Pairs
// with an invalid rung are left out; the verdict is invalid when most are.
func JudgePair(a, b Run, o Options) Verdict {
	const kind = "pair"
	pairs, lone := pairUp(a.Rungs, b.Rungs, o.At)
	if len(pairs) == 0 {
		return refuse(kind, "no rung of %s has the load and repeat of one of %s", b.Name, a.Name)
	}
	v := newVerdict(kind)
	all := len(pairs)
	pairs = v.validPairs(pairs)
	if 2*len(pairs) < all {
		v.raise(Invalid)
		v.warn("invalid_pairs", "%d of %d pairs are invalid: too few are left to judge", all-len(pairs), all)
		return v
	}
	if lone > 0 {
		v.warn("unpaired", "%d rungs have no partner and are left out", lone)
	}
	var as, bs []record.Rung
	for _, p := range pairs {
		as, bs = append(as, p.a), append(bs, p.b)
	}
	v.doubt(append(append([]record.Rung{}, as...), bs...))
	var family []candidate
	for _, m := range o.metrics() {
		if c, ok := pairCandidate(pairs, m, o.limit()); ok {
			family = append(family, c)
		}
	}
	v.judgeFamily(family, o.limit())
	if len(family) == 0 {
		v.raise(Usage)
		v.warn("no_metric", "neither side has any of the metrics that are judged")
	}
	whole := pairedLoad{name: "all loads", base: []Run{{Name: a.Name, Rungs: as}}, runs: []Run{{Name: b.Name, Rungs: bs}}}
	v.add(whole.errorRise())
	return v
}

// doubt notes rungs that are inconclusive on their own. They are judged all the
// same: what they lack shows in the spread over the pairs.
func (v *Verdict) doubt(rungs []record.Rung) {
	count, why := 0, ""
	for _, r := range rungs {
		if r.Verdict == record.Inconclusive {
			if count++; why == "" && len(r.Reasons) > 0 {
				why = ", the first as " + r.Reasons[0].Message
			}
		}
	}
	if count > 0 {
		v.warn("inconclusive_rungs", "%d of %d rungs are inconclusive on their own%s", count, len(rungs), why)
	}
}

// validPairs leaves out the pairs of which a rung is invalid, and says why.
// What disturbed this machine during one rung says nothing of the others.
func (v *Verdict) validPairs(pairs []pair) []pair {
	var valid []pair
	for _, p := range pairs {
		sound := true
		for _, r := range []record.Rung{p.a, p.b} {
			if r.Verdict != record.Invalid {
				continue
			}
			sound = false
			why := "invalid"
			if len(r.Reasons) > 0 {
				why = r.Reasons[0].Message
			}
			v.warn("invalid_pair", "the pair at %s, repeat %d, is left out: %s", LoadName([]record.Rung{r}), r.Repeat, why)
		}
		if sound {
			valid = append(valid, p)
		}
	}
	return valid
}

// pair is two rungs that were run one after the other.
type pair struct{ a, b record.Rung }

// pairUp joins rungs by load and order among the repeats of it.
func pairUp(a, b []record.Rung, at At) (pairs []pair, lone int) {
	partners := map[string][]record.Rung{}
	for _, r := range b {
		name := LoadName([]record.Rung{r})
		partners[name] = append(partners[name], r)
	}
	for _, r := range a {
		name := LoadName([]record.Rung{r})
		if at != (At{}) && at.String() != name {
			continue
		}
		if len(partners[name]) == 0 {
			lone++
			continue
		}
		pairs = append(pairs, pair{r, partners[name][0]})
		partners[name] = partners[name][1:]
	}
	for name, rest := range partners {
		if at == (At{}) || at.String() == name {
			lone += len(rest)
		}
	}
	return pairs, lone
}

// pairCandidate prepares one metric over all pairs; ok is false where no pair
// has it.
func pairCandidate(pairs []pair, m Metric, limit float64) (c candidate, ok bool) {
	c = candidate{metric: m, check: Check{Name: m.Name(), Load: "all loads", Unit: unitKey(m.Metric), Limit: record.Known(regressed(limit, m))}}
	var d, as, bs []float64
	few, half := int64(0), 0
	for _, p := range pairs {
		ra, rb := slo.Read([]record.Rung{p.a}, m.Metric, m.Stat), slo.Read([]record.Rung{p.b}, m.Metric, m.Stat)
		va, vb := ra.Value.Or(0), rb.Value.Or(0)
		switch {
		case va > 0 && vb > 0:
			d = append(d, m.sign()*math.Log(vb/va))
			as, bs = append(as, math.Log(va)), append(bs, math.Log(vb))
		case ra.State == slo.FewSamples || rb.State == slo.FewSamples:
			few = max(ra.Need, rb.Need)
		case (va > 0) != (vb > 0):
			half++
		}
	}
	switch {
	case half > 0:
		c.settle(Usage, "one side did not measure it")
	case len(d) == 0 && few > 0:
		c.check.Need = few
		c.settle(Inconclusive, fmt.Sprintf("too few samples for %s: it needs %d a rung", m.Name(), few))
	case len(d) == 0:
		return c, false
	default:
		c.check.Base, c.check.Value = record.Known(math.Exp(stat.Mean(as))), record.Known(math.Exp(stat.Mean(bs)))
		c.check.Samples = int64(len(d))
		c.shift = func(e stat.Errors) stat.Shift { return stat.OfPairs(d, e) }
	}
	return c, true
}
