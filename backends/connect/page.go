package connect

import (
	"context"
	"net/url"
	"strings"

	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// Page is one page of a server, such as its metrics. It is safe for concurrent
// use.
type Page struct {
	fetch wire.Fetcher
	cfg   wire.Config
	path  string
}

// OpenPage makes ready to read the page at a URL with the options' access. Key
// and headers go only to the target's own host. It sends nothing; its errors
// are a *UsageError.
func OpenPage(o Options, at string) (*Page, error) {
	page, err := wire.ParseTarget(at)
	if err != nil {
		return nil, &UsageError{err}
	}
	target, err := wire.ParseTarget(o.URL)
	if err != nil {
		return nil, &UsageError{err}
	}
	if page.Hostname() != target.Hostname() {
		o.APIKey, o.Headers, o.ServerName, o.Host = "", nil, "", ""
	}
	base := *page
	if target.Scheme == "unix" && page.Scheme == "http" && page.Host == "localhost" {
		base = *target // the page of a server behind a socket
	}
	if page.User == nil && page.Host == target.Host {
		base.User = target.User
	}
	cfg, err := wireConfig(o, &base)
	if err != nil {
		return nil, err
	}
	if o.APIKey != "" {
		cfg.Header = append([]transport.Field{{Name: "Authorization", Value: "Bearer " + o.APIKey}}, cfg.Header...)
	}
	return &Page{fetch: wire.NewFetcher(cfg), cfg: cfg, path: pathOf(page)}, nil
}

// pathOf is the path of a URL with its query.
func pathOf(u *url.URL) string {
	path := "/" + strings.TrimPrefix(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return path
}

// Name is the page's URL without secrets.
func (p *Page) Name() string { return p.cfg.Target + withoutQuery(p.path) }

// Get returns the page as it now is. Any status but 200 is an error.
func (p *Page) Get(ctx context.Context) ([]byte, error) {
	a, err := p.fetch.Get(ctx, p.path)
	if err != nil {
		return nil, err
	}
	if a.Status != 200 {
		return nil, p.fetch.Refused(p.path, a)
	}
	return a.Body, nil
}

// Close releases the connections.
func (p *Page) Close() { p.cfg.Transport.Close() }
