package tools

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// module reads a fixture; testdata/wasm holds the text of each beside it.
func module(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "wasm", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bundle) install(t testing.TB, name string, change ...func(*CreateWasmParams)) WasmSkill {
	t.Helper()
	p := CreateWasmParams{Name: name + " " + storage.NewID().String()[24:], Wasm: module(t, name), Origin: WasmLocal}
	for _, c := range change {
		c(&p)
	}
	r, err := b.CreateWasm(b.ctx, p)
	if err != nil {
		t.Fatalf("install %s: %v %+v", name, err, fault.As(err).Details)
	}
	return r.Skill
}

func (b *bundle) execute(t testing.TB, w WasmSkill, input string) ExecuteSkillResult {
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

// agree answers every open question about a subject with yes.
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

func TestInstallWasm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, err := b.CreateWasm(b.ctx, CreateWasmParams{Name: "Echo", Description: "gives back", Wasm: module(t, "echo"), Capabilities: []string{"state", "network:https(API.example.com)", "state"}})
	if err != nil {
		t.Fatal(err)
	}
	w, rep := r.Skill, r.Report
	sum := shaOf(module(t, "echo"))
	if w.Name != "Echo" || w.WasmBytecode != "sha256:"+hex.EncodeToString(sum[:]) || w.WasmSize != int64(len(module(t, "echo"))) || w.ABI != ABIExecute ||
		w.Version != "1.0.0" || w.TimeoutMs != 5000 || w.MemoryMb != 128 || w.Origin != WasmImport || !w.IsEnabled || !w.Downloaded || w.Signer != "unsigned" ||
		w.Tier != "t1" || w.Isolation == "inprocess" || w.Suspended || string(w.InputSchema) != "{}" || len(w.DefinitionHash) != 64 {
		t.Errorf("%+v", w)
	}
	if !slices.Equal(w.Capabilities, []string{"network:https(api.example.com)", "state(1MiB)"}) {
		t.Errorf("capabilities %q", w.Capabilities)
	}
	if !rep.Valid || len(rep.Errors) != 0 || rep.Info == nil || rep.Info.ABI != "execute" || rep.Info.Memory != 80 || rep.Signer != "unsigned" || rep.Tier != "t1" ||
		rep.Isolation != w.Isolation || !slices.Equal(rep.Capabilities, w.Capabilities) || !slices.Contains(rep.Info.Imports, "wasi_snapshot_preview1.fd_read") {
		t.Errorf("%+v %+v", rep, rep.Info)
	}
	if !b.db.Blobs().Has(w.ref()) {
		t.Error("the module is not in the blob store")
	}
	storagetest.NoUndeclaredBlobReferences(t, b.db)
	got, err := b.GetWasm(b.ctx, GetWasmParams{SkillID: w.ID, Report: true})
	if err != nil || got.Skill.DefinitionHash != w.DefinitionHash || got.Report == nil || !got.Report.Valid || got.Report.Info.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("get: %+v %v", got, err)
	}
	if again, err := b.GetWasm(b.ctx, GetWasmParams{SkillID: w.ID}); err != nil || again.Report != nil {
		t.Errorf("get without report: %+v %v", again, err)
	}
	if _, err := b.CreateWasm(b.ctx, CreateWasmParams{Name: "echo", Wasm: module(t, "spin")}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a taken name: %v", err)
	}
	list, err := b.ListWasm(b.ctx, ListWasmParams{})
	if err != nil || list.Total != 1 || len(list.Skills) != 1 || list.Skills[0].ID != w.ID || list.Limit != 50 {
		t.Errorf("list: %+v %v", list, err)
	}
}

func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	echo := module(t, "echo")
	for name, c := range map[string]struct {
		change func(*CreateWasmParams)
		kind   fault.Kind
		text   string
	}{
		"nothing":            {func(p *CreateWasmParams) { p.Wasm = nil }, fault.Invalid, "wasm"},
		"both":               {func(p *CreateWasmParams) { p.BlobSHA256 = strings.Repeat("0", 64) }, fault.Invalid, "not both"},
		"bad hash":           {func(p *CreateWasmParams) { p.Wasm, p.BlobSHA256 = nil, "xyz" }, fault.Invalid, "64 hex"},
		"unknown blob":       {func(p *CreateWasmParams) { p.Wasm, p.BlobSHA256 = nil, strings.Repeat("0", 64) }, fault.NotFound, "Upload"},
		"not wasm":           {func(p *CreateWasmParams) { p.Wasm = []byte("#!/bin/sh\n") }, fault.Invalid, ""},
		"truncated":          {func(p *CreateWasmParams) { p.Wasm = echo[:len(echo)-20] }, fault.Invalid, ""},
		"no entry":           {func(p *CreateWasmParams) { p.Wasm = module(t, "nothing") }, fault.Invalid, "main"},
		"foreign import":     {func(p *CreateWasmParams) { p.Wasm = module(t, "foreign") }, fault.Invalid, ""},
		"memory above tier":  {func(p *CreateWasmParams) { p.Wasm, p.MemoryMb = module(t, "large"), 64 }, fault.Invalid, "100 MiB"},
		"tier":               {func(p *CreateWasmParams) { p.MemoryMb = 100 }, fault.Invalid, "64, 128 or 256"},
		"too short a time":   {func(p *CreateWasmParams) { p.TimeoutMs = 99 }, fault.Invalid, "100"},
		"too long a time":    {func(p *CreateWasmParams) { p.TimeoutMs = 60_001 }, fault.Invalid, "60000"},
		"version":            {func(p *CreateWasmParams) { p.Version = "one" }, fault.Invalid, ""},
		"name":               {func(p *CreateWasmParams) { p.Name = "a/b" }, fault.Invalid, "name"},
		"unknown capability": {func(p *CreateWasmParams) { p.Capabilities = []string{"fly"} }, fault.Invalid, "fly"},
		"process":            {func(p *CreateWasmParams) { p.Capabilities = []string{"process:spawn"} }, fault.Invalid, ""},
		"schema":             {func(p *CreateWasmParams) { p.InputSchema = json.RawMessage(`{"type":"fish"}`) }, fault.Invalid, "Schema"},
		"origin":             {func(p *CreateWasmParams) { p.Origin = "moon" }, fault.Invalid, ""},
		"false signature": {func(p *CreateWasmParams) {
			p.Signature = &lifecycle.BundleSignature{Name: "a", Version: "1.0.0", Author: "m", SignedAt: "2026-01-01T00:00:00Z", PublicKey: strings.Repeat("A", 43) + "=", Signature: strings.Repeat("A", 86) + "=="}
		}, fault.Invalid, "signature"},
	} {
		p := CreateWasmParams{Name: "x", Wasm: echo}
		c.change(&p)
		_, err := b.CreateWasm(b.ctx, p)
		if fault.KindOf(err) != c.kind || !strings.Contains(fault.As(err).Message, c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l, err := b.ListWasm(b.ctx, ListWasmParams{}); err != nil || l.Total != 0 {
		t.Errorf("something was kept: %+v %v", l, err)
	}
	if err := b.db.Blobs().Each(func(r storage.Ref, _ time.Time) error { t.Errorf("blob %s was kept", r); return nil }); err != nil {
		t.Error(err)
	}
	rep, err := b.ValidateWasm(b.ctx, ValidateWasmParams{Wasm: module(t, "foreign")})
	if err != nil || rep.Valid || len(rep.Errors) != 1 || rep.Errors[0].Feature == "" || rep.Info != nil {
		t.Errorf("the report of a refused module: %+v %v", rep, err)
	}
	low, _ := identity.From(b.ctx)
	low.Scopes = identity.Write.Closed()
	if _, err := b.CreateWasm(identity.With(b.ctx, low), CreateWasmParams{Name: "mine", Wasm: echo, Origin: WasmLocal}); fault.KindOf(err) != fault.Denied {
		t.Errorf("a module that runs in process without the right to approve: %v", err)
	}
}

func TestUploadInParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := storagetest.OtherUser(t, b.db)
	echo := module(t, "echo")
	one, err := b.UploadWasm(b.ctx, UploadWasmParams{Data: echo[:100]})
	if err != nil || one.Size != 100 || one.BlobSHA256 != "" {
		t.Fatalf("%+v %v", one, err)
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		p    UploadWasmParams
		kind fault.Kind
	}{
		"a gap":         {b.ctx, UploadWasmParams{UploadID: &one.UploadID, Offset: 101, Data: echo[101:]}, fault.Conflict},
		"somebody else": {other, UploadWasmParams{UploadID: &one.UploadID, Offset: 100, Data: echo[100:]}, fault.NotFound},
		"unknown":       {b.ctx, UploadWasmParams{UploadID: &uuid.UUID{}, Data: echo}, fault.NotFound},
		"a large part":  {b.ctx, UploadWasmParams{Data: make([]byte, maxUploadPart+1)}, fault.Limit},
	} {
		if _, err := b.UploadWasm(c.ctx, c.p); fault.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	two, err := b.UploadWasm(b.ctx, UploadWasmParams{UploadID: &one.UploadID, Offset: 100, Data: echo[100:], Done: true})
	sum := shaOf(echo)
	if err != nil || two.BlobSHA256 != hex.EncodeToString(sum[:]) || two.Size != int64(len(echo)) {
		t.Fatalf("%+v %v", two, err)
	}
	if rep, err := b.ValidateWasm(b.ctx, ValidateWasmParams{BlobSHA256: two.BlobSHA256}); err != nil || !rep.Valid {
		t.Errorf("validate: %+v %v", rep, err)
	}
	// Knowing the hash of what somebody else keeps is no right to it.
	if _, err := b.ValidateWasm(other, ValidateWasmParams{BlobSHA256: two.BlobSHA256}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another user: %v", err)
	}
	w := b.install(t, "echo", func(p *CreateWasmParams) { p.Wasm, p.BlobSHA256 = nil, two.BlobSHA256 })
	b.uploads.mu.Lock()
	clear(b.uploads.done)
	b.uploads.mu.Unlock()
	if _, err := b.ValidateWasm(b.ctx, ValidateWasmParams{BlobSHA256: w.WasmBytecode}); err != nil {
		t.Errorf("the module of one's own skill: %v", err)
	}
	var open int
	for range maxUploads {
		if _, err := b.UploadWasm(b.ctx, UploadWasmParams{Data: echo[:1]}); err == nil {
			open++
		}
	}
	if _, err := b.UploadWasm(b.ctx, UploadWasmParams{Data: echo[:1]}); open != maxUploads || fault.KindOf(err) != fault.Limit {
		t.Errorf("%d uploads, then %v", open, err)
	}
}

func TestUpdateDeleteRestoreWasm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo", func(p *CreateWasmParams) { p.Name = "Echo" })
	patch := func(p WasmPatch) (UpdateWasmResult, error) {
		return b.UpdateWasm(b.ctx, UpdateWasmParams{SkillID: w.ID, Patch: p})
	}
	name, ms, mb := "Echo two", int64(200), int64(64)
	r, err := patch(WasmPatch{Name: &name, TimeoutMs: &ms})
	if err != nil || r.Skill.Name != name || r.Skill.TimeoutMs != 200 || r.Skill.Version != "1.0.0" || r.Skill.DefinitionHash != w.DefinitionHash || len(r.SuspendedGrants) != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := patch(WasmPatch{MemoryMb: &mb, Wasm: module(t, "large")}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a module above the new tier: %v", err)
	}
	r, err = patch(WasmPatch{Wasm: module(t, "trap")})
	if err != nil || r.Skill.Version != "1.0.1" || r.Skill.DefinitionHash == w.DefinitionHash || r.Report == nil || r.Skill.WasmBytecode == w.WasmBytecode {
		t.Fatalf("new bytes: %+v %v", r, err)
	}
	if _, err := b.UpdateWasm(b.ctx, UpdateWasmParams{SkillID: w.ID, BaseVersion: "1.0.0", Patch: WasmPatch{Name: &name}}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("an old base: %v", err)
	}
	if x := b.execute(t, w, `1`); x.Success || x.ErrorClass != "trap" {
		t.Errorf("the new bytes do not run: %+v", x)
	}
	d, err := b.DeleteWasm(b.ctx, SkillID{w.ID})
	if err != nil || time.Until(d.UndoUntil) < 29*24*time.Hour {
		t.Fatalf("%+v %v", d, err)
	}
	if _, err := b.GetWasm(b.ctx, GetWasmParams{SkillID: w.ID}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("get a deleted one: %v", err)
	}
	if _, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("run a deleted one: %v", err)
	}
	b.install(t, "spin", func(p *CreateWasmParams) { p.Name = name })
	back, err := b.RestoreWasm(b.ctx, SkillID{w.ID})
	if err != nil || back.Skill.Name != "Echo two 2" || back.Skill.Runs != 1 || back.Skill.LastStatus != SkillFailure {
		t.Fatalf("%+v %v", back, err)
	}
	if again, err := b.RestoreWasm(b.ctx, SkillID{w.ID}); err != nil || again.Skill.Name != "Echo two 2" {
		t.Errorf("twice: %+v %v", again, err)
	}
	off := false
	if r, err = patch(WasmPatch{IsEnabled: &off}); err != nil || r.Skill.IsEnabled {
		t.Fatalf("%+v %v", r, err)
	}
	_, err = b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID})
	if den, _ := fault.As(err).Details.(Denial); fault.KindOf(err) != fault.Denied || den.Reason != "disabled" {
		t.Errorf("run a disabled one: %v", err)
	}
	if l, err := b.ListWasm(b.ctx, ListWasmParams{Enabled: &off}); err != nil || l.Total != 1 {
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
		"get":     func(id uuid.UUID) error { _, err := b.GetWasm(other, GetWasmParams{SkillID: id}); return err },
		"execute": func(id uuid.UUID) error { _, err := b.ExecuteSkill(other, ExecuteSkillParams{SkillID: id}); return err },
		"update":  func(id uuid.UUID) error { _, err := b.UpdateWasm(other, UpdateWasmParams{SkillID: id}); return err },
		"delete":  func(id uuid.UUID) error { _, err := b.DeleteWasm(other, SkillID{id}); return err },
		"restore": func(id uuid.UUID) error { _, err := b.RestoreWasm(other, SkillID{id}); return err },
		"sign":    func(id uuid.UUID) error { _, err := b.SignWasm(other, SkillID{id}); return err },
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
	if l, err := b.ListWasm(other, ListWasmParams{}); err != nil || l.Total != 0 {
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
