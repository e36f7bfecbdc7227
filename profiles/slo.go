package profiles

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// SLO is one limit. Value is in milliseconds for latencies, a ratio of 0 to 1
// for error_rate and kv_cache_usage, per second for speeds and throughputs, and
// a count for preemptions.
type SLO struct {
	Metric  string // ttft itl icl tpot e2e ttfo tps goodput request_throughput output_token_throughput error_rate kv_cache_usage preemptions
	Stat    string // mean p50 p90 p95 p99 p05, or "" where the metric is one number
	AtLeast bool   // the value is a lower limit
	Value   float64
	Text    string // the value as written, such as 500ms
}

// Name is the name as written: ttft_p95, error_rate.
func (s SLO) Name() string {
	if s.Stat == "" {
		return s.Metric
	}
	return s.Metric + "_" + s.Stat
}

// String writes the limit as a flag takes it.
func (s SLO) String() string {
	if s.AtLeast {
		return s.Name() + ">=" + s.Text
	}
	return s.Name() + "<=" + s.Text
}

// sloKind is the unit and the direction of a metric.
type sloKind int

const (
	latencyLimit sloKind = iota // at most, with a unit of time
	ratioLimit                  // at most, in percent
	countLimit                  // at most, a count
	speedLimit                  // at least, tokens per second
	requestLimit                // at least, requests per second
)

type sloMetric struct {
	name  string
	kind  sloKind
	stats []string
}

var (
	latencyStats = []string{"mean", "p50", "p90", "p95", "p99"}
	sloMetrics   = []sloMetric{
		{"ttft", latencyLimit, latencyStats},
		{"itl", latencyLimit, latencyStats},
		{"icl", latencyLimit, latencyStats},
		{"tpot", latencyLimit, latencyStats},
		{"e2e", latencyLimit, latencyStats},
		{"ttfo", latencyLimit, latencyStats},
		{"tps", speedLimit, []string{"mean", "p50", "p05"}},
		{"goodput", requestLimit, nil},
		{"request_throughput", requestLimit, nil},
		{"output_token_throughput", speedLimit, nil},
		{"error_rate", ratioLimit, nil},
		{"kv_cache_usage", ratioLimit, nil},
		{"preemptions", countLimit, nil},
	}
)

// sloNames lists every name that a limit can have.
func sloNames() []string {
	var names []string
	for _, m := range sloMetrics {
		if m.stats == nil {
			names = append(names, m.name)
		}
		for _, stat := range m.stats {
			names = append(names, m.name+"_"+stat)
		}
	}
	return names
}

// ParseSLOs reads the form that a flag has: name=value, name<=value or
// name>=value, joined by commas. It reports every fault, as Errors, and returns
// the limits by name.
func ParseSLOs(list string) ([]SLO, error) {
	slos, errs := splitLimits(list)
	limits, more := slos.limits()
	if errs = append(errs, more...); len(errs) > 0 {
		return nil, errs
	}
	return limits, nil
}

// splitLimits takes a list of limits apart without looking at their values.
func splitLimits(list string) (SLOs, Errors) {
	var errs Errors
	slos := SLOs{}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		name, value, ok := cutLimit(item)
		if !ok {
			errs = append(errs, Error{Field: "slo", Message: fmt.Sprintf("%q is no limit", quotable(item)), Hint: "write ttft_p95=500ms or tps_p05>=20, joined by commas"})
			continue
		}
		if _, twice := slos[name]; twice {
			errs = append(errs, Error{Field: join("slo", name), Message: "stands twice", Hint: "keep one of them"})
			continue
		}
		slos[name] = value
	}
	return slos, errs
}

// cutLimit splits name<=value; of "=" nothing is kept before the value.
func cutLimit(item string) (name, value string, ok bool) {
	i := strings.IndexAny(item, "<>=")
	if i <= 0 {
		return "", "", false
	}
	name, value = strings.TrimSpace(item[:i]), strings.TrimSpace(item[i:])
	return name, strings.TrimPrefix(value, "="), true
}

// List returns the limits in order of their names, or Errors.
func (s SLOs) List() ([]SLO, error) {
	limits, errs := s.limits()
	return limits, errs.or()
}

func (s SLOs) limits() ([]SLO, Errors) {
	var errs Errors
	var limits []SLO
	for _, name := range sortedKeys(s) {
		limit, err := parseLimit(name, s[name])
		if err != nil {
			errs = append(errs, *err)
			continue
		}
		limits = append(limits, limit)
	}
	return limits, errs
}

// parseLimit reads one limit; the text may start with "<=" or ">=".
func parseLimit(name, text string) (SLO, *Error) {
	fault := func(hint, format string, args ...any) (SLO, *Error) {
		return SLO{}, &Error{Field: join("slo", quotable(name)), Message: fmt.Sprintf(format, args...), Hint: hint}
	}
	metric, stat, ok := findMetric(name)
	if !ok {
		if len(metric.stats) > 0 {
			return fault("write "+metric.name+"_"+strings.Join(metric.stats, ", "+metric.name+"_"), "%s needs a statistic", metric.name)
		}
		return fault(didYouMean(name, sloNames()), "unknown metric")
	}
	atLeast := metric.kind == speedLimit || metric.kind == requestLimit
	value := strings.TrimSpace(text)
	for _, operator := range []string{"<=", ">="} {
		rest, found := strings.CutPrefix(value, operator)
		if !found {
			continue
		}
		if atLeast != (operator == ">=") {
			return fault(fmt.Sprintf("write %s%s%s", name, map[bool]string{true: ">=", false: "<="}[atLeast], strings.TrimSpace(rest)),
				"is limited from the wrong side: %s", map[bool]string{true: "more is better", false: "less is better"}[atLeast])
		}
		value = strings.TrimSpace(rest)
		break
	}
	number, hint := limitValue(metric.kind, value)
	if hint != "" {
		return fault(hint, "%q is no limit for it", quotable(value))
	}
	return SLO{Metric: metric.name, Stat: stat, AtLeast: atLeast, Value: number, Text: value}, nil
}

// findMetric splits a name into metric and statistic. Without ok the metric may
// still be known: then its statistic is missing or wrong.
func findMetric(name string) (m sloMetric, stat string, ok bool) {
	for _, m := range sloMetrics {
		if name == m.name {
			return m, "", m.stats == nil
		}
		if stat, found := strings.CutPrefix(name, m.name+"_"); found && slices.Contains(m.stats, stat) {
			return m, stat, true
		}
	}
	return sloMetric{}, "", false
}

// limitValue reads a value in the unit of its metric. The hint says what to
// write instead, and is "" when the value is good.
func limitValue(kind sloKind, text string) (value float64, hint string) {
	switch kind {
	case latencyLimit:
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return 0, "write a time above 0 with its unit: 500ms or 2s"
		}
		return float64(d) / float64(time.Millisecond), ""
	case ratioLimit:
		percent, found := strings.CutSuffix(text, "%")
		v, ok := limitNumber(percent)
		if !ok || v > 100 || (!found && v != 0) {
			return 0, "write a percentage from 0% to 100%: 0.5%"
		}
		return v / 100, ""
	case countLimit:
		v, ok := limitNumber(text)
		if !ok || v != math.Trunc(v) {
			return 0, "write a count: 0"
		}
		return v, ""
	}
	units, example := []string{"tok/s", "/s"}, "20 or 20tok/s"
	if kind == requestLimit {
		units, example = []string{"req/s", "/s"}, "4 or 4req/s"
	}
	for _, unit := range units {
		text = strings.TrimSuffix(text, unit)
	}
	v, ok := limitNumber(strings.TrimSpace(text))
	if !ok || v == 0 {
		return 0, "write a number above 0 per second: " + example
	}
	return v, ""
}

func limitNumber(text string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return v, err == nil && v >= 0 && !math.IsInf(v, 0)
}

// decodeNode reads a mapping of names to limits, or the form of the flag.
func (s *SLOs) decodeNode(d *decoder, n ast.Node, path string) {
	if text, ok := n.(*ast.StringNode); ok {
		slos, errs := splitLimits(text.Value)
		for _, e := range errs {
			d.fail(n, e.Field, e.Hint, "%s", e.Message)
		}
		*s = slos
		return
	}
	entries := map[string]string{}
	d.mapping(n, reflect.ValueOf(&entries).Elem(), path)
	*s = entries
}
