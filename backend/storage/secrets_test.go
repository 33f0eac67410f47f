package storage

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
)

func TestSecretsBelongToTheirUser(t *testing.T) {
	t.Parallel()
	db := openWith(t, filepath.Join(t.TempDir(), "helix.db"), &memRoot{})
	b, err := db.AddUser(t.Context(), "B")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSecrets(db)
	var audited []string
	db.o.Audit = func(_ *Tx, action string, details any) error {
		audited = append(audited, fmt.Sprint(action, details))
		return nil
	}
	s.SetUsedBy(func(context.Context) (map[string][]string, error) { return map[string][]string{"key": {"Fetch"}}, nil })
	ctxA, ctxB := asUser(t.Context(), db.LocalUser().ID), asUser(t.Context(), b.ID)
	for ctx, v := range map[context.Context]string{ctxA: "of A", ctxB: "of B"} {
		for range 2 { // the second time replaces
			if _, err := s.Set(ctx, SecretsSetParams{Name: "key", Value: v}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Set(ctxA, SecretsSetParams{Name: "another", Value: "x"}); err != nil {
		t.Fatal(err)
	}
	if l, err := s.List(ctxA, SecretsListParams{Limit: 1, Offset: 1}); err != nil || l.Total != 2 || len(l.Secrets) != 1 || l.Secrets[0].Name != "key" ||
		l.Secrets[0].SetAt.IsZero() || !slices.Equal(l.Secrets[0].UsedBy, []string{"Fetch"}) {
		t.Errorf("list %+v, %v", l, err)
	}
	if l, err := s.List(ctxB, SecretsListParams{}); err != nil || l.Total != 1 || len(l.Secrets) != 1 {
		t.Errorf("B's list %+v, %v", l, err)
	}
	if _, err := s.Delete(ctxB, SecretsDeleteParams{Name: "another"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("B deletes A's: %v", err)
	}
	if _, err := s.Delete(ctxB, SecretsDeleteParams{Name: "key"}); err != nil {
		t.Error(err)
	}
	if v, err := s.Value(ctxA, "key"); err != nil || string(v) != "of A" {
		t.Errorf("A's value %q, %v", v, err)
	}
	if _, err := s.Value(ctxB, "key"); !fault.Is(err, fault.NotFound) {
		t.Errorf("B's value: %v", err)
	}
	for _, p := range []SecretsSetParams{{Name: "", Value: "v"}, {Name: "a b", Value: "v"}, {Name: "a", Value: ""}, {Name: "a", Value: strings.Repeat("x", maxSecret+1)}, {Name: strings.Repeat("n", 101), Value: "v"}} {
		if _, err := s.Set(ctxA, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.20q: %v", p.Name, err)
		}
	}
	if _, err := s.Set(t.Context(), SecretsSetParams{Name: "a", Value: "v"}); !fault.Is(err, fault.Denied) {
		t.Errorf("without a user: %v", err)
	}
	if _, err := s.List(ctxA, SecretsListParams{Limit: 101}); !fault.Is(err, fault.Invalid) {
		t.Errorf("limit 101: %v", err)
	}
	if strings.Contains(fmt.Sprint(audited), "of A") || len(audited) != 6 {
		t.Errorf("audit: %v", audited)
	}
}
