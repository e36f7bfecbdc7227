package openai

import (
	"net/url"
	"strings"
)

// Routes are the paths on a target, with the URL's query.
type Routes struct {
	root  string // path before /v1
	api   string // path up to and with /v1
	query string // "" or ?...
	// Endpoint is "chat" or "completions" when the URL named the route, else
	// "".
	Endpoint string
}

// ParseRoutes reads the routes from a target's URL: the server alone, its
// /v1, or one of its routes in full, with or without a gateway's prefix, all
// mean the same.
func ParseRoutes(u *url.URL) Routes {
	var r Routes
	if u.RawQuery != "" {
		r.query = "?" + u.RawQuery
	}
	path := u.EscapedPath()
	if u.Scheme == "unix" {
		path = ""
	}
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	path = strings.TrimRight(path, "/")
	full := true
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		path, r.Endpoint = strings.TrimSuffix(path, "/chat/completions"), "chat"
	case strings.HasSuffix(path, "/completions"):
		path, r.Endpoint = strings.TrimSuffix(path, "/completions"), "completions"
	default:
		full = strings.HasSuffix(path, "/v1") || strings.Contains(path, "/openai/deployments/")
	}
	r.api = path
	if !full {
		r.api += "/v1"
	}
	r.root = strings.TrimSuffix(r.api, "/v1")
	return r
}

// Chat is the path of the chat route.
func (r Routes) Chat() string { return r.api + "/chat/completions" + r.query }

// Completions is the path of the completions route.
func (r Routes) Completions() string { return r.api + "/completions" + r.query }

// Models is the path of the list of models.
func (r Routes) Models() string { return r.api + "/models" + r.query }

// Root is a path from the server's root.
func (r Routes) Root(path string) string { return r.root + path }
