//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headway-bench/headway/report/bundle"
)

// interrupting sends signals as soon as the last rung is told to be done: the
// bundle is being written then.
type interrupting struct {
	bytes.Buffer
	signals []syscall.Signal
}

func (w *interrupting) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "rung 1/1 done") {
		for _, s := range w.signals {
			_ = syscall.Kill(os.Getpid(), s)
		}
	}
	return w.Buffer.Write(p)
}

// What is measured is written whole, however often it is interrupted meanwhile.
func TestInterruptsWhileWritingTheBundle(t *testing.T) {
	url := lawServer(t, "ttft=20ms,itl=5ms")
	for name, signals := range map[string][]syscall.Signal{
		"once": {syscall.SIGINT}, "twice": {syscall.SIGINT, syscall.SIGINT}, "terminated": {syscall.SIGTERM, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "b")
			var stdout bytes.Buffer
			stderr := &interrupting{signals: signals}
			code := run(t.Context(), []string{"run", "--target", url, "--endpoint", "completions", "--concurrency", "2", "--input-tokens", "16",
				"--output-tokens", "4", "--warmup", "100ms", "--measure", "300ms", "--min-requests", "3", "--out", dir}, nil, &stdout, stderr)
			if found := bundle.Verify(dir); len(found) > 0 {
				t.Fatalf("exit %d, the bundle: %v\n%s", code, found, stderr.String())
			}
			b, err := bundle.Open(dir)
			if err != nil || b.Result.Status != bundle.Complete || len(b.Result.Rungs) != 1 || stdout.Len() == 0 {
				t.Errorf("status %s, %v", b.Result.Status, err)
			}
			if code == exitInterrupted {
				t.Errorf("exit %d: %s", code, stderr.String())
			}
		})
	}
}
