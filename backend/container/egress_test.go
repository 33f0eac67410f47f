//go:build !containers

package container

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"helix/backend/fault"
)

// allowed is an Egress that reaches one server by one name.
type allowed struct {
	host   string
	port   int
	server net.Addr
	secret string

	mu    sync.Mutex
	asked []string
}

func (a *allowed) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	a.mu.Lock()
	a.asked = append(a.asked, fmt.Sprintf("%s:%d", host, port))
	a.mu.Unlock()
	if host != a.host || port != a.port {
		return nil, fault.Deniedf("%s isn't allowed.", host)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", a.server.String())
}

func (a *allowed) Secret(_ context.Context, host, name string) (string, error) {
	if host != a.host || name != "api/KEY:1" {
		return "", fault.Deniedf("The secret isn't allowed.")
	}
	return a.secret, nil
}

// network is a proxy with a server behind it.
type network struct {
	*proxy
	roots    *x509.CertPool
	contacts chan Contact
}

func newNetwork(t *testing.T, a *allowed, h http.HandlerFunc) *network {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	a.server = s.Listener.Addr()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	n := &network{roots: roots, contacts: make(chan Contact, 10)}
	n.proxy = &proxy{ctx: t.Context(), egress: a, contacted: func(c Contact) { n.contacts <- c }, roots: &tls.Config{RootCAs: roots}}
	return n
}

// connect returns a connection of a program to the proxy.
func (n *network) connect(t *testing.T) net.Conn {
	t.Helper()
	program, helix := net.Pipe()
	served := make(chan struct{})
	go func() { defer close(served); n.serve(helix); helix.Close() }()
	t.Cleanup(func() { program.Close(); <-served })
	return program
}

// ask sends the text of a request and returns the answer.
func (n *network) ask(t *testing.T, text string) (*http.Response, string) {
	t.Helper()
	conn := n.connect(t)
	go io.WriteString(conn, text) //nolint:errcheck // the answer shows it
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestOnlyNamesOfHostsAreReached(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"CONNECT 169.254.169.254:443", "CONNECT [::1]:443", "CONNECT 127.0.0.1:443", "CONNECT 2130706433:443", "CONNECT 0x7f000001:443", "CONNECT 127.1:443", "CONNECT 0177.0.0.1:443",
		"CONNECT 0x7f.1:443", "CONNECT localhost:443", "CONNECT a.localhost:443", "CONNECT example.com", "CONNECT example.com:", "CONNECT example.com:0443", "CONNECT example.com:99999", "CONNECT exa_mple.com:443",
		"CONNECT :443", "CONNECT -a.com:443", "GET http://example.com/", "GET http://127.0.0.1:3000/", "GET http://user@localhost:3000/", "GET https://example.com/", "GET ftp://localhost/", "GET /", "GET /etc/passwd",
		"GET /https/127.0.0.1/x", "GET /https/localhost/x", "GET /https//x", "GET http://127.0.0.1:3128/", "GET http://127.0.0.1:3128/https/127.0.0.1/", "GET /https/user@example.com/x", "GET http://a.localhost:80/",
	} {
		a := &allowed{}
		n := newNetwork(t, a, func(http.ResponseWriter, *http.Request) { t.Error("it was reached") })
		if resp, _ := n.ask(t, text+" HTTP/1.1\r\nHost: x\r\n\r\n"); resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", text, resp.StatusCode)
		}
		if len(a.asked) > 0 {
			t.Errorf("%s: dialed %v", text, a.asked)
		}
	}
}

func TestTunnelNeedsTheAllowedNameInItsHandshake(t *testing.T) {
	t.Parallel()
	a := &allowed{host: "example.com", port: 443}
	n := newNetwork(t, a, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello "+r.URL.Path) })
	through := func(name string) (string, error) {
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: n.roots, ServerName: name},
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				conn := n.connect(t)
				if _, err := io.WriteString(conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"); err != nil {
					return nil, err
				}
				resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
				if err == nil && resp.StatusCode != http.StatusOK {
					err = fmt.Errorf("status %d", resp.StatusCode)
				}
				return conn, err
			},
		}}
		resp, err := client.Get("https://example.com/x")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	if got, err := through("example.com"); err != nil || got != "hello /x" {
		t.Fatalf("%q, %v", got, err)
	}
	if c := <-n.contacts; c.Host != "example.com" || c.BytesIn == 0 || c.BytesOut == 0 || c.Refused != "" {
		t.Errorf("%+v", c)
	}
	if got, err := through("example.org"); err == nil {
		t.Errorf("another name: %q", got)
	}
	if c := <-n.contacts; !strings.Contains(c.Refused, "example.org") || c.BytesOut != 0 {
		t.Errorf("%+v", c)
	}
	if resp, _ := n.ask(t, "CONNECT example.com:22 HTTP/1.1\r\nHost: example.com:22\r\n\r\n"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("port 22: %d", resp.StatusCode)
	}
}

func TestConnectionWithoutTLSIsCut(t *testing.T) {
	t.Parallel()
	a := &allowed{host: "example.com", port: 443}
	n := newNetwork(t, a, func(http.ResponseWriter, *http.Request) { t.Error("it was reached") })
	conn := n.connect(t)
	go io.WriteString(conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: internal\r\n\r\n") //nolint:errcheck // the end shows it
	all, err := io.ReadAll(conn)
	if err != nil || !bytes.HasSuffix(all, []byte("\r\n\r\n")) {
		t.Errorf("%q, %v", all, err)
	}
	if c := <-n.contacts; c.Refused == "" {
		t.Errorf("%+v", c)
	}
}

func TestSecretsAreFilledInOutsideAndRemovedFromAnswers(t *testing.T) {
	t.Parallel()
	const secret = `planted/secret "1"`
	a := &allowed{host: "example.com", port: 443, secret: secret}
	n := newNetwork(t, a, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secret || r.URL.Query().Get("key") != secret || r.Header.Get("Proxy-Connection") != "" {
			t.Errorf("%v %v", r.Header, r.URL)
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Echo", secret)
		fmt.Fprintf(w, "%s %s %s and %s, %q, %s, %s", r.Method, r.URL.EscapedPath(), body, secret, secret, url.QueryEscape(secret), url.PathEscape(secret))
	})
	resp, body := n.ask(t, "POST /https/example.com/a%20b?key=%7B%7Bsecret%3Aapi%2FKEY%3A1%7D%7D HTTP/1.1\r\nHost: 127.0.0.1:3128\r\nProxy-Connection: keep-alive\r\nAuthorization: Bearer {{secret:api/KEY:1}}\r\nContent-Length: 2\r\n\r\nhi")
	if resp.StatusCode != 200 || body != `POST /a%20b hi and [secret], "[secret]", [secret], [secret]` || resp.Header.Get("X-Echo") != "[secret]" {
		t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
	}
	if c := <-n.contacts; c.Path != "/a%20b" || c.Method != "POST" || c.Status != 200 || strings.Contains(fmt.Sprint(c), secret) {
		t.Errorf("%+v", c)
	}
	if resp, _ := n.ask(t, "GET /https/example.com/ HTTP/1.1\r\nHost: x\r\nX-Key: {{secret:OTHER}}\r\n\r\n"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("another secret: %d", resp.StatusCode)
	}
}

func TestRedirectsAreNotFollowedByHelix(t *testing.T) {
	t.Parallel()
	a := &allowed{host: "example.com", port: 443}
	n := newNetwork(t, a, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://169.254.169.254/latest/meta-data", http.StatusFound)
	})
	resp, _ := n.ask(t, "GET /https/example.com/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp.StatusCode != http.StatusFound || len(a.asked) != 1 {
		t.Errorf("%d, %v", resp.StatusCode, a.asked)
	}
}

func TestRunsHaveALimitOfTraffic(t *testing.T) {
	t.Parallel()
	a := &allowed{host: "example.com", port: 443}
	n := newNetwork(t, a, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<20)) }) //nolint:errcheck // it is cut
	n.in.Store(maxTraffic - 1000)
	conn := n.connect(t)
	go io.WriteString(conn, "GET /https/example.com/ HTTP/1.1\r\nHost: x\r\n\r\n") //nolint:errcheck // the end shows it
	if all, _ := io.ReadAll(conn); len(all) > 200_000 {
		t.Errorf("%d bytes", len(all))
	}
	if c := <-n.contacts; !strings.Contains(c.Refused, "100 MiB") {
		t.Errorf("%+v", c)
	}
	n.open.Store(maxConnections)
	if all, err := io.ReadAll(n.connect(t)); err != nil || len(all) > 0 {
		t.Errorf("one connection too many: %q, %v", all, err)
	}
}

func FuzzDestination(f *testing.F) {
	for _, s := range []string{"CONNECT example.com:443 HTTP/1.1\r\n\r\n", "GET http://localhost:80/ HTTP/1.1\r\n\r\n", "GET /https/a.b/c?d HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		to, err := destinationOf(req)
		if err != nil {
			return
		}
		if net.ParseIP(to.host) != nil || to.port < 1 || to.port > 65535 || strings.ContainsAny(to.host, " :@/%\\\x00") || (to.host == "localhost") != (req.Method != http.MethodConnect && !to.relayed) {
			t.Errorf("%+v", to)
		}
	})
}
