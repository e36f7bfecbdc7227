package record

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// keepLimit bounds the memory of timelines kept aside until the window opens,
// in bytes.
const keepLimit = 32 << 20

// waiting holds the timelines that ended before the start of the window was
// known, packed to a few bytes a token.
type waiting struct {
	list  []packed
	bytes int
	// floor is the end of the latest timeline that had to be dropped: a window
	// may not start before it.
	floor int64
}

// packed is a finished timeline with its slices written as varints: for each
// token event the gap since the one before and its tokens, then the lags.
type packed struct {
	timeline Timeline // without its slices
	tokens   int      // number of token events
	data     []byte
}

// add keeps a copy without the text.
func (w *waiting) add(t *Timeline) {
	p := pack(t)
	w.list = append(w.list, p)
	w.bytes += p.size()
	if w.bytes > keepLimit {
		w.drop(max(len(w.list)/4, 1))
	}
}

// drop forgets the n oldest.
func (w *waiting) drop(n int) {
	for _, p := range w.list[:n] {
		w.floor = max(w.floor, p.timeline.end)
		w.bytes -= p.size()
	}
	w.list = slices.Delete(w.list, 0, n)
}

// empty calls f for each timeline, which is only lent, and forgets them.
func (w *waiting) empty(f func(*Timeline)) {
	var t Timeline
	for i := range w.list {
		w.list[i].unpack(&t)
		f(&t)
	}
	w.list, w.bytes = nil, 0
}

func pack(t *Timeline) packed {
	p := packed{timeline: *t, tokens: len(t.events)}
	c := &p.timeline
	c.events, c.lags, c.text, c.ends, c.Count, c.Outcome.Body = nil, nil, nil, nil, nil, nil
	c.warnings = slices.Clone(t.warnings)
	buf := make([]byte, 0, 8*len(t.events)+4*len(t.lags))
	before := int64(0)
	for _, e := range t.events {
		buf = binary.AppendUvarint(buf, uint64(e.at-before))
		buf = binary.AppendUvarint(buf, uint64(e.k))
		before = e.at
	}
	for _, l := range t.lags {
		buf = binary.AppendUvarint(buf, uint64(l))
	}
	p.data = slices.Clone(buf)
	return p
}

// unpack restores the timeline into t, whose slices are used again.
func (p *packed) unpack(t *Timeline) {
	events, lags := t.events[:0], t.lags[:0]
	*t = p.timeline
	data := p.data
	next := func() uint64 {
		v, n := binary.Uvarint(data)
		data = data[n:]
		return v
	}
	at := int64(0)
	for range p.tokens {
		at += int64(next())
		events = append(events, arrival{at: at, k: int32(next())})
	}
	for len(data) > 0 {
		lags = append(lags, uint32(next()))
	}
	t.events, t.lags = events, lags
}

// size is the memory of a packed timeline, in bytes.
func (p *packed) size() int { return int(unsafe.Sizeof(*p)) + cap(p.data) }
