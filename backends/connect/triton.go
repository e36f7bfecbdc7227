package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/triton"
)

// maxTritonModels bounds how many models are asked for their metadata.
const maxTritonModels = 64

// openTriton finds out what a Triton server and its model are, and returns a
// client of the model.
func (p *prober) openTriton(ctx context.Context, o Options, a address, why string) (backends.Client, error) {
	if o.Endpoint != "" && o.Endpoint != native {
		return nil, usagef("Triton has no endpoint %s: leave --endpoint out", o.Endpoint)
	}
	server, err := p.tritonServer(ctx)
	if err != nil {
		return nil, err
	}
	server.Why = why
	asked := o.Model
	if asked == "" {
		asked = a.model
	}
	server.Models = p.tritonModels(ctx)
	server.Metrics = tritonMetrics(ctx, o, a)
	d, err := p.tritonModel(ctx, asked, a.version, server.Models)
	if err != nil {
		return nil, err
	}
	server.ModelID = d.Name
	server.Source = "/v2, " + d.Metadata()
	if d.Platform != "" {
		server.Settings["platform"] = d.Platform
	}
	conf := wire.ClientConfig{Wire: p.cfg, Server: server}
	conf.Wire.Header = p.header
	return triton.New(a.path(d.Path()), d.Model, conf), nil
}

// tritonServer asks a server for its version and whether it is ready.
func (p *prober) tritonServer(ctx context.Context) (backends.Server, error) {
	server := backends.Server{Engine: "triton", Dialect: protocolTriton, Settings: map[string]string{}}
	about, err := p.get(ctx, "/v2")
	if err != nil {
		return server, &TargetError{err}
	}
	if about.Status != http.StatusOK {
		return server, &TargetError{p.fetch.Refused(p.routes.Root("/v2"), about)}
	}
	var v struct{ Name, Version string }
	if err := json.Unmarshal(about.Body, &v); err != nil || v.Name == "" {
		return server, &TargetError{fmt.Errorf("%s%s: the answer is not Triton's", p.cfg.Target, p.routes.Root("/v2"))}
	}
	server.Engine, server.Version = v.Name, v.Version
	ready, err := p.get(ctx, "/v2/health/ready")
	if err != nil {
		return server, &TargetError{err}
	}
	if ready.Status != http.StatusOK {
		return server, &TargetError{fmt.Errorf("%s%s: HTTP %d: the server is not ready", p.cfg.Target, p.routes.Root("/v2/health/ready"), ready.Status)}
	}
	return server, nil
}

// tritonMetricsTime bounds the look for Triton's metrics.
const tritonMetricsTime = 2 * time.Second

// tritonMetrics is the URL of Triton's metrics page where both ports are
// Triton's defaults and the page is Triton's; else "". No key goes there.
func tritonMetrics(ctx context.Context, o Options, a address) string {
	at := tritonDefaultMetrics(a.url)
	if at == "" {
		return ""
	}
	page, err := OpenPage(Options{URL: at, CACert: o.CACert, Insecure: o.Insecure}, at)
	if err != nil {
		return ""
	}
	defer page.Close()
	ctx, cancel := context.WithTimeout(ctx, tritonMetricsTime)
	defer cancel()
	body, err := page.Get(ctx)
	if err != nil || !hasMetric(body, "nv_") {
		return ""
	}
	return at
}

// tritonDefaultMetrics is where a Triton whose HTTP is on the default port has
// its metrics by default; "" for any other port.
func tritonDefaultMetrics(u *url.URL) string {
	const ownPort, metricsPort = "8000", "8002"
	if u.Port() != ownPort {
		return ""
	}
	return "http://" + net.JoinHostPort(u.Hostname(), metricsPort) + "/metrics"
}

// tritonModels lists the models that are ready, none where the server does not
// say.
func (p *prober) tritonModels(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	body, err := p.fetch.Post(ctx, p.routes.Root("/v2/repository/index"), []byte(`{"ready":true}`))
	if err != nil {
		return nil
	}
	var list []struct{ Name, State string }
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	var names []string
	for _, m := range list {
		if (m.State == "" || m.State == "READY") && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// tritonModel describes the model asked for, or the only listed one that makes
// text of text.
func (p *prober) tritonModel(ctx context.Context, asked, version string, listed []string) (triton.Described, error) {
	if asked != "" {
		d, err := p.describeTriton(ctx, asked, version)
		if err != nil && len(listed) > 0 && !slices.Contains(listed, asked) {
			return d, usagef("%s does not serve model %q; it lists: %s", p.cfg.Target, asked, strings.Join(listed, ", "))
		}
		return d, err
	}
	var found []triton.Described
	var names []string
	for _, name := range listed[:min(len(listed), maxTritonModels)] {
		if d, err := p.describeTriton(ctx, name, version); err == nil {
			found, names = append(found, d), append(names, name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return triton.Described{}, usagef("%s serves several models: choose one with --model: %s", p.cfg.Target, strings.Join(names, ", "))
	case len(listed) > 0:
		return triton.Described{}, usagef("%s lists no model that makes text of text (%s): name one with --model", p.cfg.Target, strings.Join(listed, ", "))
	}
	return triton.Described{}, usagef("%s lists no models: name one with --model", p.cfg.Target)
}

// describeTriton reads a model's metadata.
func (p *prober) describeTriton(ctx context.Context, name, version string) (triton.Described, error) {
	path := triton.Model{Name: name, Version: version}.Metadata()
	a, err := p.get(ctx, path)
	if err != nil {
		return triton.Described{}, &TargetError{err}
	}
	if a.Status != http.StatusOK {
		return triton.Described{}, &TargetError{p.fetch.Refused(p.routes.Root(path), a)}
	}
	d, err := triton.Describe(name, version, a.Body)
	if err != nil {
		return d, &UsageError{err}
	}
	return d, nil
}
