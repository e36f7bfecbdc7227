package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/headway-bench/headway/report/bundle"
)

// Markdown writes the result as GitHub-flavoured Markdown. Foreign text is
// escaped: it can't open tables, links, HTML or mentions.
func Markdown(w io.Writer, r *bundle.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", escape(known(r.Profile.Name)))
	b.WriteString("| | |\n|---|---|\n")
	for _, f := range identity(r) {
		fmt.Fprintf(&b, "| %s | %s |\n", f.Name, escape(f.Value))
	}
	b.WriteString("\n")
	cols := columns(r, true)
	for _, c := range cols {
		fmt.Fprintf(&b, "| %s ", escape(strings.ReplaceAll(c.head, "\n", " ")))
	}
	b.WriteString("|\n" + strings.Repeat("|---:", len(cols)) + "|\n")
	for i := range r.Rungs {
		for _, c := range cols {
			fmt.Fprintf(&b, "| %s ", escape(c.cell(&r.Rungs[i])))
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n")
	notes(&b, r)
	b.WriteString("\n")
	for _, f := range findings(r) {
		fmt.Fprintf(&b, "- **%s**: %s\n", f.Name, escape(f.Value))
	}
	if r.Imported != nil {
		b.WriteString("\n")
		for _, f := range definitions(r) {
			fmt.Fprintf(&b, "- `%s` as %s defines it: %s\n", f.Name, escape(r.Imported.Tool), escape(f.Value))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "@", "&#64;", "$", `\$`,
	"http://", "http:&#47;&#47;", "https://", "https:&#47;&#47;")

// escape makes foreign text plain Markdown text on one line.
func escape(s string) string { return markdownEscapes.Replace(plain(s)) }
