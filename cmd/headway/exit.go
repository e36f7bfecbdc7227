package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/text"
)

// Exit codes.
const (
	exitPassed       = 0
	exitGateFailed   = 1   // an SLO or a regression
	exitUsage        = 2   // usage or invalid input
	exitNoResult     = 3   // the run could not be made, or is invalid
	exitInconclusive = 4   //
	exitInterrupted  = 130 // SIGINT or SIGTERM; the partial bundle is kept
)

// exitError is an error that names its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// exitWith gives err an exit code.
func exitWith(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

// joined joins what went wrong, and says a thing once: an error whose text is
// part of another's is left out. The first one's exit code stands.
func joined(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil, strings.Contains(first.Error(), second.Error()):
		return first
	case strings.Contains(second.Error(), first.Error()):
		return exitWith(exitCode(first), second)
	}
	return errors.Join(first, second)
}

// usagef is the error of a command line or an input that can't be used.
func usagef(format string, args ...any) error {
	return exitWith(exitUsage, fmt.Errorf(format, args...))
}

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	var coded *exitError
	var faults profiles.Errors
	switch {
	case err == nil:
		return exitPassed
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &faults), errors.Is(err, fs.ErrNotExist), errors.Is(err, bundle.ErrExists):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitNoResult
}

// message is what stderr says of an error: one line, or one a fault.
func message(err error) string {
	said := text.Lines(strings.TrimSuffix(err.Error(), "\n"))
	if faults, ok := errors.AsType[profiles.Errors](err); ok && len(faults) > 1 && faults[0].File != "" {
		return said
	}
	return "headway: " + said
}
