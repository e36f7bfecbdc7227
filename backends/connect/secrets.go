package connect

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// headerSecrets are the forms in which a server may repeat the value of a
// header: whole, what follows a scheme, the password of a login, or the value
// of a cookie.
func headerSecrets(name, value string) []string {
	out := []string{value}
	if scheme, token, ok := strings.Cut(value, " "); ok {
		out = append(out, token)
		if login, err := base64.StdEncoding.DecodeString(token); err == nil && strings.EqualFold(scheme, "Basic") {
			_, password, _ := strings.Cut(string(login), ":")
			out = append(out, password)
		}
	}
	if strings.EqualFold(name, "Cookie") {
		cookies, _ := http.ParseCookie(value) // what is no cookie is a secret as a whole
		for _, c := range cookies {
			out = append(out, c.Value)
		}
	}
	return out
}

// querySecrets are the values in a target's query: keys travel there.
func querySecrets(target *url.URL) []string {
	var out []string
	for _, values := range target.Query() {
		out = append(out, values...)
	}
	for pair := range strings.SplitSeq(target.RawQuery, "&") {
		_, written, _ := strings.Cut(pair, "=") // as it stands in the URL
		out = append(out, written)
	}
	return out
}
