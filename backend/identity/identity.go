// Package identity identifies the caller. The gateway puts an Identity into the context of every
// call, from a verified session and never from a parameter; services read it. Any package may
// import it.
package identity

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Scope is a permission of a session. Read < Write < Admin and Read < Approve < Admin; Write and
// Approve do not imply each other.
type Scope uint8

// The scopes. None is for methods that need no session.
const (
	None    Scope = 0
	Read    Scope = 1 << 0
	Write   Scope = 1 << 1
	Approve Scope = 1 << 2
	Admin   Scope = 1 << 3
)

var scopeNames = []struct {
	s    Scope
	name string
	alt  string
}{{Read, "read", "operator.read"}, {Write, "write", "operator.write"}, {Approve, "approve", "operator.approvals"}, {Admin, "admin", "operator.admin"}}

// Closed returns s with every scope that it implies.
func (s Scope) Closed() Scope {
	if s&Admin != 0 {
		s |= Write | Approve
	}
	if s != 0 {
		s |= Read
	}
	return s
}

// Has reports whether s, with what it implies, contains all of want.
func (s Scope) Has(want Scope) bool { return s.Closed()&want == want }

// Names returns the names of s and the scopes that it implies, in the order read, write, approve,
// admin.
func (s Scope) Names() []string {
	out := []string{}
	for _, n := range scopeNames {
		if s.Closed()&n.s != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// String returns the names joined by commas, or "none".
func (s Scope) String() string {
	if s == 0 {
		return "none"
	}
	return strings.Join(s.Names(), ",")
}

// ParseScopes parses scope names; it also accepts operator.read, operator.write, operator.approvals
// and operator.admin. bad is the first unknown name, or "".
func ParseScopes(names []string) (s Scope, bad string) {
	for _, name := range names {
		i := slices.IndexFunc(scopeNames, func(n struct {
			s    Scope
			name string
			alt  string
		}) bool {
			return n.name == name || n.alt == name
		})
		if i < 0 {
			return 0, name
		}
		s |= scopeNames[i].s
	}
	return s.Closed(), ""
}

// Client is the kind of client behind a session. The gateway derives it from how the session was
// authenticated, not from what the client says about itself.
type Client uint8

// The kinds of client. The zero value is a program, so that code which does not set the kind has
// the fewest permissions.
const (
	ClientProgram  Client = iota // tools, skills, schedules, containers, background work
	ClientWindow                 // the program's own window, over the bridge
	ClientBrowser                // a browser that signed in with a one-time ticket
	ClientTerminal               // the command line, with the root token or in this process
	ClientToken                  // the holder of a token that was created for it
)

var clientNames = [...]string{"program", "window", "browser", "terminal", "token"}

// String returns the name of the kind on the wire.
func (c Client) String() string {
	if int(c) < len(clientNames) {
		return clientNames[c]
	}
	return clientNames[ClientProgram]
}

// ClientNames returns the names of all kinds on the wire.
func ClientNames() []string { return slices.Clone(clientNames[:]) }

// Identity is the verified caller of one session.
type Identity struct {
	User    uuid.UUID // whose rows the call may access
	Session uuid.UUID
	Scopes  Scope
	Client  Client    // who is calling; this alone decides what only people may do
	Token   uuid.UUID // the created token behind the session, directly or through a ticket; else zero
	Label   string    // how the client identifies itself; never verified
	Pipe    string    // how the call came: bridge, websocket, http, memory, or what made it: skills, schedule, background
}

type key struct{}

// With returns ctx carrying id.
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, key{}, id)
}

// From returns the caller. ok is false outside a call, for example in background work,
// which must name the user itself with With.
func From(ctx context.Context) (id Identity, ok bool) {
	id, ok = ctx.Value(key{}).(Identity)
	return id, ok
}

// UserID is the caller's user, or uuid.Nil outside a call: no row belongs to uuid.Nil, so code that
// forgets to set an identity sees nothing instead of everything.
func UserID(ctx context.Context) uuid.UUID {
	id, _ := From(ctx)
	return id.User
}

// Person reports whether a person makes the call: in the window, a browser or a terminal, or with a
// token that was created for answering approvals. Any other caller is a program, whatever its
// scopes.
func (i Identity) Person() bool {
	switch i.Client {
	case ClientWindow, ClientBrowser, ClientTerminal:
		return i.User != uuid.Nil
	case ClientToken:
		return i.User != uuid.Nil && i.Scopes.Has(Approve)
	}
	return false
}

// MayApprove reports whether the caller may answer approvals and vouch for content from outside: a
// person whose session has the scope approve.
func (i Identity) MayApprove() bool { return i.Person() && i.Scopes.Has(Approve) }

// Source returns where the call came from: the kind of the client and the token, or without a token
// the session.
func (i Identity) Source() string {
	if i.Token != uuid.Nil {
		return i.Client.String() + ":" + i.Token.String()
	}
	return i.Client.String() + ":" + i.Session.String()
}
