package profiles

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// maxCombinations bounds a matrix; each combination is a ladder of its own.
const maxCombinations = 1000

// Combination is one cell of a matrix.
type Combination struct {
	Label   string            // input_tokens=128,output_tokens=64: unique, and good for a file name
	Values  map[string]string // by the matrix's keys
	Profile *Profile          // has no matrix of its own
}

// Expand returns the combinations of a matrix in order of its keys, the last
// one changing fastest, each key's values as listed. Without a matrix there is
// one combination with an empty label. It returns Errors when a value does not
// fit its field.
func Expand(p *Profile) ([]Combination, error) {
	c := new(checker)
	cells := c.expand(p)
	for _, cell := range cells {
		if len(c.errs) == 0 {
			c.errs = append(c.errs, cell.Profile.check()...)
		}
	}
	return cells, c.errs.or()
}

// matrix checks each value of a matrix by itself.
func (c *checker) matrix(p *Profile) {
	c.expand(p)
}

// expand sets every value of the matrix and reports those that do not fit.
func (c *checker) expand(p *Profile) []Combination {
	plain := clone(p)
	plain.Matrix = nil
	cells := []Combination{{Values: map[string]string{}, Profile: plain}}
	labels := map[string]int{}
	for _, key := range sortedKeys(p.Matrix) {
		field, values := "matrix."+quotable(key), p.Matrix[key]
		if len(values) == 0 {
			c.fail(field, "list at least one value, or remove it", "is empty")
			return nil
		}
		if len(values) > maxCombinations/len(cells) {
			c.fail("matrix", fmt.Sprintf("keep at most %d", maxCombinations), "has too many combinations")
			return nil
		}
		var next []Combination
		for _, cell := range cells {
			for i, value := range values {
				q := clone(cell.Profile)
				if faults := q.set(matrixPath(key), value); len(faults) > 0 {
					c.errs = append(c.errs, Error{Field: fmt.Sprintf("%s[%d]", field, i), Message: faults[0].Message, Hint: faults[0].Hint})
					continue
				}
				made := Combination{Label: strings.TrimPrefix(cell.Label+","+labelText(key)+"="+labelText(value), ","), Values: map[string]string{key: value}, Profile: q}
				maps.Copy(made.Values, cell.Values)
				next = append(next, made)
			}
			if len(c.errs) > 0 {
				return nil
			}
		}
		cells = next
	}
	for i := range cells {
		label := cells[i].Label
		if labels[label]++; labels[label] > 1 {
			cells[i].Label = fmt.Sprintf("%s,%d", label, labels[label])
		}
	}
	return cells
}

// matrixPath resolves a key: a dotted path, or the short name of a field of
// the workload.
func matrixPath(key string) string {
	if strings.Contains(key, ".") || slices.Contains(keys(reflect.TypeFor[Profile]()), key) {
		return key
	}
	return "workload." + key
}

var unlabelled = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// labelText keeps what is safe in a file name.
func labelText(s string) string { return strings.Trim(unlabelled.ReplaceAllString(s, "-"), "-") }
