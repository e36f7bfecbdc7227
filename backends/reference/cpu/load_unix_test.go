//go:build unix

package cpu

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipesInAModel opens models with a pipe that nobody writes to in place of
// each file: to open one would never end.
func TestPipesInAModel(t *testing.T) {
	for _, name := range []string{"config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json"} {
		t.Run(name, func(t *testing.T) {
			dir := rewrite(t, "tiny-llama-2", "F32", 1)
			put(t, dir, "tokenizer.json", `{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`)
			file := filepath.Join(dir, name)
			if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(file, 0o600); err != nil {
				t.Skip("no pipes on this file system: ", err)
			}
			m, err := Open(dir, 0)
			if err == nil {
				_, err = m.Tokenizer()
			}
			if err == nil || !strings.Contains(err.Error(), name+" is no regular file") {
				t.Errorf("error %v", err)
			}
		})
	}
}
