package knee

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// nonNegative3 solves min |A*c - y| with every coefficient at or above 0, by
// trying each set of coefficients that may be above it; three have only seven.
func nonNegative3(rows [][3]float64, ys []float64) (best [3]float64, ok bool) {
	least := math.Inf(1)
	y := mat.NewVecDense(len(ys), ys)
	for set := 1; set < 8; set++ {
		var cols []int
		for j := range 3 {
			if set&(1<<j) != 0 {
				cols = append(cols, j)
			}
		}
		if len(cols) > len(rows) {
			continue
		}
		a := mat.NewDense(len(rows), len(cols), nil)
		for i, row := range rows {
			for j, col := range cols {
				a.Set(i, j, row[col])
			}
		}
		var c mat.VecDense
		if err := c.SolveVec(a, y); err != nil {
			continue
		}
		var full [3]float64
		positive := true
		for j, col := range cols {
			full[col] = c.AtVec(j)
			positive = positive && full[col] >= 0
		}
		if rss := distance(rows, ys, full); positive && rss < least {
			best, least, ok = full, rss, true
		}
	}
	return best, ok
}

func distance(rows [][3]float64, ys []float64, c [3]float64) float64 {
	var rss float64
	for i, row := range rows {
		d := row[0]*c[0] + row[1]*c[1] + row[2]*c[2] - ys[i]
		rss += d * d
	}
	return rss
}
