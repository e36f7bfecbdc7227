// Package importer reads the result files of other benchmark tools, so that
// knee, compare, gate and report work on them. The format is detected. How the
// tool defines each metric is kept beside the number, what it did not measure
// stays unknown, and a cap on concurrency is never taken for what was reached.
package importer

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/knee"
)

// ErrUnknownFormat says that a file is of no tool that is known here.
var ErrUnknownFormat = errors.New("not a result file of vLLM bench, TensorRT-LLM, trtllm-bench, InferenceX, SGLang, guidellm, AIPerf, genai-perf or inference-perf")

// run is one measurement of a tool: one rung, and what the file says of the
// set-up.
type run struct {
	rung      record.Rung
	version   string // of the tool
	model     string
	engine    string
	engineVer string
	hardware  profiles.Hardware
	precision profiles.Precision
	lengths   [2]profiles.Length // input and output, where the file names them
	settings  map[string]string
	arrivals  string
	started   string
	cancelled bool
	metadata  map[string]string
	notes     []bundle.Warning
}

// reader collects the values of one file of its format.
type reader interface {
	add(doc object) error
	runs() ([]run, error)
}

// format is one kind of file of one tool.
type format struct {
	tool        string
	matches     func(object) bool
	open        func() reader
	definitions map[string]string
}

// formats in the order they are tried: the most telling keys first.
var formats = []format{guidellm, trtllmBench, aiperfRecords, aiperf, genaiPerf, inferencePerf, inferenceX, trtllmServe, sglang, vllm}

// Files reads files of one tool into one result: a rung for each run they
// hold, by rising load, with knee and points.
func Files(paths ...string) (*bundle.Result, error) {
	var all []run
	var from *format
	names := make([]string, len(paths))
	for i, path := range paths {
		f, runs, err := readFile(path)
		if err != nil {
			return nil, err
		}
		if from != nil && from.tool != f.tool {
			return nil, fmt.Errorf("%s is of %s and %s of %s: import them one by one and compare the bundles", paths[0], from.tool, path, f.tool)
		}
		from, names[i] = f, filepath.Base(path)
		all = append(all, runs...)
	}
	if from == nil {
		return nil, errors.New("no file to import")
	}
	return result(*from, all, names)
}

func readFile(path string) (*format, []run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("import: %w", err)
	}
	defer f.Close()
	format, runs, err := read(f)
	if err != nil {
		return nil, nil, fmt.Errorf("import %s: %w", path, err)
	}
	return format, runs, nil
}

// Read imports one stream, named name in the result.
func Read(r io.Reader, name string) (*bundle.Result, error) {
	f, runs, err := read(r)
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", name, err)
	}
	res, err := result(*f, runs, []string{filepath.Base(name)})
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", name, err)
	}
	return res, nil
}

// result is what assemble makes of the runs, when every figure of it can be.
func result(f format, runs []run, names []string) (*bundle.Result, error) {
	res, err := assemble(f, runs, names)
	if err != nil {
		return nil, err
	}
	b, err := bundle.Encode(res)
	if err != nil {
		return nil, err
	}
	if err := bundle.Validate(b); err != nil {
		return nil, fmt.Errorf("a figure of %s is no measurement (in the words of a result: %w)", f.tool, err)
	}
	return res, nil
}

// read detects the format of a stream and reads its runs.
func read(r io.Reader) (*format, []run, error) {
	buf := bufio.NewReaderSize(r, 64<<10)
	if head, err := buf.Peek(3); err == nil && string(head) == "\xef\xbb\xbf" {
		if _, err := buf.Discard(3); err != nil {
			return nil, nil, err
		}
	}
	p := newParser(buf)
	c, err := p.next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil, errors.New("the file is empty")
		}
		return nil, nil, err
	}
	var f *format
	var runs []run
	if c == '{' || c == '[' {
		f, runs, err = readJSON(p)
	} else {
		f = &guidellmCSV
		runs, err = readGuidellmCSV(p.r)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(runs) == 0 {
		return nil, nil, fmt.Errorf("a file of %s without a run", f.tool)
	}
	return f, runs, nil
}

// readJSON reads objects one after the other, or within one array.
func readJSON(p *parser) (*format, []run, error) {
	var f *format
	var into reader
	one := func() error {
		v, err := p.value("", 0)
		if err != nil {
			return err
		}
		p.values = 0
		doc, ok := v.(map[string]any)
		if !ok {
			return p.wrong("an object is expected")
		}
		if f == nil {
			if f = detect(doc); f == nil {
				return ErrUnknownFormat
			}
			into = f.open()
		}
		if err := into.add(doc); err != nil {
			return fmt.Errorf("%s, line %d: %w", f.tool, p.line, err)
		}
		return nil
	}
	for {
		c, err := p.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if c == '[' {
			err = p.sequence('[', ']', one)
		} else {
			err = one()
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if f == nil {
		return nil, nil, ErrUnknownFormat
	}
	runs, err := into.runs()
	return f, runs, err
}

func detect(doc object) *format {
	for i := range formats {
		if formats[i].matches(doc) {
			return &formats[i]
		}
	}
	return nil
}

// each is a reader of files with one run an object.
type each struct {
	read func(object) (run, error)
	all  []run
}

func perObject(read func(object) (run, error)) func() reader {
	return func() reader { return &each{read: read} }
}

func (e *each) add(doc object) error {
	r, err := e.read(doc)
	if err == nil {
		e.all = append(e.all, r)
	}
	return err
}

func (e *each) runs() ([]run, error) { return e.all, nil }

// assemble makes the result of all runs.
func assemble(f format, runs []run, names []string) (*bundle.Result, error) {
	first := runs[0]
	for _, r := range runs {
		if r.model != first.model {
			return nil, fmt.Errorf("the runs are of different models, %q and %q: import them one by one", first.model, r.model)
		}
	}
	ladder(runs)
	res := &bundle.Result{
		Schema: bundle.Schema, Status: bundle.Complete, StartedAt: startedAt(first.started),
		Headway: bundle.Build{}, Profile: profileOf(f.tool, runs),
		Server: bundle.Server{Engine: first.engine, Version: first.engineVer, ModelID: first.model, Settings: first.settings, IdentitySource: "file of " + f.tool},
		Imported: &bundle.Imported{Tool: f.tool, Version: first.version, Files: names,
			Definitions: f.definitions, Metadata: first.metadata},
	}
	var duration record.Value
	for i := range runs {
		r := &runs[i]
		finish(r)
		r.rung.Index = i
		if r.cancelled {
			res.Status = bundle.Interrupted
		}
		duration = record.Known(duration.Or(0) + r.rung.Window.EndS)
		res.Rungs = append(res.Rungs, r.rung)
		for _, n := range r.notes {
			if !slices.Contains(res.Warnings, n) {
				res.Warnings = append(res.Warnings, n)
			}
		}
	}
	if duration.Or(0) > 0 {
		res.DurationS = duration
	}
	knee.Elasticities(res.Rungs)
	res.Knee = knee.Fit(knee.FromRungs(res.Rungs), knee.Options{})
	price := knee.Economics{Accelerators: res.Profile.Hardware.Count}
	res.OperatingPoint = knee.OperatingPoint(res.Rungs, nil, price)
	res.Peak, res.SingleUser = knee.Peak(res.Rungs, price), knee.SingleUser(res.Rungs, price)
	return res, nil
}

// startedAt is a tool's start when it tells its zone; a local time is no
// instant.
func startedAt(text string) string {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UTC().Format(time.RFC3339)
	}
	return ""
}

// ladder decides what the runs step through. A finite rate that differs from
// run to run is an open ladder, also under a cap; one rate for all is a limit
// on top of a closed one.
func ladder(runs []run) {
	rates, caps := map[float64]bool{}, map[int]bool{}
	for i := range runs {
		if v, ok := runs[i].rung.RatePerS.Float(); ok {
			rates[v] = true
		}
		caps[runs[i].rung.Concurrency] = true
	}
	closed := len(rates) <= 1 && len(caps) > 1
	for i := range runs {
		g := &runs[i].rung
		switch {
		case g.RatePerS.OK() && !(closed && g.Concurrency > 0):
			g.Mode = record.Open
		case g.Concurrency > 0:
			if g.RatePerS.OK() {
				g.Warnings = append(g.Warnings, record.Reason{Code: "rate_limited", Value: g.RatePerS,
					Message: "the arrivals were held to a rate besides the cap: the load may be below the cap"})
				g.RatePerS = record.Value{}
			}
			g.Mode = record.Closed
		default:
			g.Mode = record.Offline
		}
	}
	slices.SortStableFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.rung.RatePerS.Or(0), b.rung.RatePerS.Or(0)), cmp.Compare(a.rung.Concurrency, b.rung.Concurrency))
	})
	for i := 1; i < len(runs); i++ {
		a, b := &runs[i-1].rung, &runs[i].rung
		if a.Mode == b.Mode && a.Concurrency == b.Concurrency && a.RatePerS == b.RatePerS {
			b.Repeat = a.Repeat + 1
		}
	}
}

// finish fills in what follows from the figures of a rung, and judges it.
func finish(r *run) {
	g := &r.rung
	g.Window.Method = "none"
	if g.Tokens.Source == "" {
		g.Tokens.Source = "imported"
	}
	g.Stamps = "user"
	g.Verdict = record.Valid
	if g.Requests.Completed == 0 {
		noData(g)
		return
	}
	littlesLaw(g)
	if !g.TotalTokenThroughputPerS.OK() && g.OutputTokenThroughputPerS.OK() && g.InputTokenThroughputPerS.OK() {
		g.TotalTokenThroughputPerS = record.Known(g.OutputTokenThroughputPerS.Or(0) + g.InputTokenThroughputPerS.Or(0))
	}
	g.TTFTResponse, g.E2EResponse = responseOf(g, g.TTFT, g.TTFTResponse), responseOf(g, g.E2E, g.E2EResponse)
	if r.cancelled {
		g.Verdict = record.Inconclusive
		g.Reasons = append(g.Reasons, record.Reason{Code: "cancelled", Message: "the run was cancelled before its end"})
	}
	reached, ok := g.InFlightMean.Float()
	if g.Mode == record.Closed && ok && reached < 0.9*float64(g.Concurrency) {
		g.Warnings = append(g.Warnings, record.Reason{Code: "cap_not_reached", Value: g.InFlightMean, Limit: record.Known(float64(g.Concurrency)),
			Message: fmt.Sprintf("%.3g requests were in flight on average, the cap was %d: the ladder stands on what was reached", reached, g.Concurrency)})
	}
	if !g.TTFT.Mean.OK() && !g.E2E.Mean.OK() {
		g.Warnings = append(g.Warnings, record.Reason{Code: "no_latency", Message: "the file has no latency: it was not streamed, or nothing was measured"})
	}
}

// responseOf leaves response times unknown in closed load, where they equal
// the service times but for a lag that no other tool tells, and in open load
// takes the service times when the tool has nothing better, which is said in
// the definitions.
func responseOf(g *record.Rung, service, response record.Dist) record.Dist {
	if response.Mean.OK() || g.Mode != record.Open {
		return response
	}
	return service
}

// noData is the rung of a run in which nothing completed: a 0 in its file is
// no measurement.
func noData(g *record.Rung) {
	g.Verdict = record.Inconclusive
	g.Reasons = append(g.Reasons, record.Reason{Code: "no_completions", Message: "no request completed: every figure of the file is without data"})
	keep := record.Rung{Index: g.Index, Mode: g.Mode, Concurrency: g.Concurrency, RatePerS: g.RatePerS, Repeat: g.Repeat, Verdict: g.Verdict, Reasons: g.Reasons,
		Warnings: g.Warnings, Window: g.Window, Requests: g.Requests, Totals: g.Totals, Tokens: g.Tokens, Stamps: g.Stamps}
	*g = keep
}

// littlesLaw finds the in-flight that was reached: completed requests a second
// times mean E2E. Where the mean E2E is not in the file it is made of TTFT and
// TPOT.
func littlesLaw(g *record.Rung) {
	if g.InFlightMean.OK() {
		return
	}
	rate, ok := g.RequestThroughputPerS.Float()
	if !ok {
		return
	}
	e2e, known := g.E2E.Mean.Float()
	if !known {
		ttft, ok1 := g.TTFT.Mean.Float()
		tpot, ok2 := g.TPOT.Mean.Float()
		if !ok1 || !ok2 || g.Requests.Completed == 0 {
			return
		}
		e2e = ttft + tpot*max(float64(g.Tokens.Output)/float64(g.Requests.Completed)-1, 0)
		g.Warnings = append(g.Warnings, record.Reason{Code: "e2e_estimated",
			Message: "the file has no mean E2E: the requests in flight are estimated by TTFT + TPOT x (output tokens - 1)"})
	}
	g.InFlightMean = record.Known(rate * e2e / 1000)
}

// profileOf describes the runs as a profile; what no file tells is unknown.
func profileOf(tool string, runs []run) profiles.Profile {
	first := runs[0]
	p := profiles.Profile{
		APIVersion: profiles.APIVersion, Name: tool,
		Model:     profiles.Model{Family: profiles.Unknown, Version: profiles.Unknown, Size: profiles.Unknown, ID: orUnknown(first.model)},
		Precision: profiles.Precision{Weights: orUnknown(first.precision.Weights), KVCache: orUnknown(first.precision.KVCache)},
		Hardware:  profiles.Hardware{Accelerator: orUnknown(first.hardware.Accelerator), Count: first.hardware.Count},
		Serving:   profiles.Serving{Engine: orUnknown(first.engine), Version: orUnknown(first.engineVer), Settings: first.settings},
	}
	p.Workload.Prompt = "text"
	p.Workload.InputTokens = lengthOf(runs, 0, func(g *record.Rung) record.Dist { return g.InputTokens })
	p.Workload.OutputTokens = lengthOf(runs, 1, func(g *record.Rung) record.Dist { return g.OutputTokens })
	var rates []float64
	var caps []int
	offline := 0
	for i := range runs {
		g := &runs[i].rung
		switch g.Mode {
		case record.Open:
			if v, ok := g.RatePerS.Float(); ok && !slices.Contains(rates, v) {
				rates = append(rates, v)
			}
		case record.Closed:
			if !slices.Contains(caps, g.Concurrency) {
				caps = append(caps, g.Concurrency)
			}
		default:
			offline = int(max(g.Requests.Sent, 1))
		}
	}
	switch {
	case len(rates) > 0:
		p.Load.Open = &profiles.OpenLoad{Rate: rates, Arrivals: first.arrivals}
	case len(caps) > 0:
		p.Load.Closed = &profiles.ClosedLoad{Concurrency: caps}
	default:
		p.Load.Offline = &profiles.OfflineLoad{Requests: offline}
	}
	return p
}

// lengthOf is the length that the file names, or the one value that all
// requests have; else it stands as a dataset's, with the measured distribution
// in each rung.
func lengthOf(runs []run, which int, of func(*record.Rung) record.Dist) profiles.Length {
	if l := runs[0].lengths[which]; l.Kind != "" {
		return l
	}
	var same record.Value
	for i := range runs {
		d := of(&runs[i].rung)
		mean, ok := d.Mean.Float()
		if !ok {
			continue
		}
		flat := d.Min == d.Max || !d.Max.OK()
		if !flat || mean != math.Trunc(mean) || same.OK() && same.Or(0) != mean {
			return profiles.Length{Kind: profiles.LengthDataset}
		}
		same = record.Known(mean)
	}
	if v, ok := same.Float(); ok && v >= 1 && v < 1<<31 {
		return profiles.Fixed(int(v))
	}
	return profiles.Length{Kind: profiles.LengthDataset}
}

func orUnknown(s string) string {
	if strings.TrimSpace(s) == "" {
		return profiles.Unknown
	}
	return clip(s)
}
