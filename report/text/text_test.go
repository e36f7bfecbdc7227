package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headway-bench/headway/report/text"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[31mb\x07":        "a[31mb",
		"two\nlines\r\tand tab": "two lines  and tab",
		"\u202eright to left":   "right to left",
		"bad \xff byte":         "bad  byte",
		"<script>|":             "<script>|",
	} {
		if got := text.Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
	if got := text.Plain(strings.Repeat("é", 1<<20)); utf8.RuneCountInString(got) > 510 || !strings.HasSuffix(got, "...") {
		t.Errorf("a long text has %d characters and ends in %q", utf8.RuneCountInString(got), got[len(got)-5:])
	}
}

func TestLinesKeepsLines(t *testing.T) {
	if got, want := text.Lines("a\x1b\n  b\u202e"), "a\n  b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMarkdown(t *testing.T) {
	if got, want := text.Markdown("<b>|`[x](http://e) @you\n# h"), "&lt;b&gt;\\|\\`\\[x\\](http:&#47;&#47;e) &#64;you \\# h"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWrap(t *testing.T) {
	var b strings.Builder
	text.Wrap(&b, "label: ", "some words and a"+strings.Repeat("very", 10)+"long one", 30)
	for line := range strings.SplitSeq(strings.TrimSuffix(b.String(), "\n"), "\n") {
		if len(line) > 30 {
			t.Errorf("a line of %d columns: %q", len(line), line)
		}
	}
	if got := strings.Join(strings.Fields(b.String()), ""); got != "label:somewordsanda"+strings.Repeat("very", 10)+"longone" {
		t.Errorf("got %q", got)
	}
}
