package gate

import (
	"fmt"
	"math"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/slo"
	"github.com/headway-bench/headway/report/stat"
)

// errorRise judges the error rate of both sides by its absolute rise, as a
// ratio to none has no meaning, with Newcombe's interval of a difference of
// shares (1998, method 10).
func (l pairedLoad) errorRise() Check {
	c := Check{Name: "error_rate", Load: l.name, Unit: "ratio", Limit: record.Known(maxErrorRise), Test: "Newcombe's interval of a difference of shares"}
	base, fresh := slo.Read(join(l.base), "error_rate", ""), slo.Read(join(l.runs), "error_rate", "")
	c.Base, c.Value = base.Value, fresh.Value
	if base.State != slo.Measured || fresh.State != slo.Measured {
		c.Status, c.Message = Inconclusive, "no request ended on one side"
		return c
	}
	p, q := base.Value.Or(0), fresh.Value.Or(0)
	rise := q - p
	lo := rise - math.Hypot(q-fresh.Lo.Or(0), base.Hi.Or(1)-p)
	hi := rise + math.Hypot(fresh.Hi.Or(1)-q, p-base.Lo.Or(0))
	c.Lo, c.Hi, c.Samples = record.Known(lo), record.Known(hi), min(base.Samples, fresh.Samples)
	switch {
	case lo > maxErrorRise:
		c.Status = Fail
		c.Message = fmt.Sprintf("errors rose from %.3g %% to %.3g %%", 100*p, 100*q)
	case rise <= 0 || hi < maxErrorRise:
		c.Status = Pass
		c.Message = fmt.Sprintf("%.3g %%, base %.3g %%", 100*q, 100*p)
	default:
		c.Status = Inconclusive
		c.Need = stat.Need(math.Sqrt((p*(1-p)+q*(1-q))/2), rise-maxErrorRise, 0.025)
		c.Message = fmt.Sprintf("errors went from %.3g %% to %.3g %%: about %d requests a side would tell whether they rose by 1 point", 100*p, 100*q, c.Need)
	}
	return c
}
