package tools

import (
	"encoding/json"
	"strings"
	"testing"
)

// A module of others runs in a separate process; what the user signed runs here.
func TestTrustDecidesTheTier(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo", func(p *CreateWasmParams) { p.Origin = "" })
	if w.Origin != WasmImport || w.Tier != "t1" || w.Isolation == "inprocess" {
		t.Fatalf("%+v", w)
	}
	if r := b.execute(t, w, `{"n":1}`); !r.Success || r.Tier != "t1" || !strings.HasPrefix(r.Isolation, "process") || string(r.Output) != `{"n":1}` {
		t.Errorf("foreign: %+v", r)
	}
	if x := b.executions(t, w.ID)[0]; x.Tier != "t1" || !strings.HasPrefix(x.Isolation, "process") {
		t.Errorf("%+v", x)
	}
	if _, err := b.SignWasm(b.ctx, SkillID{w.ID}); err != nil {
		t.Fatal(err)
	}
	g, err := b.GetWasm(b.ctx, GetWasmParams{SkillID: w.ID})
	if err != nil || g.Skill.Signature.State != SignatureTrusted || g.Skill.Tier != "t0" || g.Skill.Signer == "unsigned" {
		t.Fatalf("%+v %v", g.Skill, err)
	}
	if r := b.execute(t, w, `1`); !r.Success || r.Tier != "t0" {
		t.Errorf("signed: %+v", r)
	}
	// The signature covers the definition: other bytes lose it.
	u, err := b.UpdateWasm(b.ctx, UpdateWasmParams{SkillID: w.ID, Patch: WasmPatch{Wasm: module(t, "trap")}})
	if err != nil || u.Skill.Signature.State != SignatureNone || u.Skill.Tier != "t1" {
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
