package render_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/bundle/bundletest"
	"github.com/headway-bench/headway/report/render"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it:\n%s", path, diff)
	}
}

func TestTable(t *testing.T) {
	for name, o := range map[string]render.Options{
		"table-80.txt":    {Width: 80},
		"table-120.txt":   {Width: 120},
		"table-color.txt": {Width: 80, Color: true},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := render.Table(&b, bundletest.Result(), o); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.Bytes())
		})
	}
}

func reason(text string) record.Reason { return record.Reason{Code: "test", Message: text} }
