package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headway-bench/headway/report/bundle"
)

// A disk that the requests fill ends the run with exit 3, one message that
// names the partial bundle, and the result in it.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=600k"); err != nil {
		t.Skipf("a small file system can't be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	url := lawServer(t, "ttft=0ms,itl=0ms")
	var stdout, stderr bytes.Buffer
	// 64 users end when the disk is full: the window is far longer than that
	// takes on any machine.
	code := run(t.Context(), []string{"run", "--target", url, "--endpoint", "completions", "--concurrency", "64",
		"--input-tokens", "16", "--output-tokens", "100", "--warmup", "100ms", "--measure", "2m", "--set", "stage.max_duration=2m", "--out", filepath.Join(disk, "b")},
		nil, &stdout, &stderr)
	partial, err := filepath.Glob(filepath.Join(disk, ".b.partial-*"))
	if err != nil || len(partial) != 1 {
		t.Fatalf("partial bundles %v, %v; exit %d: %s", partial, err, code, stderr.String())
	}
	if told := stderr.String(); code != exitNoResult || strings.Count(told, "no space left") != 1 || !strings.Contains(told, partial[0]) {
		t.Errorf("exit %d: %s", code, told)
	}
	var found bytes.Buffer
	if code := run(t.Context(), []string{"verify", partial[0]}, nil, &stdout, &found); code != exitUsage || !strings.Contains(found.String(), "manifest.json: ") {
		t.Errorf("verify of what is left: exit %d: %s", code, found.String())
	}
	if b, err := bundle.Open(filepath.Join(partial[0], bundle.ResultFile)); err != nil || b.Result.Status != bundle.Failed || len(b.Result.Rungs) != 1 {
		t.Errorf("the result is not saved: %v", err)
	}
}
