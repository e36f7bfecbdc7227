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
	*wire.Client
	cfg   Config
	fetch wire.Fetcher
}

// New returns a client. It sends nothing.
func New(cfg Config) *Client {
	d := cfg.Dialect
	path := cfg.Routes.Completions()
	if cfg.Chat {
		path = cfg.Routes.Chat()
	}
	cfg.Wire.Header = append(Header(d, cfg.Key), cfg.Wire.Header...)
	c := &Client{cfg: cfg, fetch: wire.NewFetcher(cfg.Wire)}
	conf := wire.ClientConfig{
		Wire: cfg.Wire, Server: cfg.Server,
		Protocol: &protocol{dialect: d, chat: cfg.Chat, path: path, model: quote(cfg.Model)},
		Can: backends.Capabilities{
			Chat:          cfg.Chat,
			TokenIDs:      !cfg.Chat && d.TextIDs || cfg.Chat && d.ChatIDs != "",
			ForceLength:   d.IgnoreEOS,
			RunningUsage:  d.Running,
			TokenIDsOut:   d.TokenIDsOut,
			PrefixCaching: d.PrefixCaching,
		},
	}
	if d.Tokenize != "" {
		conf.Tokenize = c.tokenize
	}
	if d.CacheReset != "" {
		conf.ResetCache = c.resetCache
	}
	c.Client = wire.NewClient(conf)
	return c
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

// resetCache empties the server's prefix cache.
func (c *Client) resetCache(ctx context.Context) error {
	_, err := c.fetch.Post(ctx, c.cfg.Routes.Root(c.cfg.Dialect.CacheReset), nil)
	return err
}

// quote is s as JSON.
func quote(s string) string { return string(jsonscan.AppendString(nil, s)) }
