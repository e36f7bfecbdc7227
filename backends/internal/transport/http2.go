package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// doNetHTTP sends the request through net/http, for HTTP/2. Many streams
// share a connection there, so arrivals are stamped as the body is read.
func (t *Transport) doNetHTTP(ctx context.Context, r *Request) (*Response, Cost, error) {
	var cost Cost
	var started int64
	var first func(int64)
	if r.FirstByte != nil {
		first = r.FirstByte
	}
	ctx, cancel := context.WithCancel(ctx)
	sent := int64(0)
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { started = clock.Now() },
		GotConn: func(g httptrace.GotConnInfo) {
			cost.Remote = g.Conn.RemoteAddr().String()
			if !g.Reused {
				cost.Connect = time.Duration(clock.Now() - started)
			}
		},
	})
	req, err := http.NewRequestWithContext(traced, r.Method, t.URL(r.Path), nil)
	if err != nil {
		cancel()
		return nil, cost, err
	}
	body := func() (io.ReadCloser, error) {
		return io.NopCloser(&lastRead{r: bytes.NewReader(r.Body), at: &sent}), nil
	}
	if len(r.Body) > 0 {
		req.Body, _ = body()
		req.GetBody = body
		req.ContentLength = int64(len(r.Body))
	} else {
		sent = clock.Now()
	}
	req.Host = t.host
	req.Header.Set("User-Agent", UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	for _, f := range r.Header {
		req.Header.Set(f.Name, f.Value)
	}
	resp, err := t.h2.Do(req)
	now := clock.Now()
	if r.Sent != nil && sent != 0 {
		r.Sent(sent)
	}
	if err != nil {
		cancel()
		if u := new(url.Error); errors.As(err, &u) {
			err = u.Err // the caller names the URL
		}
		return nil, cost, brokenOff(Classify(err))
	}
	if first != nil {
		first(now)
	}
	return &Response{
		Status: resp.StatusCode, Header: resp.Header,
		foreign: resp.Body, body: resp.Body, cancel: cancel,
	}, cost, nil
}

// brokenOff tells a stream that the server ended before its answer from other
// failures: it returns the former as an ErrClosedEarly. net/http's errors of
// HTTP/2 have no types of their own.
func brokenOff(err error) error {
	if text := err.Error(); strings.Contains(text, "GOAWAY") || strings.Contains(text, "received from peer") {
		return fmt.Errorf("%w: %w", ErrClosedEarly, err)
	}
	return err
}

// Classify tells net/http's failures to open a connection from later ones: it
// returns the former as an OpenError.
func Classify(err error) error {
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &cert), errors.As(err, &record), errors.As(err, &alert):
		return &OpenError{StageTLS, err}
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		return &OpenError{StageConnect, err}
	}
	return err
}

// lastRead notes when its last bytes were taken, which is just before they are
// written.
type lastRead struct {
	r  *bytes.Reader
	at *int64
}

func (l *lastRead) Read(p []byte) (int, error) {
	if l.r.Len() > 0 {
		*l.at = clock.Now()
	}
	return l.r.Read(p)
}
