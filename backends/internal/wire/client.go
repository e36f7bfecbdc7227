package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/transport"
)

// ClientConfig is what a Client is made of.
type ClientConfig struct {
	// Wire is how requests are sent. Headers of the protocol go before its own.
	Wire Config
	// Protocol writes the requests and reads the answers.
	Protocol Protocol
	// Server is what Client.Server returns.
	Server backends.Server
	// Can is what Client.Can returns; what depends on the connection and on
	// Tokenize is filled in.
	Can backends.Capabilities
	// Tokenize asks the server's tokenizer; nil when it has no route for that.
	Tokenize func(context.Context, backends.Prompt) ([]int32, error)
	// ResetCache empties the server's prefix cache; nil when it has no route for
	// that.
	ResetCache func(context.Context) error
}

// Client is a backends.Client of any protocol. It is safe for concurrent use.
type Client struct {
	*Caller
	cfg ClientConfig
}

var _ backends.Client = (*Client)(nil)

// NewClient returns a client. It sends nothing.
func NewClient(cfg ClientConfig) *Client {
	cfg.Can.Tokenize = cfg.Tokenize != nil
	cfg.Can.CacheReset = cfg.ResetCache != nil
	cfg.Can.StampsByKernel = cfg.Wire.Transport.StampsByKernel()
	streaming := cfg.Wire
	accept := "text/event-stream"
	if cfg.Protocol.Framing() == NDJSON {
		accept = "application/x-ndjson"
	}
	streaming.Header = append([]transport.Field{
		{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: accept},
	}, cfg.Wire.Header...)
	return &Client{Caller: NewCaller(streaming, cfg.Protocol), cfg: cfg}
}

// Server is what was learnt about the target.
func (c *Client) Server() backends.Server { return c.cfg.Server }

// Can says what the protocol and the server offer.
func (c *Client) Can() backends.Capabilities { return c.cfg.Can }

// Tokenize returns the ids that the server's tokenizer makes of a prompt. Ids
// are returned as they are. A route that is not there, as behind a gateway that
// lets only the generating ones through, is backends.ErrNoTokenizer.
func (c *Client) Tokenize(ctx context.Context, p backends.Prompt) ([]int32, error) {
	switch {
	case p.IDs != nil:
		return p.IDs, nil
	case c.cfg.Tokenize == nil:
		return nil, backends.ErrNoTokenizer
	}
	ids, err := c.cfg.Tokenize(ctx, p)
	if isAbsent(err) {
		err = fmt.Errorf("%w: %w", backends.ErrNoTokenizer, err)
	}
	return ids, err
}

// isAbsent says whether err is that of a route which the server does not have.
func isAbsent(err error) bool {
	var refused *StatusError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Status {
	case http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// ResetCache empties the server's prefix cache. ErrNoCacheReset when it has no
// route for that.
func (c *Client) ResetCache(ctx context.Context) error {
	if c.cfg.ResetCache == nil {
		return backends.ErrNoCacheReset
	}
	return c.cfg.ResetCache(ctx)
}

// Close releases the connections.
func (c *Client) Close() { c.cfg.Wire.Transport.Close() }
