package custom

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

// parseTemplate parses a template that takes no longer, and makes no more, than
// what stands in it: one without loops and without templates in templates.
func parseTemplate(text string) (*template.Template, error) {
	t, err := template.New("template").Parse(text)
	if err != nil {
		return nil, err
	}
	for _, part := range t.Templates() {
		if part.Tree != nil && repeats(part.Root) {
			return nil, errors.New("range and template are not part of it: it is filled in once for each request")
		}
	}
	return t, nil
}

// repeats says whether a list of nodes has one that runs others again.
func repeats(list *parse.ListNode) bool {
	if list == nil {
		return false
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.RangeNode, *parse.TemplateNode:
			return true
		case *parse.IfNode:
			if repeats(n.List) || repeats(n.ElseList) {
				return true
			}
		case *parse.WithNode:
			if repeats(n.List) || repeats(n.ElseList) {
				return true
			}
		}
	}
	return false
}

// maxTried bounds a path, and a body of a prompt of a few words, in bytes.
const maxTried = 1 << 20

// execute fills in a template that makes little.
func execute(t *template.Template, data any) (string, error) {
	var b bounded
	err := t.Execute(&b, data)
	return b.text.String(), err
}

// bounded keeps at most maxTried bytes.
type bounded struct{ text strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxTried {
		return 0, fmt.Errorf("it makes more than %d bytes of a few words", maxTried)
	}
	return b.text.Write(p)
}
