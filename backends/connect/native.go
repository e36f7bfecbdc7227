package connect

import (
	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/anthropic"
	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wire"
	"github.com/headway-bench/headway/backends/llamacpp"
	"github.com/headway-bench/headway/backends/ollama"
	"github.com/headway-bench/headway/backends/openai"
	"github.com/headway-bench/headway/backends/tgi"
)

// client returns the client for what was found.
func client(o Options, a address, f finding, cfg wire.Config) (backends.Client, error) {
	endpoint := o.Endpoint
	if endpoint == "" {
		endpoint = a.endpoint
	}
	model := f.server.ModelID
	openAI := openai.Config{
		Dialect: f.dialect, Routes: a.routes, Chat: endpoint != "completions" && endpoint != native,
		Model: model, Key: o.APIKey, Server: f.server, Wire: cfg,
	}
	if f.protocol == protocolAnthropic {
		if endpoint == "completions" {
			return nil, usagef("the Anthropic protocol has no endpoint completions: leave --endpoint out")
		}
		openAI.Chat = true
		c := own(openAI, anthropicHeader(f, o.APIKey))
		return anthropic.New(anthropic.Config{Path: a.path("/v1" + anthropic.Route), Model: model}, c), nil
	}
	if endpoint != native {
		return openai.New(openAI), nil
	}
	if f.dialect.Name == "ollama" {
		route := ollama.Generate
		if a.route == ollama.Chat {
			route = ollama.Chat
		}
		openAI.Chat = route == ollama.Chat
		return ollama.New(ollama.Config{Path: a.path(route), Chat: openAI.Chat, Model: model}, own(openAI, openai.Header(f.dialect, o.APIKey))), nil
	}
	c := own(openAI, openai.Header(f.dialect, o.APIKey))
	switch f.dialect.Name {
	case "tgi":
		return tgi.New(a.path(tgi.Route), c), nil
	case "llamacpp":
		return llamacpp.New(a.path(llamacpp.Route), c), nil
	}
	return nil, usagef("dialect %s has no endpoint native: tgi, ollama and llamacpp have", f.dialect.Name)
}

// own is what a protocol's own client has in common with the client of the
// same server's OpenAI routes: the identity, and the routes beside generation.
func own(c openai.Config, header []transport.Field) wire.ClientConfig {
	beside := openai.New(c)
	conf := wire.ClientConfig{Wire: c.Wire, Server: c.Server}
	conf.Wire.Header = append(header, c.Wire.Header...)
	if beside.Can().Tokenize {
		conf.Tokenize = beside.Tokenize
	}
	if beside.Can().CacheReset {
		conf.ResetCache = beside.ResetCache
	}
	conf.Can.PrefixCaching = beside.Can().PrefixCaching
	return conf
}

// anthropicHeader is the header of a messages route. Servers that offer it
// beside OpenAI's routes may look for the key in their own way.
func anthropicHeader(f finding, key string) []transport.Field {
	header := anthropic.Header(key)
	if f.server.Engine != protocolAnthropic {
		header = append(header, openai.Header(f.dialect, key)...)
	}
	return header
}
