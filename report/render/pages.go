package render

import (
	"io"

	"github.com/headway-bench/headway/report/bundle"
)

// Pages are the reports that a bundle holds.
func Pages() []bundle.Page {
	return []bundle.Page{
		{Name: bundle.MarkdownFile, Write: func(w io.Writer, b *bundle.Bundle) error { return Markdown(w, b.Result) }},
		{Name: bundle.HTMLFile, Write: func(w io.Writer, b *bundle.Bundle) error { return HTML(w, b) }},
	}
}
