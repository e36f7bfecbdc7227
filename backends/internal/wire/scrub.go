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
type scrubber struct{ replace *strings.Replacer }

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
	var pairs []string
	for _, f := range slices.Compact(forms) {
		pairs = append(pairs, f, removed)
	}
	return scrubber{strings.NewReplacer(pairs...)}
}

func (s scrubber) text(t string) string {
	if s.replace == nil {
		return t
	}
	return s.replace.Replace(t)
}

func (s scrubber) bytes(b []byte) []byte { return []byte(s.text(string(b))) }
