package profiles

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBuiltinsRoundTrip(t *testing.T) {
	for _, s := range Builtins() {
		t.Run(s.Name, func(t *testing.T) {
			p, err := Builtin(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			assertRoundTrip(t, p)
		})
	}
}

func assertRoundTrip(t *testing.T, p *Profile) {
	t.Helper()
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(strings.NewReader(string(text)), "again.yaml")
	if err != nil {
		t.Fatalf("parse of\n%s\n%v", text, err)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("written and read profiles differ (-written +read):\n%s\n%s", diff, text)
	}
}
