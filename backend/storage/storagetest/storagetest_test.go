package storagetest_test

import (
	"context"
	"path/filepath"
	"testing"

	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

func TestTwoUsersOfOneDatabase(t *testing.T) {
	t.Parallel()
	db := storagetest.Open(t)
	a, b := storagetest.Ctx(t, db), storagetest.OtherUser(t, db)
	if identity.UserID(a) != db.LocalUser().ID || identity.UserID(a) == identity.UserID(b) {
		t.Fatal("the users are not two")
	}
	for ctx, s := range map[string]identity.Scope{"a": mustFrom(t, a).Scopes, "b": mustFrom(t, b).Scopes} {
		if !s.Has(identity.Admin) {
			t.Errorf("%s has the scopes %s", ctx, s)
		}
	}
	if _, err := db.Sign([]byte("x")); err != nil {
		t.Errorf("no keys: %v", err)
	}
}

func TestOpenAtOpensAgain(t *testing.T) {
	t.Parallel()
	root, path := storagetest.NewRoot(), filepath.Join(t.TempDir(), "helix.db")
	db := storagetest.OpenAt(t, path, root)
	ctx := storagetest.Ctx(t, db)
	if _, err := storage.NewSecrets(db).Set(ctx, storage.SecretsSetParams{Name: "n", Value: "v"}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = storagetest.OpenAt(t, path, root)
	if v, err := storage.NewSecrets(db).Value(storagetest.Ctx(t, db), "n"); err != nil || string(v) != "v" {
		t.Errorf("value %q, %v", v, err)
	}
}

func mustFrom(t *testing.T, ctx context.Context) identity.Identity {
	t.Helper()
	id, ok := identity.From(ctx)
	if !ok {
		t.Fatal("no identity")
	}
	return id
}
