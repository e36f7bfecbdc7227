package gate

import (
	"math"
	"slices"

	"github.com/headway-bench/headway/report/stat"
)

// candidate is a check whose shift can be judged at any error rate.
type candidate struct {
	check  Check
	metric Metric
	shift  func(stat.Errors) stat.Shift // in which a rise is a regression
	// settled says that there is nothing to compare: the status stands.
	settled bool
}

// judgeFamily judges all candidates so that one error rate holds for the set:
// Hommel's closed test of Simes' inequality. It holds for metrics that depend on
// each other positively, as those of one run do: what slows one slows the
// others. Such metrics regress together, and then it asks of each little more
// than of a lone one.
func (v *Verdict) judgeFamily(cs []candidate, limit float64) {
	level := familyLevel(cs, math.Log(1+limit))
	for _, c := range cs {
		if !c.settled {
			e := stat.Errors{Lo: level, Hi: passError}
			c.check.judge(c.shift(e), c.metric, limit, e)
		}
		v.add(c.check)
	}
}

// familyLevel is the error rate at which each metric may be judged: familyError
// over j, with j the size of the largest set of the highest p-values that
// Simes' test does not reject; familyError itself where it rejects each.
func familyLevel(cs []candidate, bar float64) float64 {
	var p []float64
	for _, c := range cs {
		if !c.settled {
			p = append(p, c.pValue(bar))
		}
	}
	slices.Sort(p)
	for j := len(p); j > 0; j-- {
		if !simesRejects(p[len(p)-j:], familyError) {
			return familyError / float64(j)
		}
	}
	return familyError
}

// simesRejects says that of n sorted p-values the k-th is at most k/n of alpha,
// for any k.
func simesRejects(p []float64, alpha float64) bool {
	for k, v := range p {
		if v <= float64(k+1)*alpha/float64(len(p)) {
			return true
		}
	}
	return false
}

// pValue is the smallest error rate at which the lower bound of the shift is
// above bar, to a thousandth of it; 1 where it is none up to familyError.
func (c candidate) pValue(bar float64) float64 {
	above := func(logLevel float64) bool {
		return c.shift(stat.Errors{Lo: math.Exp(logLevel), Hi: passError}).Lo > bar
	}
	lo, hi := math.Log(1e-9), math.Log(familyError)
	if !above(hi) {
		return 1
	}
	for hi-lo > 1e-3 {
		if mid := (lo + hi) / 2; above(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return math.Exp(hi)
}
