package custom

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"text/template"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/jsonscan"
	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// fields are what a body's template may use. Each is JSON as it goes into the
// body, quotes included, and "" where the request leaves it open.
type fields struct {
	Model, ID        string
	Prompt           string // text
	Messages         string // list of {role, content}
	TokenIDs         string // list of ids
	MaxTokens        string
	Temperature      string
	TopP, TopK, Seed string
	Stop             string // list of strings
	Priority         string // the larger is served first
	CacheSalt        string
	ForceLength      bool
}

// pathFields are what the template of a path may use.
type pathFields struct{ Model string }

// Backend is a backend file that was read and found right. It is safe for
// concurrent use.
type Backend struct {
	Spec
	body, path *template.Template
	tokenize   *template.Template // nil where there is no such route
	paths      *node
	buffers    sync.Pool
	usesModel  bool
	forces     bool // the body forces the length
}

// UsesModel says whether requests name the model.
func (b *Backend) UsesModel() bool { return b.usesModel }

// New returns a client of the backend. prefix goes before the file's path, and
// query after it. The protocol and what it can are filled in.
func (b *Backend) New(prefix, query, model string, c wire.ClientConfig) *wire.Client {
	c.Protocol = &protocol{backend: b, prefix: prefix, query: query, model: model}
	c.Wire.Method = b.Request.Method
	c.Can.Chat = b.Request.Prompt == "messages"
	c.Can.TokenIDs = b.Request.Prompt == "token-ids"
	c.Can.ForceLength = b.forces
	c.Can.RunningUsage = b.Answer.Usage.Running != ""
	c.Can.TokenIDsOut = b.Answer.TokenIDs != ""
	if b.tokenize != nil {
		c.Tokenize = b.tokenizer(wire.NewFetcher(c.Wire), prefix, model)
	}
	return wire.NewClient(c)
}

// Header is the header lines that the file names, with the key in its place.
func (b *Backend) Header(key string) []transport.Field {
	var out []transport.Field
	for _, name := range slices.Sorted(maps.Keys(b.Request.Headers)) {
		out = append(out, transport.Field{Name: name, Value: b.Request.Headers[name]})
	}
	if key != "" {
		out = append(out, transport.Field{Name: b.Request.Key.Header, Value: b.Request.Key.Prefix + key})
	}
	return out
}

// protocol writes requests and reads answers as the file says.
type protocol struct {
	backend       *Backend
	prefix, query string
	model         string
}

func (p *protocol) Framing() wire.Framing {
	if p.backend.Answer.Framing == "ndjson" {
		return wire.NDJSON
	}
	return wire.SSE
}

func (p *protocol) NewDecoder() wire.Decoder {
	return &decoder{paths: p.backend.paths, spec: &p.backend.Answer}
}

// Request fills in the templates.
func (p *protocol) Request(dst []byte, r *backends.Request) (string, []byte, error) {
	b := p.backend
	f, err := b.fill(p.model, r)
	if err != nil {
		return "", dst, err
	}
	path, err := b.route(p.model)
	if err != nil {
		return "", dst, err
	}
	buf := b.buffers.Get().(*bytes.Buffer)
	defer b.buffers.Put(buf)
	buf.Reset()
	if err := b.body.Execute(buf, f); err != nil {
		return "", dst, fmt.Errorf("backend %s: the body: %w", b.Name, err)
	}
	return p.prefix + path + p.query, append(dst, buf.Bytes()...), nil
}

// route is the path for a model.
func (b *Backend) route(model string) (string, error) {
	path, err := execute(b.path, pathFields{url.PathEscape(model)})
	if err != nil {
		return "", fmt.Errorf("backend %s: the path: %w", b.Name, err)
	}
	return path, nil
}

// fill writes a request's fields as JSON.
func (b *Backend) fill(model string, r *backends.Request) (*fields, error) {
	f := &fields{
		Model: quote(model), ID: quote(r.ID), MaxTokens: strconv.Itoa(r.MaxTokens), ForceLength: r.ForceLength,
		Temperature: number(r.Sampling.Temperature), TopP: number(r.Sampling.TopP), Priority: number(r.Priority),
	}
	switch form := b.Request.Prompt; {
	case form == "token-ids" && r.Prompt.IDs != nil:
		f.TokenIDs = string(valueOf(wire.AppendIDs(nil, "", r.Prompt.IDs)))
	case form == "token-ids":
		return nil, fmt.Errorf("backend %s takes token ids only: use --prompt token-ids", b.Name)
	case r.Prompt.IDs != nil:
		return nil, fmt.Errorf("backend %s takes no token ids: use --prompt text", b.Name)
	case form == "messages":
		f.Messages = string(valueOf(wire.AppendMessages(nil, "", wire.Turns(r.Prompt))))
	case r.Prompt.Messages != nil:
		return nil, fmt.Errorf("backend %s takes no chat messages: its request.prompt is text", b.Name)
	default:
		f.Prompt = quote(r.Prompt.Text)
	}
	if s := r.Sampling; len(s.Stop) > 0 {
		f.Stop = string(valueOf(wire.AppendTexts(nil, "", s.Stop)))
	}
	if k := r.Sampling.TopK; k != nil {
		f.TopK = strconv.Itoa(*k)
	}
	if s := r.Sampling.Seed; s != nil {
		f.Seed = strconv.FormatInt(*s, 10)
	}
	if r.CacheSalt != "" {
		f.CacheSalt = quote(r.CacheSalt)
	}
	return f, nil
}

// valueOf is the value of a member written without a name.
func valueOf(b []byte) []byte { return bytes.TrimPrefix(b, []byte(`"":`)) }

func quote(s string) string { return string(jsonscan.AppendString(nil, s)) }

// number is a number as JSON, "" for none.
func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}
