package wire

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/transport"
)

// errProtocol says that an answer's bytes are not the protocol.
var errProtocol = errors.New("not what the protocol sends")

// serverError is a failure that the server reports inside its answer.
type serverError struct{ message string }

func (e *serverError) Error() string { return "the server reports: " + e.message }

// statusClass is the class of an HTTP status that is no success.
func statusClass(status int) backends.Class {
	switch {
	case status == http.StatusTooManyRequests:
		return backends.HTTP429
	case status >= 500:
		return backends.HTTP5xx
	case status >= 400:
		return backends.HTTP4xx
	}
	return backends.Malformed // a redirect, or an interim status, answers no POST
}

// interrupted is the class of a request that its context ended.
func interrupted(ctx context.Context) (backends.Class, string) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return backends.Timeout, "the request's time limit ran out"
	}
	return backends.Cancelled, "cancelled"
}

// sendFailure is the class of a request that got no answer.
func sendFailure(ctx context.Context, err error) (backends.Class, string) {
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	var open *transport.OpenError
	switch {
	case isClientLimit(err):
		return backends.ClientLimit, err.Error()
	case errors.As(err, &open) && open.Stage == transport.StageTLS:
		return backends.TLS, err.Error() + tlsHint(err)
	case errors.As(err, &open):
		return backends.Connect, err.Error()
	case isCut(err):
		return backends.Truncated, err.Error()
	}
	return backends.Malformed, err.Error()
}

// isClientLimit says whether this machine, not the server, ran out of
// something.
func isClientLimit(err error) bool {
	for _, limit := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, limit) {
			return true
		}
	}
	return false
}

// isCut says whether err is the end of a connection.
func isCut(err error) bool {
	var op *net.OpError
	var sys *os.SyscallError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, transport.ErrClosedEarly) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &op) || errors.As(err, &sys) || errors.As(err, new(syscall.Errno))
}

// tlsHint says what to do about a certificate that is not trusted.
func tlsHint(err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &host) {
		return " (trust its certificate with --cacert FILE, or accept any with --insecure)"
	}
	return ""
}

// maxRetryAfter is the longest wait a server may ask for and still be asked
// again.
const maxRetryAfter = 2 * time.Minute

// retryable says whether the request may be sent again: nothing of its output
// was seen, and the failure may pass soon.
func retryable(o backends.Outcome) bool {
	if o.RetryAfter > maxRetryAfter {
		return false
	}
	return o.Class == backends.Connect || o.Class == backends.HTTP429 || o.Class == backends.HTTP5xx
}

// retryDelay is how long to wait before the next attempt: what the server
// asked for, or half a second doubled with each attempt, at most 30 s.
func retryDelay(o backends.Outcome) time.Duration {
	if o.RetryAfter > 0 {
		return o.RetryAfter
	}
	return min(500*time.Millisecond<<min(o.Retries, 6), 30*time.Second)
}

// wait waits, and says for how long, and whether the context let it.
func wait(ctx context.Context, d time.Duration) (time.Duration, bool) {
	start := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return time.Since(start), true
	case <-ctx.Done():
		return time.Since(start), false
	}
}

// retryAfter reads how long the server asks to wait, 0 when it does not:
// retry-after-ms, or Retry-After in seconds or as a date (RFC 9110 section
// 10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// compression is the content coding in which an answer comes against what was
// asked for, "" for none.
func compression(h http.Header) string {
	switch c := strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding"))); c {
	case "gzip", "x-gzip", "deflate", "br", "zstd", "compress":
		return c
	}
	return ""
}

// compressed says that an answer is.
func compressed(h http.Header) string {
	return fmt.Sprintf("the answer is compressed (%s) although none was asked for: turn compression off in the server, or the gateway before it", compression(h))
}

// StatusError is a request answered with a status that is no success.
type StatusError struct {
	URL     string
	Status  int
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: HTTP %d %s: %s", e.URL, e.Status, http.StatusText(e.Status), e.Message)
}
