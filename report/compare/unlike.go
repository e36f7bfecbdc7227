package compare

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/headway-bench/headway/profiles"
)

// fact is one thing that results must share to be compared.
type fact struct {
	field string
	of    func(profiles.Profile) string
}

// facts are the model, the lengths, the precision and the sampling. What
// serves, on what and under which load may differ: that is what is compared.
var facts = []fact{
	{"model.family", func(p profiles.Profile) string { return p.Model.Family }},
	{"model.version", func(p profiles.Profile) string { return p.Model.Version }},
	{"model.size", func(p profiles.Profile) string { return p.Model.Size }},
	{"model.id", func(p profiles.Profile) string { return p.Model.ID }},
	{"precision.weights", func(p profiles.Profile) string { return p.Precision.Weights }},
	{"precision.kv_cache", func(p profiles.Profile) string { return p.Precision.KVCache }},
	{"workload.input_tokens", func(p profiles.Profile) string { return length(p.Workload.InputTokens) }},
	{"workload.output_tokens", func(p profiles.Profile) string { return length(p.Workload.OutputTokens) }},
	{"workload.prompt", func(p profiles.Profile) string { return p.Workload.Prompt }},
	{"workload.prefix", func(p profiles.Profile) string { return fmt.Sprint(p.Workload.Prefix) }},
	{"workload.sampling", func(p profiles.Profile) string { return p.Workload.Sampling.String() }},
}

// Differences lists what the inputs do not share and must, to be compared; those
// that allow names are marked.
func Differences(inputs []Input, allow []string) []Difference {
	out := []Difference{}
	add := func(field string, values []string) {
		for i, v := range values {
			if v == "" {
				values[i] = profiles.Unknown
			}
		}
		if slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) {
			out = append(out, Difference{Field: field, Values: values, Allowed: slices.Contains(allow, field)})
		}
	}
	for _, f := range facts {
		values := make([]string, len(inputs))
		for i, in := range inputs {
			values[i] = f.of(in.Profile)
		}
		add(f.field, values)
	}
	for _, metric := range definedMetrics(inputs) {
		values := make([]string, len(inputs))
		for i, in := range inputs {
			if values[i] = in.Definitions[metric]; values[i] == "" {
				values[i] = "headway"
			}
		}
		add("definition."+metric, values)
	}
	return out
}

func definedMetrics(inputs []Input) []string {
	seen := map[string]bool{}
	for _, in := range inputs {
		for m := range in.Definitions {
			seen[m] = true
		}
	}
	var names []string
	for m := range seen {
		names = append(names, m)
	}
	sort.Strings(names)
	return names
}

// unusedNames are the allowed names by which nothing differs: a mistyped one
// must not pass in silence.
func unusedNames(ds []Difference, allow []string) []string {
	var unused []string
	for _, name := range allow {
		if !slices.ContainsFunc(ds, func(d Difference) bool { return d.Field == name }) {
			unused = append(unused, name)
		}
	}
	return unused
}

func fields(ds []Difference) string {
	if len(ds) == 0 {
		return "nothing"
	}
	names := make([]string, len(ds))
	for i, d := range ds {
		names[i] = d.Field
	}
	return strings.Join(names, ", ")
}

func length(l profiles.Length) string {
	switch l.Kind {
	case "":
		return ""
	case profiles.LengthEmpirical:
		return fmt.Sprintf("empirical of %d values, mean %.4g", len(l.Values), meanOf(l.Values))
	}
	return l.String()
}

func meanOf(xs []int) float64 {
	sum := 0
	for _, x := range xs {
		sum += x
	}
	return float64(sum) / float64(max(len(xs), 1))
}
