package wasmtools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// box is shared by the tests of the package.
var box = sync.OnceValues(func() (*sandbox.Engine, error) { return sandbox.Open(context.Background(), sandbox.Options{Idle: -1}) })

// bundle is one database with everything that WASM tools need.
type bundle struct {
	*Service
	db  *storage.DB
	ctx context.Context
}

func setup(t testing.TB) *bundle {
	t.Helper()
	engine, err := box()
	if err != nil {
		t.Skipf("the sandbox cannot be opened: %v", err)
	}
	db := storagetest.Open(t)
	perm := permission.New(db, db.Bus(), permission.Options{Audit: audit.New(db, audit.Options{})})
	return &bundle{Service: New(db, perm, engine, ""), db: db, ctx: storagetest.Ctx(t, db)}
}

// module returns a fixture; ../tools/testdata/wasm contains its source next to it.
func module(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "tools", "testdata", "wasm", name+".wasm"))
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

func TestInstallWasm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, err := b.CreateWasm(b.ctx, CreateWasmParams{Name: "Echo", Description: "gives back", Wasm: module(t, "echo"), Capabilities: []string{"state", "network:https(API.example.com)", "state"}})
	if err != nil {
		t.Fatal(err)
	}
	w, rep := r.Skill, r.Report
	sum := sha256.Sum256(module(t, "echo"))
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
	if !b.db.Blobs().Has(w.Ref()) {
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
	sum := sha256.Sum256(echo)
	if err != nil || two.BlobSHA256 != hex.EncodeToString(sum[:]) || two.Size != int64(len(echo)) {
		t.Fatalf("%+v %v", two, err)
	}
	if rep, err := b.ValidateWasm(b.ctx, ValidateWasmParams{BlobSHA256: two.BlobSHA256}); err != nil || !rep.Valid {
		t.Errorf("validate: %+v %v", rep, err)
	}
	// Knowing the hash of another user's module does not give access to it.
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

func TestStatusReportsIsolation(t *testing.T) {
	t.Parallel()
	tiers := func(isolation string, reasons ...string) sandbox.Status {
		return sandbox.Status{Tiers: []sandbox.TierStatus{{Tier: "t0", Available: true, Isolation: "inprocess", Reasons: []string{"x"}}, {Tier: "t1", Available: true, Isolation: isolation, Reasons: reasons}}}
	}
	for _, c := range []struct {
		st      sandbox.Status
		want    string
		reasons int
		min     string
		refused bool
	}{
		{tiers("process+landlock+bwrap"), "process+landlock+bwrap", 0, "process+landlock+bwrap", false},
		{tiers("process+landlock", "bwrap_missing"), "process+landlock", 1, "process+landlock+bwrap", true},
		{tiers("process+landlock", "bwrap_missing"), "process+landlock", 1, "process+landlock", false},
		{tiers("process", "landlock_unavailable", "bwrap_missing"), "process", 2, "", false},
		{tiers("process", "landlock_unavailable", "bwrap_missing"), "process", 2, "process+landlock", true},
		{sandbox.Status{}, "process", 0, "inprocess", false},
	} {
		got, reasons := Isolation(c.st)
		s := New(nil, nil, nil, c.min)
		if got != c.want || len(reasons) != c.reasons || reasons == nil || weaker(got, s.minIsolation) != c.refused {
			t.Errorf("%+v: %s %v", c, got, reasons)
		}
	}
}

func TestHashedFieldsDoNotMergeByThemselves(t *testing.T) {
	t.Parallel()
	storagetest.Hashed(t, "skills", wasmDefinition{})
}
