package safehttp

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// FuzzURL passes addresses to the check before dialing: an accepted one must be https, or http to
// this machine on an allowed port, without a user and without a denied port.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://example.com/a?b#c", "http://localhost:80", "http://[::1]:8080/", "https://u:p@h/", "http://127.0.0.1.:1", "https://h:", "HTTP://LOCALHOST.:8000/", "http:h", "//h/", "https://[::ffff:127.0.0.1]:18789/", "https://h:065536/", "http://[::1%25lo]:1/"} {
		f.Add(s)
	}
	const own = 18789
	c := New(Options{AllowLoopback: func(int) bool { return true }, DenyPorts: func(port int) bool { return port == own }})
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		ctx, err := c.checkURL(t.Context(), u)
		if err != nil {
			return
		}
		local := ctx.Value(loopbackKey{}) == true
		port, err := portOf(u)
		if err != nil || u.User != nil || u.Hostname() == "" || u.Scheme != "https" && (u.Scheme != "http" || !local) || local && port == own {
			t.Fatalf("%q passed", s)
		}
		ip, err := netip.ParseAddr(u.Hostname())
		if local && !strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), "localhost") && (err != nil || !ip.IsLoopback()) {
			t.Fatalf("%q counts as this machine", s)
		}
		if !local && err == nil && ip.IsLoopback() && !ip.Is4In6() { // a mapped one is refused when dialing
			t.Fatalf("%q does not count as this machine", s)
		}
		if next, err := redirect(u, response(302, s)); err == nil && next != nil {
			h := forOtherHost(map[string][]string{"Authorization": {"x"}, "X-Key": {"x"}, "Accept": {"x"}}, []string{"x-key"})
			if len(h) != 1 {
				t.Fatalf("%v went along", h)
			}
		}
	})
}

func response(status int, location string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Location": {location}}}
}
