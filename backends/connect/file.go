package connect

import (
	"context"
	"net/http"
	"net/url"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/custom"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// openFile returns a client of the dialect that a file describes.
func openFile(ctx context.Context, o Options, target *url.URL, cfg wire.Config) (backends.Client, error) {
	if o.Dialect != "" && o.Dialect != "auto" {
		return nil, usagef("backend %q and the backend file %s: give one of them", o.Dialect, o.BackendFile)
	}
	if o.Endpoint != "" && o.Endpoint != native {
		return nil, usagef("the backend file %s names the route: leave --endpoint out", o.BackendFile)
	}
	b, err := custom.Load(o.BackendFile)
	if err != nil {
		return nil, &UsageError{err}
	}
	a := readAddress(target, o.Dialect)
	p := &prober{cfg: cfg, routes: a.routes, header: append(b.Header(o.APIKey), cfg.Header...)}
	p.fetch = p.fetcher()
	f := finding{server: backends.Server{
		Engine: b.Server.Engine, Dialect: b.Name, Why: "described by " + o.BackendFile, Settings: map[string]string{},
	}}
	if err := p.describeFile(ctx, b, &f); err != nil {
		return nil, err
	}
	if f.server.ModelID, err = fileModel(o.Model, b, f, cfg.Target); err != nil {
		return nil, err
	}
	conf := wire.ClientConfig{Wire: cfg, Server: f.server}
	conf.Wire.Header = p.header
	return b.New(a.routes.Root(""), a.query, f.server.ModelID, conf), nil
}

// describeFile asks the routes that a file names for what the server is.
func (p *prober) describeFile(ctx context.Context, b *custom.Backend, f *finding) error {
	s := b.Server
	if s.Models != "" {
		ask, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		a, err := p.fetch.Get(ask, p.routes.Root(s.Models))
		if err != nil {
			return &TargetError{err}
		}
		if err := p.readModels(p.routes.Root(s.Models), a, f); err != nil {
			return err
		}
	}
	if s.Version != "" {
		a, err := p.get(ctx, s.Version)
		if err != nil {
			return &TargetError{err}
		}
		if v := field(a.Body, s.VersionField); a.Status == http.StatusOK && v != "" {
			f.server.Version, f.server.Source = v, join(f.server.Source, withoutQuery(s.Version))
		}
	}
	f.server.Metrics = p.metrics(ctx, s.Metrics)
	return nil
}

// fileModel is the model to send, none where no request names it.
func fileModel(asked string, b *custom.Backend, f finding, target string) (string, error) {
	if !b.UsesModel() || b.Server.Models == "" {
		if asked == "" && b.UsesModel() {
			return "", usagef("backend %s names the model in its requests: name one with --model", b.Name)
		}
		return asked, nil
	}
	return chooseModel(asked, f, target)
}

// field is the scalar at a path of names joined by dots, "" for none.
func field(body []byte, path string) string { return plain(custom.Lookup(body, path)) }
