package cpu

import (
	"math"

	"github.com/headway-bench/headway/backends/reference"
)

// workspace is the memory of one pass, a row a token.
type workspace struct {
	pass []token
	freq []float64 // rotary angle of each plane per position
	sin  []float32 // of those angles at each token's position (lanes, planes)
	cos  []float32

	hidden []float32 // residual stream (lanes, hidden)
	normed []float32 // (lanes, hidden), rows padded
	qkv    []float32 // (lanes, qWidth+2*kvWidth)
	query  []float32 // (lanes, heads, head), heads padded
	mixed  []float32 // attention output (lanes, qWidth), rows padded
	gateUp []float32 // (lanes, 2*ffn)
	ffn    []float32 // (lanes, ffn), rows padded
	delta  []float32 // what a block adds to hidden (lanes, hidden)
	logits []float32 // (lanes, vocab)
	wanted []int     // rows of the pass that a sample is wanted of

	samplers []reference.Sampler // by lane
	scores   [][]float32         // by worker: attention weights (group, positions)
	sums     [][]float32         // by worker: one head's weighted values
}

func newWorkspace(c *Config, threads int) *workspace {
	w := &workspace{
		pass:     make([]token, 0, lanes),
		freq:     c.Rope.frequencies(c.HeadDim),
		sin:      make([]float32, lanes*c.HeadDim/2),
		cos:      make([]float32, lanes*c.HeadDim/2),
		hidden:   make([]float32, lanes*c.Hidden),
		normed:   make([]float32, lanes*padded(c.Hidden)),
		qkv:      make([]float32, lanes*(c.qWidth()+2*c.kvWidth())),
		query:    make([]float32, lanes*c.Heads*padded(c.HeadDim)),
		mixed:    make([]float32, lanes*padded(c.qWidth())),
		gateUp:   make([]float32, lanes*2*c.FFN),
		ffn:      make([]float32, lanes*padded(c.FFN)),
		delta:    make([]float32, lanes*c.Hidden),
		logits:   make([]float32, lanes*c.Vocab),
		samplers: make([]reference.Sampler, lanes),
		scores:   make([][]float32, threads),
		sums:     make([][]float32, threads),
	}
	for i := range w.sums {
		w.sums[i] = make([]float32, padded(c.HeadDim))
	}
	return w
}

// forward runs up to lanes tokens through the model: their keys and values go
// to the cache, and the slices that end here and want it get their sample.
func (e *Executor) forward(pass []token) {
	c, w := &e.model.Config, e.work
	for t, tok := range pass {
		e.model.embed.row(int(tok.id), w.hidden[t*c.Hidden:])
		for i, f := range w.freq {
			sin, cos := math.Sincos(f * float64(tok.pos))
			w.sin[t*len(w.freq)+i], w.cos[t*len(w.freq)+i] = float32(sin), float32(cos)
		}
	}
	for l := range e.model.layers {
		e.attend(pass, l)
		e.feed(len(pass), &e.model.layers[l])
	}
	e.sample(pass)
}

// attend adds the attention block of layer l to the residual stream.
func (e *Executor) attend(pass []token, l int) {
	c, w, layer := &e.model.Config, e.work, &e.model.layers[l]
	n := len(pass)
	e.normalize(n, layer.attnNorm)
	width := layer.qkv.rows
	e.product(layer.qkv, w.normed, n, w.qkv, nil)
	e.pool.do(n, func(_, t int) { e.place(&pass[t], t, w.qkv[t*width:][:width], l) })
	e.pool.do(n*c.KVHeads, func(worker, part int) {
		t := part / c.KVHeads
		e.attendHead(worker, &pass[t], t, part%c.KVHeads, l)
	})
	e.product(layer.out, w.mixed, n, w.delta, e.addDelta)
}

// feed adds the feed-forward block (SwiGLU) to the residual stream.
func (e *Executor) feed(n int, layer *layer) {
	c, w := &e.model.Config, e.work
	e.normalize(n, layer.ffnNorm)
	stride := padded(c.FFN)
	e.product(layer.gateUp, w.normed, n, w.gateUp, func(t, lo, hi int) {
		from := w.gateUp[t*2*c.FFN:]
		for i := lo / 2; i < hi/2; i++ {
			gate := from[2*i]
			w.ffn[t*stride+i] = gate / (1 + exp(-gate)) * from[2*i+1]
		}
	})
	e.product(layer.down, w.ffn, n, w.delta, e.addDelta)
}

// addDelta adds elements lo to hi of a token's block output to its residual.
func (e *Executor) addDelta(t, lo, hi int) {
	at := t * e.model.Config.Hidden
	sum, delta := e.work.hidden[at+lo:at+hi], e.work.delta[at+lo:at+hi]
	for i, v := range delta {
		sum[i] += v
	}
}

// partElements is about how many weights one part of a product has: enough to
// make the claim cheap, few enough to share evenly. Its rows are a multiple of
// partRows, so that no two workers write to one cache line.
const (
	partElements = 16 << 10
	partRows     = 16
)

// product multiplies m with the first n rows of x into y, whose rows are
// m.rows long, and calls then, if any, for each token on the rows just made.
func (e *Executor) product(m *matrix, x []float32, n int, y []float32, then func(t, lo, hi int)) {
	rows := max(partRows, partElements/m.stride/partRows*partRows)
	for m.rows/rows >= maxParts {
		rows *= 2
	}
	e.pool.do((m.rows+rows-1)/rows, func(_, part int) {
		lo, hi := part*rows, min((part+1)*rows, m.rows)
		m.mul(y, m.rows, x, n, lo, hi)
		if then == nil {
			return
		}
		for t := range n {
			then(t, lo, hi)
		}
	})
}

// normalize writes the RMSNorm of the first n residual rows to normed.
func (e *Executor) normalize(n int, weight []float32) {
	for t := range n {
		e.normalizeRow(t, t, weight)
	}
}

// normalizeRow norms residual row from into row to of normed.
func (e *Executor) normalizeRow(from, to int, weight []float32) {
	c := &e.model.Config
	x := e.work.hidden[from*c.Hidden:][:c.Hidden]
	out := e.work.normed[to*padded(c.Hidden):][:c.Hidden]
	var squares float32
	for _, v := range x {
		squares += v * v
	}
	scale := float32(1 / math.Sqrt(float64(squares/float32(c.Hidden)+c.NormEps)))
	for i, v := range x {
		out[i] = v * scale * weight[i]
	}
}

// place turns a token's queries and keys to its position and writes keys and
// values to the cache.
func (e *Executor) place(tok *token, t int, qkv []float32, l int) {
	c, w, k := &e.model.Config, e.work, e.cache
	q, keys, values := qkv[:c.qWidth()], qkv[c.qWidth():][:c.kvWidth()], qkv[c.qWidth()+c.kvWidth():]
	planes := len(w.freq)
	sin, cos := w.sin[t*planes:][:planes], w.cos[t*planes:][:planes]
	for h := range c.KVHeads {
		at := k.row(tok.slice.Blocks, tok.pos, h)
		turn(k.keys[l][at:][:c.HeadDim], keys[h*c.HeadDim:][:c.HeadDim], sin, cos)
		copy(k.values[l][at:], values[h*c.HeadDim:][:c.HeadDim])
	}
	query := w.query[t*c.Heads*k.headStride:]
	for h := range c.Heads {
		turn(query[h*k.headStride:][:c.HeadDim], q[h*c.HeadDim:][:c.HeadDim], sin, cos)
	}
}

// turn writes v, one head, to dst with every plane turned.
func turn(dst, v, sin, cos []float32) {
	half := len(v) / 2
	for i, s := range sin {
		a, b := v[i], v[i+half]
		dst[i], dst[i+half] = a*cos[i]-b*s, b*cos[i]+a*s
	}
}

// attendHead lets the queries that share one KV head of a token look at every
// position up to their own.
func (e *Executor) attendHead(worker int, tok *token, t, head, l int) {
	c, w, k := &e.model.Config, e.work, e.cache
	positions := tok.pos + 1
	group := c.Heads / c.KVHeads
	if len(w.scores[worker]) < group*positions {
		w.scores[worker] = make([]float32, group*max(positions, 2*len(w.scores[worker])/group))
	}
	scores := w.scores[worker][:group*positions]
	clear(scores)
	query := w.query[(t*c.Heads+head*group)*k.headStride:]
	blocks := tok.slice.Blocks[:(positions+k.blockSize-1)/k.blockSize]
	for b, block := range blocks {
		first := b * k.blockSize
		n := min(k.blockSize, positions-first)
		keys := k.keys[l][k.rows(block, head):][:n*k.headStride]
		for q := 0; q < group; q += lanes {
			mulF32(scores[q*positions+first:], positions, keys, query[q*k.headStride:], k.headStride, k.headStride, n, min(lanes, group-q))
		}
	}
	sum := w.sums[worker]
	for q := range group {
		weights := scores[q*positions:][:positions]
		softmax(weights, float32(1/math.Sqrt(float64(c.HeadDim))))
		clear(sum)
		for b, block := range blocks {
			first := b * k.blockSize
			n := min(k.blockSize, positions-first)
			values := k.values[l][k.rows(block, head):][:n*k.headStride]
			sumRows(sum, values, weights[first:first+n], k.headStride)
		}
		copy(w.mixed[t*padded(c.qWidth())+(head*group+q)*c.HeadDim:], sum[:c.HeadDim])
	}
}

// softmax turns v * scale into probabilities.
func softmax(v []float32, scale float32) {
	top := v[0]
	for _, s := range v {
		top = max(top, s)
	}
	var sum float32
	for i, s := range v {
		p := exp((s - top) * scale)
		v[i] = p
		sum += p
	}
	for i := range v {
		v[i] /= sum
	}
}

// sample makes the logits of the tokens that a sample is wanted of, and
// samples.
func (e *Executor) sample(pass []token) {
	c, w := &e.model.Config, e.work
	w.wanted = w.wanted[:0]
	for t := range pass {
		if pass[t].last && pass[t].slice.Want {
			e.normalizeRow(t, len(w.wanted), e.model.norm)
			w.wanted = append(w.wanted, t)
		}
	}
	if len(w.wanted) == 0 {
		return
	}
	e.product(e.model.head, w.normed, len(w.wanted), w.logits, nil)
	e.pool.do(len(w.wanted), func(_, i int) {
		w.samplers[i].Sample(pass[w.wanted[i]].slice, w.logits[i*c.Vocab:][:c.Vocab], c.EOS)
	})
}
