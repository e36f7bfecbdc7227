//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A server that accepts and says nothing holds no one: the first interrupt
// ends a run that is still opening, and leaves nothing behind.
func TestInterruptWhileOpening(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			// The run catches signals by now: it is asking this server.
			_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
		}
	}()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"run", "--target", "http://" + silent.Addr().String(), "--out", filepath.Join(dir, "b")},
		nil, &stdout, &stderr)
	if code != exitInterrupted || !strings.Contains(stderr.String(), "interrupted before anything was measured") || stdout.Len() > 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
