// Package identity says who is calling. The gateway puts an Identity into the context of
// every call, taken from a verified session and never from a parameter; services read it.
// Everything may import it.
package identity

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Scope is a right of a session. Read < Write < Admin and Read < Approve < Admin; Write and
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

// Names lists the closed set in the order read, write, approve, admin.
func (s Scope) Names() []string {
	out := []string{}
	for _, n := range scopeNames {
		if s.Closed()&n.s != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// String is the names joined by commas, or "none".
func (s Scope) String() string {
	if s == 0 {
		return "none"
	}
	return strings.Join(s.Names(), ",")
}

// ParseScopes reads scope names; it also accepts operator.read, operator.write,
// operator.approvals and operator.admin. bad is the first unknown name, or "".
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

// Client says who is behind a session, as the gateway knows it from how the session was let
// in; nothing that the client says of itself changes it.
type Client uint8

// The kinds of client. The zero value is a program, so that code that does not say who calls
// gets the fewest rights.
const (
	ClientProgram  Client = iota // tools, skills, schedules, containers, what runs in the background
	ClientWindow                 // the program's own window, over the bridge
	ClientBrowser                // a browser that came with a one-time ticket
	ClientTerminal               // the command line, with the root token or in this process
	ClientToken                  // whoever holds a token that was created for it
)

var clientNames = [...]string{"program", "window", "browser", "terminal", "token"}

// String is the name of the kind on the wire.
func (c Client) String() string {
	if int(c) < len(clientNames) {
		return clientNames[c]
	}
	return clientNames[ClientProgram]
}

// ClientNames lists every kind by its name on the wire.
func ClientNames() []string { return slices.Clone(clientNames[:]) }

// Identity is the verified caller of one session.
type Identity struct {
	User    uuid.UUID // whose rows the call may touch
	Session uuid.UUID
	Scopes  Scope
	Client  Client    // who calls; only this decides what is kept for people
	Token   uuid.UUID // the created token that let the session in, also through a ticket; else zero
	Label   string    // what the client calls itself; never checked
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

// UserID is the caller's user, or uuid.Nil outside a call: no row belongs to uuid.Nil, so
// code that forgets to set an identity sees nothing rather than everything.
func UserID(ctx context.Context) uuid.UUID {
	id, _ := From(ctx)
	return id.User
}

// Person reports whether a person makes the call: at the window, in a browser, in a terminal,
// or with a token that was made for answering approvals. Everything else is a program,
// whatever scopes it holds.
func (i Identity) Person() bool {
	switch i.Client {
	case ClientWindow, ClientBrowser, ClientTerminal:
		return i.User != uuid.Nil
	case ClientToken:
		return i.User != uuid.Nil && i.Scopes.Has(Approve)
	}
	return false
}

// MayApprove reports whether the caller may answer for what programs ask and vouch for what
// came from elsewhere: a person whose session holds the scope approve.
func (i Identity) MayApprove() bool { return i.Person() && i.Scopes.Has(Approve) }

// Source names where the call came from: the kind of the client and the token, or without one
// the session.
func (i Identity) Source() string {
	if i.Token != uuid.Nil {
		return i.Client.String() + ":" + i.Token.String()
	}
	return i.Client.String() + ":" + i.Session.String()
}
