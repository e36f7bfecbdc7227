//go:build unix

package bundle_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/bundle/bundletest"
)

// TestPipesInABundle opens bundles with a pipe that nobody writes to in place
// of each file: to open one would never end.
func TestPipesInABundle(t *testing.T) {
	for _, name := range []string{bundle.ResultFile, bundle.ManifestFile, bundle.RequestsFile, bundle.HistogramsFile, bundle.ProfileFile, bundle.IndexFile} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, bundletest.Result())
			file := filepath.Join(dir, name)
			if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(file, 0o600); err != nil {
				t.Skip("no pipes on this file system: ", err)
			}
			var told []string
			for _, err := range bundle.Verify(dir) {
				told = append(told, err.Error())
			}
			if b, err := bundle.Open(dir); err != nil {
				told = append(told, err.Error())
			} else {
				for _, err := range b.Requests() {
					if err != nil {
						told = append(told, err.Error())
					}
				}
				if _, err := b.Histograms(); err != nil {
					told = append(told, err.Error())
				}
			}
			if !strings.Contains(strings.Join(told, "\n"), "is no regular file") {
				t.Errorf("got %q", told)
			}
		})
	}
}
