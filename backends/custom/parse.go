package custom

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/headway-bench/headway/backends"
)

// maxFile bounds a backend file, in bytes, and with it how deep one may nest:
// the YAML parser takes memory with the square of the depth.
const maxFile = 16 << 10

// Error is a fault of a backend file.
type Error struct {
	File         string
	Line, Column int    // from 1, 0 where there is no place
	Field        string // dotted path, such as answer.text
	Message      string
	Hint         string // what to do next
}

// Error writes file:line:column: field: message; hint.
func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	s += ": "
	if e.Field != "" {
		s += e.Field + ": "
	}
	s += e.Message
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Load reads a backend file. Faults of its content are joined *Errors.
func Load(file string) (*Backend, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("backend file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("backend file: %w", err)
	}
	return Parse(data, file)
}

// Parse reads the text of a backend file, which messages call name. Faults of
// its content are joined *Errors.
func Parse(data []byte, name string) (*Backend, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("backend file %s: larger than %d bytes; it is a page of YAML: is this the right file?", name, maxFile)
	}
	p := &fileParser{name: name}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, p.yamlError(err)
	}
	p.tree = tree
	b := &Backend{}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&b.Spec); err != nil {
		return nil, p.yamlError(err)
	}
	p.check(b)
	if len(p.faults) > 0 {
		return nil, p.joined()
	}
	b.buffers.New = func() any { return new(bytes.Buffer) }
	return b, nil
}

// fileParser checks one file and collects its faults.
type fileParser struct {
	name   string
	tree   *ast.File
	faults []*Error
}

// joined is all faults in the order of the file.
func (p *fileParser) joined() error {
	slices.SortStableFunc(p.faults, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field))
	})
	errs := make([]error, len(p.faults))
	for i, f := range p.faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// yamlError gives an error of the YAML reader its place, and an unknown key
// the nearest name.
func (p *fileParser) yamlError(err error) error {
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil {
		return &Error{File: p.name, Message: strings.TrimSpace(err.Error()), Hint: "docs/dialects.md has an example"}
	}
	t := y.GetToken()
	e := &Error{File: p.name, Line: t.Position.Line, Column: t.Position.Column, Message: y.GetMessage()}
	if unknown := (*yaml.UnknownFieldError)(nil); errors.As(err, &unknown) {
		e.Field, e.Message = t.Value, "unknown key"
		e.Hint = nearest(t.Value)
	}
	if mismatch := (*yaml.TypeError)(nil); errors.As(err, &mismatch) {
		e.Message = fmt.Sprintf("needs %s, not %s", kindName(mismatch.DstType), kindName(mismatch.SrcType))
	}
	return e
}

// kindName names a type as YAML knows it.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Map, reflect.Struct:
		return "a mapping"
	case reflect.Slice:
		return "a list"
	}
	return "a number"
}

// fail notes a fault of a field.
func (p *fileParser) fail(field, hint, format string, args ...any) {
	e := &Error{File: p.name, Field: field, Message: fmt.Sprintf(format, args...), Hint: hint}
	for at := field; at != "" && e.Line == 0; {
		if path, err := yaml.PathString("$." + at); err == nil {
			if n, err := path.FilterFile(p.tree); err == nil && n != nil && n.GetToken() != nil {
				e.Line, e.Column = n.GetToken().Position.Line, n.GetToken().Position.Column
			}
		}
		at = at[:max(strings.LastIndexByte(at, '.'), 0)]
	}
	p.faults = append(p.faults, e)
}

// oneOf checks a field that takes a few words.
func (p *fileParser) oneOf(field, value string, words ...string) {
	if !slices.Contains(words, value) {
		p.fail(field, "write one of "+strings.Join(words, ", "), "%q is not known", value)
	}
}

// secretName matches headers, and parameters of a route, in which people paste
// credentials.
var secretName = regexp.MustCompile(`(?i)(auth|cookie|credential|key|token|secret|password|signature)`)

// check checks the file and makes it ready for use.
func (p *fileParser) check(b *Backend) {
	p.oneOf("apiVersion", b.APIVersion, apiVersion)
	if b.Name == "" {
		p.fail("name", "it stands in results", "is missing")
	}
	p.checkRequest(b)
	p.checkAnswer(&b.Answer)
	p.checkTokenizer(b)
	b.paths = p.pathTree(&b.Answer)
	s := b.Server
	for field, path := range map[string]string{"server.version": s.Version, "server.metrics": s.Metrics, "server.models": s.Models} {
		if path != "" && path[0] != '/' {
			p.fail(field, "write it from the server's root", "%q does not begin with /", path)
		}
	}
	if s.VersionField != "" && s.Version == "" {
		p.fail("server.version_field", "name the route in server.version", "has no route to be read from")
	}
}

func (p *fileParser) checkRequest(b *Backend) {
	r := &b.Request
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	p.oneOf("request.method", r.Method, http.MethodPost, http.MethodPut)
	p.oneOf("request.prompt", r.Prompt, "text", "messages", "token-ids")
	for name, value := range r.Headers {
		switch {
		case secretName.MatchString(name):
			p.fail("request.headers", "name the variable that holds the key with --api-key-env, and its header in request.key", "the header %s may hold a secret, and none stands in a file", name)
		case name == "" || strings.ContainsAny(name, " :\t\r\n") || strings.ContainsAny(value, "\r\n"):
			p.fail("request.headers", "", "%q is no header", name)
		}
	}
	if r.Key.Header == "" {
		if r.Key.Prefix != "" {
			p.fail("request.key.header", "name it", "is missing beside the prefix")
		}
		r.Key = Key{Header: "Authorization", Prefix: "Bearer "}
	}
	if !strings.HasPrefix(r.Path, "/") {
		p.fail("request.path", "write the route from the target's path, as /api/generate", "%q does not begin with /", r.Path)
	}
	p.checkTemplates(b)
}

// checkTemplates parses the templates and tries them on a request that leaves
// everything open and on one that names everything.
func (p *fileParser) checkTemplates(b *Backend) {
	if b.Request.Body == "" {
		p.fail("request.body", `as {"prompt": {{.Prompt}}, "max_tokens": {{.MaxTokens}}}`, "is missing")
		return
	}
	var err error
	if b.path, err = parseTemplate(b.Request.Path); err != nil {
		p.fail("request.path", "", "%v", err)
		return
	}
	route, err := b.route("m")
	if err != nil {
		p.fail("request.path", "{{.Model}} is all that a path may name", "%v", err)
	}
	p.checkRoute(route)
	if b.body, err = parseTemplate(b.Request.Body); err != nil {
		p.fail("request.body", "", "%v", err)
		return
	}
	open := &backends.Request{MaxTokens: 7}
	n, k, seed := 0.5, 3, int64(5)
	full := &backends.Request{
		ID: "r", MaxTokens: 7, ForceLength: true, Priority: &n, CacheSalt: "s",
		Sampling: backends.Sampling{Temperature: &n, TopP: &n, TopK: &k, Seed: &seed, Stop: []string{"a", "b"}},
	}
	const text = `a "quoted" text`
	prompt := backends.Prompt{Text: text}
	if b.Request.Prompt == "token-ids" {
		prompt = backends.Prompt{IDs: []int32{1, 2}}
	}
	bodies := make([]string, 0, 4)
	for _, r := range []*backends.Request{open, full} {
		r.Prompt = prompt
		body, err := b.render("m", r)
		if err != nil {
			p.fail("request.body", "a field is one of "+strings.Join(fieldNames(), ", "), "%v", err)
			return
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			p.fail("request.body", "fields are JSON with their quotes; one that a request leaves open is empty: {{if .Seed}}, \"seed\": {{.Seed}}{{end}}",
				"makes no JSON object: %v: %s", err, strings.TrimSpace(body))
			return
		}
		bodies = append(bodies, body)
	}
	other, _ := b.render("n", full)
	pathOfM, _ := b.route("m")
	pathOfN, _ := b.route("n")
	b.usesModel = other != bodies[1] || pathOfM != pathOfN
	full.ForceLength = false
	free, _ := b.render("m", full)
	b.forces = free != bodies[1]
	full.MaxTokens = 8
	if longer, _ := b.render("m", full); longer == free {
		p.fail("request.body", "use {{.MaxTokens}}", "does not limit the output")
	}
	full.Prompt = backends.Prompt{Text: "other", IDs: nil}
	if prompt.IDs != nil {
		full.Prompt = backends.Prompt{IDs: []int32{3}}
	}
	full.MaxTokens = 7
	if another, _ := b.render("m", full); another == free {
		p.fail("request.body", "use {{.Prompt}}, {{.Messages}} or {{.TokenIDs}}, as request.prompt says", "does not hold the prompt")
	}
}

// checkRoute checks what the path's template makes.
func (p *fileParser) checkRoute(route string) {
	if strings.ContainsFunc(route, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		p.fail("request.path", "escape it, as %20", "has a blank or a control character in it")
	}
	_, query, _ := strings.Cut(route, "?")
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); secretName.MatchString(name) {
			p.fail("request.path", "name the variable that holds the key with --api-key-env, and its header in request.key", "the parameter %s may hold a secret, and none stands in a file", name)
		}
	}
}

func (p *fileParser) checkTokenizer(b *Backend) {
	t := b.Tokenizer
	if t == (Tokenizer{}) {
		return
	}
	if !strings.HasPrefix(t.Path, "/") {
		p.fail("tokenizer.path", "write it from the server's root", "%q does not begin with /", t.Path)
	}
	parsed, err := parseTemplate(t.Body)
	if err != nil {
		p.fail("tokenizer.body", "", "%v", err)
		return
	}
	b.tokenize = parsed
	one, err := execute(parsed, b.tokenizerFields("m", backends.Prompt{Text: `a "quoted" text`}))
	other, _ := execute(parsed, b.tokenizerFields("m", backends.Prompt{Text: "other"}))
	switch {
	case err != nil:
		p.fail("tokenizer.body", "a field is .Model, .Prompt or .Messages", "%v", err)
	case !json.Valid([]byte(one)):
		p.fail("tokenizer.body", "fields are JSON with their quotes", "makes no JSON: %s", one)
	case one == other:
		p.fail("tokenizer.body", "use {{.Prompt}}, or {{.Messages}} where request.prompt is messages", "does not hold the prompt")
	}
}

// render is the body of a request.
func (b *Backend) render(model string, r *backends.Request) (string, error) {
	f, err := b.fill(model, r)
	if err != nil {
		return "", err
	}
	return execute(b.body, f)
}

// fieldNames lists what a body may use.
func fieldNames() []string {
	var names []string
	for f := range reflect.TypeFor[fields]().Fields() {
		names = append(names, "."+f.Name)
	}
	return names
}

func (p *fileParser) checkAnswer(a *Answer) {
	p.oneOf("answer.framing", a.Framing, "sse", "ndjson")
	if a.Text == "" && a.TokenIDs == "" {
		p.fail("answer.text", "write the path of the text in an event, as choices[0].text", "is missing")
	}
	if a.Cumulative && (a.Reasoning != "" || a.Tool != "") {
		p.fail("answer.cumulative", "", "text that repeats itself cannot stand beside reasoning or tool calls")
	}
	e := &a.End
	if e.Equals != "" && !json.Valid([]byte(e.Equals)) {
		e.Equals = quote(e.Equals)
	}
	switch {
	case *e == (End{}) && a.Finish == "":
		p.fail("answer.end", "name data, event, path or body: true, or a finish reason in answer.finish", "nothing ends an answer")
	case e.Equals != "" && e.Path == "":
		p.fail("answer.end.equals", "name the value's path in answer.end.path", "has no path")
	case e.Event != "" && a.Framing == "ndjson":
		p.fail("answer.end.event", "use data or path", "lines have no event types")
	}
}

// pathTree makes one tree of the answer's paths.
func (p *fileParser) pathTree(a *Answer) *node {
	root := &node{}
	for _, x := range []struct {
		field, path string
		do          action
	}{
		{"answer.text", a.Text, text},
		{"answer.no_text_if", a.NoTextIf, noTextIf},
		{"answer.reasoning", a.Reasoning, reasoning},
		{"answer.tool", a.Tool, tool},
		{"answer.token_ids", a.TokenIDs, tokenIDs},
		{"answer.finish", a.Finish, finish},
		{"answer.error", a.Error, fault},
		{"answer.usage.prompt", a.Usage.Prompt, usagePrompt},
		{"answer.usage.completion", a.Usage.Completion, usageCompletion},
		{"answer.usage.cached", a.Usage.Cached, usageCached},
		{"answer.usage.reasoning", a.Usage.Reasoning, usageReasoning},
		{"answer.usage.running", a.Usage.Running, running},
		{"answer.end.path", a.End.Path, end},
	} {
		if x.path == "" {
			continue
		}
		if err := root.add(x.path, x.do); err != nil {
			p.fail(x.field, "", "%v", err)
		}
	}
	return root
}

// nearest is a hint at the known key that is most like a word.
func nearest(word string) string {
	best, least := "", len(word)/3+2
	for _, key := range keysOf(reflect.TypeFor[Spec](), "") {
		if d := distance(strings.ToLower(word), key[strings.LastIndexByte(key, '.')+1:]); d < least {
			best, least = key, d
		}
	}
	if best == "" {
		return "docs/dialects.md lists the keys"
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// keysOf lists the keys of a struct and of those in it, with their places.
func keysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for f := range t.Fields() {
		key := prefix + f.Tag.Get("yaml")
		keys = append(keys, key)
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(f.Type, key+".")...)
		}
	}
	return keys
}

// distance is the number of letters to insert, delete or replace (Levenshtein).
func distance(a, b string) int {
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		before := last[0]
		last[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = last[j+1]
			last[j+1] = min(cost, last[j+1]+1, last[j]+1)
		}
	}
	return last[len(b)]
}
