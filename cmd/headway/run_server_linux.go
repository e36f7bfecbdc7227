package main

import (
	"os/exec"
	"syscall"
)

// apart puts the server in a process group of its own, so that an interrupt at
// the terminal reaches the client alone, and lets it die with the client.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
