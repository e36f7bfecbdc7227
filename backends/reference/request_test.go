package reference

import (
	"encoding/json"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/tokenizer"
)

// bench returns a server without engine threads or listener, and a model of
// one token a nanosecond.
func bench(t testing.TB) *Server {
	t.Helper()
	s := &Server{cfg: Config{ServedModelName: "m", Tokenizer: tokenizer.Bytes(300)}, info: ModelInfo{VocabSize: 300}, maxLen: 1 << 20,
		modelJSON: []byte(`"m"`), active: map[*stream]struct{}{}}
	s.pieces = newPieces(s.cfg.Tokenizer, s.info.VocabSize)
	s.metrics = newMetrics(s)
	s.engine = &engine{server: s, core: NewCore(NewScheduler(SchedulerConfig{
		KV: KVConfig{Blocks: 1 << 16, BlockSize: 16}, MaxModelLen: s.maxLen, Independent: true}), constantExecutor{})}
	return s
}

// sink is a connection that swallows what is written.
type sink struct{ net.Conn }

func (sink) Write(b []byte) (int, error)      { return io.Discard.Write(b) }
func (sink) SetWriteDeadline(time.Time) error { return nil }
func (sink) Close() error                     { return nil }

// TestTokensAllocateNothing follows tokens from the executor to the socket.
func TestTokensAllocateNothing(t *testing.T) {
	for name, p := range map[string]plan{
		"completion":    {},
		"chat":          {chat: true},
		"running usage": {chat: true, usage: true, contUsed: true, tokenIDs: true},
		"stop strings":  {stop: []string{"no such"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := bench(t)
			p.stream, p.n, p.prompts, p.maxTokens = true, 1, [][]int32{{1, 2, 3}}, []int{1 << 19}
			st := s.newStream(&call{conn: &conn{server: s, nc: sink{}, chunked: true}}, &p, 0, FaultRule{})
			now := int64(0)
			var work *stream
			emit := func(tk Token) { work = s.emit(tk, now) }
			core := s.engine.core
			core.Add(&st.choices[0].seq, 0, emit)
			step := func() {
				now++
				core.Advance(now, 1, emit)
				work.flush()
			}
			step()
			q := &st.choices[0].seq
			q.tokens, q.blocks, st.times = slices.Grow(q.tokens, 5000), slices.Grow(q.blocks, 5000), slices.Grow(st.times, 5000)
			if n := testing.AllocsPerRun(2000, step); n != 0 {
				t.Errorf("%v allocations a token, want none", n)
			}
		})
	}
}

func BenchmarkToken(b *testing.B) {
	s := bench(b)
	p := plan{stream: true, n: 1, prompts: [][]int32{{1}}, maxTokens: []int{1<<20 - 1}}
	now := int64(0)
	var work *stream
	emit := func(tk Token) { work = s.emit(tk, now) }
	var st *stream
	for b.Loop() {
		if st == nil || st.closed {
			st = s.newStream(&call{conn: &conn{server: s, nc: sink{}, chunked: true}}, &p, 0, FaultRule{})
			s.engine.core.Add(&st.choices[0].seq, now, emit)
		}
		now++
		s.engine.core.Advance(now, 1, emit)
		work.flush()
	}
}

// FuzzRequest: whatever the body, a request is either a plan that can be
// carried out or an error in the API's shape.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","prompt":"a","max_tokens":3}`,
		`{"prompt":[1,2,3],"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
		`{"prompt":[[1],[2,3]],"n":3,"logprobs":2,"stop":"x"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_completion_tokens":3,"logprobs":true,"top_logprobs":5}`,
		`{"prompt":[`, `{"prompt":[null]}`, `{"prompt":"\ud800","seed":-1,"temperature":0,"top_p":0.5,"top_k":-1,"min_tokens":1}`, `null`, `[]`,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	s := bench(f)
	s.maxLen = 64
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		var r apiRequest
		e := decodeBody(body, &r)
		if e == nil {
			var p *plan
			if p, e = s.newPlan(&r, chat); e == nil {
				for i, prompt := range p.prompts {
					if len(prompt) < 1 || p.maxTokens[i] < 1 || len(prompt)+p.maxTokens[i] > s.maxLen {
						t.Fatalf("%s: %d prompt tokens and %d to come of %d", body, len(prompt), p.maxTokens[i], s.maxLen)
					}
					for _, id := range prompt {
						if id < 0 || id >= 300 {
							t.Fatalf("%s: token id %d", body, id)
						}
					}
				}
				if p.n < 1 || p.sampling.Temperature < 0 {
					t.Fatalf("%s: %+v", body, p)
				}
				return
			}
		}
		if e.status != 400 && e.status != 404 || !json.Valid(e.body()) {
			t.Fatalf("%s: status %d, %s", body, e.status, e.body())
		}
	})
}
