package discovery

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

// Whatever takes the right to run away does so for the very next run, although the description and
// the grants of the tool are cached.
func TestNextRunIsRefusedAlthoughTheToolIsCached(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(e *env, id uuid.UUID) error{
		"revoked grants": func(e *env, id uuid.UUID) error {
			_, err := e.perm.Revoke(e.ctx, permission.RevokeParams{SubjectID: id.String()})
			return err
		},
		"a changed definition": func(e *env, id uuid.UUID) error {
			_, err := e.s.Upgrade(e.ctx, UpgradeParams{ManifestID: id, Content: strings.Replace(e.spec, "Lists notes.", "Lists all notes.", 1)})
			return err
		},
		"a definition that isn't the stored one": func(e *env, id uuid.UUID) error {
			return e.db.Write(e.ctx, func(tx *storage.Tx) error {
				_, err := tx.Exec(`UPDATE tool_manifest SET manifest = replace(manifest, 'Lists notes.', 'Lists all notes.') WHERE id = ?`, id)
				return err
			})
		},
		"a tool that is off": func(e *env, id uuid.UUID) error {
			_, err := e.s.SetEnabled(e.ctx, EnableParams{ManifestID: id})
			return err
		},
		"a revoked tool": func(e *env, id uuid.UUID) error {
			_, err := e.s.Revoke(e.ctx, RevokeParams{ManifestID: id})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			id := e.tool(true)
			paths := map[string]func() error{
				"run": func() error { _, err := e.run(id, "listNotes", `{}`); return err },
				"call": func() error {
					_, err := e.reg.Call(e.ctx, callable.Ref{Kind: Kind, ID: id.String() + "/listNotes"}, callable.Request{Caller: callable.Caller{Kind: "schedule"}})
					return err
				},
			}
			for range 2 {
				for path, run := range paths {
					if err := run(); err != nil {
						t.Errorf("%s: %v", path, err)
					}
				}
			}
			if err := end(e, id); err != nil {
				t.Fatal(err)
			}
			before := e.all.Load()
			for path, run := range paths {
				if err := run(); !fault.Is(err, fault.Denied) {
					t.Errorf("%s: %v", path, err)
				}
			}
			if n := e.all.Load() - before; n != 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
