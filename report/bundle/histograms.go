package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms reads the histograms of the bundle, by tag "rung<index>/<name>".
// A bundle that has none gives an empty map.
func (b *Bundle) Histograms() (map[string]*hdrhistogram.Histogram, error) {
	out := map[string]*hdrhistogram.Histogram{}
	if b.Dir == "" {
		return out, nil
	}
	f, err := openPart(filepath.Join(b.Dir, HistogramsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := hdrhistogram.NewHistogramLogReader(f)
	for {
		h, err := r.NextIntervalHistogram()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", HistogramsFile, err)
		}
		if h == nil {
			return out, nil
		}
		out[strings.TrimSpace(h.Tag())] = h
	}
}
