package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// exits runs a program and holds it to an exit code, which the script language
// can't: `exits 2 headway frofile`. An argument <FILE is the program's stdin;
// stdout and stderr are left to the commands of these names.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	cmd := exec.Command(program(ts, args[1]))
	for _, arg := range args[2:] {
		if file, ok := strings.CutPrefix(arg, "<"); ok {
			cmd.Stdin = bytes.NewBufferString(ts.ReadFile(file))
			continue
		}
		cmd.Args = append(cmd.Args, arg)
	}
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "WORK", "TMPDIR", "SystemRoot"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	err = cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		if got := failed.ExitCode(); got != want {
			ts.Fatalf("exit code %d, want %d", got, want)
		}
		return
	}
	ts.Check(err)
	if want != 0 {
		ts.Fatalf("exit code 0, want %d", want)
	}
}

// program finds a program of the script's PATH.
func program(ts *testscript.TestScript, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	ts.Fatalf("no program %s", name)
	return ""
}
