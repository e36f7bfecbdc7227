package record

import (
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
)

// failing is a rung whose requests end with the outcomes, 1 ms apart.
func failing(outcomes ...backends.Outcome) Rung {
	r := NewRecorder(fixed(0, 1000))
	for i, o := range outcomes {
		t := new(Timeline)
		at := base + int64(i)*ms
		t.Reset("r", at, 4)
		t.Sent(at)
		o.Usage, o.End = backends.NoUsage, at+ms/2
		t.Finish(o)
		r.Began()
		r.Add(t)
	}
	r.Close(base + 1000*ms)
	out, _ := r.Result(Evidence{})
	return out
}

func TestFailuresKeepWhatTheFirstSaid(t *testing.T) {
	refusal := func(text string) backends.Outcome { return backends.Outcome{Class: backends.HTTP4xx, Err: text} }
	a := failing(refusal(""), refusal("id 31 is unknown"), refusal("id 32 is unknown"), backends.Outcome{Class: backends.Timeout})
	b := failing(refusal("id 33 is unknown"), backends.Outcome{Class: backends.Connect, Err: strings.Repeat("x", 2*maxError)})

	for name, c := range map[string]struct {
		rungs []Rung
		want  string
	}{
		"no rung":             {nil, ""},
		"one rung":            {[]Rung{a}, "http_4xx 3 (id 31 is unknown), timeout 1"},
		"the first rung's":    {[]Rung{a, b}, "http_4xx 4 (id 31 is unknown), connect 1 (" + b.Requests.FirstErrors["connect"] + "), timeout 1"},
		"without what is not": {[]Rung{{Requests: Requests{Failures: map[string]int64{"tls": 0}}}}, ""},
	} {
		failed := Failures(c.rungs)
		if got := failed.FailureText(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if n := len(b.Requests.FirstErrors["connect"]); n == 0 || n > maxError+len("…") {
		t.Errorf("an error text of %d bytes is kept, want at most %d", n, maxError)
	}
	good, _ := recorded(fixed(0, 1000), request{first: 10, gap: 1, tokens: 4})
	if good.Requests.FirstErrors != nil {
		t.Errorf("first errors %v of a rung without failures", good.Requests.FirstErrors)
	}
}
