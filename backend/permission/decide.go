package permission

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// concrete is a validated and resolved resource that a call wants.
type concrete struct {
	cap     Capability
	text    string // normalized, for people and for comparison
	host    host
	port    int
	bytes   int64
	path    string // resolved
	inState bool   // path is in the subject's own folder; stateRel is relative to it
	rel     string
}

// concrete validates a resource and resolves it on this machine. The error is Invalid.
func (s *Service) concrete(c Capability, resource string, sub Subject) (concrete, error) {
	r := concrete{cap: c}
	switch c {
	case FilesystemRead, FilesystemWrite:
		return s.concretePath(c, resource, sub)
	case NetworkHTTPS:
		h, err := parseHost(resource, false)
		r.host, r.text = h, h.String()
		return r, err
	case NetworkLocalhost:
		p, err := parsePorts(resource)
		if err != nil {
			return r, err
		}
		if p.from != p.to {
			return r, broken(string(c), resource, "port", "A call needs one port.")
		}
		if s.o.OwnPort != nil && s.o.OwnPort(p.from) {
			return r, broken(string(c), resource, "own_port", "Port %d belongs to Helix and cannot be granted.", p.from)
		}
		r.port, r.text = p.from, p.String()
		return r, nil
	case State:
		n, err := parseBytes(resource)
		r.bytes, r.text = n, formatBytes(n)
		return r, err
	case ToolCall, MCP:
		if strings.HasSuffix(resource, "*") {
			return r, broken(string(c), resource, "wildcard", "A call needs one tool.")
		}
	case Shell:
		if strings.HasSuffix(resource, anyArguments) {
			return r, broken(string(c), resource, "wildcard", "A call needs one command.")
		}
	}
	text, err := Normalize(c, resource)
	r.text = text
	return r, err
}

func (s *Service) concretePath(c Capability, resource string, sub Subject) (concrete, error) {
	r := concrete{cap: c}
	if resource == "" || len(resource) > maxResource || strings.ContainsFunc(resource, unprintable) || strings.HasSuffix(resource, "/**") {
		return r, broken(string(c), resource, "path", "A call needs one path.")
	}
	for _, part := range strings.Split(filepath.ToSlash(resource), "/") {
		if part == ".." {
			return r, broken(string(c), resource, "parent", "A path must not contain .. .")
		}
	}
	sp := s.space()
	p := filepath.ToSlash(resource)
	if rest, ok := strings.CutPrefix(p, "~"); ok && (rest == "" || rest[0] == '/') {
		p = "$HOME" + rest
	}
	p, ok := sp.expand(p, sub)
	if !ok || !filepath.IsAbs(filepath.FromSlash(p)) {
		return r, broken(string(c), resource, "absolute", "A path must be absolute.")
	}
	path, err := resolve(p)
	if err != nil {
		return r, broken(string(c), resource, "unresolvable", "The path does not exist.")
	}
	if sp.ours(path, sub) {
		return r, broken(string(c), resource, "own_folder", "This folder belongs to Helix and cannot be granted.")
	}
	r.path, r.text = path, filepath.ToSlash(path)
	if sp.state != nil {
		if st := sp.state(sub); st != "" {
			if root, err := resolve(st); err == nil && within(root, path) {
				r.inState = true
				r.rel = strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(path, root)), "/")
			}
		}
	}
	if c == FilesystemWrite && !r.inState {
		return r, broken(string(c), resource, "write", "Writing is possible only inside the tool's own $STATE folder.")
	}
	return r, nil
}

// rule is a compiled pattern.
type rule struct {
	cap   Capability
	raw   string
	any   bool // matches every resource of cap
	none  bool // matches nothing on this machine
	host  host
	ports ports
	bytes int64
	path  string // resolved, or relative to the subject's state folder
	state bool   // path is below $STATE
	tree  bool
}

// compile compiles a normalized pattern. A pattern that cannot be parsed matches nothing.
func compile(c Capability, raw string, sp *space, sub Subject) rule {
	r := rule{cap: c, raw: raw}
	var err error
	switch c {
	case FilesystemRead, FilesystemWrite:
		if rest, ok := strings.CutPrefix(raw, "$STATE/"); ok {
			r.state = true
			if rest == "**" {
				r.tree = true
			} else {
				r.path, r.tree = strings.CutSuffix(rest, "/**")
			}
			return r
		}
		var ok bool
		r.path, r.tree, ok = sp.pattern(raw, sub)
		r.none = !ok
	case NetworkHTTPS:
		r.host = splitHost(raw)
	case NetworkLocalhost:
		r.ports, err = parsePorts(raw)
	case State:
		r.bytes, err = parseBytes(raw)
	}
	r.none = r.none || err != nil
	return r
}

// has reports whether the rule matches the resource.
func (r *rule) has(c *concrete) bool {
	if r.none || !implies(r.cap, c.cap) {
		return false
	}
	if r.any || r.cap == State && c.cap == FilesystemWrite {
		return true
	}
	switch c.cap {
	case FilesystemRead, FilesystemWrite:
		if r.state {
			return c.inState && (r.path == c.rel || r.tree && (r.path == "" || strings.HasPrefix(c.rel, r.path+"/")))
		}
		if r.tree {
			return within(r.path, c.path)
		}
		return r.path == c.path || foldPaths && strings.EqualFold(r.path, c.path)
	case NetworkHTTPS:
		return r.host.covers(c.host)
	case NetworkLocalhost:
		return r.ports.from <= c.port && c.port <= r.ports.to
	case State:
		return c.bytes <= r.bytes
	}
	return Covers(c.cap, r.raw, c.text)
}

// covers reports whether r matches every resource that o matches.
func (r *rule) covers(o *rule) bool {
	if r.none || o.none || !implies(r.cap, o.cap) {
		return false
	}
	if r.any || r.cap == State && o.cap == FilesystemWrite {
		return true
	}
	switch o.cap {
	case FilesystemRead, FilesystemWrite:
		if r.state != o.state {
			return false
		}
		if !r.tree {
			return !o.tree && r.path == o.path
		}
		if r.state {
			return r.path == "" || r.path == o.path || strings.HasPrefix(o.path, r.path+"/")
		}
		return within(r.path, o.path)
	case NetworkHTTPS:
		return r.host.covers(o.host)
	case NetworkLocalhost:
		return r.ports.from <= o.ports.from && o.ports.to <= r.ports.to
	case State:
		return o.bytes <= r.bytes
	}
	return Covers(o.cap, r.raw, o.raw)
}

// in is has for a pattern that is not compiled.
func (c *concrete) in(have Capability, pattern string, sp *space, sub Subject) bool {
	r := compile(have, pattern, sp, sub)
	return r.has(c)
}

// grant holds the columns of a row of capability_grants that the rules need.
type grant struct {
	rule
	id        uuid.UUID
	hash      [32]byte
	scope     string
	run       uuid.UUID
	session   uuid.UUID
	uses      int64
	expires   int64 // microseconds, 0: never
	revoked   bool
	suspended bool
	origin    string
	created   int64
}

// live reports whether g is active at now for this definition.
func (g *grant) live(now int64, hash [32]byte) bool {
	return !g.revoked && !g.suspended && (g.expires == 0 || now < g.expires) && g.hash == hash
}

// input is the complete input of the rules, which use no clock, database or files.
type input struct {
	malformed   error  // why the resource can never be granted; nil: it can
	state       string // of the subject; "": unknown
	definition  bool   // the definition is approved
	hash        [32]byte
	res         concrete
	tier        Tier
	denials     []rule
	declared    []rule
	callerLacks bool
	grants      []grant
	run         uuid.UUID
	session     uuid.UUID
	now         int64 // microseconds
}

// decide applies the rules in order. The first that matches determines the decision.
func decide(in *input) (d Decision, g *grant) {
	c := in.res.cap
	switch {
	case in.malformed != nil || !known(c):
		return Decision{Effect: Deny, Reason: ReasonNever}, nil
	case in.state != Active:
		return Decision{Effect: Deny, Reason: ReasonInactive}, nil
	case !in.definition:
		return Decision{Effect: Deny, Reason: ReasonDefinitionChanged}, nil
	}
	for i := range in.denials {
		if in.denials[i].has(&in.res) {
			return Decision{Effect: Deny, Reason: ReasonDeniedByUser}, nil
		}
	}
	if c != Call && !slices.ContainsFunc(in.declared, func(r rule) bool { return r.has(&in.res) }) {
		return Decision{Effect: Deny, Reason: ReasonUndeclared}, nil
	}
	if in.callerLacks {
		return Decision{Effect: Deny, Reason: ReasonCallerLacks}, nil
	}
	for i := range in.grants {
		x := &in.grants[i]
		if x.live(in.now, in.hash) && in.fits(x) && x.has(&in.res) && (g == nil || g.scope == "once" && x.scope != "once") {
			g = x // prefer a lasting grant to using up a one-time grant
		}
	}
	if g != nil {
		return Decision{Effect: Allow, Reason: ReasonGranted, GrantID: g.id}, g
	}
	if c == Call && in.tier == ReadOnly {
		return Decision{Effect: Allow, Reason: ReasonReadOnly}, nil
	}
	return Decision{Effect: Ask, Reason: ReasonNeedsApproval}, nil
}

// fits reports whether the grant's scope includes this call.
func (in *input) fits(g *grant) bool {
	switch g.scope {
	case "once":
		return g.uses > 0 && (g.session == uuid.Nil || g.session == in.session)
	case "run":
		return g.run != uuid.Nil && g.run == in.run
	case "session":
		return g.session != uuid.Nil && g.session == in.session
	}
	return g.scope == "always"
}
