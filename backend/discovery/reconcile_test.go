package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

func (e *env) questions() []permission.Approval {
	e.Helper()
	list, err := e.perm.ListApprovals(e.ctx, permission.ListApprovalsParams{})
	if err != nil {
		e.Fatal(err)
	}
	return list.Approvals
}

func (e *env) tools() []*Tool {
	e.Helper()
	list, err := e.s.List(e.ctx, ListParams{})
	if err != nil {
		e.Fatal(err)
	}
	return list.Tools
}

func (e *env) upgrade(id uuid.UUID, spec string) ImportResult {
	e.Helper()
	r, err := e.s.Upgrade(e.ctx, UpgradeParams{ManifestID: id, Content: spec})
	if err != nil {
		e.Fatal(err)
	}
	return r.ImportResult
}

// A definition that was approved before is approved when it returns, unless something denied it meanwhile.
func TestGoingBackRestoresAnApprovalUnlessItWasTakenBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(e *env, id uuid.UUID) error
		status    string
	}{
		"nothing": {func(*env, uuid.UUID) error { return nil }, StatusActive},
		"the new definition was approved": {func(e *env, id uuid.UUID) error {
			_, err := e.s.Approve(e.ctx, ApproveParams{ManifestID: id, DefinitionHash: e.tools()[0].DefinitionHash})
			return err
		}, StatusActive},
		"the grants were revoked": {func(e *env, id uuid.UUID) error {
			_, err := e.perm.Revoke(e.ctx, permission.RevokeParams{SubjectID: id.String()})
			return err
		}, StatusPending},
		"the host was denied": {func(e *env, id uuid.UUID) error {
			return e.db.Write(e.ctx, func(tx *storage.Tx) error {
				_, err := tx.Exec(`INSERT INTO capability_denials (id, user_id, subject_kind, subject_id, capability, resource, reason, created_at, updated_at) VALUES (?, ?, ?, ?, 'network:localhost', '*', '', 1, 1)`, storage.NewID(), e.db.LocalUser().ID, string(Kind), id.String())
				return err
			})
		}, StatusPending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			id := e.tool(true)
			if r := e.upgrade(id, strings.Replace(e.spec, "Lists notes.", "Lists all notes.", 1)); r.Status != StatusPending || len(e.questions()) != 1 {
				t.Fatalf("%+v, %d questions", r, len(e.questions()))
			}
			if err := c.meanwhile(e, id); err != nil {
				t.Fatal(err)
			}
			r := e.upgrade(id, e.spec)
			open := map[string]int{StatusPending: 1}[c.status]
			if r.Status != c.status || len(e.questions()) != open {
				t.Errorf("it is %s with %d questions, want %s", r.Status, len(e.questions()), c.status)
			}
			if _, err := e.run(id, "listNotes", `{}`); (err == nil) != (c.status == StatusActive) {
				t.Errorf("a run: %v", err)
			}
		})
	}
}

// Only a person switches a disabled tool on: neither another definition nor its approval does.
func TestDisabledToolStaysDisabledThroughUpgrades(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id := e.tool(true)
	if _, err := e.s.SetEnabled(e.ctx, EnableParams{ManifestID: id}); err != nil {
		t.Fatal(err)
	}
	r := e.upgrade(id, strings.Replace(e.spec, "Lists notes.", "Lists all notes.", 1))
	if r.Status != StatusPending {
		t.Errorf("%+v", r)
	}
	if back := e.upgrade(id, e.spec); back.Status != StatusDisabled {
		t.Errorf("going back made it %s", back.Status)
	}
	r = e.upgrade(id, strings.Replace(e.spec, "Lists notes.", "Lists my notes.", 1))
	if out, err := e.s.Approve(e.ctx, ApproveParams{ManifestID: id, DefinitionHash: r.DefinitionHash}); err != nil || out.Status != StatusDisabled {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := e.run(id, "listNotes", `{}`); !fault.Is(err, fault.Denied) {
		t.Errorf("it ran: %v", err)
	}
	if out, err := e.s.SetEnabled(e.ctx, EnableParams{id, true}); err != nil || out.Status != StatusActive {
		t.Errorf("%+v, %v", out, err)
	}
}

// Importing the same file again changes nothing, whatever the state of the tool.
func TestImportOfTheSameManifestChangesNothing(t *testing.T) {
	t.Parallel()
	e := setupSampled(t)
	state := func() string {
		t.Helper()
		var text string
		if err := e.db.Read(e.ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT (SELECT count(*) FROM audit_log) || ' ' || (SELECT count(*) FROM pending_approvals) || ' ' || (SELECT group_concat(status || updated_at || seen_status) FROM tool_manifest) || ' ' || (SELECT count(*) FROM change_log)`).Scan(&text)
		}); err != nil {
			t.Fatal(err)
		}
		return text
	}
	again := func() {
		t.Helper()
		before := state()
		for _, conflict := range []string{"", "upgrade", "rename", "skip"} {
			if r, err := e.s.ImportManifest(e.ctx, ImportManifestParams{Content: e.manifest, DryRun: new(false), OnConflict: conflict}); err != nil || r.ManifestID == nil {
				t.Errorf("%q: %+v, %v", conflict, r, err)
			}
		}
		if now := state(); now != before {
			t.Errorf("the same manifest changed %s to %s", before, now)
		}
	}
	if _, err := e.s.ImportManifest(e.ctx, ImportManifestParams{Content: e.manifest, DryRun: new(false)}); err != nil {
		t.Fatal(err)
	}
	again()
	tool := e.tools()[0]
	if _, err := e.s.Approve(e.ctx, ApproveParams{ManifestID: tool.ID, DefinitionHash: tool.DefinitionHash}); err != nil {
		t.Fatal(err)
	}
	e.tried(tool.ID)
	again()
	if _, err := e.s.SetEnabled(e.ctx, EnableParams{ManifestID: tool.ID}); err != nil {
		t.Fatal(err)
	}
	again()
}

// A row that sync brought and that isn't a whole tool is shown, and can't be approved. The others still work.
func TestDamagedToolOfAnotherDeviceCanOnlyBeRevoked(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id := e.tool(true)
	for i, manifest := range []string{`5`, `{"capabilities":"x"}`, `{"permissions":{"network":{"hosts":["localhost:1"]}},"execution":{"timeoutSeconds":30},"capabilities":[{"name":"x"}]}`} {
		bad := uuid.UUID(storage.NewID())
		if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`INSERT INTO tool_manifest (id, user_id, name, version, description, source_type, source_location, status, execution_type, execution_timeout, manifest, definition_hash, created_at, updated_at)
				VALUES (?, ?, ?, '1.0.0', '', 'local', '', 'active', 'http', 30, ?, zeroblob(32), 1, 1)`, bad, e.db.LocalUser().ID, "bad"+strings.Repeat("x", i), json.RawMessage(manifest))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := e.s.reconcile(e.ctx, e.db.LocalUser().ID); err != nil {
			t.Fatal(err)
		}
		if list, err := e.s.List(e.ctx, ListParams{}); err != nil || list.Total != i+2 || len(e.questions()) != 0 {
			t.Errorf("%s: %+v, %v, questions %+v", manifest, list, err, e.questions())
		}
		if _, err := e.s.Approve(e.ctx, ApproveParams{ManifestID: bad, DefinitionHash: strings.Repeat("0", 64)}); !fault.Is(err, fault.Denied) {
			t.Errorf("%s was approved: %v", manifest, err)
		}
		if _, err := e.run(bad, "x", `{}`); err == nil {
			t.Errorf("%s ran", manifest)
		}
	}
	if _, err := e.run(id, "listNotes", `{}`); err != nil {
		t.Error(err)
	}
}
