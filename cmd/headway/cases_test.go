package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCasesPage holds docs/cases.md to the tests that it names.
func TestCasesPage(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{} // of each package's tests
	named := regexp.MustCompile("`([a-z/]+)` (Test[A-Za-z0-9]+)(?: \"([^\"]+)\")?").FindAllStringSubmatch(string(page), -1)
	for _, n := range named {
		dir, test, row := n[1], n[2], n[3]
		source, ok := sources[dir]
		if !ok {
			files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s has no tests", dir)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				source += string(b)
			}
			sources[dir] = source
		}
		if !strings.Contains(source, "func "+test+"(") {
			t.Errorf("%s has no %s", dir, test)
		}
		if row != "" && !strings.Contains(source, `"`+row) {
			t.Errorf("%s has no row that begins with %q", dir, row)
		}
	}
	if len(named) < 150 {
		t.Errorf("only %d tests are named: the page is not read right", len(named))
	}
}
