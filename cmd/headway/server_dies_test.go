package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// serverdies starts a simulated server, gives its address to a program as the
// last argument, kills it as soon as the program's progress shows requests in
// flight, and holds the program to an exit code:
// `serverdies 0 headway run slow.yaml --out DIR --target`.
func serverdies(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: serverdies code program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	server := exec.Command(program(ts, "headway"), "serve", "--addr", "127.0.0.1:0", "--executor", "sim", "--law", "slots=8,ttft=100ms,itl=100ms")
	stdout, err := server.StdoutPipe()
	ts.Check(err)
	ts.Check(server.Start())
	defer func() {
		_ = server.Process.Kill() // a second time, where nothing went wrong
		_ = server.Wait()
	}()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	ts.Check(err)
	var bound struct{ Addr string }
	ts.Check(json.Unmarshal(line, &bound))

	cmd := exec.Command(program(ts, args[1]), append(args[2:], "http://"+bound.Addr)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Stdout = ts.Stdout()
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		_, _ = io.WriteString(ts.Stderr(), line)
		if err != nil {
			break
		}
		if strings.Contains(line, "in flight") {
			_ = server.Process.Kill() // at the first line; later ones find it dead
		}
	}
	got := 0
	if failed, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok {
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
