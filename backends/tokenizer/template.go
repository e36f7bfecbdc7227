package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// template is a chat template: Jinja with the functions that Hugging Face
// transformers lends it.
type template struct {
	compiled *exec.Template
	bos, eos string
	// now is the time that strftime_now tells.
	now func() time.Time
}

// maxRendered bounds what a template may write, in bytes.
const maxRendered = 64 << 20

// newTemplate compiles a chat template. It can name no other file.
func newTemplate(source, bos, eos string) (*template, error) {
	t := &template{bos: bos, eos: eos, now: time.Now}
	c := config.New()
	c.TrimBlocks, c.LeftStripBlocks = true, true
	const name = "/chat_template"
	loader, err := loaders.NewMemoryLoader(map[string]string{name: source})
	if err != nil {
		return nil, err
	}
	filters := exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters)
	if err := filters.Replace("tojson", toJSON); err != nil {
		return nil, err
	}
	functions := exec.NewContext(map[string]any{
		"raise_exception": raise,
		"strftime_now":    func(layout string) string { return strftime(layout, t.now()) },
	})
	t.compiled, err = exec.NewTemplate(name, c, loader, &exec.Environment{
		Context:           exec.EmptyContext().Update(builtins.GlobalFunctions).Update(builtins.GlobalVariables).Update(functions),
		Filters:           filters,
		Tests:             builtins.Tests,
		ControlStructures: builtins.ControlStructures,
		Methods:           builtins.Methods,
	})
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return t, nil
}

// render writes a conversation with the opening of the assistant's turn.
func (t *template) render(messages []Message) (text string, err error) {
	turns := make([]any, len(messages))
	for i, m := range messages {
		turns[i] = map[string]any{"role": m.Role, "content": m.Content}
	}
	var out limited
	err = t.compiled.Execute(&out, exec.NewContext(map[string]any{
		"messages":              turns,
		"bos_token":             t.bos,
		"eos_token":             t.eos,
		"add_generation_prompt": true,
	}))
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	return out.String(), nil
}

// limited is a buffer that refuses to grow without end.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxRendered {
		return 0, fmt.Errorf("writes more than %d bytes", maxRendered)
	}
	return l.Buffer.Write(p)
}

func (l *limited) WriteString(s string) (int, error) { return l.Write([]byte(s)) }

// raise is the template's own objection to a conversation.
func raise(message string) (string, error) { return "", errors.New(message) }

// toJSON is the filter tojson as transformers has it: like Python's json.dumps
// without escapes for HTML or for what is not ASCII.
func toJSON(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	value := in.ToGoSimpleType(false)
	if err, failed := value.(error); failed {
		return exec.AsValue(fmt.Errorf("tojson: %w", err))
	}
	indent := params.GetKeywordArgument("indent", nil)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if indent.IsInteger() {
		encoder.SetIndent("", strings.Repeat(" ", max(0, indent.Integer())))
	}
	if err := encoder.Encode(value); err != nil {
		return exec.AsValue(fmt.Errorf("tojson: %w", err))
	}
	text := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if !indent.IsInteger() {
		text = spaced(text)
	}
	return exec.AsSafeValue(string(text))
}

// spaced puts a space after each comma and colon of compact JSON.
func spaced(compact []byte) []byte {
	out := make([]byte, 0, len(compact)+len(compact)/8)
	quoted := false
	for i := 0; i < len(compact); i++ {
		c := compact[i]
		out = append(out, c)
		switch {
		case quoted && c == '\\':
			i++
			out = append(out, compact[i])
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			out = append(out, ' ')
		}
	}
	return out
}

// layouts are the directives of strftime in Go's words.
var layouts = map[byte]string{
	'd': "02", 'b': "Jan", 'B': "January", 'Y': "2006", 'y': "06", 'm': "01",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'a': "Mon", 'A': "Monday",
	'Z': "MST", 'z': "-0700",
}

// strftime writes a time as C's function of that name does. Directives that it
// does not know are written as they are.
func strftime(layout string, at time.Time) string {
	var out strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			out.WriteByte(layout[i])
			continue
		}
		i++
		switch word, ok := layouts[layout[i]]; {
		case ok:
			out.WriteString(at.Format(word))
		case layout[i] == 'j':
			day := strconv.Itoa(1000 + at.YearDay())
			out.WriteString(day[1:])
		case layout[i] == '%':
			out.WriteByte('%')
		default:
			out.WriteString(layout[i-1 : i+1])
		}
	}
	return out.String()
}
