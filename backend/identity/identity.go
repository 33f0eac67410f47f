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

// Identity is the verified caller of one session.
type Identity struct {
	User    uuid.UUID // whose rows the call may touch
	Session uuid.UUID
	Scopes  Scope
	Client  string // label the client gave itself; never checked
	Pipe    string // how the call came: bridge, websocket, http, memory, cli, or what made it: skills, schedule, agent, …
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

// machines are the pipes of callers that are not people.
var machines = []string{"tool", "skill", "skills", "agent", "mcp", "channel", "schedule", "background", "container", "wasm"}

// Person reports whether a person makes the call, in a window, a browser or a terminal. What
// runs by itself (tools, skills, schedules, the agent, channels) is none, whatever scopes it
// holds.
func (i Identity) Person() bool { return i.User != uuid.Nil && !slices.Contains(machines, i.Pipe) }
