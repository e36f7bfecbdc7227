package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// interrupts runs a program, interrupts it once or twice as soon as its
// progress shows requests in flight, and holds it to an exit code:
// `interrupts 1 130 headway run ...`.
func interrupts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: interrupts times code program args...")
	}
	times, err := strconv.Atoi(args[0])
	ts.Check(err)
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	cmd := exec.Command(program(ts, args[2]), args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"))
	cmd.Stdout = ts.Stdout()
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines := bufio.NewReader(stderr)
	for sent := 0; ; {
		line, err := lines.ReadString('\n')
		_, _ = io.WriteString(ts.Stderr(), line)
		if err != nil {
			break
		}
		if sent < times && (strings.Contains(line, "in flight") || strings.Contains(line, "ending")) {
			ts.Check(cmd.Process.Signal(os.Interrupt))
			sent++
		}
	}
	err = cmd.Wait()
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok || failed.ExitCode() != want {
		ts.Fatalf("ended with %v, want exit code %d", err, want)
	}
}
