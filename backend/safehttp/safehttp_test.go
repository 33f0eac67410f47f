package safehttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/safehttp/safehttptest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

func portOfServer(t *testing.T, s *httptest.Server) int {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// local returns a server and a client that may reach it.
func local(t *testing.T, o Options, h http.HandlerFunc) (*Client, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	if o.AllowLoopback == nil {
		port := portOfServer(t, s)
		o.AllowLoopback = func(p int) bool { return p == port }
	}
	c := New(o)
	t.Cleanup(c.Close)
	return c, s
}

func get(t *testing.T, c *Client, u string) (*Response, error) {
	t.Helper()
	return c.Do(context.Background(), Request{URL: u})
}

// special are addresses that must never be reached by number.
var special = []string{
	"127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.1",
	"192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "168.63.129.16",
	"[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::808:808]", "[64:ff9b:1::1]", "[fc00::1]",
	"[fd12:3456::1]", "[fe80::1]", "[fe80::1%25lo]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[2002:7f00:1::]", "[2001::1]", "[100::1]",
}

func TestSpecialAddressesRefused(t *testing.T) {
	t.Parallel()
	c := New(Options{Timeout: time.Minute})
	t.Cleanup(c.Close)
	for _, a := range special {
		_, err := get(t, c, "https://"+a+"/")
		if !fault.Is(err, fault.Denied) || !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v, want denied", a, err)
		}
		if err != nil && strings.Contains(fault.As(err).Message, "prohibited") {
			t.Errorf("%s: the message is %q", a, fault.As(err).Message)
		}
	}
	// An allowed port on this machine must not allow other addresses.
	open := New(Options{Timeout: time.Minute, AllowLoopback: func(int) bool { return true }})
	t.Cleanup(open.Close)
	for _, a := range special {
		if a == "127.0.0.1" || a == "127.1.2.3" || a == "[::1]" {
			continue
		}
		if _, err := get(t, open, "https://"+a+"/"); !errors.Is(err, ErrAddress) {
			t.Errorf("%s with loopback granted: %v, want denied", a, err)
		}
	}
}

func TestNamesThatResolveToPrivateAddresses(t *testing.T) {
	t.Parallel()
	dns := safehttptest.NewDNS(t)
	c := New(Options{Timeout: time.Minute, Resolver: dns.Resolver(), AllowLoopback: func(int) bool { return true }})
	t.Cleanup(c.Close)
	for _, a := range special {
		ip := strings.Trim(strings.SplitN(a, "%", 2)[0], "[]")
		dns.Set("inside.example.", ip)
		if _, err := get(t, c, "https://inside.example/"); !errors.Is(err, ErrAddress) {
			t.Errorf("a name for %s: %v, want denied", ip, err)
		}
	}
	// Each look-up returns another address: only the dialed one matters.
	dns.Rotate("rebind.example.", "93.184.216.34", "127.0.0.1")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		_, err := c.Do(ctx, Request{URL: "https://rebind.example/", Timeout: 300 * time.Millisecond})
		if err == nil {
			t.Fatal("a rebinding name was reached")
		}
	}
}

func TestURLsRefused(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	t.Cleanup(c.Close)
	for u, want := range map[string]error{
		"http://example.com/": ErrScheme, "ftp://example.com/": ErrScheme, "file:///etc/passwd": nil, "//example.com": ErrScheme, "example.com": nil, "": nil,
		"https://": nil, "https://user:pw@example.com/": nil, "https://user@example.com/": nil, "https://example.com:0/": nil, "https://example.com:70000/": nil,
		"https://example.com:/": nil, "javascript:alert(1)": nil, "https:opaque": nil, "https://localhost/": ErrAddress, "https://LOCALHOST.:8443/": ErrAddress,
		"http://localhost:80/": ErrAddress, "gopher://127.0.0.1/": ErrAddress, "https://exa mple.com/": nil,
	} {
		_, err := get(t, c, u)
		if want == nil && !fault.Is(err, fault.Invalid) || want != nil && (!fault.Is(err, fault.Denied) || !errors.Is(err, want)) {
			t.Errorf("%q: %v (%s), want %v", u, err, fault.KindOf(err), want)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	h := func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, r.UserAgent())
	}
	c, s := local(t, Options{}, h)
	r, err := get(t, c, s.URL+"/x#frag")
	if err != nil || r.Status != 200 || string(r.Body) != "GET /x Helix" || !strings.HasSuffix(r.URL, "/x#frag") {
		t.Fatalf("granted port: %+v, %v", r, err)
	}
	if _, err := get(t, c, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)); err != nil {
		t.Errorf("by name: %v", err)
	}
	if _, err := get(t, New(Options{}), s.URL); !errors.Is(err, ErrAddress) {
		t.Errorf("not granted: %v", err)
	}
	own := New(Options{AllowLoopback: func(int) bool { return true }, DenyPorts: func(p int) bool { return p == portOfServer(t, s) }})
	if _, err := get(t, own, s.URL); !errors.Is(err, ErrAddress) {
		t.Errorf("Helix's own port: %v", err)
	}
	// A name that resolves to this machine is not a name of this machine.
	dns := safehttptest.NewDNS(t)
	dns.Set("me.example.", "127.0.0.1")
	byName := New(Options{AllowLoopback: func(int) bool { return true }, Resolver: dns.Resolver()})
	if _, err := get(t, byName, strings.Replace(strings.Replace(s.URL, "127.0.0.1", "me.example", 1), "http:", "https:", 1)); !errors.Is(err, ErrAddress) {
		t.Errorf("a foreign name for this machine: %v", err)
	}
	if hits.Load() != 2 {
		t.Errorf("the server saw %d requests", hits.Load())
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	type seen struct{ method, auth, cookie, secret, plain, body string }
	last := make(chan seen, 1)
	note := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		select {
		case <-last:
		default:
		}
		last <- seen{r.Method, r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("X-Key"), r.Header.Get("X-Plain"), string(b)}
	}
	other := httptest.NewServer(http.HandlerFunc(note))
	t.Cleanup(other.Close)
	c, s := local(t, Options{AllowLoopback: func(int) bool { return true }}, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path == "/end" {
			note(w, r)
			return
		}
		status, _ := strconv.Atoi(q.Get("s"))
		w.Header().Set("Location", q.Get("to"))
		w.WriteHeader(status)
	})
	headers := http.Header{"Authorization": {"a"}, "Cookie": {"c"}, "X-Key": {"k"}, "X-Plain": {"p"}, "Content-Type": {"text/plain"}}
	do := func(method, to string, status int, body []byte, sensitiveBody bool) (*Response, error) {
		return c.Do(context.Background(), Request{
			Method: method, URL: fmt.Sprintf("%s/go?s=%d&to=%s", s.URL, status, url.QueryEscape(to)), Header: headers, Body: body,
			Sensitive: []string{"x-key"}, SensitiveBody: sensitiveBody,
		})
	}
	for _, x := range []struct {
		method string
		status int
		want   string
		body   string
	}{
		{"POST", 301, "GET", ""}, {"POST", 302, "GET", ""}, {"PUT", 303, "GET", ""}, {"POST", 307, "POST", "b"}, {"PUT", 308, "PUT", "b"}, {"PUT", 302, "PUT", "b"}, {"HEAD", 303, "HEAD", ""},
	} {
		body := []byte("b")
		if x.method == "HEAD" {
			body = nil
		}
		if _, err := do(x.method, "/end", x.status, body, false); err != nil {
			t.Fatalf("%s %d: %v", x.method, x.status, err)
		}
		if got := <-last; got != (seen{x.want, "a", "c", "k", "p", x.body}) {
			t.Errorf("%s %d on the same host: %+v", x.method, x.status, got)
		}
	}
	if _, err := do("GET", other.URL+"/x", 302, nil, false); err != nil {
		t.Fatal(err)
	}
	if got := <-last; got != (seen{method: "GET", plain: "p"}) {
		t.Errorf("to another host: %+v", got)
	}
	if headers.Get("Authorization") != "a" {
		t.Error("the caller's headers were changed")
	}
	if _, err := do("POST", other.URL+"/x", 307, []byte("secret"), true); !errors.Is(err, ErrRedirect) {
		t.Errorf("a secret body to another host: %v", err)
	}
	if _, err := do("POST", other.URL+"/x", 303, []byte("secret"), true); err != nil {
		t.Errorf("a redirect that drops the body: %v", err)
	}
	for _, a := range special {
		if a == "127.0.0.1" || a == "[::1]" || a == "127.1.2.3" {
			continue
		}
		if _, err := do("GET", "https://"+a+"/", 302, nil, false); !errors.Is(err, ErrAddress) {
			t.Errorf("redirect to %s: %v", a, err)
		}
	}
	for _, to := range []string{"http://example.com/", "file:///etc/passwd", "ftp://example.com"} {
		if _, err := do("GET", to, 302, nil, false); err == nil || fault.Is(err, fault.Internal) {
			t.Errorf("redirect to %s: %v", to, err)
		}
	}
	if _, err := do("GET", "https://u:p@example.com/", 302, nil, false); !fault.Is(err, fault.Invalid) {
		t.Errorf("redirect with a password: %v", err)
	}
}

func TestRedirectDowngrade(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(plain.Close)
	s := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := New(Options{RootCAs: roots, AllowLoopback: func(int) bool { return true }})
	t.Cleanup(c.Close)
	if _, err := get(t, c, s.URL); !errors.Is(err, ErrScheme) {
		t.Errorf("from https to http: %v", err)
	}
	strict := New(Options{AllowLoopback: func(int) bool { return true }})
	t.Cleanup(strict.Close)
	if _, err := get(t, strict, s.URL); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an unknown certificate: %v", err)
	}
}

func TestRedirectLoopAndCheck(t *testing.T) {
	t.Parallel()
	var asked []string
	veto := fault.Deniedf("not this one")
	c, s := local(t, Options{Check: func(_ context.Context, u *url.URL) error {
		asked = append(asked, u.Path)
		if u.Path == "/forbidden" {
			return veto
		}
		return nil
	}}, func(w http.ResponseWriter, r *http.Request) {
		to := "/loop"
		if r.URL.Path == "/to-forbidden" {
			to = "/forbidden"
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	if _, err := get(t, c, s.URL+"/loop"); !fault.Is(err, fault.Limit) || len(asked) != 6 {
		t.Errorf("a loop: %v after %v", err, asked)
	}
	if _, err := get(t, c, s.URL+"/to-forbidden"); !errors.Is(err, veto) {
		t.Errorf("a refused redirect: %v", err)
	}
	none, s2 := local(t, Options{MaxRedirects: -1}, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) })
	if _, err := get(t, none, s2.URL); !fault.Is(err, fault.Limit) {
		t.Errorf("no redirects allowed: %v", err)
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 64 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	c, s := local(t, Options{MaxBody: limit, Timeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/exact":
			_, _ = w.Write(zeros)
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			zw := gzip.NewWriter(w)
			_, _ = zw.Write([]byte("packed " + r.Header.Get("Accept-Encoding")))
			_ = zw.Close()
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		case "/endless":
			for {
				if _, err := w.Write(zeros); err != nil {
					return
				}
			}
		case "/headers":
			w.Header().Set("X-Large", strings.Repeat("h", 400<<10))
		case "/short":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("only this"))
		}
	})
	if r, err := get(t, c, s.URL+"/exact"); err != nil || len(r.Body) != limit {
		t.Errorf("a body of the limit: %v", err)
	}
	if r, err := get(t, c, s.URL+"/gzip"); err != nil || string(r.Body) != "packed gzip" {
		t.Errorf("a compressed body: %v", err)
	}
	for _, p := range []string{"/bomb", "/endless"} {
		if _, err := get(t, c, s.URL+p); !fault.Is(err, fault.Limit) {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range []string{"/headers", "/short"} {
		if _, err := get(t, c, s.URL+p); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := c.Do(context.Background(), Request{Method: "POST", URL: s.URL, Body: make([]byte, 1<<20+1)}); !fault.Is(err, fault.Limit) {
		t.Errorf("a large request: %v", err)
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	c, s := local(t, Options{Timeout: 300 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-r.Context().Done()
			return
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for { // a byte now and then, forever
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
	for _, p := range []string{"/silent", "/drip"} {
		if _, err := get(t, c, s.URL+p); !fault.Is(err, fault.Timeout) {
			t.Errorf("%s: %v", p, err)
		}
	}
	patient, silent := local(t, Options{Timeout: time.Hour}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if _, err := patient.Do(context.Background(), Request{URL: silent.URL, Timeout: time.Millisecond}); !fault.Is(err, fault.Timeout) {
		t.Errorf("a lowered limit: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Do(ctx, Request{URL: s.URL + "/drip"}); !fault.Is(err, fault.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	var got http.Header
	var host string
	c, s := local(t, Options{UserAgent: "Helix/1"}, func(_ http.ResponseWriter, r *http.Request) { got, host = r.Header.Clone(), r.Host })
	_, err := c.Do(context.Background(), Request{Method: "delete", URL: s.URL, Header: http.Header{
		"Host": {"evil"}, "Connection": {"upgrade"}, "Upgrade": {"h2c"}, "transfer-encoding": {"chunked"}, "Content-Length": {"5"}, "Proxy-Authorization": {"x"},
		"Expect": {"100-continue"}, "X-Own": {"1", "2"}, "Accept": {"a/b"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if host == "evil" || got.Get("Upgrade") != "" || got.Get("Proxy-Authorization") != "" || got.Get("Expect") != "" || len(got["X-Own"]) != 2 || got.Get("User-Agent") != "Helix/1" {
		t.Errorf("host %s, headers %v", host, got)
	}
	for _, bad := range []Request{
		{URL: s.URL, Header: http.Header{"X-A": {"line\r\nInjected: 1"}}}, {URL: s.URL, Header: http.Header{"bad name": {"x"}}}, {URL: s.URL, Method: "CONNECT"},
		{URL: s.URL, Method: "GET /x"}, {URL: s.URL, Method: "TRACE"},
	} {
		if _, err := c.Do(context.Background(), bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestNoProxy(t *testing.T) {
	t.Parallel()
	if New(Options{}).tr.Proxy != nil {
		t.Error("the environment's proxy would be used")
	}
}
