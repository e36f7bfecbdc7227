package gate

import (
	"math"

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

// judgeFamily judges all candidates so that one error rate holds for the set.
// A metric fails when its regression is beyond the limit at the level that
// Hochberg's procedure gives: the loosest alpha/i at which all but i-1 metrics
// of the set are beyond it. That holds for metrics that depend on each other
// positively, as those of one run do: what slows one slows the others.
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

func familyLevel(cs []candidate, bar float64) float64 {
	var open []candidate
	for _, c := range cs {
		if !c.settled {
			open = append(open, c)
		}
	}
	m := len(open)
	for i := 1; i < m; i++ {
		level, beyond := familyError/float64(i), 0
		for _, c := range open {
			if c.shift(stat.Errors{Lo: level, Hi: passError}).Lo > bar {
				beyond++
			}
		}
		if beyond >= m-i+1 {
			return level
		}
	}
	return familyError / float64(max(m, 1))
}
