package reference_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/reference/sim"
	"github.com/headway-bench/headway/backends/tokenizer"
)

// A simulated server in the process, for a test of a client.
func ExampleStart() {
	law, _ := sim.ParseLaw("slots=4,ttft=2ms,itl=1ms")
	shape, _ := sim.Model("llama-3.1-8b")
	info := shape.Info("llama-3.1-8b")
	server, err := reference.Start(reference.Config{
		Executor: sim.NewLaw(law, info), Tokenizer: tokenizer.Bytes(info.VocabSize),
		KV: reference.KVConfig{Blocks: 1024, BlockSize: 16}, MaxNumSeqs: law.Slots,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	answer, err := http.Post(server.URL()+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt": [1, 2, 3], "max_tokens": 3, "stream": true}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	events := 0
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: {") {
			events++
		}
	}
	fmt.Println(answer.Status, events, "events")
	// Output: 200 OK 3 events
}

// The same scheduler and model on a virtual clock: three requests on a server
// with two slots, finished in no time.
func ExampleCore() {
	law, _ := sim.ParseLaw("slots=2,ttft=20ms,itl=5ms")
	shape, _ := sim.Model("llama-3.1-8b")
	executor := sim.NewLaw(law, shape.Info("llama-3.1-8b"))
	core := reference.NewCore(reference.NewScheduler(reference.SchedulerConfig{
		MaxNumSeqs: law.Slots, KV: reference.KVConfig{Blocks: 100, BlockSize: 16}, MaxModelLen: 1600, Independent: true,
	}), executor)
	emit := func(t reference.Token) {
		if t.Seq.Finish != reference.FinishNone {
			fmt.Println("request", t.Seq.ID, "ends at", time.Duration(t.At))
		}
	}
	for id := range uint64(3) {
		core.Add(&reference.Sequence{ID: id + 1, Prompt: []int32{1}, MaxTokens: 5}, 0, emit)
	}
	for now, ok := int64(0), true; ok; now, ok = core.Wake() {
		core.Advance(now, 1, emit)
		if b := core.Begin(now); b != nil {
			core.Complete(b, executor.Step(context.Background(), b), now, emit)
		}
	}
	// Output:
	// request 1 ends at 40ms
	// request 2 ends at 40ms
	// request 3 ends at 80ms
}
