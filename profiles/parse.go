package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Bounds of a profile: the bytes of its text, and the faults that are told.
const (
	maxSize   = 256 << 10
	maxFaults = 50
)

// Parse reads one profile in its YAML form; name is what messages call it. The
// form is strict: faults come back together, as Errors in the order of the text.
func Parse(r io.Reader, name string) (*Profile, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	d := decoder{file: name, pos: map[string]position{}}
	root := d.document(text)
	if root == nil {
		return nil, d.errs
	}
	p := base()
	d.value(root, reflect.ValueOf(p).Elem(), "")
	p.complete()
	d.errs = append(d.errs, d.place(d.unrelated(p.check()))...)
	d.errs.sort()
	if len(d.errs) > maxFaults {
		more := len(d.errs) - maxFaults
		d.errs = append(d.errs[:maxFaults], Error{File: d.file, Message: fmt.Sprintf("has %d more faults", more), Hint: "mend these first"})
	}
	if len(d.errs) > 0 {
		return nil, d.errs
	}
	return p, nil
}

// document parses text into the tree of its only document, or nil after a
// fault.
func (d *decoder) document(text []byte) ast.Node {
	if len(text) > maxSize {
		d.errs = append(d.errs, Error{File: d.file, Message: fmt.Sprintf("is larger than %d bytes", maxSize), Hint: "a profile is a page of YAML; is this the right file?"})
		return nil
	}
	file, fault := parseYAML(bytes.TrimPrefix(text, []byte("\ufeff")))
	if fault != nil {
		fault.File = d.file
		d.errs = append(d.errs, *fault)
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root != nil:
			d.fail(doc.Body, "", "keep one profile a file", "holds a second document")
			return nil
		default:
			root = doc.Body
		}
	}
	if root == nil {
		d.errs = append(d.errs, Error{File: d.file, Message: "is empty", Hint: "`headway profile init` prints a profile to start from"})
	}
	return root
}

// unrelated leaves out faults of the validator that may only follow from what
// could not be decoded: those in the same block, and all where the profile
// itself is no mapping.
func (d *decoder) unrelated(found Errors) Errors {
	return slices.DeleteFunc(found, func(f Error) bool {
		return slices.ContainsFunc(d.errs, func(e Error) bool {
			if e.Field == "" {
				return true
			}
			block := e.Field
			if cut := strings.LastIndex(block, "."); cut > 0 {
				block = block[:cut]
			}
			return f.Field == block || strings.HasPrefix(f.Field, block+".") || strings.HasPrefix(f.Field, block+"[")
		})
	})
}

// place gives the faults of the validator their places in the text: that of
// the field, else of what holds it.
func (d *decoder) place(errs Errors) Errors {
	for i := range errs {
		errs[i].File = d.file
		for path := errs[i].Field; ; {
			if p, ok := d.pos[path]; ok && p.line > 0 {
				errs[i].Line, errs[i].Column = p.line, p.column
				break
			}
			cut := strings.LastIndexAny(path, ".[")
			if cut < 0 {
				if path == "" {
					break
				}
				cut = 0
			}
			path = path[:cut]
		}
	}
	return errs
}

// Open reads the profile in the file pathOrName, or the built-in one of that
// name when there is no such file.
func Open(pathOrName string) (*Profile, error) {
	file, err := os.Open(pathOrName)
	if err == nil {
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return nil, Errors{{File: pathOrName, Message: "is a directory, not a profile", Hint: "name a YAML file or a built-in profile"}}
		}
		return Parse(file, pathOrName)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open profile: %w", err)
	}
	if filepath.Ext(pathOrName) != "" || filepath.Base(pathOrName) != pathOrName {
		hint := "`headway profile list` names the built-in profiles"
		if strings.Contains(pathOrName, "://") {
			hint = "a server is named with --target"
		}
		return nil, Errors{{File: pathOrName, Message: "there is no such file", Hint: hint}}
	}
	return Builtin(pathOrName)
}

// base holds the values of keys that a profile may leave out.
func base() *Profile {
	return &Profile{
		Workload: Workload{
			Prompt:   "auto",
			Sampling: Sampling{ForceLength: true},
			Seed:     42,
		},
		Stage: Stage{
			Warmup:      Warmup{Auto: true},
			Measure:     Duration(60 * time.Second),
			MinRequests: 100,
			Drain:       Duration(30 * time.Second),
			Repeats:     1,
			Timeout:     Duration(10 * time.Minute),
		},
	}
}

// Default is the profile of a run that names its target only: 1024 tokens in,
// 128 out, greedy, on a closed ladder up to 64 users.
func Default() *Profile {
	p := base()
	p.APIVersion, p.Name = APIVersion, "adhoc"
	for _, block := range []any{&p.Model, &p.Precision, &p.Hardware, &p.Serving} {
		setUnknown(reflect.ValueOf(block).Elem())
	}
	greedy := 0.0
	p.Workload.Sampling.Temperature = &greedy
	p.Workload.InputTokens, p.Workload.OutputTokens = Fixed(1024), Fixed(128)
	p.Load.Closed = &ClosedLoad{Concurrency: []int{1, 2, 4, 8, 16, 32, 64}}
	p.Stage.Measure = Duration(30 * time.Second)
	p.Stage.MinRequestsPerUser = 20 // as many as Little's law takes
	p.complete()
	return p
}

// lengthSources says which file gives the lengths of prompts and of answers: a
// data set, a trace, or "" for none. A file of conversations has prompts only.
func (p *Profile) lengthSources() (input, output string) {
	w := &p.Workload
	if p.Load.Open != nil && p.Load.Open.Trace != nil {
		input, output = LengthTrace, LengthTrace
	}
	switch {
	case w.Dataset != nil:
		input = LengthDataset
		if output == "" {
			output = LengthDataset
		}
	case w.Conversation != nil && w.Conversation.File != "":
		input = LengthDataset
	}
	return input, output
}

// complete fills in what follows from other fields.
func (p *Profile) complete() {
	if p.Stage.MaxDuration == 0 {
		p.Stage.MaxDuration = max(Duration(5*time.Minute), 4*p.Stage.Measure)
	}
	if p.Workload.Prefix.SharedTokens > 0 && p.Workload.Prefix.Groups == 0 {
		p.Workload.Prefix.Groups = 1
	}
	input, output := p.lengthSources()
	if p.Workload.InputTokens.Kind == "" {
		p.Workload.InputTokens.Kind = input
	}
	if p.Workload.OutputTokens.Kind == "" {
		p.Workload.OutputTokens.Kind = output
	}
	if c := p.Workload.Conversation; c != nil {
		if p.Workload.Prompt == "auto" {
			p.Workload.Prompt = "conversation"
		}
		if c.File == "" && c.Turns.Kind == "" {
			c.Turns = Fixed(4)
		}
	}
	if open := p.Load.Open; open != nil {
		if open.Arrivals == "" && open.Trace == nil {
			open.Arrivals = ArrivalsPoisson
		}
		if open.Burstiness == 0 && open.Arrivals == ArrivalsGamma {
			open.Burstiness = 1
		}
		if open.Trace != nil && open.Trace.Speed == 0 {
			open.Trace.Speed = 1
		}
	}
}
