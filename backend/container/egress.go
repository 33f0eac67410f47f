package container

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"helix/backend/container/guest"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/lazyregexp"
)

// Egress makes the connections of a container. It decides about each by the permissions of the run, resolves the
// name itself and checks the address. Port 443 of a name other than localhost, or another one that it allows, carries
// TLS; localhost carries plain HTTP.
type Egress interface {
	Dial(ctx context.Context, host string, port int) (net.Conn, error)
	// Secret returns a secret that may be sent to a host.
	Secret(ctx context.Context, host, name string) (string, error)
}

// Contact is one connection that a container made or asked for.
type Contact struct {
	Host     string
	Port     int
	Method   string // CONNECT, or that of a request that Helix made
	Path     string // of such a request, without its query
	Status   int    // of its answer
	BytesOut int64
	BytesIn  int64
	Duration time.Duration
	Refused  string // why there was no connection
}

// Limits of the network of one run.
const (
	maxConnections = 64
	maxTraffic     = 100 << 20 // bytes, in each direction
	connectTime    = 20 * time.Second
	idleTime       = 60 * time.Second
	maxHead        = 64 << 10 // bytes of a request before its body
	maxRelayed     = 10 << 20 // bytes of an answer that may contain a secret
)

// proxy serves the connections of one container.
type proxy struct {
	ctx       context.Context
	egress    Egress
	contacted func(Contact) // nil: nothing is called
	roots     *tls.Config   // for requests that Helix makes; nil: the system's
	open      atomic.Int64
	out, in   atomic.Int64
}

var proxyAddress = fmt.Sprintf("127.0.0.1:%d", guest.ProxyPort)

// proxyEnvironment returns the variables by which programs find the proxy.
func proxyEnvironment() []string {
	address := "http://" + proxyAddress
	return []string{"HTTP_PROXY=" + address, "http_proxy=" + address, "HTTPS_PROXY=" + address, "https_proxy=" + address, "NO_PROXY=", "no_proxy=", "HELIX_EGRESS_URL=" + address}
}

// serve answers one connection of the container. It returns when both sides have ended.
func (p *proxy) serve(s io.ReadWriteCloser) {
	defer p.open.Add(-1)
	if p.open.Add(1) > maxConnections {
		return
	}
	stop := context.AfterFunc(p.ctx, func() { s.Close() }) //nolint:errcheck // it has ended then
	defer stop()
	late := time.AfterFunc(connectTime, func() { s.Close() }) //nolint:errcheck // it has ended then
	limited := &io.LimitedReader{R: s, N: maxHead}
	r := bufio.NewReader(limited)
	req, err := http.ReadRequest(r)
	late.Stop()
	if err != nil {
		refuse(s, http.StatusBadRequest, "The request can't be read.")
		return
	}
	limited.N = maxTraffic
	to, err := destinationOf(req)
	if err != nil {
		p.report(Contact{Host: clip(req.Host, 300), Method: clip(req.Method, 20), Refused: fault.As(err).Message})
		refuse(s, http.StatusForbidden, fault.As(err).Message)
		return
	}
	began := time.Now()
	contact := Contact{Host: to.host, Port: to.port, Method: req.Method}
	switch {
	case to.relayed:
		contact.Path = to.path
		err = p.request(s, req, to, &contact)
	case req.Method == http.MethodConnect:
		err = p.tunnel(s, r, to, &contact)
	default:
		err = p.plain(s, req, to, &contact)
	}
	contact.Duration = time.Since(began)
	if err != nil {
		contact.Refused = fault.As(err).Message
	}
	p.report(contact)
}

func (p *proxy) report(c Contact) {
	if p.contacted != nil {
		p.contacted(c)
	}
}

func refuse(w io.Writer, status int, why string) {
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(why), why) //nolint:errcheck // the program is gone then
}

// destination is where a request goes.
type destination struct {
	host    string
	port    int
	relayed bool // Helix makes the request itself, over TLS
	path    string
	query   string
}

var hostPattern = lazyregexp.New(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// destinationOf reads where a request goes. Addresses in numbers are refused in every spelling: permissions are about
// names.
func destinationOf(r *http.Request) (to destination, err error) {
	address, fallback := "", ""
	own := r.URL.Scheme == "http" && r.URL.Host == proxyAddress || r.URL.Scheme == "" && r.URL.Host == "" // programs ask the proxy for itself too
	switch {
	case r.Method == http.MethodConnect:
		address = r.Host
	case r.URL.Scheme == "http" && !own && r.URL.Opaque == "":
		address, fallback = r.URL.Host, "80"
	case own && strings.HasPrefix(r.URL.Path, "/https/"):
		rest := strings.TrimPrefix(r.URL.EscapedPath(), "/https/")
		address, to.path, _ = strings.Cut(rest, "/")
		fallback, to.relayed, to.path, to.query = "443", true, "/"+to.path, r.URL.RawQuery
	default:
		return to, fault.Deniedf("Only CONNECT, http:// of localhost and /https/HOST/PATH are possible.")
	}
	if r.URL.User != nil {
		return to, fault.Deniedf("An address can't contain a user name.")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		if fallback == "" || strings.Contains(address, ":") {
			return to, fault.Deniedf("%.100q has no host and port.", address)
		}
		host, port = address, fallback
	}
	to.host = strings.TrimSuffix(strings.ToLower(host), ".")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return to, fault.Deniedf("%.20q is not a port.", port)
	}
	to.port = int(n)
	if isNumeric(to.host) || len(to.host) > 253 || !hostPattern().MatchString(to.host) {
		return to, fault.Deniedf("%.100q is not a name of a host. Addresses in numbers are refused.", host)
	}
	local := to.host == "localhost" || strings.HasSuffix(to.host, ".localhost")
	if plain := r.Method != http.MethodConnect && !to.relayed; plain != local || local && to.host != "localhost" {
		return to, fault.Deniedf("Hosts are reached over TLS, and only localhost without it.")
	}
	return to, nil
}

// isNumeric reports whether a host is an address, in one of the spellings that systems accept.
func isNumeric(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return true
	}
	return strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x")
}

func (p *proxy) dial(to destination) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, connectTime)
	defer cancel()
	return p.egress.Dial(ctx, to.host, to.port)
}

// errHello ends a handshake once its first message is known.
var errHello = errors.New("the hello is known")

// tunnel connects a program that speaks TLS itself. The name in its hello must be the one that was allowed.
func (p *proxy) tunnel(s io.ReadWriteCloser, r io.Reader, to destination, c *Contact) error {
	conn, err := p.dial(to)
	if err != nil {
		refuse(s, http.StatusForbidden, fault.As(err).Message)
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(s, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return nil //nolint:nilerr // the program is gone
	}
	late := time.AfterFunc(connectTime, func() { s.Close() }) //nolint:errcheck // it has ended then
	hello, name := serverName(r)
	late.Stop()
	if !strings.EqualFold(strings.TrimSuffix(name, "."), to.host) {
		return fault.Deniedf("The connection to %s names another server in its TLS handshake: %.100q.", to.host, name)
	}
	return p.relay(s, io.MultiReader(strings.NewReader(hello), r), conn, c)
}

// serverName reads the hello of a TLS client, and returns its bytes and the server that it names.
func serverName(r io.Reader) (read, name string) {
	var b strings.Builder
	err := tls.Server(helloConn{io.TeeReader(io.LimitReader(r, maxHead), &b)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, errHello
	}}).HandshakeContext(context.Background())
	if !errors.Is(err, errHello) {
		name = ""
	}
	return b.String(), name
}

// helloConn is a connection that can only be read.
type helloConn struct{ io.Reader }

func (helloConn) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }
func (helloConn) Close() error                     { return nil }
func (helloConn) LocalAddr() net.Addr              { return nil }
func (helloConn) RemoteAddr() net.Addr             { return nil }
func (helloConn) SetDeadline(time.Time) error      { return nil }
func (helloConn) SetReadDeadline(time.Time) error  { return nil }
func (helloConn) SetWriteDeadline(time.Time) error { return nil }

// plain passes one request on to a port of this computer.
func (p *proxy) plain(s io.ReadWriteCloser, req *http.Request, to destination, c *Contact) error {
	conn, err := p.dial(to)
	if err != nil {
		refuse(s, http.StatusForbidden, fault.As(err).Message)
		return err
	}
	defer conn.Close()
	req.Header.Del("Proxy-Connection")
	req.Header.Del("Proxy-Authorization")
	req.Close = true // one connection, one request: the next one is checked again
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(req.Write(pw)) }()
	defer pr.Close()
	return p.relay(s, pr, conn, c)
}

// relay copies in both directions until both have ended, nothing has moved for too long, or the run has
// transferred too much.
func (p *proxy) relay(s io.ReadWriteCloser, from io.Reader, conn net.Conn, c *Contact) error {
	idle := time.AfterFunc(idleTime, func() { conn.Close(); s.Close() }) //nolint:errcheck // they have ended then
	defer idle.Stop()
	stop := context.AfterFunc(p.ctx, func() { conn.Close() })
	defer stop()
	sent := make(chan error, 1)
	go func() {
		err := p.copy(conn, from, &p.out, &c.BytesOut, idle)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
			half.CloseWrite() //nolint:errcheck // it has ended then
		} else {
			conn.Close()
		}
		sent <- err
	}()
	err := p.copy(s, conn, &p.in, &c.BytesIn, idle)
	s.Close() //nolint:errcheck // it has ended then
	conn.Close()
	if serr := <-sent; err == nil {
		err = serr
	}
	if fault.Is(err, fault.Limit) {
		return err
	}
	return nil // either side may end at any time
}

// copy copies and counts. More than the run may transfer is an error.
func (p *proxy) copy(w io.Writer, r io.Reader, total *atomic.Int64, count *int64, idle *time.Timer) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			idle.Reset(idleTime)
			*count += int64(n)
			if total.Add(int64(n)) > maxTraffic {
				return fault.Limitf("The run transferred more than %d MiB.", maxTraffic>>20)
			}
			if _, werr := w.Write(buf[:n]); werr != nil {
				return nil //nolint:nilerr // the other side has ended
			}
		}
		if err != nil {
			return nil //nolint:nilerr // this side has ended
		}
	}
}

var placeholder = lazyregexp.New(`\{\{secret:([A-Za-z0-9][A-Za-z0-9_.:/-]{0,99})\}\}`) // every name that a secret can have

// request makes a request over TLS for a program: the only way to use a secret, which the program never sees.
func (p *proxy) request(s io.ReadWriteCloser, req *http.Request, to destination, c *Contact) error {
	var used []string
	var failed error
	fill := func(text string) string {
		return placeholder().ReplaceAllStringFunc(text, func(m string) string {
			v, err := p.egress.Secret(p.ctx, to.host, placeholder().FindStringSubmatch(m)[1])
			if err != nil {
				failed = err
				return ""
			}
			used = append(used, v)
			return v
		})
	}
	query := to.query
	if decoded, err := url.QueryUnescape(query); err == nil && placeholder().MatchString(decoded) {
		values, err := url.ParseQuery(query)
		if err != nil {
			refuse(s, http.StatusBadRequest, "The query can't be read.")
			return fault.Invalidf("The query can't be read.")
		}
		for _, list := range values {
			for i := range list {
				list[i] = fill(list[i])
			}
		}
		query = values.Encode()
	}
	header := http.Header{}
	for name, list := range req.Header {
		switch name {
		case "Connection", "Proxy-Connection", "Proxy-Authorization", "Keep-Alive", "Te", "Trailer", "Upgrade", "Accept-Encoding":
			continue
		}
		for _, v := range list {
			header.Add(name, fill(v))
		}
	}
	if failed != nil {
		refuse(s, http.StatusForbidden, fault.As(failed).Message)
		return failed
	}
	address := to.host
	if to.port != 443 {
		address = net.JoinHostPort(to.host, strconv.Itoa(to.port))
	}
	u, err := url.Parse("https://" + address + to.path)
	if err != nil {
		refuse(s, http.StatusBadRequest, "The address can't be read.")
		return fault.Invalidf("The address can't be read.")
	}
	u.RawQuery = query
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	idle := time.AfterFunc(idleTime, cancel)
	defer idle.Stop()
	var sent, received atomic.Int64
	defer func() { c.BytesOut, c.BytesIn = sent.Load(), received.Load() }()
	body := &countedBody{ReadCloser: req.Body, p: p, total: &p.out, count: &sent, idle: idle}
	out := (&http.Request{Method: req.Method, URL: u, Host: address, Header: header, Body: body, ContentLength: req.ContentLength}).WithContext(ctx)
	transport := &http.Transport{
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return p.dial(to) },
		TLSClientConfig: p.roots, DisableKeepAlives: true, DisableCompression: true, ResponseHeaderTimeout: idleTime, MaxResponseHeaderBytes: maxHead,
	}
	resp, err := transport.RoundTrip(out) // a redirect is the program's to follow, through here
	if err != nil {
		why := "Couldn't reach " + to.host + "."
		if f := (*fault.Error)(nil); errors.As(err, &f) {
			why = f.Message
		}
		refuse(s, http.StatusBadGateway, why)
		return fault.Unavailablef("%s", why).WithCause(err)
	}
	defer resp.Body.Close()
	c.Status = resp.StatusCode
	resp.Close, resp.Proto, resp.ProtoMajor, resp.ProtoMinor = true, "HTTP/1.1", 1, 1
	resp.Body = &countedBody{ReadCloser: resp.Body, p: p, total: &p.in, count: &received, idle: idle}
	if len(used) > 0 {
		if err := withoutSecrets(resp, used); err != nil {
			refuse(s, http.StatusBadGateway, fault.As(err).Message)
			return err
		}
	}
	if err := resp.Write(s); fault.Is(err, fault.Limit) {
		return err
	}
	return nil // the program may end at any time
}

// withoutSecrets removes secrets from an answer that repeats them.
func withoutSecrets(resp *http.Response, secrets []string) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRelayed+1))
	if err != nil {
		return fault.Unavailablef("The answer broke off.").WithCause(err)
	}
	if len(body) > maxRelayed {
		return fault.Limitf("The answer to a request with a secret is larger than %d MiB.", maxRelayed>>20)
	}
	pairs := []string{}
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, "[secret]", url.QueryEscape(s), "[secret]", url.PathEscape(s), "[secret]")
			if quoted, err := jcs.Marshal(s); err == nil { // in JSON
				pairs = append(pairs, string(quoted[1:len(quoted)-1]), "[secret]")
			}
		}
	}
	clean := strings.NewReplacer(pairs...)
	for _, list := range resp.Header {
		for i := range list {
			list[i] = clean.Replace(list[i])
		}
	}
	text := clean.Replace(string(body))
	resp.Body, resp.ContentLength, resp.TransferEncoding = io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
	resp.Header.Del("Content-Length")
	return nil
}

// countedBody counts what is read from it.
type countedBody struct {
	io.ReadCloser
	p     *proxy
	total *atomic.Int64
	count *atomic.Int64 // the body of a request may still be read after its answer
	idle  *time.Timer
}

// Read implements io.Reader.
func (b *countedBody) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	b.idle.Reset(idleTime)
	b.count.Add(int64(n))
	if b.total.Add(int64(n)) > maxTraffic {
		return n, fault.Limitf("The run transferred more than %d MiB.", maxTraffic>>20)
	}
	return n, err
}
