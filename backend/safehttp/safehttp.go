// Package safehttp is an HTTP client for requests to untrusted URLs: from a tool, a specification,
// or a form with a model provider's address. It refuses private and special addresses when it
// dials, which prevents DNS rebinding. It follows redirects itself and checks each, and it limits
// sizes and time. Any package may import it.
package safehttp

import (
	"bytes"
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"helix/backend/fault"
)

// Options configure New. The zero value allows only https to public addresses.
type Options struct {
	// Check may refuse a URL. It is called for the first URL and for each redirect, before the name
	// is resolved. Its error is returned unchanged.
	Check func(ctx context.Context, u *url.URL) error
	// AllowLoopback reports whether a port of this machine may be reached, by http or https, if the
	// host of the URL is localhost, 127.0.0.1 or [::1]. nil: none.
	AllowLoopback func(port int) bool
	// DenyPorts reports ports of this machine that are refused regardless of AllowLoopback: Helix's
	// own. nil: none.
	DenyPorts func(port int) bool

	MaxRequest   int64         // bytes of a request's body; 0: 1 MiB
	MaxBody      int64         // bytes of a response's body after decompression; 0: 5 MiB
	MaxRedirects int           // 0: 5, negative: none
	Timeout      time.Duration // from the start to the last byte of the body; 0: 20 s
	UserAgent    string        // for requests that set none; empty: Helix

	Resolver *net.Resolver  // nil: the system's
	RootCAs  *x509.CertPool // nil: the system's
}

// Client sends requests. It is safe for use by many goroutines.
type Client struct {
	o  Options
	tr *http.Transport
	// private holds the connections of requests with AllowPrivate, so that no other request uses
	// one of them.
	private *http.Transport
	dialer  *net.Dialer
}

// Request is one exchange. Header names are canonical or not. Sensitive lists headers that contain
// secrets: like Authorization and Cookie, they are removed when a redirect leads to another host. A
// redirect that would send a SensitiveBody to another host is refused.
type Request struct {
	Method        string // empty: GET
	URL           string
	Header        http.Header
	Body          []byte
	Timeout       time.Duration // lowers Options.Timeout; 0: Options.Timeout
	Sensitive     []string
	SensitiveBody bool
	// AllowPrivate lets the request reach a private address, by https or http, because the user
	// allowed it for the host of this URL. Loopback, link-local and other special addresses are
	// still refused, and so is http to a public address.
	AllowPrivate bool
}

// Response is a complete response. URL is the final one, after redirects.
type Response struct {
	Status int
	URL    string
	Header http.Header
	Body   []byte
}

// The causes of a Denied error, for errors.Is.
var (
	ErrAddress  = errors.New("address not allowed")
	ErrScheme   = errors.New("scheme not allowed")
	ErrRedirect = errors.New("redirect not allowed")
)

// azureWire serves credentials on Azure machines and is in no registry of special addresses.
var azureWire = netip.MustParsePrefix("168.63.129.16/32")

// awsMetadata serves credentials too, and looks like a private address.
var awsMetadata = netip.MustParseAddr("fd00:ec2::254")

// New returns a client. Close it when it is no longer used.
func New(o Options) *Client {
	if o.MaxRequest == 0 {
		o.MaxRequest = 1 << 20
	}
	if o.MaxBody == 0 {
		o.MaxBody = 5 << 20
	}
	if o.MaxRedirects == 0 {
		o.MaxRedirects = 5
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	if o.UserAgent == "" {
		o.UserAgent = "Helix"
	}
	c := &Client{o: o}
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azureWire))
	dialer := &net.Dialer{
		Timeout: 10 * time.Second, Resolver: o.Resolver,
		ControlContext: func(ctx context.Context, network, address string, raw syscall.RawConn) error {
			return c.checkDial(ctx, guard, network, address, raw)
		},
	}
	c.dialer = dialer
	c.tr = newTransport(dialer, o)
	c.private = newTransport(dialer, o)
	return c
}

func newTransport(dialer *net.Dialer, o Options) *http.Transport {
	return &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 30 * time.Second,
		MaxIdleConns: 32, MaxIdleConnsPerHost: 6, MaxResponseHeaderBytes: 256 << 10,
	}
}

// Close closes idle connections.
func (c *Client) Close() {
	c.tr.CloseIdleConnections()
	c.private.CloseIdleConnections()
}

// Dial connects to a port of a host, for a caller that speaks to it itself. The address is checked as that of a
// request, and localhost is allowed for the ports of AllowLoopback.
func (c *Client) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	u := &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(port))}
	checked, err := c.checkURL(ctx, u)
	if err != nil {
		return nil, err
	}
	conn, err := c.dialer.DialContext(checked, "tcp", u.Host)
	if err != nil {
		return nil, failure(ctx, u, err, "did not accept a connection within", c.dialer.Timeout)
	}
	return conn, nil
}

// TLS returns a configuration for TLS on a connection of Dial. Set its ServerName.
func (c *Client) TLS() *tls.Config { return c.tr.TLSClientConfig.Clone() }

// loopbackKey marks the context of a request whose URL names this machine.
type loopbackKey struct{}

// privateKey is the context key of the scheme of a request with AllowPrivate.
type privateKey struct{}

// checkDial checks the address before the connection is made.
func (c *Client) checkDial(ctx context.Context, guard *ssrf.Guardian, network, address string, raw syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if ip := to.Addr(); ip.IsLoopback() && !ip.Is4In6() && ctx.Value(loopbackKey{}) == true {
		if c.loopbackAllowed(int(to.Port())) {
			return nil
		}
		return ErrAddress
	}
	if scheme, ok := ctx.Value(privateKey{}).(string); ok && !to.Addr().IsLoopback() {
		if ip := to.Addr(); ip.IsPrivate() && !ip.Is4In6() && ip != awsMetadata {
			return nil
		}
		if scheme != "https" { // in the clear only on one's own network
			return ErrAddress
		}
	}
	if err := guard.Safe(network, address, raw); err != nil {
		return fmt.Errorf("%w: %w", ErrAddress, err)
	}
	return nil
}

func (c *Client) loopbackAllowed(port int) bool {
	if c.o.DenyPorts != nil && c.o.DenyPorts(port) {
		return false
	}
	return c.o.AllowLoopback != nil && c.o.AllowLoopback(port)
}

// Do sends r and reads the whole response, following redirects. A status of 400 or above is not an
// error. Errors: Invalid for a bad request, Denied for a target that is not allowed (with
// ErrAddress, ErrScheme or ErrRedirect as cause), Limit for a body over its limit or too many
// redirects, Timeout, Canceled, and Unavailable for network errors.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	limit := c.o.Timeout
	if r.Timeout > 0 {
		limit = min(limit, r.Timeout)
	}
	failed := func(u *url.URL, err error) error {
		return failure(ctx, u, err, "did not answer completely within", limit)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, u, err := c.exchange(limited, r, nil, failed)
	if err != nil {
		return nil, err
	}
	out, err := c.read(u, resp)
	if err != nil {
		return nil, failed(u, err)
	}
	return out, nil
}

// exchange sends r and follows redirects to the final response, whose body the caller must read and
// close. stream, if not nil, is the body of the request, which can be sent only once. failed
// converts network errors to coded errors.
func (c *Client) exchange(ctx context.Context, r Request, stream io.Reader, failed func(*url.URL, error) error) (*http.Response, *url.URL, error) {
	if int64(len(r.Body)) > c.o.MaxRequest {
		return nil, nil, fault.Limitf("The request body is larger than %d bytes.", c.o.MaxRequest)
	}
	header, err := cleanHeader(r.Header)
	if err != nil {
		return nil, nil, err
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", c.o.UserAgent)
	}
	method, err := cleanMethod(r.Method)
	if err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, nil, fault.Invalidf("The URL isn't valid.").WithCause(err)
	}
	if r.AllowPrivate {
		ctx = context.WithValue(ctx, privateKey{}, u.Scheme)
	}
	body := r.Body
	for hops := 0; ; hops++ {
		reader := stream
		if reader == nil && body != nil {
			reader = bytes.NewReader(body)
		}
		resp, err := c.send(ctx, method, u, header, reader)
		if err != nil {
			return nil, nil, failed(u, err)
		}
		next, err := redirect(u, resp)
		if next == nil && err == nil {
			return resp, u, nil
		}
		resp.Body.Close()
		if err != nil {
			return nil, nil, err
		}
		if hops >= c.o.MaxRedirects {
			return nil, nil, fault.Limitf("%s redirects more than %d times.", u.Hostname(), max(c.o.MaxRedirects, 0))
		}
		if stream != nil {
			return nil, nil, fault.Deniedf("%s redirects a request whose body can only be sent once.", u.Hostname()).WithCause(ErrRedirect)
		}
		header = header.Clone() // the transport may still read the header of the last hop
		method, body = redirectedMethod(method, body, resp.StatusCode, header)
		if !sameHost(u, next) {
			if r.AllowPrivate {
				return nil, nil, fault.Deniedf("%s redirects to another host, but private addresses were only allowed for this one.", u.Hostname()).WithCause(ErrRedirect)
			}
			header = forOtherHost(header, r.Sensitive)
			if r.SensitiveBody && body != nil {
				return nil, nil, fault.Deniedf("%s redirects a request with a secret in its body to another host.", u.Hostname()).WithCause(ErrRedirect)
			}
		}
		if u.Scheme == "https" && next.Scheme != "https" {
			return nil, nil, fault.Deniedf("%s redirects to an unencrypted address.", u.Hostname()).WithCause(ErrScheme)
		}
		u = next
	}
}

// send sends the request of one hop.
func (c *Client) send(ctx context.Context, method string, u *url.URL, header http.Header, body io.Reader) (*http.Response, error) {
	ctx, err := c.checkURL(ctx, u)
	if err != nil {
		return nil, err
	}
	target := *u
	target.Fragment, target.RawFragment = "", ""
	req, err := http.NewRequestWithContext(ctx, method, "", body)
	if err != nil {
		return nil, fault.Invalidf("Couldn't send the request.").WithCause(err)
	}
	req.URL, req.Host, req.Header = &target, target.Host, header // exactly the URL that was checked
	if ctx.Value(privateKey{}) != nil {
		return c.private.RoundTrip(req)
	}
	return c.tr.RoundTrip(req)
}

// checkURL checks the text of a URL; addresses are checked when dialing.
func (c *Client) checkURL(ctx context.Context, u *url.URL) (context.Context, error) {
	host := u.Hostname()
	if host == "" || u.Opaque != "" {
		return nil, fault.Invalidf("The URL has no host.")
	}
	if u.User != nil {
		return nil, fault.Invalidf("The URL contains a user name or password, which isn't allowed.")
	}
	port, err := portOf(u)
	if err != nil {
		return nil, err
	}
	if c.o.Check != nil {
		if err := c.o.Check(ctx, u); err != nil {
			return nil, err
		}
	}
	local := isLoopbackName(host)
	if local && !c.loopbackAllowed(port) {
		return nil, fault.Deniedf("Connections to port %d on this computer aren't allowed.", port).WithCause(ErrAddress)
	}
	private := ctx.Value(privateKey{}) == "http" // whether the address is one, dialing shows
	if u.Scheme != "https" && !(u.Scheme == "http" && (local || private)) {
		return nil, fault.Deniedf("Only https addresses are allowed, not %s.", schemeName(u)).WithCause(ErrScheme)
	}
	return context.WithValue(ctx, loopbackKey{}, local), nil
}

func schemeName(u *url.URL) string {
	if u.Scheme == "" {
		return "an address without a scheme"
	}
	return u.Scheme
}

func portOf(u *url.URL) (int, error) {
	p := u.Port()
	if p == "" {
		if strings.HasSuffix(u.Host, ":") {
			return 0, fault.Invalidf("The URL has an empty port.")
		}
		if u.Scheme == "http" {
			return 80, nil
		}
		return 443, nil
	}
	n, err := strconv.Atoi(p)
	if err != nil || n < 1 || n > 65535 {
		return 0, fault.Invalidf("The URL has no usable port.")
	}
	return n, nil
}

// isLoopbackName reports whether the host of a URL is this machine, without resolving it.
func isLoopbackName(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() && !ip.Is4In6()
}

func (c *Client) read(u *url.URL, resp *http.Response) (*Response, error) {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, c.o.MaxBody+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > c.o.MaxBody {
		return nil, fault.Limitf("The response from %s is larger than %d bytes.", u.Hostname(), c.o.MaxBody)
	}
	return &Response{Status: resp.StatusCode, URL: u.String(), Header: resp.Header, Body: b}, nil
}

// failure converts an error to a coded error. The end of the caller's context is not a time limit;
// exceeded and limit describe the limit that was reached.
func failure(parent context.Context, u *url.URL, err error, exceeded string, limit time.Duration) error {
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, ErrAddress):
		return fault.Deniedf("Connections to the address of %s aren't allowed.", u.Hostname()).WithCause(err)
	case parent.Err() != nil:
		return fault.As(parent.Err())
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fault.New(fault.Timeout, "%s %s %s.", u.Hostname(), exceeded, limit).WithCause(err)
	}
	return fault.Unavailablef("Couldn't reach %s.", u.Hostname()).WithCause(err)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
