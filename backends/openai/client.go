package openai

import (
	"context"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/jsonscan"
	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// Config is what a Client is made of.
type Config struct {
	Dialect Dialect
	Routes  Routes
	// Chat chooses the chat route over the completions route.
	Chat bool
	// Model is the id sent.
	Model string
	// Key is the API key, "" for none.
	Key string
	// Server is what Client.Server returns.
	Server backends.Server
	// Wire is how requests are sent. Its Header gets the key and the content
	// type added.
	Wire wire.Config
}

// Client speaks to one route of one target. It is safe for concurrent use.
type Client struct {
	*wire.Caller
	cfg   Config
	fetch wire.Fetcher
}

var _ backends.Client = (*Client)(nil)

// New returns a client. It sends nothing.
func New(cfg Config) *Client {
	path := cfg.Routes.Completions()
	if cfg.Chat {
		path = cfg.Routes.Chat()
	}
	cfg.Wire.Header = append(Header(cfg.Dialect, cfg.Key), cfg.Wire.Header...)
	p := &protocol{dialect: cfg.Dialect, chat: cfg.Chat, path: path, model: quote(cfg.Model)}
	streaming := cfg.Wire
	streaming.Header = append([]transport.Field{
		{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "text/event-stream"},
	}, cfg.Wire.Header...)
	return &Client{
		Caller: wire.NewCaller(streaming, p),
		cfg:    cfg,
		fetch:  wire.NewFetcher(cfg.Wire),
	}
}

// Header is the header lines that carry the key, none without one.
func Header(d Dialect, key string) []transport.Field {
	switch {
	case key == "":
		return nil
	case d.KeyHeader != "":
		return []transport.Field{{Name: d.KeyHeader, Value: key}}
	}
	return []transport.Field{{Name: "Authorization", Value: "Bearer " + key}}
}

// Server is what was learnt about the target.
func (c *Client) Server() backends.Server { return c.cfg.Server }

// Can says what the dialect and the server offer.
func (c *Client) Can() backends.Capabilities {
	d := c.cfg.Dialect
	return backends.Capabilities{
		Chat:           c.cfg.Chat,
		TokenIDs:       !c.cfg.Chat && d.TextIDs || c.cfg.Chat && d.ChatIDs != "",
		ForceLength:    d.IgnoreEOS,
		RunningUsage:   d.Running,
		TokenIDsOut:    d.TokenIDsOut,
		Tokenize:       d.Tokenize != "",
		CacheReset:     d.CacheReset != "",
		PrefixCaching:  d.PrefixCaching,
		StampsByKernel: c.cfg.Wire.Transport.StampsByKernel(),
	}
}

// Close releases the connections.
func (c *Client) Close() { c.cfg.Wire.Transport.Close() }

// ResetCache empties the server's prefix cache. ErrNoCacheReset when it has no
// route for that.
func (c *Client) ResetCache(ctx context.Context) error {
	if c.cfg.Dialect.CacheReset == "" {
		return backends.ErrNoCacheReset
	}
	_, err := c.fetch.Post(ctx, c.cfg.Routes.Root(c.cfg.Dialect.CacheReset), nil)
	return err
}

// MetricsPath is the path of the server's metrics page, "" when it has none.
func MetricsPath(d Dialect, r Routes) string {
	if d.Metrics == "" {
		return ""
	}
	return r.Root(d.Metrics)
}

// quote is s as JSON.
func quote(s string) string { return string(jsonscan.AppendString(nil, s)) }
