package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/wasmtools"
)

// module returns a fixture; testdata/wasm contains its source next to it.
func module(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "wasm", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bundle) install(t testing.TB, name string, change ...func(*wasmtools.CreateWasmParams)) wasmtools.WasmSkill {
	t.Helper()
	p := wasmtools.CreateWasmParams{Name: name + " " + storage.NewID().String()[24:], Wasm: module(t, name), Origin: wasmtools.WasmLocal}
	for _, c := range change {
		c(&p)
	}
	r, err := b.CreateWasm(b.ctx, p)
	if err != nil {
		t.Fatalf("install %s: %v %+v", name, err, fault.As(err).Details)
	}
	return r.Skill
}

func (b *bundle) execute(t testing.TB, w wasmtools.WasmSkill, input string) ExecuteSkillResult {
	t.Helper()
	r, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID, Input: json.RawMessage(input)})
	if err != nil {
		t.Fatalf("execute %s: %v %+v", w.Name, err, fault.As(err).Details)
	}
	return r
}

func (b *bundle) executions(t testing.TB, id uuid.UUID) []SkillExecution {
	t.Helper()
	r, err := b.WasmExecutions(b.ctx, SkillExecutionsParams{SkillID: id})
	if err != nil {
		t.Fatal(err)
	}
	return r.Executions
}

// agree approves every open question about a subject.
func (b *bundle) agree(t testing.TB, subject string, scope string) {
	t.Helper()
	list, err := b.perm.ListApprovals(b.ctx, permission.ListApprovalsParams{SubjectID: subject, Limit: 100})
	if err != nil || len(list.Approvals) == 0 {
		t.Fatalf("questions: %+v %v", list, err)
	}
	for _, a := range list.Approvals {
		if _, err := b.perm.AnswerApproval(b.ctx, permission.AnswerParams{ID: a.ID, Decision: "approve", DefinitionHash: a.DefinitionHash, Scope: scope}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUpdateDeleteRestoreWasm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo", func(p *wasmtools.CreateWasmParams) { p.Name = "Echo" })
	patch := func(p wasmtools.WasmPatch) (wasmtools.UpdateWasmResult, error) {
		return b.UpdateWasm(b.ctx, wasmtools.UpdateWasmParams{SkillID: w.ID, Patch: p})
	}
	name, ms, mb := "Echo two", int64(200), int64(64)
	r, err := patch(wasmtools.WasmPatch{Name: &name, TimeoutMs: &ms})
	if err != nil || r.Skill.Name != name || r.Skill.TimeoutMs != 200 || r.Skill.Version != "1.0.0" || r.Skill.DefinitionHash != w.DefinitionHash || len(r.SuspendedGrants) != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := patch(wasmtools.WasmPatch{MemoryMb: &mb, Wasm: module(t, "large")}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a module above the new tier: %v", err)
	}
	r, err = patch(wasmtools.WasmPatch{Wasm: module(t, "trap")})
	if err != nil || r.Skill.Version != "1.0.1" || r.Skill.DefinitionHash == w.DefinitionHash || r.Report == nil || r.Skill.WasmBytecode == w.WasmBytecode {
		t.Fatalf("new bytes: %+v %v", r, err)
	}
	if _, err := b.UpdateWasm(b.ctx, wasmtools.UpdateWasmParams{SkillID: w.ID, BaseVersion: "1.0.0", Patch: wasmtools.WasmPatch{Name: &name}}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("an old base: %v", err)
	}
	if x := b.execute(t, w, `1`); x.Success || x.ErrorClass != "trap" {
		t.Errorf("the new bytes do not run: %+v", x)
	}
	d, err := b.DeleteWasm(b.ctx, wasmtools.SkillID{SkillID: w.ID})
	if err != nil || time.Until(d.UndoUntil) < 29*24*time.Hour {
		t.Fatalf("%+v %v", d, err)
	}
	if _, err := b.GetWasm(b.ctx, wasmtools.GetWasmParams{SkillID: w.ID}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("get a deleted one: %v", err)
	}
	if _, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("run a deleted one: %v", err)
	}
	b.install(t, "spin", func(p *wasmtools.CreateWasmParams) { p.Name = name })
	back, err := b.RestoreWasm(b.ctx, wasmtools.SkillID{SkillID: w.ID})
	if err != nil || back.Skill.Name != "Echo two 2" || back.Skill.Runs != 1 || back.Skill.LastStatus != wasmtools.SkillFailure {
		t.Fatalf("%+v %v", back, err)
	}
	if again, err := b.RestoreWasm(b.ctx, wasmtools.SkillID{SkillID: w.ID}); err != nil || again.Skill.Name != "Echo two 2" {
		t.Errorf("twice: %+v %v", again, err)
	}
	off := false
	if r, err = patch(wasmtools.WasmPatch{IsEnabled: &off}); err != nil || r.Skill.IsEnabled {
		t.Fatalf("%+v %v", r, err)
	}
	_, err = b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID})
	if den, _ := fault.As(err).Details.(Denial); fault.KindOf(err) != fault.Denied || den.Reason != "disabled" {
		t.Errorf("run a disabled one: %v", err)
	}
	if l, err := b.ListWasm(b.ctx, wasmtools.ListWasmParams{Enabled: &off}); err != nil || l.Total != 1 {
		t.Errorf("disabled ones: %+v %v", l, err)
	}
	for _, action := range []string{"skill.created", "skill.updated", "definition.changed", "skill.deleted", "skill.restored", "skill.disabled"} {
		if n := b.count(t, `SELECT count(*) FROM audit_log WHERE subject_kind = 'wasm' AND subject_id = ? AND action = ?`, w.ID.String(), action); n == 0 {
			t.Errorf("%s is not on record", action)
		}
	}
}

func TestSkillsBelongToTheirOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo")
	b.execute(t, w, `1`)
	other := storagetest.OtherUser(t, b.db)
	unknown := uuid.New()
	for name, call := range map[string]func(id uuid.UUID) error{
		"get": func(id uuid.UUID) error {
			_, err := b.GetWasm(other, wasmtools.GetWasmParams{SkillID: id})
			return err
		},
		"execute": func(id uuid.UUID) error {
			_, err := b.ExecuteSkill(other, ExecuteSkillParams{SkillID: id})
			return err
		},
		"update": func(id uuid.UUID) error {
			_, err := b.UpdateWasm(other, wasmtools.UpdateWasmParams{SkillID: id})
			return err
		},
		"delete":  func(id uuid.UUID) error { _, err := b.DeleteWasm(other, wasmtools.SkillID{SkillID: id}); return err },
		"restore": func(id uuid.UUID) error { _, err := b.RestoreWasm(other, wasmtools.SkillID{SkillID: id}); return err },
		"sign":    func(id uuid.UUID) error { _, err := b.SignWasm(other, wasmtools.SkillID{SkillID: id}); return err },
		"history": func(id uuid.UUID) error {
			_, err := b.WasmExecutions(other, SkillExecutionsParams{SkillID: id})
			return err
		},
	} {
		foreign, missing := call(w.ID), call(unknown)
		if fault.KindOf(foreign) != fault.NotFound || fault.As(foreign).Message != fault.As(missing).Message {
			t.Errorf("%s: %v, unknown %v", name, foreign, missing)
		}
	}
	if l, err := b.ListWasm(other, wasmtools.ListWasmParams{}); err != nil || l.Total != 0 {
		t.Errorf("list: %+v %v", l, err)
	}
	if n := b.count(t, `SELECT count(*) FROM audit_log WHERE subject_kind = 'wasm' AND subject_id = ? AND outcome = 'denied'`, w.ID.String()); n != 1 {
		t.Errorf("%d entries about the attempt", n)
	}
}

func (b *bundle) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error { return tx.QueryRow(query, args...).Scan(&n) }); err != nil {
		t.Fatal(err)
	}
	return n
}
