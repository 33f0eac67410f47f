package tools

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"helix/backend/audit"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/safehttp"
	"helix/backend/sandbox"
)

// Limits of one fetch.
const (
	maxRequestBody  = 1 << 20
	maxResponseBody = 5 << 20
	fetchTime       = 20 * time.Second
)

// callKey is the context key of the helix.fetch call, for the check of each address.
type callKey struct{}

// clients creates the two HTTP clients.
func (s *Service) clients() (web, direct *safehttp.Client) {
	o := safehttp.Options{MaxRequest: maxRequestBody, MaxBody: maxResponseBody, MaxRedirects: 5, Timeout: fetchTime, DenyPorts: s.o.OwnPort}
	if s.o.HTTP != nil {
		s.o.HTTP(&o)
	}
	direct = safehttp.New(o)
	o.Check = checkAddress
	o.AllowLoopback = func(int) bool { return true } // checkAddress has asked permission
	return safehttp.New(o), direct
}

// checkAddress asks permission for the first address and for every redirect.
func checkAddress(ctx context.Context, u *url.URL) error {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return fault.Deniedf("Unexpected callback address.")
	}
	if local, port := loopback(u); local {
		return c.allow(ctx, permission.NetworkLocalhost, port, audit.NetworkCall)
	}
	if u.Scheme != "https" {
		return (&fault.Error{Kind: fault.Denied, Message: "Only https addresses can be fetched, and http on this computer."}).
			WithDetails(sandbox.Refusal{Reason: sandbox.ReasonAddress, Resource: u.Host})
	}
	return c.allow(ctx, permission.NetworkHTTPS, hostPort(u), audit.NetworkCall)
}

// loopback reports whether a URL refers to this computer, and its port.
func loopback(u *url.URL) (bool, string) {
	h := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if h != "localhost" && h != "127.0.0.1" && h != "::1" {
		return false, ""
	}
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return true, port
}

// hostPort returns the resource for network:https. It includes the port unless that is 443.
func hostPort(u *url.URL) string {
	h := strings.ToLower(u.Hostname())
	if strings.Contains(h, ":") {
		h = "[" + h + "]"
	}
	if p := u.Port(); p != "" && p != "443" {
		return h + ":" + p
	}
	return h
}

// fetch performs one HTTP exchange for the tool.
func (h *host) fetch(ctx context.Context, c *call, p sandbox.FetchRequest) (sandbox.FetchResponse, error) {
	var out sandbox.FetchResponse
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" {
		return out, fault.Invalidf("%q is not an address that can be fetched.", lifecycle.Shorten(h.scrub(p.URL), 100))
	}
	body := []byte(nil)
	switch {
	case p.BodyBase64 != nil:
		if body, err = base64.StdEncoding.DecodeString(*p.BodyBase64); err != nil {
			return out, fault.Invalidf("The request body is not base64.")
		}
	case p.Body != nil:
		body = []byte(*p.Body)
	}
	if len(body) > maxRequestBody {
		return out, fault.Limitf("The request body has more than 1 MiB.")
	}
	r := safehttp.Request{Method: p.Method, Header: http.Header{}, Timeout: duration.Of(p.TimeoutMs, time.Millisecond)}
	used, err := h.fillRequest(ctx, u, p.Headers, body, &r)
	if err != nil {
		return out, err
	}
	if left, ok := ctx.Deadline(); ok && (r.Timeout == 0 || time.Until(left) < r.Timeout) {
		r.Timeout = max(time.Millisecond, min(fetchTime, time.Until(left)))
	}
	if len(used) > 0 {
		if err := h.e.record(ctx, audit.SecretUsed, audit.OK, map[string]any{"names": used, "host": hostPort(u)}); err != nil {
			return out, err
		}
	}
	resp, err := h.e.s.web.Do(context.WithValue(ctx, callKey{}, c), r)
	if err != nil {
		if f := fault.As(err); f.Kind == fault.Denied && f.Details == nil {
			reason := sandbox.ReasonAddress
			if errors.Is(err, safehttp.ErrRedirect) {
				reason = sandbox.ReasonCapability
			}
			err = (&fault.Error{Kind: fault.Denied, Message: f.Message, Err: f.Err}).WithDetails(sandbox.Refusal{Reason: reason, Resource: hostPort(u)})
		}
		return out, err
	}
	c.note("status", resp.Status)
	out.Status, out.URL, out.Headers = resp.Status, h.scrub(resp.URL), map[string]string{}
	for k, v := range resp.Header {
		out.Headers[strings.ToLower(k)] = h.scrub(strings.Join(v, ", "))
	}
	data := h.scrubBytes(resp.Body)
	if utf8.Valid(data) {
		out.Body = string(data)
	} else {
		out.BodyBase64 = base64.StdEncoding.EncodeToString(data)
	}
	return out, nil
}

// fillRequest replaces placeholders of secrets in the address, headers and body, and returns the
// names of the secrets used.
func (h *host) fillRequest(ctx context.Context, u *url.URL, headers map[string]string, body []byte, r *safehttp.Request) ([]string, error) {
	target := hostPort(u)
	if local, _ := loopback(u); local || u.Scheme != "https" {
		target = "" // a secret leaves only over https to a host on its list
	}
	used := map[string]bool{}
	fill := func(text string, escape func(string) string) (string, error) {
		return h.fill(ctx, target, text, escape, used)
	}
	query, err := fill(u.RawQuery, url.QueryEscape)
	if err != nil {
		return nil, err
	}
	filled := *u
	filled.RawQuery = query
	r.URL = filled.String()
	if strings.Contains(u.Path+u.Host+u.Fragment, placeholderPrefix) {
		return nil, fault.Invalidf("A secret can stand in headers, query and body of a request, not in its path.")
	}
	for k, v := range headers {
		text, err := fill(v, nil)
		if err != nil {
			return nil, err
		}
		if text != v {
			r.Sensitive = append(r.Sensitive, k)
		}
		r.Header.Set(k, text)
	}
	if body != nil {
		text, err := fill(string(body), nil)
		if err != nil {
			return nil, err
		}
		r.SensitiveBody = text != string(body)
		r.Body = []byte(text)
	}
	names := make([]string, 0, len(used))
	for n := range used {
		names = append(names, n)
	}
	return names, nil
}
