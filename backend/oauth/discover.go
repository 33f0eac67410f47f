package oauth

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"helix/backend/fault"
)

// Challenge is what a resource said when it refused a request without a token.
type Challenge struct {
	MetadataURL string
	Scopes      []string
}

// ParseChallenge reads the header WWW-Authenticate. What can't be read is left out, because a server
// can be found without it.
func ParseChallenge(header http.Header) Challenge {
	var out Challenge
	list, _ := oauthex.ParseWWWAuthenticate(header.Values("WWW-Authenticate")) //nolint:errcheck // see above
	for _, c := range list {
		if c.Scheme == "bearer" {
			out.MetadataURL = c.Params["resource_metadata"]
			out.Scopes = strings.Fields(c.Params["scope"])
		}
	}
	return out
}

// Discover finds the authorization server of a resource: by the metadata of the resource, else on its
// own host (RFC 9728, RFC 8414, OpenID Connect Discovery).
func (s *Service) Discover(ctx context.Context, resource string, c Challenge) (Server, error) {
	u, err := url.Parse(resource)
	if err != nil || u.Host == "" {
		return Server{}, fault.Invalidf("The address of the resource isn't valid.")
	}
	local := isLoopback(u)
	issuer := u.Scheme + "://" + u.Host
	out := Server{Local: local, Scopes: c.Scopes}
	meta, err := s.resource(ctx, u, local, c)
	if err != nil {
		return Server{}, err
	}
	if meta != nil {
		if len(meta.AuthorizationServers) > 0 {
			issuer = meta.AuthorizationServers[0]
		}
		if out.Resource = meta.Resource; len(out.Scopes) == 0 {
			out.Scopes = meta.ScopesSupported
		}
	}
	server, err := s.server(ctx, issuer, local, meta == nil)
	if err != nil {
		return Server{}, err
	}
	if server == nil {
		if meta != nil {
			return Server{}, fault.Unavailablef("%s doesn't describe how to sign in.", host(issuer))
		}
		// The first version of the protocol had fixed addresses.
		out.AuthorizeURL, out.TokenURL, out.RegisterURL = issuer+"/authorize", issuer+"/token", issuer+"/register"
		return out, nil
	}
	out.Issuer, out.AuthorizeURL, out.TokenURL, out.RegisterURL, out.RevokeURL = server.Issuer, server.AuthorizationEndpoint, server.TokenEndpoint, server.RegistrationEndpoint, server.RevocationEndpoint
	out.Methods, out.SendsIssuer = server.TokenEndpointAuthMethodsSupported, server.AuthorizationResponseIssParameterSupported
	return out, nil
}

// resource returns the metadata of a resource, or nil if it has none.
func (s *Service) resource(ctx context.Context, u *url.URL, local bool, c Challenge) (*oauthex.ProtectedResourceMetadata, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	root := u.Scheme + "://" + u.Host
	addresses := []string{root + wellKnown + strings.TrimRight(u.EscapedPath(), "/"), root + wellKnown}
	if c.MetadataURL != "" {
		addresses = []string{c.MetadataURL}
	}
	for _, address := range slices.Compact(addresses) {
		var meta oauthex.ProtectedResourceMetadata
		found, err := s.get(ctx, local, address, &meta)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if !covers(meta.Resource, u) {
			return nil, fault.Deniedf("The sign-in information of %s is for another resource (%s).", u.Host, shown(meta.Resource))
		}
		return &meta, nil
	}
	return nil, nil
}

// covers reports whether a resource identifier is that of u: the same address, or one above it.
func covers(resource string, u *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Scheme != u.Scheme || !strings.EqualFold(r.Host, u.Host) {
		return false
	}
	above := strings.TrimRight(r.EscapedPath(), "/")
	return above == strings.TrimRight(u.EscapedPath(), "/") || strings.HasPrefix(u.EscapedPath(), above+"/")
}

// server returns the metadata of an authorization server, or nil if it has none. With anyPath its issuer
// may have another path: the first version of the protocol looked for it at the root of the host only.
func (s *Service) server(ctx context.Context, issuer string, local, anyPath bool) (*oauthex.AuthServerMeta, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fault.Deniedf("The address of the authorization server (%s) isn't valid.", shown(issuer))
	}
	root, path := u.Scheme+"://"+u.Host, strings.TrimRight(u.EscapedPath(), "/")
	addresses := []string{root + "/.well-known/oauth-authorization-server" + path, root + "/.well-known/openid-configuration" + path, root + path + "/.well-known/openid-configuration"}
	for _, address := range slices.Compact(addresses) {
		var meta oauthex.AuthServerMeta
		found, err := s.get(ctx, local, address, &meta)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		switch {
		case strings.TrimRight(meta.Issuer, "/") != strings.TrimRight(issuer, "/") && !(anyPath && sameOrigin(meta.Issuer, u)):
			return nil, fault.Deniedf("%s says that it is another server (%s).", u.Host, shown(meta.Issuer))
		case !slices.Contains(meta.CodeChallengeMethodsSupported, "S256"):
			return nil, fault.Deniedf("%s doesn't support PKCE, without which a sign-in isn't safe.", u.Host)
		}
		return &meta, nil
	}
	return nil, nil
}

// sameOrigin reports whether an address has the scheme and host of u.
func sameOrigin(address string, u *url.URL) bool {
	a, err := url.Parse(address)
	return err == nil && a.Scheme == u.Scheme && strings.EqualFold(a.Host, u.Host)
}
