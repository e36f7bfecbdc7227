// Package text makes foreign text fit to be shown: names, messages and paths
// that a server, a file or a command line gave.
package text

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// most bounds how much of a foreign text is shown, in bytes.
const most = 500

// Plain makes foreign text safe for a terminal and for one line: no control
// characters, no direction overrides, bounded.
func Plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' || c == '\r' {
			return ' '
		}
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == unicode.ReplacementChar {
			return -1
		}
		return c
	}, Cut(s, most))
}

// Lines is Plain for a message of several lines, which stay.
func Lines(s string) string {
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		out = append(out, Plain(line))
	}
	return strings.Join(out, "\n")
}

// Markdown makes foreign text plain Markdown text on one line: it can't open
// tables, links, HTML or mentions.
func Markdown(s string) string { return markdownEscapes.Replace(Plain(s)) }

var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "@", "&#64;", "$", `\$`,
	"http://", "http:&#47;&#47;", "https://", "https:&#47;&#47;")

// Cut shortens s to at most n characters and marks it.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "..."
		}
	}
	return s
}

// Wrap writes a label and its text, wrapped at width with a hanging
// indent. A word that is longer than a line is broken.
func Wrap(b *strings.Builder, label, text string, width int) {
	indent := utf8.RuneCountInString(escapeSequences.ReplaceAllString(label, ""))
	room := max(width-indent, 20)
	b.WriteString(label)
	column := 0
	newline := func() {
		b.WriteString("\n" + strings.Repeat(" ", indent))
		column = 0
	}
	for _, field := range strings.Fields(text) {
		word := []rune(field)
		if column > 0 && column+1+len(word) > room {
			newline()
		}
		if column > 0 {
			b.WriteByte(' ')
			column++
		}
		for len(word) > room {
			b.WriteString(string(word[:room]))
			word = word[room:]
			newline()
		}
		b.WriteString(string(word))
		column += len(word)
	}
	b.WriteByte('\n')
}

// escapeSequences are the colours that a label may have.
var escapeSequences = regexp.MustCompile("\x1b\\[[0-9;]*m")
