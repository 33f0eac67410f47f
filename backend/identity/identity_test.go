package identity

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
)

func TestScopeLattice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		have, want Scope
		ok         bool
	}{
		{Read, Read, true}, {Read, Write, false}, {Read, Approve, false}, {Read, Admin, false},
		{Write, Read, true}, {Write, Approve, false}, {Approve, Read, true}, {Approve, Write, false},
		{Admin, Read | Write | Approve | Admin, true}, {Write | Approve, Admin, false}, {None, Read, false}, {None, None, true},
	} {
		if got := c.have.Has(c.want); got != c.ok {
			t.Errorf("%v.Has(%v) = %v, want %v", c.have, c.want, got, c.ok)
		}
	}
}

func TestParseScopes(t *testing.T) {
	t.Parallel()
	s, bad := ParseScopes([]string{"operator.approvals", "write"})
	if bad != "" || !slices.Equal(s.Names(), []string{"read", "write", "approve"}) {
		t.Fatalf("s = %v, bad = %q", s, bad)
	}
	if _, bad := ParseScopes([]string{"read", "root"}); bad != "root" {
		t.Fatalf("bad = %q", bad)
	}
	if s, _ := ParseScopes(nil); s != None {
		t.Fatalf("empty = %v", s)
	}
}

func TestUserIDOutsideACall(t *testing.T) {
	t.Parallel()
	if UserID(context.Background()) != uuid.Nil {
		t.Fatal("want the nil user")
	}
	u := uuid.New()
	if UserID(With(context.Background(), Identity{User: u})) != u {
		t.Fatal("identity lost")
	}
}

// TestPerson checks every kind of client with every set of scopes: only the kind, and for a token
// the scope approve, makes a person, never the connection or the client's own label.
func TestPerson(t *testing.T) {
	t.Parallel()
	for _, scopes := range []Scope{None, Read, Write, Approve, Write | Approve, Admin} {
		approve := scopes.Has(Approve)
		for client, want := range map[Client]bool{
			ClientProgram: false, ClientWindow: true, ClientBrowser: true, ClientTerminal: true, ClientToken: approve, Client(200): false,
		} {
			for _, pipe := range []string{"", "bridge", "websocket", "http", "memory", "cli", "skills"} {
				id := Identity{User: uuid.New(), Scopes: scopes, Client: client, Label: "helix-cli", Pipe: pipe}
				if id.Person() != want || id.MayApprove() != (want && approve) {
					t.Errorf("%v with %v over %q: person %v, may approve %v", client, scopes, pipe, id.Person(), id.MayApprove())
				}
				if id.User = uuid.Nil; id.Person() {
					t.Errorf("%v: nobody is a person", client)
				}
			}
		}
	}
	if (Identity{User: uuid.New(), Scopes: Admin}).Person() {
		t.Error("who does not say who calls is a person")
	}
}
