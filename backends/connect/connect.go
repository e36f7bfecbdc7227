// Package connect opens a target: it finds out what the server is, which
// dialect it speaks and which model it serves, and says how it knows.
package connect

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/openai"
)

// Options say what to open and how.
type Options struct {
	// URL is the target: http, https or unix:///path, the server alone, its
	// /v1 or a route in full.
	URL string
	// Dialect is a name of Dialects, or "auto" or "" to ask the server.
	Dialect string
	// BackendFile describes a dialect of the user's own, "" for none.
	BackendFile string
	// Endpoint is "chat", "completions" or "native"; "" takes the one in the
	// URL, and then chat.
	Endpoint string
	// Model is the id to send; "" takes the only one that the server lists.
	Model string
	// APIKey is sent in the dialect's way, and appears nowhere else.
	APIKey string
	// Headers are further lines, "name: value", whose values are secret too.
	Headers []string
	// CACert is a file of PEM certificates to trust; Insecure trusts any.
	CACert   string
	Insecure bool
	// HTTP2 asks for HTTP/2 where the server has it.
	HTTP2 bool
	// Timeout bounds a request; 0 for none.
	Timeout time.Duration
	// Retries is how often a failed request is sent again.
	Retries int
	// MaxEventBytes is the largest event accepted; 0 for the default.
	MaxEventBytes int
	// UserStamps leaves the kernel's arrival stamps unused.
	UserStamps bool
	// ServerName is the name in the certificate, Host the Host header, where
	// they differ from the URL.
	ServerName, Host string
}

// UsageError is a mistake in the options: another value is needed.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// TargetError says that the server could not be reached, refused, or is not
// ready.
type TargetError struct{ Err error }

func (e *TargetError) Error() string { return e.Err.Error() }
func (e *TargetError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Dialects lists the names that Options.Dialect takes.
func Dialects() []string {
	return slices.Concat([]string{"auto"}, openai.Names(), []string{protocolAnthropic, protocolTriton})
}

// Open asks the server what it is and returns a client for it. Errors are a
// *UsageError or a *TargetError, or the context's.
func Open(ctx context.Context, o Options) (backends.Client, error) {
	target, err := wire.ParseTarget(o.URL)
	if err != nil {
		return nil, &UsageError{err}
	}
	if o.Dialect != "" && !slices.Contains(Dialects(), o.Dialect) {
		return nil, usagef("backend %q is none of %s", o.Dialect, strings.Join(Dialects(), ", "))
	}
	cfg, err := wireConfig(o, target)
	if err != nil {
		return nil, err
	}
	client, err := open(ctx, o, target, cfg)
	if err != nil {
		cfg.Transport.Close()
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = errors.Join(ctx.Err(), err)
		}
		return nil, err
	}
	return client, nil
}

// open does Open's work once the options are read.
func open(ctx context.Context, o Options, target *url.URL, cfg wire.Config) (backends.Client, error) {
	switch o.Endpoint {
	case "", "chat", "completions", native:
	default:
		return nil, usagef("endpoint %q is none of chat, completions, native", o.Endpoint)
	}
	if o.BackendFile != "" {
		return openFile(ctx, o, target, cfg)
	}
	a := readAddress(target, o.Dialect)
	p := &prober{cfg: cfg, routes: a.routes, key: o.APIKey}
	found, err := p.find(ctx, o.Dialect, a)
	if err != nil {
		return nil, err
	}
	if found.protocol == protocolTriton {
		return p.openTriton(ctx, o, a, found.server.Why)
	}
	if found.server.ModelID, err = chooseModel(o.Model, found, cfg.Target); err != nil {
		return nil, err
	}
	return client(o, a, found, cfg)
}

// chooseModel is the model to send: the one asked for when the server lists
// it, or the only one listed.
func chooseModel(asked string, f finding, target string) (string, error) {
	listed := f.server.Models
	switch {
	case asked != "" && (len(listed) == 0 || slices.Contains(listed, asked) || slices.Contains(f.aliases, asked)):
		return asked, nil
	case asked != "":
		return "", usagef("%s does not serve model %q; it lists: %s", target, asked, strings.Join(listed, ", "))
	case len(listed) == 1:
		return listed[0], nil
	case len(listed) == 0 && f.dialect.ModelInURL:
		return "", nil
	case len(listed) == 0 && f.server.Engine == "" && f.protocol == "":
		return "", usagef("%s lists no models (%s), and nothing it says names a known engine: is it an LLM server, and the path right? "+
			"If so, name one with --model", target, f.noModels)
	case len(listed) == 0:
		return "", usagef("%s lists no models (%s): name one with --model", target, f.noModels)
	}
	return "", usagef("%s serves several models: choose one with --model: %s", target, strings.Join(listed, ", "))
}

// wireConfig reads access to the target from the options.
func wireConfig(o Options, target *url.URL) (wire.Config, error) {
	cfg := wire.Config{Timeout: o.Timeout, Retries: o.Retries, MaxEvent: o.MaxEventBytes, Secrets: []string{o.APIKey}}
	for i, line := range o.Headers {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			// The line itself may be a secret put in the wrong place.
			return cfg, usagef("header %d is not of the form 'name: value'", i+1)
		}
		switch strings.ToLower(name) {
		case "host":
			o.Host = value
			continue
		case "content-length", "transfer-encoding", "connection", "accept-encoding":
			return cfg, usagef("header %d: %s belongs to the client itself", i+1, name)
		}
		cfg.Header = append(cfg.Header, transport.Field{Name: name, Value: value})
		cfg.Secrets = append(cfg.Secrets, headerSecrets(name, value)...)
	}
	if strings.ContainsAny(o.APIKey, "\r\n") {
		return cfg, usagef("the API key has a line end in it")
	}
	cfg.Secrets = append(cfg.Secrets, querySecrets(target)...)
	if password, ok := target.User.Password(); ok {
		basic := base64.StdEncoding.EncodeToString([]byte(target.User.Username() + ":" + password))
		cfg.Secrets = append(cfg.Secrets, password, basic)
		if o.APIKey == "" {
			cfg.Header = append(cfg.Header, transport.Field{Name: "Authorization", Value: "Basic " + basic})
		}
	}
	cfg.Target = target.Scheme + "://" + target.Host
	if target.Scheme == "unix" {
		cfg.Target += target.Path
	}
	t, err := transport.New(transport.Config{
		Base: target, ServerName: o.ServerName, Host: o.Host, CACert: o.CACert,
		Insecure: o.Insecure, HTTP2: o.HTTP2, UserStamps: o.UserStamps,
	})
	if err != nil {
		return cfg, &UsageError{err}
	}
	cfg.Transport = t
	cfg.Secrets = append(cfg.Secrets, t.ProxySecrets()...)
	return cfg, nil
}
