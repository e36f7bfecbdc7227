package profiles

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one fault of a profile: what is wrong, where, and the way out.
// Line and Column count from 1 and are 0 where the text has no position, as for
// a value that a flag set. It never quotes what may be a secret.
type Error struct {
	File    string
	Line    int
	Column  int
	Field   string // dotted path, such as load.closed.concurrency
	Message string
	Hint    string // what to do next
}

// Error writes file:line:column: field: message; hint.
func (e Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
		}
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Message)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Errors are all faults found in one profile, in the order of its text.
type Errors []Error

// Error writes one fault a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// or returns nil when there are no faults, so that a nil error stays nil.
func (e Errors) or() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// sort puts faults in the order of the text and keeps the order of equals.
func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

// Nearest returns the name closest to word, or "" when none is close: at most
// a third of the letters may be inserted, deleted, replaced or swapped.
func Nearest(word string, names []string) string {
	best, bestDistance := "", max(1, len(word)/3)+1
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the optimal string alignment distance in bytes: insertions,
// deletions, replacements and swaps of neighbours.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// didYouMean words the nearest name as a hint, or lists what is known.
func didYouMean(word string, names []string) string {
	if near := Nearest(word, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known are " + strings.Join(names, ", ")
}
