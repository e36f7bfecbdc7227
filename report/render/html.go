package render

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/knee"
	"github.com/headway-bench/headway/report/text"
)

// chartVersion is the version of the embedded chart library.
const chartVersion = "1.6.32"

var (
	//go:embed assets/uplot-1.6.32.min.js
	chartJS string
	//go:embed assets/uplot-1.6.32.min.css
	chartCSS string
	//go:embed assets/page.js
	pageJS string
	//go:embed assets/page.css
	pageCSS string
	//go:embed assets/page.tmpl.html
	pageHTML string

	page = template.Must(template.New("report.html").Parse(pageHTML))
)

// pageData is what the template shows.
type pageData struct {
	Title             string
	Several           bool
	Results           []resultView
	Charts            []chartView
	Timelines         []timelineView
	Policy            string
	ChartCSS, PageCSS template.CSS
	ChartJS, PageJS   template.JS
	Data              template.JS
	ChartVersion      string
}

// resultView is one result on the page.
type resultView struct {
	Name        string
	Color       int
	Badges      []string
	Cards       []card
	Facts       []fact
	Head        []string
	Rows        []rowView
	Notes       []string
	Dists       [][]string
	HealthHead  []string
	Health      [][]string
	Doubts      []fact
	Tool        string
	Definitions []fact
	Repeat      string
	Origin      []fact
	Profile     string
}

// card is a headline: one number and what goes with it.
type card struct {
	Name, Big, Unit string
	Lines           []cardLine
}

type cardLine struct{ Value, Text string }

type rowView struct {
	Mark  bool
	Cells []cellView
}

type cellView struct{ Text, Class string }

type chartView struct {
	chart
	Series []seriesView
}

type seriesView struct {
	Label, Kind string
	Points      []pointView
}

type pointView struct{ Name, X, Y string }

type timelineView struct {
	Name   string  `json:"-"`
	Shown  bool    `json:"-"`
	Charts []chart `json:"charts"`
}

// HTML writes one self-contained page for the bundles, in the order given. It
// loads nothing: styles, scripts and the chart library are in it, and its
// content policy forbids everything else.
func HTML(w io.Writer, bundles ...*bundle.Bundle) error {
	if len(bundles) == 0 {
		return errors.New("no result to make a page of")
	}
	all := nameAll(bundles)
	data := pageData{Title: title(all), Several: len(all) > 1, ChartVersion: chartVersion,
		ChartCSS: template.CSS(chartCSS), PageCSS: template.CSS(pageCSS), ChartJS: template.JS(chartJS), PageJS: template.JS(pageJS)}
	data.Policy = "default-src 'none'; style-src 'unsafe-inline'; script-src " + scriptHash(chartJS) + " " + scriptHash(pageJS)
	charts := overview(all)
	for _, c := range charts {
		data.Charts = append(data.Charts, viewOf(c))
	}
	for _, n := range all {
		v, err := resultOf(n)
		if err != nil {
			return err
		}
		more, err := timelineViews(n, len(all) > 1)
		if err != nil {
			v.Doubts = append(v.Doubts, fact{"warning", text.Plain("no timeline: " + err.Error())})
		}
		data.Timelines = append(data.Timelines, more...)
		data.Results = append(data.Results, v)
	}
	showOne(data.Timelines)
	raw, err := json.Marshal(struct {
		Charts    []chart        `json:"charts"`
		Timelines []timelineView `json:"timelines"`
	}{charts, data.Timelines})
	if err != nil {
		return fmt.Errorf("render page: %w", err)
	}
	data.Data = template.JS(raw) // encoding/json leaves no < or > in it
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		return fmt.Errorf("render page: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// scriptHash is a content policy's permission for one inline script.
func scriptHash(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// nameAll gives every bundle a short name that no other has, and a colour: the
// profile's name, with the directory's where several profiles share it, with a
// number where that does not tell them apart.
func nameAll(bundles []*bundle.Bundle) []named {
	shared, used := map[string]int{}, map[string]int{}
	for _, b := range bundles {
		shared[b.Result.Profile.Name]++
	}
	out := make([]named, len(bundles))
	for i, b := range bundles {
		name := known(b.Result.Profile.Name)
		if shared[b.Result.Profile.Name] > 1 && b.Path != "" {
			name += ", " + filepath.Base(b.Path)
		}
		name = text.Cut(text.Plain(name), 60)
		if used[name]++; used[name] > 1 {
			name += fmt.Sprintf(" (%d)", used[name])
		}
		out[i] = named{Bundle: b, name: name, color: i % palette}
	}
	return out
}

func title(all []named) string {
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.name
	}
	return text.Cut(strings.Join(names, " · "), 160)
}

func viewOf(c chart) chartView {
	v := chartView{chart: c}
	for _, s := range c.Series {
		sv := seriesView{Label: s.Label, Kind: s.Kind}
		for i := range s.X {
			if s.Kind != "rungs" {
				break
			}
			sv.Points = append(sv.Points, pointView{s.Names[i], exact(record.Known(s.X[i])), exact(record.Known(s.Y[i]))})
		}
		v.Series = append(v.Series, sv)
	}
	return v
}

func resultOf(n named) (resultView, error) {
	r := n.Result
	v := resultView{Name: n.name, Color: n.color, Cards: cards(r), Dists: distRows(r), Origin: origin(n)}
	v.HealthHead, v.Health = healthRows(r)
	for _, f := range identity(r) {
		v.Facts = append(v.Facts, fact{f.Name, text.Plain(f.Value)})
	}
	v.Badges = r.Labels()
	if r.Status != bundle.Complete {
		v.Badges = append(v.Badges, string(r.Status))
	}
	for _, f := range doubts(r) {
		v.Doubts = append(v.Doubts, fact{f.Name, text.Plain(f.Value)})
	}
	if r.Imported != nil {
		v.Tool, v.Definitions = text.Plain(r.Imported.Tool), definitions(r)
	} else {
		v.Repeat = "headway verify BUNDLE\nheadway run BUNDLE --target URL"
	}
	rungRows(&v, r)
	y, err := r.Profile.YAML()
	if err != nil {
		return v, fmt.Errorf("render page: %w", err)
	}
	v.Profile = block(string(y))
	return v, nil
}

// rungRows fills the table that the terminal shows too.
func rungRows(v *resultView, r *bundle.Result) {
	cols := columns(r, true)
	for _, c := range cols {
		v.Head = append(v.Head, c.head)
	}
	for i := range r.Rungs {
		g := &r.Rungs[i]
		row := rowView{Mark: slices.Contains(r.OperatingPoint.Rungs, g.Index)}
		for _, c := range cols {
			row.Cells = append(row.Cells, cellView{Text: c.cell(g)})
		}
		row.Cells[len(cols)-1].Class = string(g.Verdict)
		v.Rows = append(v.Rows, row)
	}
	var b strings.Builder
	notes(&b, r)
	if s := strings.TrimSpace(b.String()); s != "" {
		v.Notes = strings.Split(s, "\n")
	}
	if len(r.OperatingPoint.Rungs) > 0 {
		v.Notes = append(v.Notes, "The shaded row is the operating point.")
	}
}

// cards are the four headlines.
func cards(r *bundle.Result) []card {
	return []card{kneeCard(&r.Knee), pointCard("Operating point", r, &r.OperatingPoint),
		pointCard("Peak throughput", r, &r.Peak), pointCard("Single user", r, &r.SingleUser)}
}

func kneeCard(k *knee.Knee) card {
	c := card{Name: "Knee", Big: strings.ReplaceAll(string(k.Status), "_", " ")}
	if k.Status != knee.Found {
		_, why, _ := strings.Cut(kneeText(k), ": ")
		c.Lines = append(c.Lines, cardLine{"", text.Plain(why)})
		return c
	}
	c.Big, c.Unit = brief(k.InFlight), "in flight"
	ci := k.InFlightCI95
	if k.RatePerS.OK() {
		c.Big, c.Unit, ci = brief(k.RatePerS), "req/s offered", k.RateCI95
		c.Lines = append(c.Lines, cardLine{brief(k.InFlight), "in flight"})
	}
	if s := strings.Trim(interval(ci), " ()"); s != "" {
		c.Lines = append(c.Lines, cardLine{s, "95 % interval"})
	}
	for _, f := range []figure{{"output tok/s", k.OutputTokenThroughputPerS}, {"req/s", k.RequestThroughputPerS}} {
		if f.value.OK() {
			c.Lines = append(c.Lines, cardLine{brief(f.value), f.format})
		}
	}
	c.Lines = append(c.Lines, cardLine{"", "cause: " + text.Plain(causeText(k))})
	return c
}

func pointCard(name string, r *bundle.Result, p *bundle.Point) card {
	c := card{Name: name}
	switch p.Status {
	case knee.PointFound:
	case knee.PointNoSLO:
		c.Big = "no SLO"
		c.Lines = []cardLine{{"", "give --slo to find it"}}
		return c
	default:
		c.Big = "none"
		if p.Binding != "" {
			c.Lines = []cardLine{{"", text.Plain(p.Binding)}}
		}
		return c
	}
	c.Big, c.Unit = brief(p.OutputTokenThroughputPerS), "output tok/s"
	if !p.OutputTokenThroughputPerS.OK() {
		c.Big, c.Unit = brief(p.RequestThroughputPerS), "req/s"
	}
	if g := rungOf(r, p); g != nil {
		c.Lines = append(c.Lines, cardLine{"", "at load " + loadOf(g)})
	}
	for _, f := range pointFigures(p) {
		before, after, _ := strings.Cut(f.format, "%s")
		switch {
		case !f.value.OK() || after == " "+c.Unit:
		case before == "":
			c.Lines = append(c.Lines, cardLine{brief(f.value), after})
		default:
			c.Lines = append(c.Lines, cardLine{brief(f.value) + after, before})
		}
	}
	if p.Binding != "" {
		c.Lines = append(c.Lines, cardLine{"", "bound by " + text.Plain(p.Binding)})
	}
	if p.Verdict == record.Inconclusive {
		c.Lines = append(c.Lines, cardLine{unsure, ""})
	}
	return c
}

// distRows are all distributions of all rungs.
func distRows(r *bundle.Result) [][]string {
	var rows [][]string
	for i := range r.Rungs {
		g := &r.Rungs[i]
		add := func(name string, d *record.Dist) {
			if d.Count == 0 && !d.Mean.OK() {
				return
			}
			row := []string{repeatOf(g), name, strconv.FormatInt(d.Count, 10)}
			for _, s := range []string{"mean", "p05", "p50", "p90", "p95", "p99", "p999", "max"} {
				row = append(row, full(*d.Stat(s)))
			}
			rows = append(rows, row)
		}
		for _, l := range latencies {
			add(l.name+", ms", l.of(g))
		}
		add("tok/s a user", &g.PerUserTokensPerS)
		add("E2E tok/s", &g.E2ETokensPerS)
		add("input tokens", &g.InputTokens)
		add("output tokens", &g.OutputTokens)
	}
	return rows
}

// healthRows say how client and server fared.
func healthRows(r *bundle.Result) (head []string, rows [][]string) {
	head = []string{"load", "client CPU %", "scheduling p99 ms", "GC pause p99 ms", "send lag p99 ms", "receive lag p99 ms", "merged reads %", "stamps",
		"connections", "reconnects", "KV cache max %", "running mean", "waiting mean", "preemptions", "prefix hits %", "power W"}
	for i := range r.Rungs {
		g := &r.Rungs[i]
		t := g.Telemetry
		if t == nil {
			t = &record.Telemetry{}
		}
		rows = append(rows, []string{repeatOf(g), full(g.Client.CPURatio.Scale(100)), full(g.Client.SchedulingLatencyP99ms), full(g.Client.GCPauseP99ms),
			full(g.SendLag.P99), full(g.ReceiveLag.P99), full(g.MergedReadRatio.Scale(100)), text.Plain(g.Stamps),
			strconv.FormatInt(g.Client.Connections, 10), strconv.FormatInt(g.Requests.Reconnects, 10),
			full(t.KVCacheUsageMax.Scale(100)), full(t.RequestsRunningMean), full(t.RequestsWaitingMean), full(t.Preemptions),
			full(t.PrefixCacheHitRatio.Scale(100)), full(t.GPUPowerWMean)})
	}
	return head, rows
}

// origin lists what a reader needs beside the profile to repeat the run.
func origin(n named) []fact {
	r := n.Result
	out := []fact{
		{"headway", known(r.Headway.Version) + " " + r.Headway.Commit},
		{"started", known(r.StartedAt)},
		{"seed", fmt.Sprintf("%d (run), %d (workload)", r.Seed, r.Profile.Workload.Seed)},
		{"schedule SHA-256", known(r.ScheduleSHA256)},
		{"target", known(text.Plain(r.Profile.Target.URL))},
		{"client", fmt.Sprintf("%s/%s, %d CPUs, %s, %s", known(r.Client.OS), known(r.Client.Arch), r.Client.CPUs, gib(r.Client.MemoryBytes), known(r.Client.GoVersion))},
	}
	for _, s := range settings(r) {
		out = append(out, fact{"server " + text.Plain(s.Name), text.Plain(s.Value)})
	}
	if r.Imported != nil {
		out = append(out, fact{"imported from", text.Plain(strings.Join(r.Imported.Files, ", "))})
	}
	return out
}

func gib(bytes int64) string {
	if bytes <= 0 {
		return "memory unknown"
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// timelineViews are the rungs of a bundle over time.
func timelineViews(n named, several bool) ([]timelineView, error) {
	byRung, err := timelines(n.Bundle)
	if err != nil {
		return nil, err
	}
	var out []timelineView
	for i := range n.Result.Rungs {
		g := &n.Result.Rungs[i]
		t := byRung[g.Index]
		if t == nil || t.used == 0 {
			continue
		}
		name := "load " + repeatOf(g)
		if several {
			name = n.name + ": " + name
		}
		if g.Verdict != record.Valid {
			name += " (" + string(g.Verdict) + ")"
		}
		at, kneeOK := n.Result.Knee.InFlight.Float()
		load, loadOK := inFlightOf(g).Float()
		out = append(out, timelineView{Name: name, Shown: kneeOK && loadOK && load >= at, Charts: timelineCharts(g, t)})
	}
	return out, nil
}

// showOne keeps the first rung beyond the knee as the one shown, or the last.
func showOne(all []timelineView) {
	shown := len(all) - 1
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Shown {
			shown = i
		}
	}
	for i := range all {
		all[i].Shown = i == shown
	}
}

// maxBlock bounds a text that is shown whole.
const maxBlock = 64 << 10

// block makes a foreign text of several lines safe to show.
func block(s string) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)) {
			return -1
		}
		return c
	}, text.Cut(s, maxBlock))
}
