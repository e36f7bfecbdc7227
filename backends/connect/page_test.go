package connect

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPageKey gives the key and the headers to the target's own host, and to
// no other.
func TestPageKey(t *testing.T) {
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		if r.URL.Path != "/metrics" {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, "no page for "+r.Header.Get("Authorization"))
			return
		}
		io.WriteString(w, "up 1\n")
	}))
	defer srv.Close()
	other := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	for _, c := range []struct {
		name, target, at string
		key              bool
	}{
		{"the target's", srv.URL + "/v1", srv.URL + "/metrics", true},
		{"another host's", "http://127.0.0.2:1", srv.URL + "/metrics", false},
		{"the same host by another name", srv.URL, other + "/metrics", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := OpenPage(Options{URL: c.target, APIKey: "key-of-the-test", Headers: []string{"X-Team: secret-team"}}, c.at)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			page, err := p.Get(t.Context())
			if err != nil || string(page) != "up 1\n" {
				t.Fatalf("%q, %v", page, err)
			}
			if has := got.Get("Authorization") != "" && got.Get("X-Team") != ""; has != c.key {
				t.Errorf("sent %v", got)
			}
		})
	}
	p, err := OpenPage(Options{URL: srv.URL, APIKey: "key-of-the-test"}, "http://u:pass-of-the-test@"+strings.TrimPrefix(srv.URL, "http://")+"/none?token=query-of-the-test")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = p.Get(t.Context())
	if err == nil {
		t.Fatal("a refusal is no page")
	}
	for _, secret := range []string{"key-of-the-test", "pass-of-the-test", "query-of-the-test"} {
		if strings.Contains(err.Error()+p.Name(), secret) {
			t.Errorf("%q is in %v or %s", secret, err, p.Name())
		}
	}
}
