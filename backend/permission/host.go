package permission

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// host is a pattern for network:https. A wildcard matches one or more labels, and never the bare domain.
type host struct {
	wild bool
	name string // lower case, punycode, no trailing dot
	port int
}

func (h host) String() string {
	if h.name == "" {
		return ""
	}
	s := h.name
	if h.wild {
		s = "*." + s
	}
	if h.port != 443 {
		s += ":" + strconv.Itoa(h.port)
	}
	return s
}

// covers reports whether h matches every address that o matches.
func (h host) covers(o host) bool {
	if h.port != o.port {
		return false
	}
	if !h.wild {
		return !o.wild && h.name == o.name
	}
	if o.wild && h.name == o.name {
		return true
	}
	return len(o.name) > len(h.name) && strings.HasSuffix(o.name, h.name) && o.name[len(o.name)-len(h.name)-1] == '.'
}

// splitHost splits a pattern that is already normalized, without validating it again. For anything
// else the result is unspecified.
func splitHost(s string) host {
	h := host{port: 443}
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		h.port, _ = parsePort(s[i+1:])
		s = s[:i]
	}
	h.name, h.wild = strings.CutPrefix(s, "*.")
	return h
}

// toASCII maps a name like browsers do before they resolve it (UTS 46, non-transitional).
var toASCII = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(true), idna.BidiRule(), idna.CheckJoiners(true), idna.ValidateLabels(true))

// parseHost parses host, *.host and host:port. Without pattern, wildcards are rejected.
func parseHost(s string, pattern bool) (host, error) {
	in := s
	bad := func(rule, format string, args ...any) (host, error) {
		return host{}, broken(string(NetworkHTTPS), in, rule, format, args...)
	}
	s = strings.TrimSpace(s)
	if strings.Contains(s, "://") {
		return bad("scheme", "Write the host alone, without https:// in front.")
	}
	if strings.ContainsAny(s, "/\\?#@ \t%") {
		return bad("syntax", "%q is not a host: write it as api.example.com.", clip(s, 80))
	}
	h := host{port: 443}
	if strings.HasPrefix(s, "[") || strings.Count(s, ":") > 1 {
		return bad("ip", "Give the name of a host, not an IP address.")
	}
	if name, port, ok := strings.Cut(s, ":"); ok {
		n, valid := parsePort(port)
		if !valid {
			return bad("port", "A port is a number from 1 to 65535.")
		}
		s, h.port = name, n
	}
	if s, h.wild = strings.CutPrefix(s, "*."); h.wild && !pattern {
		return bad("wildcard", "A call needs an exact host.")
	}
	if strings.Contains(s, "*") || s == "" {
		return bad("wildcard", "A wildcard stands only at the front and before a name: *.example.com.")
	}
	name, err := toASCII.ToASCII(s)
	if again, aerr := toASCII.ToASCII(name); err != nil || aerr != nil || again != name { // the compared name must be the resolved name
		return bad("name", "%q is not a valid host name.", clip(s, 80))
	}
	name = strings.TrimSuffix(name, ".")
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 {
			return bad("name", "%q is not a valid host name.", clip(s, 80))
		}
	}
	if name == "" || len(name) > 253 {
		return bad("name", "%q is not a valid host name.", clip(s, 80))
	}
	// Resolvers take a name whose last label is digits, or 0x…, for an IPv4 address.
	last := labels[len(labels)-1]
	if _, err := netip.ParseAddr(name); err == nil || numeric(last) {
		return bad("ip", "Give the name of a host, not an IP address.")
	}
	suffix, icann := publicsuffix.PublicSuffix(name)
	if suffix == name && (h.wild || icann && len(labels) > 1) {
		return bad("public_suffix", "%q is shared by unrelated owners: name a host below it.", name)
	}
	switch {
	case last == "localhost":
		return bad("localhost", "For this computer use network:localhost(port).")
	case len(labels) == 1, last == "local", last == "internal", last == "lan", last == "intranet", last == "home", last == "corp",
		strings.HasSuffix(name, ".home.arpa"), last == "onion":
		return bad("private", "%q is a name inside a private network, which cannot be granted.", clip(name, 80))
	}
	h.name = name
	return h, nil
}

func numeric(label string) bool {
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
