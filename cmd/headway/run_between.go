package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/sched"
)

// resetPrefixCache is the value of load.between that empties the server's
// prefix cache by its own route.
const resetPrefixCache = "reset-prefix-cache"

// betweenTime bounds what runs between two rungs.
const betweenTime = 10 * time.Minute

// betweenRungs runs what the profile wants done before the next rung: a shell
// command, or the server's cache reset. What a command prints goes to stderr.
func betweenRungs(ctx context.Context, what string, client backends.Client, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, betweenTime)
	defer cancel()
	if what == resetPrefixCache {
		resetter, ok := client.(interface {
			ResetCache(context.Context) error
		})
		if !ok {
			return backends.ErrNoCacheReset
		}
		return resetter.ResetCache(ctx)
	}
	shell, flag := "sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	cmd := exec.CommandContext(ctx, shell, flag, what)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.WaitDelay = time.Second // what the shell started may outlive it
	if err := sched.Apart(cmd.Run); err != nil {
		return fmt.Errorf("load.between: %q: %w", what, err)
	}
	return nil
}
