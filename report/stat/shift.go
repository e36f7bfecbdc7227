package stat

import (
	"math"
	"slices"
)

// Shift is how far the centre of one sample lies from that of another, or the
// centre of paired differences from 0, with one-sided bounds.
type Shift struct {
	Estimate float64
	// Lo and Hi are the lower and the upper bound, each at its own one-sided
	// error rate; infinite where the sample is too small for it.
	Lo, Hi float64
	// SD is the spread of one sample, pooled, or of the differences.
	SD float64
	// Test names the procedure and what it assumes.
	Test string
}

// Errors are the one-sided error rates of a Shift's bounds.
type Errors struct{ Lo, Hi float64 }

// Two-sample procedures need this many values on each side to make no
// assumption about their distribution.
const rankFrom = 6

// Between estimates the shift from base to values. From six values on each
// side it is Hodges and Lehmann's estimate with the exact bounds of Mann and
// Whitney's test, which assume only that both have the same shape; below that
// Welch's t, which assumes normal values. Both assume independent values: the
// caller passes one value a run, not one a request.
func Between(base, values []float64, e Errors) Shift {
	if min(len(base), len(values)) >= rankFrom {
		return hodgesLehmann(base, values, e)
	}
	return welch(base, values, e)
}

func welch(base, values []float64, e Errors) Shift {
	s := Shift{Estimate: Mean(values) - Mean(base), Lo: math.Inf(-1), Hi: math.Inf(1), Test: "Welch's t on logs, which assumes log-normal values"}
	n, m := float64(len(base)), float64(len(values))
	if n < 2 || m < 2 {
		s.SD = math.NaN()
		return s
	}
	vb, vv := Variance(base), Variance(values)
	s.SD = math.Sqrt((vb + vv) / 2)
	se2 := vb/n + vv/m
	if se2 == 0 {
		s.Lo, s.Hi = s.Estimate, s.Estimate
		return s
	}
	nu := se2 * se2 / (vb*vb/(n*n*(n-1)) + vv*vv/(m*m*(m-1)))
	s.Lo = s.Estimate - StudentT(1-e.Lo, nu)*math.Sqrt(se2)
	s.Hi = s.Estimate + StudentT(1-e.Hi, nu)*math.Sqrt(se2)
	return s
}

func hodgesLehmann(base, values []float64, e Errors) Shift {
	var d []float64
	for _, v := range values {
		for _, b := range base {
			d = append(d, v-b)
		}
	}
	slices.Sort(d)
	counts := mannWhitneyCounts(len(base), len(values))
	s := rankBounds(d, counts, e)
	s.Estimate = Median(d)
	s.SD = math.Sqrt((Variance(base) + Variance(values)) / 2)
	s.Test = "Hodges-Lehmann on logs with exact Mann-Whitney bounds, which assumes equal shapes only"
	return s
}

// OfPairs estimates the centre of paired differences by Student's t, which
// assumes normal ones. Signed ranks assume symmetry only, but few pairs have
// few ranks: on ten pairs of drifting runs they pass equal targets less often,
// with disturbed runs among them too.
func OfPairs(d []float64, e Errors) Shift {
	s := Shift{Estimate: Mean(d), Lo: math.Inf(-1), Hi: math.Inf(1), SD: math.NaN(), Test: "Student's t on log ratios of pairs, which assumes normal differences"}
	n := float64(len(d))
	if n < 2 {
		return s
	}
	s.SD = math.Sqrt(Variance(d))
	se := s.SD / math.Sqrt(n)
	s.Lo = s.Estimate - StudentT(1-e.Lo, n-1)*se
	s.Hi = s.Estimate + StudentT(1-e.Hi, n-1)*se
	return s
}

// rankBounds takes the bounds from sorted statistics: with P(rank statistic
// < k) at most the error rate, the k-th smallest is a lower bound and the k-th
// largest an upper one.
func rankBounds(sorted, counts []float64, e Errors) Shift {
	s := Shift{Lo: math.Inf(-1), Hi: math.Inf(1)}
	if k := rankOf(counts, e.Lo); k > 0 {
		s.Lo = sorted[k-1]
	}
	if k := rankOf(counts, e.Hi); k > 0 {
		s.Hi = sorted[len(sorted)-k]
	}
	return s
}

// rankOf is the largest k for which the first k outcomes have a probability of
// at most alpha.
func rankOf(counts []float64, alpha float64) int {
	total := 0.0
	for _, c := range counts {
		total += c
	}
	sum, k := 0.0, 0
	for _, c := range counts {
		sum += c
		if sum > alpha*total {
			break
		}
		k++
	}
	return k
}

// mannWhitneyCounts counts the arrangements of n and m values for every value
// of U, 0 to n*m.
func mannWhitneyCounts(n, m int) []float64 {
	// ways[i][u] is over i values of the first sample and j of the second, for
	// growing j.
	ways := make([][]float64, n+1)
	for i := range ways {
		ways[i] = make([]float64, n*m+1)
		ways[i][0] = 1
	}
	for j := 1; j <= m; j++ {
		for i := 1; i <= n; i++ {
			// The largest value is of the second sample (U grows by i), or of
			// the first (it does not).
			row := make([]float64, n*m+1)
			for u := range row {
				row[u] = ways[i-1][u]
				if u >= i {
					row[u] += ways[i][u-i]
				}
			}
			ways[i] = row
		}
	}
	return ways[n]
}

// Need is the number of values on each side that would tell a distance d from
// a limit with the spread sd, at one-sided error alpha and 80 % power; it is at
// most 10000.
func Need(sd, d, alpha float64) int64 {
	const power, most = 0.8416, 10000
	if !(sd >= 0) || d == 0 {
		return most
	}
	z := StudentT(1-alpha, 1e6) + power
	n := math.Ceil(2 * sd * sd * z * z / (d * d))
	return int64(min(max(n, 2), most))
}
