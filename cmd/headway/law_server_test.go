package main

import (
	"testing"

	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/reference/sim"
	"github.com/headway-bench/headway/backends/tokenizer"
)

// lawServer starts a server within the test that follows a time law, and
// returns its URL.
func lawServer(t *testing.T, text string) string {
	t.Helper()
	law, err := sim.ParseLaw(text)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := sim.Model("tiny-llama-3.1")
	if err != nil {
		t.Fatal(err)
	}
	info := shape.Info("tiny-llama-3.1")
	server, err := reference.Start(reference.Config{Executor: sim.NewLaw(law, info), Tokenizer: tokenizer.Bytes(info.VocabSize),
		KV: reference.KVConfig{Blocks: 1 << 16, BlockSize: 16}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return server.URL()
}
