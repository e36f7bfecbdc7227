package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/headway-bench/headway/backends/sched"
)

// bundledServer is a `headway serve` of this binary, run as a process of its
// own so that the CPU of the client is the client's.
type bundledServer struct {
	url    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	exited chan struct{} // closed when the process has ended, or never began
	err    error         // why it did not begin; read it after exited
}

// startServer starts a bundled server with the given flags on a free port and
// waits until it listens.
func startServer(ctx context.Context, flags map[string]string) (*bundledServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start the bundled server: %w", err)
	}
	args := []string{"serve", "--addr", "127.0.0.1:0"}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, "--"+name, flags[name])
	}
	s := &bundledServer{cmd: exec.Command(self, args...), exited: make(chan struct{})}
	s.cmd.Args[0] = os.Args[0]
	s.cmd.Stderr = &s.stderr
	apart(s.cmd)
	first := make(chan []byte, 1)
	go func() { s.err = sched.Apart(func() error { return s.attend(first) }); close(s.exited) }()
	select {
	case line := <-first:
		var bound struct {
			Addr string `json:"addr"`
		}
		if err := json.Unmarshal(line, &bound); err != nil || bound.Addr == "" {
			s.close()
			return nil, fmt.Errorf("the bundled server gave no address: %q", line)
		}
		s.url = "http://" + bound.Addr
		return s, nil
	case <-s.exited:
		if s.err != nil {
			return nil, fmt.Errorf("start the bundled server: %w", s.err)
		}
		return nil, fmt.Errorf("the bundled server ended at once: %s", bytes.TrimSpace(s.stderr.Bytes()))
	case <-ctx.Done():
		s.close()
		return nil, ctx.Err()
	}
}

// attend starts the process, passes on its first line and waits for its end.
// It keeps its thread: the process dies with the thread that started it. Its
// error is why the process did not begin.
func (s *bundledServer) attend(first chan<- []byte) error {
	stdout, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return err
	}
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadBytes('\n'); err == nil {
		first <- line
	}
	// How the server ends is no news: close ends it, or a failed run tells.
	_, _ = lines.WriteTo(io.Discard)
	_ = s.cmd.Wait()
	return nil
}

// stopTime is how long the server may take to end before it is killed.
const stopTime = 5 * time.Second

// close ends the server.
func (s *bundledServer) close() {
	if s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-s.exited:
	case <-time.After(stopTime):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

// died says whether the server ended before it was closed, and what it said.
func (s *bundledServer) died() (string, bool) {
	if s == nil {
		return "", false
	}
	select {
	case <-s.exited:
		said := bytes.TrimSpace(s.stderr.Bytes())
		return fmt.Sprintf("the bundled server ended during the run; its last words: %s", said[max(0, len(said)-maxNote):]), true
	default:
		return "", false
	}
}
