package record

import (
	"cmp"
	"slices"
)

// foldAt is how many starts and ends are kept at least before the old ones are
// folded.
const foldAt = 1 << 16

// change is a request that came into flight (+1) or left it (-1).
type change struct {
	at int64
	n  int8
}

// flight follows how many requests are in flight, for their maximum. Requests
// come in the order of their end, so a start may lie as far back as the longest
// request, the horizon; what is older is folded into a level, which bounds the
// memory of a day-long rung.
type flight struct {
	changes []change
	horizon int64 // ns; 0 keeps everything
	foldLen int   // length at which to fold again
	latest  int64
	level   int64
	most    int64
	known   bool
}

// add notes a request that was in flight from one time to the other, the end
// excluded.
func (f *flight) add(from, to int64) {
	if to <= from {
		return
	}
	f.known = true
	f.latest = max(f.latest, to)
	f.changes = append(f.changes, change{from, 1}, change{to, -1})
	if f.horizon > 0 && len(f.changes) >= max(f.foldLen, foldAt) {
		f.fold(f.latest - f.horizon)
		f.foldLen = 2 * len(f.changes)
	}
}

// fold settles the changes before the time.
func (f *flight) fold(before int64) {
	slices.SortFunc(f.changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n))
	})
	i := 0
	for ; i < len(f.changes) && f.changes[i].at < before; i++ {
		f.level += int64(f.changes[i].n)
		f.most = max(f.most, f.level)
	}
	f.changes = slices.Delete(f.changes, 0, i)
}

// max is the most that were in flight at once. At one instant ends come before
// starts: a user that sends again as its answer ends is one request, not two.
func (f *flight) max() Value {
	if !f.known {
		return Value{}
	}
	f.fold(1<<63 - 1)
	return Known(float64(f.most))
}
