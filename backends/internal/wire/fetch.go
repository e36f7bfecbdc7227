package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/headway-bench/headway/backends/internal/stream"
	"github.com/headway-bench/headway/backends/internal/transport"
)

// Fetcher gets whole answers for requests whose times do not matter.
type Fetcher struct {
	cfg   Config
	scrub scrubber
}

// NewFetcher returns a Fetcher with the config's header, target and limits.
func NewFetcher(cfg Config) Fetcher {
	return Fetcher{cfg: cfg, scrub: newScrubber(cfg.Secrets)}
}

// Answer is a whole answer under any status.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Get asks for a path and returns the answer, whatever its status. An error
// says that there was none.
func (f Fetcher) Get(ctx context.Context, path string) (Answer, error) {
	return f.do(ctx, http.MethodGet, path, nil)
}

// Post posts a JSON body to a path and returns the answer's body. A status
// that is no success is a *StatusError.
func (f Fetcher) Post(ctx context.Context, path string, body []byte) ([]byte, error) {
	a, err := f.do(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	if a.Status/100 != 2 {
		return nil, f.Refused(path, a)
	}
	return a.Body, nil
}

// Refused is the error for an answer whose status is no success.
func (f Fetcher) Refused(path string, a Answer) *StatusError {
	return &StatusError{URL: f.scrub.text(f.cfg.Target + path), Status: a.Status, Message: f.scrub.text(Message(a.Body))}
}

func (f Fetcher) do(ctx context.Context, method, path string, body []byte) (Answer, error) {
	t := f.cfg.Transport
	req, err := http.NewRequestWithContext(ctx, method, t.URL(path), bytes.NewReader(body))
	if err != nil {
		return Answer{}, fmt.Errorf("%s%s: %w", f.cfg.Target, f.scrub.text(path), err)
	}
	req.Host = t.Host()
	req.Header.Set("User-Agent", transport.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range f.cfg.Header {
		req.Header.Set(h.Name, h.Value)
	}
	resp, err := t.HTTP().Do(req)
	if err != nil {
		return Answer{}, f.unreachable(path, err)
	}
	defer resp.Body.Close()
	limit := int64(f.cfg.MaxEvent)
	if limit <= 0 {
		limit = stream.DefaultMaxEvent
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
	case int64(len(data)) > limit:
		err = fmt.Errorf("the answer is larger than %d bytes", limit)
	case compression(resp.Header) != "":
		err = errors.New(compressed(resp.Header))
	}
	if err != nil {
		return Answer{}, f.unreachable(path, err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: data}, nil
}

// UnreachableError is a request that got no whole answer.
type UnreachableError struct {
	URL  string
	Err  error
	hint string
	text string
}

func (e *UnreachableError) Error() string { return e.URL + ": " + e.text + e.hint }
func (e *UnreachableError) Unwrap() error { return e.Err }

func (f Fetcher) unreachable(path string, err error) error {
	// url.Error repeats the method and URL, whose query may hold a secret.
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err
	}
	return &UnreachableError{
		URL: f.scrub.text(f.cfg.Target + path), Err: err,
		hint: openHint(transport.Classify(err)), text: f.scrub.text(err.Error()),
	}
}

// openHint says what to try when a target cannot be reached.
func openHint(err error) string {
	switch text := err.Error(); {
	case tlsHint(err) != "":
		return tlsHint(err)
	case strings.Contains(text, "connection refused"):
		return " (nothing listens there: is the server up, and is the port right?)"
	case strings.Contains(text, "no such host"):
		return " (the name is not known: check the spelling)"
	case strings.Contains(text, "first record does not look like a TLS handshake"), strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return " (the server speaks plain HTTP: use http://)"
	case errors.Is(err, context.DeadlineExceeded):
		return " (no answer came in time)"
	}
	return ""
}

// ParseTarget reads a target as a user writes it: an http, https or unix URL,
// or host:port, which means http.
func ParseTarget(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("target: not a URL: %w", redactParse(err))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix":
		return nil, fmt.Errorf("target %s: scheme %q is none of http, https, unix", transport.Place(u), u.Scheme)
	case u.Scheme == "unix" && u.Path == "":
		return nil, fmt.Errorf("target %s: a unix target is unix:///path/to/socket", transport.Place(u))
	case u.Scheme != "unix" && u.Hostname() == "":
		return nil, fmt.Errorf("target %s: no host", transport.Place(u))
	}
	return u, nil
}

// redactParse leaves out the URL that a parse error quotes, which may hold a
// password.
func redactParse(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
