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
	p.line("engine", "%s %s (%s)", known(t.Engine), known(t.Version), t.Source)
	p.line("dialect", "%s, %s route, because %s", t.Dialect, t.Route, t.Why)
	p.line("model", "%s of %d, up to %s tokens", known(t.Model), len(t.Models), count(t.MaxModelLen))
	for _, name := range slices.Sorted(maps.Keys(t.Settings)) {
		p.line("  "+name, "%s", t.Settings[name])
	}
	p.line("can", "%s", known(strings.Join(t.Can, ", ")))
	if t.Stream.Failed != "" {
		p.line("FAILED", "%s", t.Stream.Failed)
	}
	s := t.Stream
	p.line("stream", "%s", s.shape())
	p.line("", "%d events with output, %s tokens an event, at most %d events in one read", s.Events, digits(s.TokensPerEvent), s.EventsPerReadMax)
	p.line("", "TTFT %s ms, ITL %s ms, E2E %s ms, finish %s", digits(s.TTFTMS), digits(s.ITLMeanMS), digits(s.E2EMS), known(s.Finish))
	p.line("usage", "%s; output tokens counted by %s; token ids %s; reasoning %s", known(s.Usage), known(s.TokenSource), yes(s.TokenIDs), yes(s.Reasoning))
	if len(s.Warnings) > 0 {
		p.line("warnings", "%s", strings.Join(s.Warnings, ", "))
	}
	p.line("lengths", "%s: %s", verdict(t.Lengths.Obeyed, "obeyed", "NOT obeyed", t.Lengths.unknown()), t.Lengths.list())
	p.line("tokenizer", "%s: %d tokens made (%s), %s by the server", verdict(t.Tokenizer.Agrees, "agrees", "DIFFERS", "unknown"), t.Tokenizer.Made, known(t.Tokenizer.By), digits(t.Tokenizer.Server))
	if t.Tokenizer.OutputOwn.OK() {
		p.line("", "output: %s tokens by the tokenizer, %s by the server", digits(t.Tokenizer.OutputOwn), digits(t.Tokenizer.OutputServer))
	}
	p.line("prefix cache", "%s, by %s (a prompt again: %s of %d tokens cached, TTFT %s ms; a new one: TTFT %s ms)", verdict(t.Cache.On, "on", "off", "unknown"), known(t.Cache.By),
		digits(t.Cache.CachedTokens), t.Cache.PromptTokens, digits(t.Cache.RepeatTTFTMS), digits(t.Cache.FreshTTFTMS))
	p.line("metrics", "%s (%s)", known(t.Metrics.URL), known(strings.Join(t.Metrics.Kinds, ", ")))
	p.line("arrivals", "stamped by the %s; connected to %s; %d reconnects", known(t.Stamps), known(t.Remote), s.Reconnects)
}

// shape says in a word how the answer came.
func (s streamState) shape() string {
	switch {
	case s.Failed != "":
		return "unknown"
	case s.NotStreamed:
		return "NOT a stream: the answer came at once"
	case s.Buffered:
		return "BUFFERED: tokens come in bursts after silence"
	case s.Events == 0:
		return "no output seen"
	}
	return "token by token, not buffered"
}

// unknown says why it is not known whether lengths are obeyed.
func (l lengthState) unknown() string {
	if l.Forced || len(l.Got) == 0 {
		return "unknown"
	}
	return "stopped early, and can't be forced"
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
	p.line("machine", "%d processors, %.1f GiB", c.CPUs, float64(c.MemoryBytes)/(1<<30))
	p.line("limits", "%s open files (hard %s), %s local ports", count(c.OpenFiles), count(c.OpenFilesHard), count(c.LocalPorts))
	p.line("threads", "%s when the machine is busy", c.Scheduling)
	p.line("clock", "step %s ns, %s ns a reading", digits(c.Timer.ClockStepNS), digits(c.Timer.ClockReadNS))
	p.line("wake-up", "late by p50 %s ms, p99 %s ms, at most %s ms", digits(c.Timer.WakeUpP50MS), digits(c.Timer.WakeUpP99MS), digits(c.Timer.WakeUpMaxMS))
	f := c.Capacity
	p.line("capacity", "%s events/s, %s requests/s, from a bundled server on this machine", digits(f.EventsPerS), digits(f.RequestsPerS))
	p.line("", "bare net/http with go-sse: %s events/s, %s requests/s; headway is %s and %s of it", digits(f.BareEventsPerS), digits(f.BareRequestsPerS), digits(f.EventRatio), digits(f.RequestRatio))
	if f.Error != "" {
		p.line("", "unknown: %s", f.Error)
	}
}

func known(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// count writes a number of things, of which 0 is unknown.
func count[N int | uint64](n N) string {
	if n == 0 {
		return "unknown"
	}
	return strconv.FormatUint(uint64(n), 10)
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
