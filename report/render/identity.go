package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
)

// fact is one line of a result's identity.
type fact struct{ Name, Value string }

// identity lists the facts without which a number can't be compared. What
// nobody told stands as unknown.
func identity(r *bundle.Result) []fact {
	p := &r.Profile
	facts := []fact{
		{"model", modelText(r)},
		{"hardware", hardwareText(p.Hardware)},
		{"precision", fmt.Sprintf("weights %s, KV cache %s", known(p.Precision.Weights), known(p.Precision.KVCache))},
		{"lengths", lengthsText(r)},
		{"sampling", samplingText(r)},
		{"load", offeredText(r)},
		{"engine", engineText(r)},
		{"settings", settingsText(r)},
		{"run", runText(r)},
	}
	for _, l := range r.Labels() {
		facts = append(facts, fact{strings.ToUpper(l), labelText(l, r)})
	}
	if r.Status != bundle.Complete {
		facts = append(facts, fact{strings.ToUpper(string(r.Status)), "the ladder was not finished; what was measured is shown"})
	}
	return facts
}

func labelText(label string, r *bundle.Result) string {
	switch label {
	case "simulated":
		return "a time law answered, no model: not a measurement of hardware"
	case "emulated":
		return "the GPU's driver was emulated: not a measurement of a GPU"
	case "estimated":
		return "output tokens are counted as events, as nobody told their number"
	default:
		return "measured by " + r.Imported.Tool + ", by its definitions"
	}
}

// known returns s, or unknown for nothing.
func known(s string) string {
	if s == "" {
		return profiles.Unknown
	}
	return s
}

func modelText(r *bundle.Result) string {
	m := r.Profile.Model
	id := m.ID
	if id == "" || id == profiles.Unknown {
		id = known(r.Server.ModelID)
	}
	return fmt.Sprintf("%s (family %s, version %s, size %s)", id, known(m.Family), known(m.Version), known(m.Size))
}

func hardwareText(h profiles.Hardware) string {
	if h.Count <= 0 {
		return known(h.Accelerator) + ", count unknown"
	}
	return fmt.Sprintf("%d x %s", h.Count, known(h.Accelerator))
}

// lengthsText shows what was asked for, and what was measured beside it.
func lengthsText(r *bundle.Result) string {
	w := r.Profile.Workload
	s := fmt.Sprintf("input %s, output %s", lengthText(w.InputTokens), lengthText(w.OutputTokens))
	if in, out, ok := measuredLengths(r); ok {
		s += fmt.Sprintf(" (measured mean: %s in, %s out)", full(in), full(out))
	}
	return s
}

// measuredLengths are the mean lengths over all rungs, weighted by requests.
func measuredLengths(r *bundle.Result) (in, out record.Value, ok bool) {
	var inSum, outSum, inN, outN float64
	for i := range r.Rungs {
		if m, ok := r.Rungs[i].InputTokens.Mean.Float(); ok {
			n := float64(r.Rungs[i].InputTokens.Count)
			inSum, inN = inSum+m*n, inN+n
		}
		if m, ok := r.Rungs[i].OutputTokens.Mean.Float(); ok {
			n := float64(r.Rungs[i].OutputTokens.Count)
			outSum, outN = outSum+m*n, outN+n
		}
	}
	// 0/0 is unknown.
	return record.Known(inSum / inN), record.Known(outSum / outN), inN > 0 || outN > 0
}

func lengthText(l profiles.Length) string {
	switch l.Kind {
	case "":
		return profiles.Unknown
	case profiles.LengthDataset, profiles.LengthTrace:
		return "from a " + l.Kind
	default:
		return l.String() + " tokens"
	}
}

func samplingText(r *bundle.Result) string {
	if r.Imported != nil {
		return profiles.Unknown
	}
	text := r.Sampling().String()
	if r.Warned(bundle.LengthNotForced) {
		text += ", length not forced"
	}
	return text
}

// offeredText is how load was offered and for how long it was measured, and the
// limits that it was to be held to.
func offeredText(r *bundle.Result) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	p := &r.Profile
	switch {
	case p.Load.Open != nil && p.Load.Open.Trace != nil:
		add("open loop, arrivals of a trace")
	case p.Load.Open != nil:
		add("open loop, %s arrivals", known(p.Load.Open.Arrivals))
	case p.Load.Closed != nil:
		add("closed loop")
	case p.Load.Offline != nil:
		add("offline, all requests at once")
	}
	if s := p.Stage; s.Measure > 0 {
		// A trace, a ramp and an offline run have no steady state to find, and
		// their load decides how long the window is.
		ladder := p.Load.Offline == nil && (p.Load.Open == nil || len(p.Load.Open.Rate) > 0)
		switch {
		case !s.Warmup.Auto:
			add("warm-up %s", s.Warmup.Fixed)
		case ladder:
			add("warm-up auto")
		}
		if ladder {
			add("windows of at least %s and %d requests", s.Measure, s.MinRequests)
		}
		add("repeats %d", max(s.Repeats, 1))
	}
	if limits, err := p.SLO.List(); err == nil {
		for i, l := range limits {
			if i == 0 {
				add("limits %s", l)
			} else {
				add("%s", l)
			}
		}
	}
	return known(strings.Join(parts, ", "))
}

func engineText(r *bundle.Result) string {
	engine, version := r.Server.Engine, r.Server.Version
	if engine == "" {
		engine = r.Profile.Serving.Engine
	}
	if version == "" {
		version = r.Profile.Serving.Version
	}
	s := known(engine) + ", version " + known(version)
	if r.Server.IdentitySource != "" {
		s += " (told by " + r.Server.IdentitySource + ")"
	}
	return s
}

// settings merges the profile's settings with what the server told; the
// server's word counts.
func settings(r *bundle.Result) []fact {
	merged := map[string]string{}
	for k, v := range r.Profile.Serving.Settings {
		merged[k] = v
	}
	for k, v := range r.Server.Settings {
		merged[k] = v
	}
	names := make([]string, 0, len(merged))
	for k := range merged {
		names = append(names, k)
	}
	slices.Sort(names)
	out := make([]fact, len(names))
	for i, k := range names {
		out[i] = fact{k, merged[k]}
	}
	return out
}

func settingsText(r *bundle.Result) string {
	var parts []string
	for _, s := range settings(r) {
		parts = append(parts, s.Name+"="+s.Value)
	}
	return known(strings.Join(parts, ", "))
}

func runText(r *bundle.Result) string {
	s := known(r.Profile.Name)
	if r.StartedAt != "" {
		s += ", " + r.StartedAt
	}
	if d, ok := r.DurationS.Float(); ok {
		s += fmt.Sprintf(", %.0f s", d)
	}
	if r.Imported != nil {
		return s
	}
	return s + fmt.Sprintf(", seed %d, headway %s", r.Seed, known(r.Headway.Version))
}

// definitions lists how the tool of an imported result defines its metrics.
func definitions(r *bundle.Result) []fact {
	var out []fact
	for _, k := range slices.Sorted(maps.Keys(r.Imported.Definitions)) {
		out = append(out, fact{k, r.Imported.Definitions[k]})
	}
	return out
}
