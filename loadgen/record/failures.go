package record

import (
	"fmt"
	"slices"
	"strings"
)

// fail counts a failed request by its class and keeps what the first of the
// class said.
func (r *Requests) fail(t *Timeline) {
	class := t.class.String()
	r.Failures[class]++
	if _, told := r.FirstErrors[class]; told || t.Outcome.Err == "" {
		return
	}
	if r.FirstErrors == nil {
		r.FirstErrors = map[string]string{}
	}
	r.FirstErrors[class] = clip(t.Outcome.Err, maxError)
}

// Failures adds up the failures of rungs, with the first error of each class.
func Failures(rungs []Rung) Requests {
	out := Requests{Failures: map[string]int64{}, FirstErrors: map[string]string{}}
	for i := range rungs {
		r := &rungs[i].Requests
		for class, n := range r.Failures {
			out.Failures[class] += n
			if text := r.FirstErrors[class]; text != "" && out.FirstErrors[class] == "" {
				out.FirstErrors[class] = text
			}
		}
	}
	return out
}

// FailureText words the failures, the most frequent class first: "http_4xx 12
// (HTTP 400 Bad Request: ...), timeout 3"; "" without any.
func (r *Requests) FailureText() string {
	classes := make([]string, 0, len(r.Failures))
	for class, n := range r.Failures {
		if n > 0 {
			classes = append(classes, class)
		}
	}
	slices.SortFunc(classes, func(a, b string) int {
		if n := r.Failures[b] - r.Failures[a]; n != 0 {
			return int(n)
		}
		return strings.Compare(a, b)
	})
	for i, class := range classes {
		text := fmt.Sprintf("%s %d", class, r.Failures[class])
		if told := r.FirstErrors[class]; told != "" {
			text += " (" + told + ")"
		}
		classes[i] = text
	}
	return strings.Join(classes, ", ")
}
