// Package netgate decides which addresses calls of built-ins may access, and sends their requests. It is a
// separate package so that packages that only provide callables do not depend on the network.
package netgate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/safehttp"
)

// AnyHost is the capability of a call whose address is known only when it is sent.
const AnyHost = "network:https(host of the url)"

// Gate decides what the built-in Step may access. Its subject is the step together with one
// resource, because what it accesses is only known when it is called. The permission for one host
// does not apply to another.
type Gate struct {
	callable.Gate
	Step string
}

func (g *Gate) subject(c permission.Capability, resource string) permission.Subject {
	return callable.BuiltinSubject(g.Step + " " + permission.FormatCapability(c, resource))
}

// Subject implements permission.Source.
func (g *Gate) Subject(_ context.Context, _, id string) (permission.SubjectInfo, error) {
	name, text, ok := strings.Cut(id, " ")
	capability, resource, err := permission.ParseCapability(text)
	if !ok || err != nil || name != g.Step || capability != permission.NetworkHTTPS && capability != permission.NetworkLocalhost {
		return permission.SubjectInfo{}, fault.NotFoundf("Step not found.")
	}
	doc, err := json.Marshal(map[string]string{"step": name, "reaches": text})
	if err != nil {
		return permission.SubjectInfo{}, err
	}
	return permission.SubjectInfo{
		Name: name, State: permission.Active, DefinitionHash: callable.BuiltinSubject(id).DefinitionHash, Definition: doc, Approved: true,
		Declared: []permission.Want{{Capability: capability, Resource: resource}},
	}, nil
}

// Reaches returns the capability that a request to u needs.
func Reaches(u *url.URL) (permission.Capability, string, error) {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if local := host == "localhost" || host == "127.0.0.1" || host == "::1"; local && (u.Scheme == "http" || u.Scheme == "https") {
		port := u.Port()
		if port == "" && u.Scheme == "https" {
			port = "443"
		}
		return permission.NetworkLocalhost, cmp.Or(port, "80"), nil
	}
	if u.Scheme != "https" {
		return "", "", fault.Deniedf("Only https addresses are allowed, and http on this computer.").WithDetails(callable.Refusal{Reason: permission.ReasonNever})
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p := u.Port(); p != "" && p != "443" {
		host += ":" + p
	}
	return permission.NetworkHTTPS, host, nil
}

// Allow decides whether the step may send to u and records the request before it is sent; see type Allow.
func (g *Gate) Allow(ctx context.Context, c *callable.Request, u *url.URL, _ bool, revoked context.CancelCauseFunc) (func(), error) {
	capability, resource, err := Reaches(u)
	if err != nil {
		return nil, err
	}
	if resource, err = permission.Normalize(capability, resource); err != nil {
		return nil, callable.RefusedAlways(err)
	}
	pass, err := g.Pass(ctx, c, callable.Reach{
		Name: g.Step, Subject: g.subject(capability, resource), Cap: capability, Resource: resource, Tier: permission.SideEffecting,
		Action: audit.NetworkCall, Details: map[string]any{"host": u.Host},
	})
	if err != nil {
		return nil, err
	}
	held, stop := pass.Context(ctx)
	unwatch := context.AfterFunc(held, func() { revoked(context.Cause(held)) })
	return func() { unwatch(); stop(); pass.End() }, nil
}

// Rights returns what the step needs and whether it is granted. An address that depends on the
// run's data is not known in advance, so an approval may be needed.
func (g *Gate) Rights(ctx context.Context, input json.RawMessage) (permission.PreviewResult, error) {
	var in struct{ URL *string }
	if json.Unmarshal(input, &in) != nil || in.URL == nil {
		return callable.Needs(callable.Info{Ref: callable.Ref{Kind: callable.Builtin, ID: g.Step}, Name: g.Step, Capabilities: []string{AnyHost}}), nil
	}
	u, err := url.Parse(*in.URL)
	if err != nil {
		return permission.PreviewResult{}, fault.Invalidf("The address isn't valid.")
	}
	capability, resource, err := Reaches(u)
	if err != nil {
		return permission.PreviewResult{}, err
	}
	if resource, err = permission.Normalize(capability, resource); err != nil {
		return permission.PreviewResult{}, err
	}
	return g.Permission.Preview(ctx, permission.PreviewParams{Subject: permission.PreviewSubject{Kind: string(callable.Builtin), ID: g.subject(capability, resource).ID}})
}

// Allow decides whether a call may send its request to u, and records it. It is called for the
// first address, before anything is sent, and with more set for each redirect. It calls revoked to
// end the request if the permission is revoked. The caller calls end when the request has ended.
type Allow = func(ctx context.Context, c *callable.Request, u *url.URL, more bool, revoked context.CancelCauseFunc) (end func(), err error)

// Client sends the requests of calls to allowed addresses.
type Client struct {
	http  *safehttp.Client
	allow Allow
}

// NewClient returns a client with the options o, except Check and AllowLoopback, which it sets.
// make is safehttp.New except in tests. If allow is nil nothing is sent.
func NewClient(o safehttp.Options, make func(safehttp.Options) *safehttp.Client, allow Allow) *Client {
	c := &Client{allow: allow}
	o.Check, o.AllowLoopback = c.check, func(int) bool { return true } // allow decides
	c.http = make(o)
	return c
}

// Close drops idle connections.
func (c *Client) Close() { c.http.Close() }

// sending is a call in progress.
type sending struct {
	call    *callable.Request
	sent    bool
	revoked context.CancelCauseFunc
	ends    []func()
}

type sendingKey struct{}

// check asks for permission for the first address and for every redirect.
func (c *Client) check(ctx context.Context, u *url.URL) error {
	s, ok := ctx.Value(sendingKey{}).(*sending)
	if !ok || c.allow == nil {
		return fault.Deniedf("Unexpected callback address.")
	}
	end, err := c.allow(ctx, s.call, u, s.sent, s.revoked)
	if err != nil {
		if s.sent { // the call has already started, so this is not a refusal
			f := *fault.As(err)
			f.Details = nil
			return &f
		}
		return err
	}
	s.sent, s.ends = true, append(s.ends, end)
	return nil
}

// Do sends the request r of call; see safehttp.Client.Do.
func (c *Client) Do(ctx context.Context, call *callable.Request, r safehttp.Request) (*safehttp.Response, error) {
	ctx, revoked := context.WithCancelCause(ctx)
	defer revoked(nil)
	s := &sending{call: call, revoked: revoked}
	defer func() {
		for _, end := range s.ends {
			end()
		}
	}()
	resp, err := c.http.Do(context.WithValue(ctx, sendingKey{}, s), r)
	if cause := context.Cause(ctx); err != nil && fault.Is(cause, fault.Denied) {
		return nil, fault.Deniedf("The permission to use this address was revoked.").WithCause(err)
	}
	return resp, err
}

// StatusError converts an error status to an error whose kind indicates whether a retry can
// succeed. safe means that the request has no effect at its destination.
func StatusError(resp *safehttp.Response, safe bool, now time.Time) error {
	kind := fault.Invalid
	switch s := resp.Status; {
	case s == http.StatusTooManyRequests:
		kind = fault.Limit
	case s == http.StatusGatewayTimeout && !safe: // what stands behind the gateway may have done it
		kind = fault.Timeout
	case s == http.StatusRequestTimeout:
		kind = fault.Unavailable
	case s == http.StatusNotFound || s == http.StatusGone:
		kind = fault.NotFound
	case s == http.StatusConflict || s == http.StatusPreconditionFailed:
		kind = fault.Conflict
	case s >= 500:
		kind = fault.Unavailable
	}
	host := resp.URL
	if u, err := url.Parse(resp.URL); err == nil {
		host = u.Host
	}
	f := fault.New(kind, "%s", strings.TrimSpace(fmt.Sprintf("%s answered %d %s", host, resp.Status, http.StatusText(resp.Status))))
	if kind == fault.Limit || kind == fault.Timeout || kind == fault.Unavailable {
		f.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
	}
	return f
}

// retryAfter parses a Retry-After header: seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, duration.Of(n, time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
