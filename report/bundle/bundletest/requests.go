package bundletest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/headway-bench/headway/report/bundle"
)

// Requests writes count lines of requests.jsonl that fit the rungs of Result:
// spread over each rung in turn, one of a hundred failed. The same count gives
// the same lines.
func Requests(w io.Writer, r *bundle.Result, count int) error {
	out := bufio.NewWriterSize(w, 64<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	each := (count + len(r.Rungs) - 1) / len(r.Rungs)
	for n := range count {
		g := &r.Rungs[n/each]
		i := n % each
		start := g.StartUnixNS - r.EpochUnixNS
		intended := start + int64(float64(i)/float64(each)*66e9)
		ttft := int64(g.TTFT.Mean.Or(0) * 1e6 * (0.8 + 0.4*rng.Float64()))
		itl := int64(g.ITL.Mean.Or(0) * 1e6)
		first := intended + 20_000 + ttft
		last := first + (output-1)*itl
		class, tokens := "ok", output
		if i%100 == 99 {
			class, tokens = "http_5xx", 0
			last = first
		}
		fmt.Fprintf(out, `{"rung":%d,"index":%d,"request_id":"req-%d-%d","intended_ns":%d,"sent_ns":%d,"first_byte_ns":%d,"first_token_ns":%d,"last_token_ns":%d,"end_ns":%d,"input_tokens":1024,"output_tokens":%d,"token_source":"running_usage","chunks":[`,
			g.Index, i, g.Index, i, intended, intended+20_000, first-1000, first, last, last+50_000, tokens)
		for k := range 8 {
			comma := ","
			if k == 0 {
				comma = ""
			}
			fmt.Fprintf(out, "%s[%d,%d]", comma, first+int64(k)*16*itl, 16)
		}
		fmt.Fprintf(out, `],"class":%q}`+"\n", class)
	}
	return out.Flush()
}
