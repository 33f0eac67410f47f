package tools

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/sandbox"
	"helix/backend/wasmtools"
)

// An untrusted module runs in a separate process; a module signed by the user runs in this one.
func TestTrustDecidesTheTier(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo", func(p *wasmtools.CreateWasmParams) { p.Origin = "" })
	if w.Origin != wasmtools.WasmImport || w.Tier != "t1" || w.Isolation == "inprocess" {
		t.Fatalf("%+v", w)
	}
	if r := b.execute(t, w, `{"n":1}`); !r.Success || r.Tier != "t1" || !strings.HasPrefix(r.Isolation, "process") || string(r.Output) != `{"n":1}` {
		t.Errorf("foreign: %+v", r)
	}
	if x := b.executions(t, w.ID)[0]; x.Tier != "t1" || !strings.HasPrefix(x.Isolation, "process") {
		t.Errorf("%+v", x)
	}
	if _, err := b.SignWasm(b.ctx, wasmtools.SkillID{SkillID: w.ID}); err != nil {
		t.Fatal(err)
	}
	g, err := b.GetWasm(b.ctx, wasmtools.GetWasmParams{SkillID: w.ID})
	if err != nil || g.Skill.Signature.State != lifecycle.SignatureTrusted || g.Skill.Tier != "t0" || g.Skill.Signer == "unsigned" {
		t.Fatalf("%+v %v", g.Skill, err)
	}
	if r := b.execute(t, w, `1`); !r.Success || r.Tier != "t0" {
		t.Errorf("signed: %+v", r)
	}
	// The signature covers the definition: other bytes invalidate it.
	u, err := b.UpdateWasm(b.ctx, wasmtools.UpdateWasmParams{SkillID: w.ID, Patch: wasmtools.WasmPatch{Wasm: module(t, "trap")}})
	if err != nil || u.Skill.Signature.State != lifecycle.SignatureNone || u.Skill.Tier != "t1" {
		t.Errorf("%+v %v", u.Skill, err)
	}
}

func TestRunModuleInItsOwnProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, err := b.RunCode(b.ctx, RunCodeParams{Kind: CodeWasm, Name: "call.wasm", Wasm: module(t, "call"), Input: json.RawMessage(`{"op":"state.keys"}`), Grants: []string{"state"}})
	if err != nil || !r.Success || string(r.Output) != `{"keys":[]}` || r.Tier != "t1" {
		t.Errorf("%s %s %v", r.Output, r.Error, err)
	}
}

// Callers without the scope to approve cannot replace the bytes of a module that runs in process.
func TestOwnModuleStaysOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo")
	low, _ := identity.From(b.ctx)
	low.Scopes = identity.Write.Closed()
	name := "other name"
	u, err := b.UpdateWasm(identity.With(b.ctx, low), wasmtools.UpdateWasmParams{SkillID: w.ID, Patch: wasmtools.WasmPatch{Name: &name, Capabilities: &[]string{"state"}}})
	if err != nil || u.Skill.Origin != wasmtools.WasmLocal || u.Skill.Tier != "t0" {
		t.Fatalf("the same bytes: %+v %v", u.Skill, err)
	}
	u, err = b.UpdateWasm(b.ctx, wasmtools.UpdateWasmParams{SkillID: w.ID, Patch: wasmtools.WasmPatch{Wasm: module(t, "trap")}})
	if err != nil || u.Skill.Origin != wasmtools.WasmLocal || u.Report.Tier != "t0" {
		t.Fatalf("a person's other bytes: %+v %v", u.Skill, err)
	}
	u, err = b.UpdateWasm(identity.With(b.ctx, low), wasmtools.UpdateWasmParams{SkillID: w.ID, Patch: wasmtools.WasmPatch{Wasm: module(t, "spin")}})
	if err != nil || u.Skill.Origin != wasmtools.WasmImport || u.Skill.Tier != "t1" || u.Report.Tier != "t1" {
		t.Fatalf("other bytes: %+v %v", u.Skill, err)
	}
	if g, err := b.GetWasm(b.ctx, wasmtools.GetWasmParams{SkillID: w.ID}); err != nil || g.Skill.Origin != wasmtools.WasmImport || g.Skill.Tier != "t1" {
		t.Errorf("%+v %v", g.Skill, err)
	}
}

// There is no fallback from the separate process to this one: without it an untrusted module does
// not run, and the report says so before it is installed.
func TestUntrustedModulesNeedASeparateProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	box, err := sandbox.Open(t.Context(), sandbox.Options{Idle: -1, CacheDir: os.Getenv(cacheVariable)})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close() //nolint:errcheck // only this test's
	wasm := wasmtools.New(b.db, b.perm, box, "")
	b.box, b.wasm, b.wasmDefinitions = box, wasm, wasmDefinitions{wasm}
	r, err := b.CreateWasm(b.ctx, wasmtools.CreateWasmParams{Name: "Foreign", Wasm: module(t, "echo")})
	if err != nil || r.Report.Refused == "" || r.Skill.Tier != "t1" || len(r.Report.Warnings) != 1 || r.Report.Warnings[0].Code != "isolation" {
		t.Fatalf("%+v %v", r.Report, err)
	}
	_, err = b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: r.Skill.ID})
	wantKind(t, err, fault.Unavailable)
	if x := b.executions(t, r.Skill.ID); len(x) != 1 || x[0].Tier != "t1" || x[0].Status != wasmtools.SkillFailure || x[0].ErrorClass != "unavailable" {
		t.Errorf("%+v", x)
	}
	own := b.install(t, "echo")
	if r := b.execute(t, own, "1"); !r.Success || r.Tier != "t0" {
		t.Errorf("own: %s", r.Error)
	}
}
