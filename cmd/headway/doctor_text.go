package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/headway-bench/headway/loadgen/record"
)

// page is the text form of a checkup: names at the left, what was found at the
// right.
type page struct{ *tabwriter.Writer }

// line writes one line; nothing is left out, so that two pages can be laid
// beside each other.
func (p page) line(name, format string, args ...any) {
	fmt.Fprintf(p, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
}

// text is the checkup as one page.
func (c *checkup) text() []byte {
	var b bytes.Buffer
	p := page{tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)}
	version := strings.TrimSpace(c.Headway.Version + " " + c.Headway.Commit)
	fmt.Fprintf(p, "headway doctor: %s, %s %s/%s\n", version, c.Headway.Go, c.Headway.OS, c.Headway.Arch)
	if t := c.Target; t != nil {
		fmt.Fprintf(p, "\ntarget %s\n", t.URL)
		if t.Error != "" {
			p.line("error", "%s", t.Error)
		} else {
			t.text(p)
		}
	}
	c.Client.text(p)
	fmt.Fprintf(p, "\nwhat to change\n")
	for _, a := range c.Advice {
		fmt.Fprintf(p, "  - %s\n", a)
	}
	p.Flush()
	return b.Bytes()
}

func (t *targetState) text(p page) {
	p.line("engine", "%s, version %s; told by %s", known(t.Engine), known(t.Version), known(t.Source))
	p.line("dialect", "%s, %s route, because %s", t.Dialect, t.Route, t.Why)
	p.line("model", "%s, of %d listed; up to %s tokens", known(t.Model), len(t.Models), limit(t.MaxModelLen))
	for _, name := range slices.Sorted(maps.Keys(t.Settings)) {
		p.line("  "+name, "%s", t.Settings[name])
	}
	p.line("can", "%s", known(strings.Join(t.Can, ", ")))
	if t.Failed != "" {
		p.line("FAILED", "%s", t.Failed)
	}
	t.Stream.text(p)
	p.line("lengths", "%s", t.Lengths.line())
	t.Tokenizer.text(p)
	p.line("prefix cache", "%s", t.Cache.line())
	if len(t.Metrics) == 0 {
		p.line("telemetry", "none")
	}
	for i, m := range t.Metrics {
		p.line([]string{"telemetry", ""}[min(i, 1)], "%s", m.line())
	}
	if t.Stamps == "" {
		p.line("arrivals", "unknown")
	} else {
		p.line("arrivals", "stamped by the %s; connected to %s", t.Stamps, t.Remote)
	}
}

// text says how the longest answer came; s is nil when none did.
func (s *streamState) text(p page) {
	if s == nil {
		p.line("stream", "unknown: no answer came")
		return
	}
	p.line("stream", "%s", s.shape())
	p.line("", "%d events with output, %s tokens an event, at most %d events in one read; %d reconnects", s.Events, digits(s.TokensPerEvent), s.EventsPerReadMax, s.Reconnects)
	p.line("", "TTFT %s ms, ITL %s ms, E2E %s ms, finish %s", digits(s.TTFTMS), digits(s.ITLMeanMS), digits(s.E2EMS), known(s.Finish))
	p.line("usage", "%s; output tokens counted by %s; token ids %s; reasoning %s", known(s.Usage), known(s.TokenSource), yes(s.TokenIDs), yes(s.Reasoning))
	if len(s.Warnings) > 0 {
		p.line("warnings", "%s", strings.Join(s.Warnings, ", "))
	}
}

// shape says in a word how the answer came.
func (s *streamState) shape() string {
	switch {
	case s.NotStreamed:
		return "NOT a stream: the answer came at once"
	case s.Events == 0:
		return "no output seen"
	case s.Buffered == nil:
		return "too short to tell whether it is buffered"
	case *s.Buffered:
		return "BUFFERED: tokens come in bursts after silence"
	}
	return "not buffered: tokens come one after the other"
}

// line says whether lengths were obeyed, and why it is not known.
func (l *lengthState) line() string {
	if l == nil {
		return "unknown"
	}
	unknown := "unknown"
	if !l.Forced {
		unknown = "stopped early, and can't be forced"
	}
	return verdict(l.Obeyed, "obeyed", "NOT obeyed", unknown) + ": " + l.list()
}

func (k *tokenizerState) text(p page) {
	if k == nil {
		p.line("tokenizer", "unknown")
		return
	}
	p.line("tokenizer", "%s: prompt of %d tokens (%s), %s by the server's usage", verdict(k.Agrees, "agrees", "DIFFERS", "unknown"), k.Made, known(k.By), digits(k.Server))
	if k.OutputOwn.OK() {
		p.line("", "output: %s tokens by the tokenizer, %s by the server", digits(k.OutputOwn), digits(k.OutputServer))
	}
}

func (s *cacheState) line() string {
	if s == nil {
		return "unknown"
	}
	return fmt.Sprintf("%s %s (a prompt again: %s of %d tokens cached, TTFT %s ms; a new one: TTFT %s ms)", verdict(s.On, "on by", "off by", "unknown, as"), known(s.By),
		digits(s.CachedTokens), s.PromptTokens, digits(s.RepeatTTFTMS), digits(s.FreshTTFTMS))
}

func (m metricsState) line() string {
	if m.Error != "" {
		return m.Source + ": " + strings.TrimPrefix(m.Error, m.Source+": ")
	}
	out := fmt.Sprintf("%s (%s): %s", m.Source, known(strings.Join(m.Kinds, ", ")), known(strings.Join(m.Tells, ", ")))
	if m.KVTokens.OK() {
		out += "; the KV cache holds " + digits(m.KVTokens) + " tokens"
	}
	return out
}

// list writes the lengths asked for and got.
func (l lengthState) list() string {
	var parts []string
	for i, asked := range l.Asked {
		got := "unknown"
		if l.Got[i] != nil {
			got = strconv.Itoa(*l.Got[i])
		}
		parts = append(parts, fmt.Sprintf("%d asked, %s got", asked, got))
	}
	how := "without force"
	if l.Forced {
		how = "forced"
	}
	return strings.Join(append(parts, how), "; ")
}

func (c clientCheckup) text(p page) {
	fmt.Fprintf(p, "\nclient\n")
	p.line("machine", "%d processors, %s GiB", c.CPUs, digits(c.MemoryBytes.Scale(1.0/(1<<30))))
	p.line("limits", "%s open files (hard %s), %s local ports", limit(c.OpenFiles), limit(c.OpenFilesHard), limit(c.LocalPorts))
	p.line("threads", "%s when the machine is busy", c.Scheduling)
	p.line("clock", "step %s ns, %s ns a reading", digits(c.Timer.ClockStepNS), digits(c.Timer.ClockReadNS))
	p.line("wake-up", "late by p50 %s ms, p99 %s ms, at most %s ms", digits(c.Timer.WakeUpP50MS), digits(c.Timer.WakeUpP99MS), digits(c.Timer.WakeUpMaxMS))
	f := c.Capacity
	p.line("capacity", "at most %s events/s that come one by one: %s", digits(f.Events.MaxPerS), f.Events.cost())
	p.line("", "at most %s events/s in floods: %s", digits(f.Flooded.MaxPerS), f.Flooded.cost())
	p.line("", "at most %s requests/s of one token: %s", digits(f.Requests.MaxPerS), f.Requests.cost())
	p.line("", "read beside bundled servers, which share the processors: %s, %s and %s a second", digits(f.Events.ReadPerS), digits(f.Flooded.ReadPerS), digits(f.Requests.ReadPerS))
	if f.Error != "" {
		p.line("", "unknown: %s", f.Error)
	}
}

// cost says what one reading takes, beside a bare one.
func (r readCapacity) cost() string {
	return fmt.Sprintf("%s us of a processor each, %s of what net/http with go-sse takes", digits(r.CPUUS), digits(r.CPURatio))
}

func known(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// limit writes a limit of the system or of the server.
func limit(v record.Value) string {
	switch n, ok := v.Float(); {
	case !ok:
		return "unknown"
	case n >= 1<<62:
		return "unlimited"
	}
	return digits(v)
}

// digits writes a number with three digits.
func digits(v record.Value) string {
	n, ok := v.Float()
	switch {
	case !ok:
		return "-"
	case n >= 1000:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// verdict words what may be unknown.
func verdict(v *bool, good, bad, unknown string) string {
	switch {
	case v == nil:
		return unknown
	case *v:
		return good
	}
	return bad
}
