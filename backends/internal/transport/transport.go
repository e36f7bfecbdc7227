package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/headway-bench/headway/backends/clock"
)

// Config says how the target is reached.
type Config struct {
	// Base is the target's URL. The scheme is http, https or unix; with unix the
	// path names the socket and the requests are plain HTTP.
	Base *url.URL
	// ServerName is checked against the certificate, and sent as SNI; "" takes
	// Host, and then the name in Base.
	ServerName string
	// Host is the Host header; "" takes the one in Base.
	Host string
	// CACert is a file of PEM certificates to trust instead of the system's.
	CACert string
	// Insecure accepts any certificate.
	Insecure bool
	// HTTP2 asks for HTTP/2 where the server has it, over TLS.
	HTTP2 bool
	// Proxy is the HTTP proxy to go through; nil takes the environment's.
	Proxy *url.URL
	// UserStamps leaves the kernel's stamps unused.
	UserStamps bool
}

// The ramp of new connections: so many at once, and then so many a second.
// Beyond that the queue in which a listening socket keeps connections overflows
// (128 to 4,096 of them), and one that finds it full is tried again by the
// kernel after a second, which would show as the server's latency.
const (
	rampBurst = 256
	rampPerS  = 4000
)

// Transport opens, keeps and reuses the connections to one target. There is
// no limit on their number, but one on how fast they are opened. It is safe for
// concurrent use.
type Transport struct {
	cfg    Config
	lookup func(ctx context.Context, host string) (addrs []string, err error)
	tls    *tls.Config // nil for plain HTTP
	host   string      // Host header
	proxy  *url.URL    // nil for none
	plain  *http.Client
	h2     *http.Client
	mu     sync.Mutex
	idle   []*conn
	closed bool
	ramp   *rate.Limiter
	next   atomic.Uint64 // which of the target's addresses is next
	stamps atomic.Int32  // 0 unknown, 1 kernel, 2 user
	held   io.Closer     // keeps the kernel stamping, nil for nothing
}

// New checks the configuration. It opens no connection.
func New(cfg Config) (*Transport, error) {
	t := &Transport{cfg: cfg, host: cfg.Host, proxy: cfg.Proxy, lookup: net.DefaultResolver.LookupHost,
		ramp: rate.NewLimiter(rampPerS, rampBurst)}
	if t.host == "" {
		t.host = cfg.Base.Host
	}
	switch cfg.Base.Scheme {
	case "http":
	case "unix":
		if t.host == "" {
			t.host = "localhost"
		}
	case "https":
		conf, err := tlsConfig(cfg)
		if err != nil {
			return nil, err
		}
		t.tls = conf
	default:
		return nil, fmt.Errorf("target %s: scheme %q is none of http, https, unix", Place(cfg.Base), cfg.Base.Scheme)
	}
	if cfg.HTTP2 && t.tls == nil {
		return nil, errors.New("HTTP/2 needs an https target")
	}
	if t.proxy == nil && cfg.Base.Scheme != "unix" {
		proxy, err := http.ProxyFromEnvironment(&http.Request{URL: cfg.Base})
		if err != nil {
			return nil, fmt.Errorf("proxy from the environment: %w", err)
		}
		t.proxy = proxy
	}
	if t.proxy != nil && t.proxy.Scheme != "http" && t.proxy.Scheme != "https" {
		return nil, fmt.Errorf("proxy %s: only http and https proxies are supported", Place(t.proxy))
	}
	t.plain = &http.Client{Transport: t.netHTTP(false), CheckRedirect: noRedirect}
	if cfg.HTTP2 {
		t.h2 = &http.Client{Transport: t.netHTTP(true), CheckRedirect: noRedirect}
	}
	if !cfg.UserStamps && !cfg.HTTP2 {
		t.held = holdStamps()
	}
	return t, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func tlsConfig(cfg Config) (*tls.Config, error) {
	conf := &tls.Config{ServerName: cfg.ServerName, InsecureSkipVerify: cfg.Insecure, NextProtos: []string{"http/1.1"}}
	if conf.ServerName == "" {
		conf.ServerName = hostname(cfg.Host)
	}
	if conf.ServerName == "" {
		conf.ServerName = cfg.Base.Hostname()
	}
	if cfg.CACert == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(cfg.CACert)
	if err != nil {
		return nil, fmt.Errorf("CA certificates: %w", err)
	}
	conf.RootCAs = x509.NewCertPool()
	if !conf.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA certificates: %s has no PEM certificate", cfg.CACert)
	}
	return conf, nil
}

// hostname is host without its port.
func hostname(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return hostport
}

// netHTTP is net/http's transport over the same dialer, for requests whose
// times do not matter, and for HTTP/2.
func (t *Transport) netHTTP(h2 bool) *http.Transport {
	tr := &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			if t.proxy != nil {
				return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			}
			return t.dialTarget(ctx)
		},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
		MaxIdleConnsPerHost:    1 << 16,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      h2,
	}
	if t.proxy != nil {
		tr.Proxy = http.ProxyURL(t.proxy)
	}
	if t.tls != nil {
		tr.TLSClientConfig = t.tls.Clone()
		if h2 {
			tr.TLSClientConfig.NextProtos = []string{"h2", "http/1.1"}
		}
	}
	return tr
}

// HTTP is a client for requests whose times do not matter: probes, tokenizer,
// metrics. It follows no redirect.
func (t *Transport) HTTP() *http.Client { return t.plain }

// URL is the address of a path on the target, in net/http's form.
func (t *Transport) URL(path string) string {
	if t.cfg.Base.Scheme == "unix" {
		return "http://localhost" + path
	}
	return t.cfg.Base.Scheme + "://" + t.cfg.Base.Host + path
}

// Host is the value of the Host header.
func (t *Transport) Host() string { return t.host }

// StampsByKernel says whether the last connection's arrivals are stamped by
// the kernel; false before the first connection.
func (t *Transport) StampsByKernel() bool { return t.stamps.Load() == 1 }

// Close closes the idle connections; those in use close when they are done.
func (t *Transport) Close() {
	t.mu.Lock()
	idle, held := t.idle, t.held
	t.idle, t.held, t.closed = nil, nil, true
	t.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
	if held != nil {
		held.Close()
	}
	t.plain.CloseIdleConnections()
	if t.h2 != nil {
		t.h2.CloseIdleConnections()
	}
}

// Stage names the part of opening a connection that failed.
type Stage string

// The stages.
const (
	StageConnect Stage = "connect"
	StageTLS     Stage = "tls"
)

// OpenError is a connection that could not be opened.
type OpenError struct {
	Stage Stage
	Err   error
}

func (e *OpenError) Error() string { return string(e.Stage) + ": " + e.Err.Error() }
func (e *OpenError) Unwrap() error { return e.Err }

// open makes a new connection and notes how long that took.
func (t *Transport) open(ctx context.Context, cost *Cost) (*conn, error) {
	start := clock.Now()
	nc, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	raw := newStampedConn(nc, !t.cfg.UserStamps)
	c := newConn(raw)
	if t.proxy != nil && t.tls != nil {
		if err := t.tunnel(ctx, c); err != nil {
			nc.Close()
			return nil, &OpenError{StageConnect, err}
		}
	}
	if t.tls != nil {
		secure := tls.Client(raw, t.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, &OpenError{StageTLS, err}
		}
		c.secure(secure)
	}
	if raw.kernel {
		t.stamps.Store(1)
	} else {
		t.stamps.Store(2)
	}
	cost.Connect = time.Duration(clock.Now() - start)
	return c, nil
}

// dial opens a socket to the proxy, or to the target.
func (t *Transport) dial(ctx context.Context) (net.Conn, error) {
	var nc net.Conn
	var err error
	if t.proxy != nil {
		nc, err = t.dialProxy(ctx)
	} else {
		nc, err = t.dialTarget(ctx)
	}
	if err != nil {
		return nil, &OpenError{StageConnect, err}
	}
	return nc, nil
}

// dialTarget spreads new connections over the target's addresses in turn, and
// tries the others when one fails.
func (t *Transport) dialTarget(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	if t.cfg.Base.Scheme == "unix" {
		return d.DialContext(ctx, "unix", t.cfg.Base.Path)
	}
	port := portOf(t.cfg.Base)
	name := t.cfg.Base.Hostname()
	if _, err := netip.ParseAddr(name); err == nil {
		return d.DialContext(ctx, "tcp", net.JoinHostPort(name, port))
	}
	addrs, err := t.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	first := t.next.Add(1) - 1
	var errs []error
	for i := range addrs {
		addr := addrs[(first+uint64(i))%uint64(len(addrs))]
		nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort(addr, port))
		if err == nil {
			return nc, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
