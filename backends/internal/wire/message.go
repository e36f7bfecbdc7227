package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/headway-bench/headway/backends/internal/stream"
)

// maxSnippet bounds what is quoted of a body, in bytes.
const maxSnippet = 300

// maxMessage bounds a server's message, in bytes.
const maxMessage = 1000

var (
	tags   = regexp.MustCompile(`(?s)<(script|style)\b.*?</(script|style)>|<[^>]*>`)
	blanks = regexp.MustCompile(`\s+`)
	// forbidden finds the field in the text that pydantic gives for one it does
	// not know, in its Python and its JSON form.
	forbidden = regexp.MustCompile(`extra_forbidden.*?loc['"]:\s*[(\[]['"]body['"],\s*['"]([A-Za-z0-9_]+)`)
)

// Message is what an error body says, in any of the shapes that servers use:
// {"error": {"message"}}, {"error": "text"}, {"message"}, {"detail"}, a page,
// or plain text, which an event may carry.
func Message(body []byte) string {
	body = bytes.TrimPrefix(body, []byte("data:"))
	var v any
	var text string
	if err := json.Unmarshal(bytes.TrimSpace(body), &v); err != nil {
		text = cutMessage(body)
	} else {
		text = messageOf(v)
	}
	if text == "" {
		text = Snippet(body)
	}
	if text == "" {
		return "(empty body)"
	}
	text = shorten(strings.TrimSpace(blanks.ReplaceAllString(text, " ")), maxMessage)
	if m := forbidden.FindSubmatch(body); m != nil {
		text += fmt.Sprintf(" (the server refuses the field %s: name its dialect)", m[1])
	}
	return text
}

// cutMessage finds the message in the head of a JSON body too long to be kept
// whole, as when a server repeats the prompt in its error.
func cutMessage(body []byte) string {
	_, after, ok := bytes.Cut(body, []byte(`"message":`))
	if !ok {
		return ""
	}
	after = bytes.TrimLeft(after, ` "`)
	if end := bytes.IndexByte(after, '"'); end >= 0 {
		after = after[:end]
	}
	return Snippet(after)
}

// messageOf finds the message in a decoded error body.
func messageOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var parts []string
		for _, e := range v {
			if s := messageOf(e); s != "" {
				parts = append(parts, s)
			}
		}
		return strings.Join(parts, "; ")
	case map[string]any:
		for _, key := range []string{"error", "errors", "message", "msg", "detail", "error_description", "type", "code"} {
			if s := messageOf(v[key]); s != "" {
				return s
			}
		}
	case float64:
		return fmt.Sprint(v)
	}
	return ""
}

// Snippet is the head of a body in one line, without markup.
func Snippet(body []byte) string {
	b := stream.Head(body, 8*maxSnippet)
	if t := bytes.TrimSpace(b); len(t) > 0 && t[0] == '<' {
		b = tags.ReplaceAll(b, []byte(" "))
	}
	b = bytes.TrimSpace(blanks.ReplaceAll(b, []byte(" ")))
	return shorten(string(b), maxSnippet)
}

// ellipsis ends a text that was cut short.
const ellipsis = "..."

// shorten cuts a text to n bytes, and mends what is not UTF-8 in it.
func shorten(text string, n int) string {
	short := string(stream.Head([]byte(text), n))
	if len(short) < len(text) {
		short += ellipsis
	}
	return strings.ToValidUTF8(short, "\uFFFD")
}
