package wire

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// removed stands in the place of a secret.
const removed = "[removed]"

// minSecret is the shortest string that is taken for a secret: shorter ones
// are in any text.
const minSecret = 4

// scrubber takes secrets out of what is reported.
type scrubber struct {
	replace *strings.Replacer
	forms   []string // as they may stand in a text, the longest first
}

// newScrubber replaces the secrets as they are, as JSON and as a URL write
// them.
func newScrubber(secrets []string) scrubber {
	var forms []string
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		quoted, _ := json.Marshal(s)
		forms = append(forms, s, strings.Trim(string(quoted), `"`), url.QueryEscape(s))
	}
	if len(forms) == 0 {
		return scrubber{}
	}
	// The longest first, so that no part of one is left when another is in it.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	forms = slices.Compact(forms)
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f, removed)
	}
	return scrubber{strings.NewReplacer(pairs...), forms}
}

// text is t without the secrets, and without the first part of one that t, cut
// short, ends with.
func (s scrubber) text(t string) string {
	if s.replace == nil {
		return t
	}
	t = s.replace.Replace(t)
	body, cut := strings.CutSuffix(t, ellipsis)
	for _, f := range s.forms {
		for n := len(f) - 1; n >= minSecret; n-- {
			if head, ok := strings.CutSuffix(body, f[:n]); ok {
				body = head + removed
			}
		}
	}
	if cut {
		body += ellipsis
	}
	return body
}

func (s scrubber) bytes(b []byte) []byte { return []byte(s.text(string(b))) }
