package arrival

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	mooncakeTrace = `{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 3000, "input_length": 900, "output_length": 60, "hash_ids": [1, 3]}

{"timestamp": 3000, "input_length": 12, "output_length": 7}
`
	azureTrace = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
`
	azureZoned = `TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.017335+00:00,2399,6
`
	burstTrace = `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45.5,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,API log
`
)

func TestTraces(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          TraceOptions
		want       []TraceRequest
		skipped    int
	}{
		{"mooncake", mooncakeTrace, TraceOptions{}, []TraceRequest{
			{At: 0, Input: 700, Output: 5, Blocks: []int64{1, 2}}, {At: 3 * time.Second, Input: 900, Output: 60, Blocks: []int64{1, 3}},
			{At: 3 * time.Second, Input: 12, Output: 7}}, 0},
		{"mooncake, named and twice as fast", mooncakeTrace, TraceOptions{Format: "mooncake", Speed: 2, Limit: 2}, []TraceRequest{
			{At: 0, Input: 700, Output: 5, Blocks: []int64{1, 2}}, {At: 1500 * time.Millisecond, Input: 900, Output: 60, Blocks: []int64{1, 3}}}, 0},
		{"azure 2023", azureTrace, TraceOptions{}, []TraceRequest{
			{At: 0, Input: 374, Output: 44}, {At: 4314579 * time.Microsecond, Input: 396, Output: 109}}, 0},
		{"azure 2024", azureZoned, TraceOptions{}, []TraceRequest{
			{At: 0, Input: 2162, Output: 5}, {At: 7405 * time.Microsecond, Input: 2399, Output: 6}}, 0},
		{"burstgpt, of which one failed", burstTrace, TraceOptions{}, []TraceRequest{
			{At: 0, Input: 472, Output: 18}, {At: 113 * time.Second, Input: 417, Output: 276}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			trace, err := ReadTrace(strings.NewReader(c.text), "t", c.o)
			if err != nil {
				t.Fatal(err)
			}
			var times []time.Duration
			for i := range trace.Len() {
				got, want := trace.Request(i), c.want[i]
				times = append(times, got.At)
				// Times of day are read as floating-point seconds: to 50 ns.
				if d := got.At - want.At; d < -50 || d > 50 || got.Input != want.Input || got.Output != want.Output || !slices.Equal(got.Blocks, want.Blocks) {
					t.Errorf("request %d is %+v, want %+v", i, got, want)
				}
			}
			if trace.Len() != len(c.want) || trace.Skipped != c.skipped {
				t.Errorf("%d requests and %d skipped, want %d and %d", trace.Len(), trace.Skipped, len(c.want), c.skipped)
			}
			if got := take(t, trace.Schedule(), nil, 100); !slices.Equal(got, times) {
				t.Errorf("scheduled at %v, want %v", got, times)
			}
		})
	}
}

func TestBadTracesNameTheirPlace(t *testing.T) {
	for _, c := range []struct{ name, text, format, want string }{
		{"empty", "", "", "t:1: no header"},
		{"no requests", "Timestamp,Model,Request tokens,Response tokens\n", "", "t: holds no request"},
		{"another table", "a,b\n1,2\n", "", "t:1: neither"},
		{"missing column", "TIMESTAMP,ContextTokens\n", "azure", `t:1: no column "generatedtokens"`},
		{"no number", strings.Replace(burstTrace, "472", "many", 1), "", `t:2: "many" is no token count`},
		{"half a token", strings.Replace(burstTrace, "417", "41.7", 1), "", `t:4: "41.7" is no token count`},
		{"no time", strings.Replace(azureTrace, "2023-11-16 18:15:50", "yesterday", 1), "", "t:3: "},
		{"short row", burstTrace + "120,GPT-4\n", "", "t:5: "},
		{"back in time", strings.Replace(burstTrace, "118", "44", 1), "", "t:4: goes back in time"},
		{"no JSON", mooncakeTrace + "{oops\n", "", "t:5: "},
		{"no length", mooncakeTrace + `{"timestamp": 4000}`, "", "t:5: timestamp, input_length or output_length"},
		{"no input", `{"timestamp": 0, "input_length": 0, "output_length": 1}`, "", "t:1: 0 input tokens"},
		{"negative output", `{"timestamp": 0, "input_length": 1, "output_length": -1}`, "", "t:1: -1 output tokens"},
		{"unknown format", azureTrace, "csv", `trace format "csv"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadTrace(strings.NewReader(c.text), "t", TraceOptions{Format: c.format})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %q, want %q...", err, c.want)
			}
		})
	}
}

func FuzzReadTrace(f *testing.F) {
	for _, s := range []string{mooncakeTrace, azureTrace, azureZoned, burstTrace, "\ufeff{}", "a,b\n"} {
		f.Add(s, "", 1.0)
	}
	f.Add(burstTrace, "burstgpt", 1e-300)
	f.Fuzz(func(t *testing.T, text, format string, speed float64) {
		trace, err := ReadTrace(strings.NewReader(text), "t", TraceOptions{Format: format, Speed: speed})
		if err != nil {
			return
		}
		last := time.Duration(0)
		for i := range trace.Len() {
			r := trace.Request(i)
			if r.At < last || r.Input < 1 || r.Output < 1 {
				t.Fatalf("request %d is %+v after %v", i, r, last)
			}
			last = r.At
		}
	})
}
