package record

// maxBlocks bounds the blocks of a window: when it grows past them, they are
// merged in pairs and are twice as long from there on.
const maxBlocks = 20

// block is one of the equal parts of a window.
type block struct {
	area            int64 // request-nanoseconds in flight
	completed       int64
	tokens          int64
	ttft, itl, e2e  *distribution
	tpotSum, tpotNo int64
}

// blocks cuts a window of a length not yet known into equal parts.
type blocks struct {
	start, width int64
	list         []*block
}

// at returns the block that the time lies in, which must not be before start.
func (b *blocks) at(t int64) *block {
	for (t-b.start)/b.width >= maxBlocks {
		b.double()
	}
	i := int((t - b.start) / b.width)
	for len(b.list) <= i {
		b.list = append(b.list, &block{ttft: newBlockLatency(), itl: newBlockLatency(), e2e: newBlockLatency()})
	}
	return b.list[i]
}

// double merges the blocks in pairs.
func (b *blocks) double() {
	merged := b.list[:0]
	for i := 0; i < len(b.list); i += 2 {
		if i+1 < len(b.list) {
			b.list[i].merge(b.list[i+1])
		}
		merged = append(merged, b.list[i])
	}
	b.list, b.width = merged, b.width*2
}

func (b *block) merge(o *block) {
	b.area += o.area
	b.completed += o.completed
	b.tokens += o.tokens
	b.tpotSum += o.tpotSum
	b.tpotNo += o.tpotNo
	b.ttft.merge(o.ttft)
	b.itl.merge(o.itl)
	b.e2e.merge(o.e2e)
}

// inFlight spreads a request that was in flight over the blocks it spans.
func (b *blocks) inFlight(from, to int64) {
	for from < to {
		at := b.at(from)
		edge := min(b.start+((from-b.start)/b.width+1)*b.width, to)
		at.area += edge - from
		from = edge
	}
}

// result reports the whole blocks of a window that ended at end; a last part
// that is shorter than the others is left out unless it is the only one.
func (b *blocks) result(origin, end int64) []Block {
	out := make([]Block, 0, len(b.list))
	for from := b.start; from < end; from += b.width {
		to := min(from+b.width, end)
		if to-from < b.width && len(out) > 0 {
			break
		}
		part := b.at(from)
		s := seconds(to - from)
		r := Block{
			StartS: seconds(from - origin), EndS: seconds(to - origin),
			Completed: part.completed, InFlightMean: Known(float64(part.area) / float64(to-from)),
			RequestThroughputPerS:     Known(float64(part.completed) / s),
			OutputTokenThroughputPerS: Known(float64(part.tokens) / s),
			TTFTMeanMS:                part.ttft.mean(), TTFTP95MS: part.ttft.p95(),
			ITLMeanMS: part.itl.mean(), ITLP95MS: part.itl.p95(),
			E2EMeanMS: part.e2e.mean(), E2EP95MS: part.e2e.p95(),
		}
		if part.tpotNo > 0 {
			r.TPOTMeanMS = Known(float64(part.tpotSum) / float64(part.tpotNo) * 1e-6)
		}
		out = append(out, r)
	}
	return out
}
