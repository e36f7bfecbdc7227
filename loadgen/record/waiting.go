package record

import (
	"slices"
	"unsafe"
)

// keepLimit bounds the timelines kept aside until the window opens, in bytes.
const keepLimit = 64 << 20

// waiting holds copies of the timelines that ended before the start of the
// window was known.
type waiting struct {
	list  []*Timeline
	bytes int
	// floor is the end of the latest timeline that had to be dropped: a window
	// may not start before it.
	floor int64
}

// add keeps a copy without the text.
func (w *waiting) add(t *Timeline) {
	c := *t
	c.events, c.lags = slices.Clone(t.events), slices.Clone(t.lags)
	c.text, c.ends, c.Count, c.Outcome.Body = nil, nil, nil, nil
	c.warnings = slices.Clone(t.warnings)
	w.list = append(w.list, &c)
	w.bytes += size(&c)
	if w.bytes > keepLimit {
		w.drop(max(len(w.list)/4, 1))
	}
}

// drop forgets the n oldest.
func (w *waiting) drop(n int) {
	for _, t := range w.list[:n] {
		w.floor = max(w.floor, t.end)
		w.bytes -= size(t)
	}
	w.list = slices.Delete(w.list, 0, n)
}

// take empties the list.
func (w *waiting) take() []*Timeline {
	list := w.list
	w.list, w.bytes = nil, 0
	return list
}

// size is the memory of a copy, in bytes.
func size(t *Timeline) int {
	return int(unsafe.Sizeof(*t)) + len(t.events)*int(unsafe.Sizeof(arrival{})) + 4*len(t.lags)
}
