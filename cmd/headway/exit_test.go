package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
)

func TestExitCode(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want int
	}{
		{"no error", nil, 0},
		{"usage", usagef("no such flag"), 2},
		{"usage, wrapped", fmt.Errorf("run: %w", usagef("no such flag")), 2},
		{"faults of a profile", profiles.Errors{{Message: "x"}}, 2},
		{"faults of a profile, wrapped", fmt.Errorf("--set: %w", profiles.Errors{{Message: "x"}}), 2},
		{"a file that is not there", fmt.Errorf("open: %w", fs.ErrNotExist), 2},
		{"a bundle that is there", fmt.Errorf("out: %w", bundle.ErrExists), 2},
		{"a failed gate", exitWith(exitGateFailed, errors.New("x")), 1},
		{"a failed gate joined with another error", errors.Join(exitWith(exitInconclusive, errors.New("x")), errors.New("y")), 4},
		{"interrupted", fmt.Errorf("run: %w", context.Canceled), 130},
		{"anything else", errors.New("disk full"), 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := exitCode(test.err); got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
		})
	}
	if exitWith(exitUsage, nil) != nil {
		t.Error("exitWith makes an error of none")
	}
}
