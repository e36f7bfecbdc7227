package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// dialProxy opens a socket, or a TLS connection, to the proxy.
func (t *Transport) dialProxy(ctx context.Context) (net.Conn, error) {
	addr := net.JoinHostPort(t.proxy.Hostname(), portOf(t.proxy))
	var nc net.Conn
	var err error
	if t.proxy.Scheme == "https" {
		d := tls.Dialer{Config: &tls.Config{ServerName: t.proxy.Hostname()}}
		nc, err = d.DialContext(ctx, "tcp", addr)
	} else {
		nc, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", Place(t.proxy), err)
	}
	return nc, nil
}

// tunnel asks the proxy for a connection to the target.
func (t *Transport) tunnel(ctx context.Context, c *conn) error {
	stop := context.AfterFunc(ctx, c.interrupt)
	defer stop()
	target := net.JoinHostPort(t.cfg.Base.Hostname(), portOf(t.cfg.Base))
	head := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if auth := proxyAuth(t.proxy); auth != "" {
		head += "Proxy-Authorization: " + auth + "\r\n"
	}
	if _, err := c.stamped.Write([]byte(head + "\r\n")); err != nil {
		return fmt.Errorf("proxy %s: %w", Place(t.proxy), err)
	}
	// The tunnel's bytes begin right after the answer, and a TLS server does
	// not speak first, so nothing of it can be in this reader's buffer.
	limited := &io.LimitedReader{R: c.stamped, N: maxHead}
	resp, err := http.ReadResponse(bufio.NewReader(limited), &http.Request{Method: http.MethodConnect})
	if err != nil {
		if limited.N == 0 {
			err = errHead
		}
		return fmt.Errorf("proxy %s: %w", Place(t.proxy), err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("proxy %s refuses a tunnel to %s: %s", Place(t.proxy), target, resp.Status)
	}
	return nil
}

// Place is where a URL leads, without what may be secret in it: user, password,
// path and query.
func Place(u *url.URL) string { return u.Scheme + "://" + u.Host }

// ProxySecrets are what the proxy's URL holds that must not be reported.
func (t *Transport) ProxySecrets() []string {
	if t.proxy == nil || t.proxy.User == nil {
		return nil
	}
	_, basic, _ := strings.Cut(proxyAuth(t.proxy), " ")
	password, _ := t.proxy.User.Password()
	return []string{password, basic}
}

// proxyAuth is the Proxy-Authorization value for the proxy's user, "" for none.
func proxyAuth(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password))
}
