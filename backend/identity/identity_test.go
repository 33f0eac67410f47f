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

func TestPerson(t *testing.T) {
	t.Parallel()
	for pipe, want := range map[string]bool{
		"bridge": true, "websocket": true, "http": true, "memory": true, "cli": true,
		"skills": false, "schedule": false, "agent": false, "background": false, "wasm": false,
	} {
		if got := (Identity{User: uuid.New(), Scopes: Admin, Pipe: pipe}).Person(); got != want {
			t.Errorf("%s: %v", pipe, got)
		}
	}
	if (Identity{Pipe: "bridge"}).Person() {
		t.Error("nobody is a person")
	}
}
