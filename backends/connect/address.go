package connect

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/headway-bench/headway/backends/anthropic"
	"github.com/headway-bench/headway/backends/llamacpp"
	"github.com/headway-bench/headway/backends/ollama"
	"github.com/headway-bench/headway/backends/openai"
	"github.com/headway-bench/headway/backends/tgi"
)

// The protocols beside OpenAI's that have a server of their own kind.
const (
	protocolAnthropic = "anthropic"
	protocolTriton    = "triton"
)

// native is the endpoint of a server's own route.
const native = "native"

// address is a target's URL as a user wrote it: the server, and the route where
// it is named in full.
type address struct {
	url    *url.URL
	routes openai.Routes
	query  string // "" or ?...
	// named is the dialect that the route is of, route its path from the server's
	// root; both are "" for one of OpenAI's or none. endpoint is the endpoint
	// that the route is.
	named, route, endpoint string
	// model and version are those in one of Triton's routes.
	model, version string
}

// ownRoutes are the routes that are of one dialect only.
var ownRoutes = []struct{ route, dialect, endpoint string }{
	{"/v1" + anthropic.Route, protocolAnthropic, ""},
	{tgi.Route, "tgi", native},
	{ollama.Generate, "ollama", native},
	{ollama.Chat, "ollama", native},
	{llamacpp.Route, "llamacpp", native},
}

// tritonRoute is a route of a model of Triton's.
var tritonRoute = regexp.MustCompile(`/v2/models/([^/]+)(?:/versions/([^/]+))?(?:/generate(?:_stream)?)?/*$`)

// readAddress reads the routes that a target's URL names. The dialect is the
// one asked for.
func readAddress(u *url.URL, dialect string) address {
	a := address{url: u}
	if u.RawQuery != "" {
		a.query = "?" + u.RawQuery
	}
	root := *u
	path := strings.TrimRight(u.EscapedPath(), "/")
	if dialect == protocolTriton {
		path = strings.TrimSuffix(path, "/v2")
	}
	if m := tritonRoute.FindStringSubmatch(path); m != nil && u.Scheme != "unix" {
		a.named, a.route = protocolTriton, strings.TrimRight(m[0], "/")
		a.model, _ = url.PathUnescape(m[1])
		a.version, _ = url.PathUnescape(m[2])
		path = strings.TrimSuffix(path, m[0])
	} else if u.Scheme != "unix" {
		for _, own := range ownRoutes {
			if rest, ok := strings.CutSuffix(path, own.route); ok {
				a.named, a.route, a.endpoint, path = own.dialect, own.route, own.endpoint, rest
				break
			}
		}
	}
	if p, err := url.PathUnescape(path); err == nil && u.Scheme != "unix" {
		root.Path, root.RawPath = p, path
	}
	a.routes = openai.ParseRoutes(&root)
	if a.endpoint == "" {
		a.endpoint = a.routes.Endpoint
	}
	return a
}

// path is a path from the server's root, with the URL's query.
func (a address) path(route string) string { return a.routes.Root(route) + a.query }
