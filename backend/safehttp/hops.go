package safehttp

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"helix/backend/fault"
)

// connectionHeaders belong to the connection, which is managed here.
var connectionHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// privateHeaders are only for the host that they were set for.
var privateHeaders = []string{"Authorization", "Cookie", "Cookie2", "Www-Authenticate"}

func cleanHeader(h http.Header) (http.Header, error) {
	out := make(http.Header, len(h))
	for k, values := range h {
		if !httpguts.ValidHeaderFieldName(k) {
			return nil, fault.Invalidf("%q is not a header name.", k)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, fault.Invalidf("The value of header %s holds characters that are not allowed.", k)
			}
		}
		if name := textproto.CanonicalMIMEHeaderKey(k); !slices.Contains(connectionHeaders, name) {
			out[name] = append(out[name], values...)
		}
	}
	return out, nil
}

func cleanMethod(m string) (string, error) {
	if m == "" {
		return http.MethodGet, nil
	}
	m = strings.ToUpper(m)
	if !httpguts.ValidHeaderFieldName(m) || m == http.MethodConnect || m == http.MethodTrace {
		return "", fault.Invalidf("%q is not a usable method.", m)
	}
	return m, nil
}

// redirect returns the target of a redirect, or nil if the response is not one.
func redirect(from *url.URL, resp *http.Response) (*url.URL, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	to := resp.Header.Get("Location")
	if to == "" {
		return nil, nil
	}
	u, err := from.Parse(to)
	if err != nil {
		return nil, fault.Unavailablef("%s redirects to something that is not a URL.", from.Hostname()).WithCause(err)
	}
	if u.Fragment == "" {
		u.Fragment = from.Fragment
	}
	return u, nil
}

// redirectedMethod applies the Fetch standard: 303 turns everything but HEAD into GET, 301 and 302
// turn POST into GET, others repeat the request.
func redirectedMethod(method string, body []byte, status int, header http.Header) (string, []byte) {
	get := status == http.StatusSeeOther && method != http.MethodHead ||
		(status == http.StatusMovedPermanently || status == http.StatusFound) && method == http.MethodPost
	if !get {
		return method, body
	}
	for k := range header {
		if strings.HasPrefix(textproto.CanonicalMIMEHeaderKey(k), "Content-") {
			header.Del(k)
		}
	}
	return http.MethodGet, nil
}

func sameHost(a, b *url.URL) bool {
	pa, errA := portOf(a)
	pb, errB := portOf(b)
	return errA == nil && errB == nil && pa == pb && strings.EqualFold(a.Hostname(), b.Hostname())
}

func forOtherHost(h http.Header, sensitive []string) http.Header {
	out := h.Clone()
	for _, list := range [][]string{privateHeaders, sensitive} {
		for _, k := range list {
			out.Del(k)
		}
	}
	return out
}
