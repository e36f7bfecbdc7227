package bundle_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/bundle/bundletest"
)

// TestFullDisk writes a bundle onto a file system of 1 MiB.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system can't be mounted here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	dir := filepath.Join(disk, "b")
	w, err := bundle.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	noise := rand.NewChaCha8([32]byte{1})
	block := make([]byte, 64<<10)
	for range 32 { // what can't be compressed, twice the size of the disk
		noise.Read(block)
		w.Requests().Write(block)
	}
	rung := hdrhistogram.New(1, 1<<40, 3)
	for v := range int64(100_000) {
		rung.RecordValue(v * v)
	}
	// It has no place either, and the disk is still one fault.
	w.Histograms(0, map[string]*hdrhistogram.Histogram{"ttft_ns": rung}, time.Unix(0, 0), time.Unix(1, 0))
	err = w.Finish(bundletest.Result())
	var partial *bundle.PartialError
	if !errors.As(err, &partial) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Finish: %v, want a PartialError for a full disk", err)
	}
	if n := strings.Count(err.Error(), "no space left"); n != 1 {
		t.Errorf("the disk is said to be full %d times: %v", n, err)
	}
	if !strings.Contains(err.Error(), partial.Dir) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("%q does not say where the data is and what to do", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("an incomplete bundle is under its final name")
	}
	if _, err := os.Stat(filepath.Join(partial.Dir, bundle.RequestsFile)); err != nil {
		t.Errorf("what was measured is gone: %v", err)
	}
	if _, err := bundle.Open(filepath.Join(partial.Dir, bundle.ResultFile)); err != nil {
		t.Errorf("the result is not saved: %v", err)
	}
}
