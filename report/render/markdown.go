package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/text"
)

// Markdown writes the result as GitHub-flavoured Markdown. Foreign text is
// escaped: it can't open tables, links, HTML or mentions.
func Markdown(w io.Writer, r *bundle.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", text.Markdown(known(r.Profile.Name)))
	b.WriteString("| | |\n|---|---|\n")
	for _, f := range identity(r) {
		fmt.Fprintf(&b, "| %s | %s |\n", f.Name, text.Markdown(f.Value))
	}
	b.WriteString("\n")
	cols := columns(r, true)
	for _, c := range cols {
		fmt.Fprintf(&b, "| %s ", text.Markdown(strings.ReplaceAll(c.head, "\n", " ")))
	}
	b.WriteString("|\n" + strings.Repeat("|---:", len(cols)) + "|\n")
	for i := range r.Rungs {
		for _, c := range cols {
			fmt.Fprintf(&b, "| %s ", text.Markdown(c.cell(&r.Rungs[i])))
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n")
	notes(&b, r)
	b.WriteString("\n")
	for _, f := range findings(r) {
		fmt.Fprintf(&b, "- **%s**: %s\n", f.Name, text.Markdown(f.Value))
	}
	if r.Imported != nil {
		b.WriteString("\n")
		for _, f := range definitions(r) {
			fmt.Fprintf(&b, "- `%s` as %s defines it: %s\n", f.Name, text.Markdown(r.Imported.Tool), text.Markdown(f.Value))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
