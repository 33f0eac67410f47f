package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func ptr[T any](v T) *T { return &v }

// patch decodes a patch from its wire form.
func patch(t testing.TB, text string) Patch {
	t.Helper()
	var p Patch
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func (b *bundle) update(t testing.TB, tool Tool, text string) UpdateResult {
	t.Helper()
	r, err := b.Update(b.ctx, UpdateParams{ToolID: tool.ID, BaseVersion: tool.Version, Patch: patch(t, text)})
	if err != nil {
		t.Fatalf("update with %s: %v", text, err)
	}
	return r
}

func wantKind(t testing.TB, err error, k fault.Kind) *fault.Error {
	t.Helper()
	if fault.KindOf(err) != k {
		t.Fatalf("error %v (%s), want %s", err, fault.KindOf(err), k)
	}
	return fault.As(err)
}

func TestCreateKeepsWhatWasGiven(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, err := b.Create(b.ctx, CreateParams{Name: "  My Tool ", Code: "return 1", Description: "d", Tags: []string{" a ", "a", "b"}, Icon: "✨", Capabilities: []string{"state"}})
	if err != nil {
		t.Fatal(err)
	}
	tl := r.Tool
	if tl.Name != "My Tool" || tl.Version != "1.0.0" || tl.Language != JavaScript || tl.SandboxProfile != Standard || tl.Visibility != Private || !tl.IsEnabled ||
		!slices.Equal(tl.Tags, []string{"a", "b"}) || string(tl.Parameters) != defaultParameters || len(tl.DefinitionHash) != 64 || tl.Signature.State != lifecycle.SignatureNone || tl.Suspended {
		t.Fatalf("tool = %+v", tl)
	}
	got, err := b.Get(b.ctx, GetParams{ToolID: tl.ID})
	if err != nil || string(lifecycle.Text(got.Tool)) != string(lifecycle.Text(tl)) {
		t.Fatalf("get gave %s, create %s (%v)", lifecycle.Text(got.Tool), lifecycle.Text(tl), err)
	}
	m, err := b.Metadata(b.ctx, ToolID{tl.ID})
	if err != nil || m.Name != "My Tool" || !m.IsEnabled {
		t.Fatalf("metadata %+v, %v", m, err)
	}
	_, err = b.Create(b.ctx, CreateParams{Name: "MY TOOL", Code: "return 2"})
	if f := wantKind(t, err, fault.Conflict); f.Details.(NameTaken).ToolID != tl.ID {
		t.Errorf("details %+v", f.Details)
	}
	for _, p := range []CreateParams{
		{Name: "", Code: "1"}, {Name: "a/b", Code: "1"}, {Name: strings.Repeat("x", 65), Code: "1"}, {Name: "x", Code: " "}, {Name: "x", Code: "return ("},
		{Name: "x", Code: "1", Version: "1.0"}, {Name: "x", Code: "1", Icon: "../a.png"}, {Name: "x", Code: "1", Tags: make17()}, {Name: "x", Code: "1", Language: "python"},
		{Name: "x", Code: "1", SandboxProfile: "root"}, {Name: "x", Code: "1", Parameters: json.RawMessage(`{"type":"nope"}`)}, {Name: "x", Code: "1", Description: strings.Repeat("d", 2001)},
		{Name: "x", Code: "1", Limits: &Limits{WallMs: 31_000}}, {Name: "x", Code: "1", Visibility: "everyone"}, {Name: "x\u202ey", Code: "1"},
	} {
		_, err := b.Create(b.ctx, p)
		wantKind(t, err, fault.Invalid)
	}
	l, err := b.List(b.ctx, ListParams{})
	if err != nil || l.Total != 1 {
		t.Fatalf("%d tools after refused ones, %v", l.Total, err)
	}
}

func make17() []string {
	out := []string{}
	for i := range 17 {
		out = append(out, "t"+itoa(i))
	}
	return out
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Name: "A", Code: "return 1", Description: "old", Icon: "x"})
	r := b.update(t, tool, `{"description":""}`)
	if r.Tool.Description != "" || r.Tool.Version != "1.0.1" || r.Tool.Icon != "x" {
		t.Fatalf("cleared: %+v", r.Tool)
	}
	r = b.update(t, r.Tool, `{"icon":null,"tags":["q"]}`)
	if r.Tool.Icon != "" || r.Tool.Version != "1.0.1" {
		t.Fatalf("icon cleared with null: %+v", r.Tool)
	}
	r = b.update(t, r.Tool, `{"parameters":{"type":"object","required":["a"]},"version":"2.0.0"}`)
	if r.Tool.Version != "2.0.0" {
		t.Fatalf("own label: %s", r.Tool.Version)
	}
	r = b.update(t, r.Tool, `{"parameters":null}`)
	if string(r.Tool.Parameters) != defaultParameters || r.Tool.Version != "2.0.1" {
		t.Fatalf("parameters cleared: %s %s", r.Tool.Parameters, r.Tool.Version)
	}
	_, err := b.Update(b.ctx, UpdateParams{ToolID: tool.ID, BaseVersion: "1.0.0", Patch: patch(t, `{"code":"return 3"}`)})
	f := wantKind(t, err, fault.Conflict)
	if d := f.Details.(VersionConflict); d.Current.Version != "2.0.1" || d.BaseVersion != "1.0.0" {
		t.Errorf("details %+v", d)
	}
	_, err = b.Update(b.ctx, UpdateParams{ToolID: tool.ID, BaseVersion: "2.0.1", Patch: patch(t, `{"version":"1.0.1","code":"return 9"}`)})
	wantKind(t, err, fault.Conflict)
	_, err = b.Update(b.ctx, UpdateParams{ToolID: tool.ID, BaseVersion: "2.0.1", Patch: patch(t, `{"code":""}`)})
	wantKind(t, err, fault.Invalid)
	var p Patch
	if err := json.Unmarshal([]byte(`{"colour":"red"}`), &p); err == nil {
		t.Error("an unknown field was accepted")
	}
	other := b.create(t, CreateParams{Name: "B", Code: "return 1"})
	_, err = b.Update(b.ctx, UpdateParams{ToolID: other.ID, BaseVersion: "1.0.0", Patch: patch(t, `{"name":"a"}`)})
	wantKind(t, err, fault.Conflict)
	v, err := b.Versions(b.ctx, VersionsParams{ToolID: tool.ID})
	if err != nil || v.Total != 4 || v.Versions[0].Version != "2.0.1" || !v.Versions[0].Current || v.Versions[3].Version != "1.0.0" {
		t.Fatalf("versions %+v, %v", v, err)
	}
}

func TestDiffAndRollback(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Name: "A", Code: "const a = 1;\nconst b = 2;\nreturn a + b;\n", Capabilities: []string{"state"}})
	r := b.update(t, tool, `{"code":"const a = 1;\nconst b = 3;\nreturn a + b;\n","capabilities":["tool(X)"]}`)
	d, err := b.Diff(b.ctx, DiffParams{ToolID: tool.ID, From: "1.0.0", To: "1.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	want := "--- 1.0.0\n+++ 1.0.1\n@@ -1,3 +1,3 @@\n const a = 1;\n-const b = 2;\n+const b = 3;\n return a + b;\n"
	if d.Code != want {
		t.Errorf("diff:\n%s\nwant:\n%s", d.Code, want)
	}
	if !slices.Equal(d.Capabilities.Added, []string{"tool(X)"}) || !slices.Equal(d.Capabilities.Removed, []string{"state(1MiB)"}) || len(d.Fields) != 1 || d.Fields[0].Name != "capabilities" {
		t.Errorf("diff %+v", d)
	}
	back, err := b.Rollback(b.ctx, RollbackParams{ToolID: tool.ID, Version: "1.0.0"})
	if err != nil || back.Tool.Version != "1.0.2" || back.Tool.DefinitionHash != tool.DefinitionHash || back.Tool.Code != tool.Code {
		t.Fatalf("rollback %+v, %v", back.Tool, err)
	}
	v, _ := b.Versions(b.ctx, VersionsParams{ToolID: tool.ID})
	if v.Total != 3 || v.Versions[0].Note != "rolled back to 1.0.0" {
		t.Errorf("history %+v", v)
	}
	old, err := b.Get(b.ctx, GetParams{ToolID: tool.ID, Version: "1.0.1"})
	if err != nil || old.Tool.DefinitionHash != r.Tool.DefinitionHash {
		t.Errorf("old version %+v, %v", old, err)
	}
	_, err = b.Rollback(b.ctx, RollbackParams{ToolID: tool.ID, Version: "9.9.9"})
	wantKind(t, err, fault.NotFound)
}

// Another device used the same label for another definition. Both are kept, and on this device the
// label means the current one.
func TestVersionsOfTwoDevices(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Name: "A", Code: "return 1;"})
	mine := b.update(t, tool, `{"code":"return 2;"}`)
	sh, err := b.Share(b.ctx, ShareParams{ToolID: tool.ID, Access: AccessLink})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error { // like sync
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`INSERT INTO custom_tool_versions (id, custom_tool_id, user_id, version, definition_hash, language, code, parameters, capabilities, sandbox_profile, created_at, updated_at)
				SELECT ?, custom_tool_id, user_id, version, ?, language, 'return 3;', parameters, capabilities, sandbox_profile, created_at + 1, updated_at
				FROM custom_tool_versions WHERE version = '1.0.1'`, storage.NewID(), [32]byte{3})
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	v, err := b.Versions(b.ctx, VersionsParams{ToolID: tool.ID})
	if err != nil || v.Total != 3 || v.Versions[0].Current || !v.Versions[1].Current {
		t.Errorf("history %+v, %v", v, err)
	}
	if d, err := b.Diff(b.ctx, DiffParams{ToolID: tool.ID, From: "1.0.0", To: "1.0.1"}); err != nil || !strings.Contains(d.Code, "+return 2;") {
		t.Errorf("diff %+v, %v", d, err)
	}
	next := b.update(t, mine.Tool, `{"code":"return 4;"}`)
	if next.Tool.Version != "1.0.2" {
		t.Errorf("next version %s", next.Tool.Version)
	}
	if old, err := b.Get(b.ctx, GetParams{ToolID: tool.ID, Version: "1.0.1"}); err != nil || old.Tool.Code != "return 3;" {
		t.Errorf("the newest of the label: %+v, %v", old.Tool, err)
	}
	if c, err := b.readShare(b.ctx, sh.ShareID, false); err != nil || len(c) != 1 || c[0].tool.Definition.Code != "return 2;" {
		t.Errorf("shared: %+v, %v", c, err)
	}
}

func TestHashedFieldsDoNotMergeByThemselves(t *testing.T) {
	t.Parallel()
	storagetest.Hashed(t, "custom_tools", definition{})
}

func TestDiffOfManyTexts(t *testing.T) {
	t.Parallel()
	texts := []string{"", "a\n", "a", "a\nb\nc\n", "b\nc\n", "x\ny\nz\n", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n", "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nK\nl\nm\nn\n"}
	for _, from := range texts {
		for _, to := range texts {
			var a, b []string
			for _, l := range editScript(strings.SplitAfter(from, "\n"), strings.SplitAfter(to, "\n")) {
				if l.op != '+' {
					a = append(a, l.text)
				}
				if l.op != '-' {
					b = append(b, l.text)
				}
			}
			if strings.Join(a, "") != from || strings.Join(b, "") != to {
				t.Errorf("script of %q → %q gives %q → %q", from, to, strings.Join(a, ""), strings.Join(b, ""))
			}
		}
	}
	if d := unifiedDiff(texts[6], texts[7], "a", "b"); strings.Count(d, "@@ -") != 2 {
		t.Errorf("two places apart:\n%s", d)
	}
}

func TestDefinitionHashGolden(t *testing.T) {
	t.Parallel()
	defs := map[string]definition{
		"defaults": {Code: "return 1"},
		"full": {
			Description: "Grüße ☕ <b>", Language: TypeScript, Code: "export default (p: {a: number}) => p.a;\r\n", SandboxProfile: Permissive,
			Parameters:   json.RawMessage(`{"type":"object","properties":{"b":{"maximum":1e21,"default":0.10},"a":{"type":"number"}}}`),
			Capabilities: []string{"tool(B)", "network:https(a.example.com)"}, Limits: &Limits{WallMs: 1000, HostCalls: 5},
		},
	}
	got := map[string]string{}
	for name, d := range defs {
		h, err := d.sum()
		if err != nil {
			t.Fatal(err)
		}
		got[name] = hashText(h)
	}
	shuffled := defs["full"]
	shuffled.Capabilities = []string{"network:https(a.example.com)", "tool(B)", "tool(B)"}
	shuffled.Parameters = json.RawMessage("{ \"properties\": {\"a\":{\"type\":\"number\"}, \"b\":{\"default\":0.1,\"maximum\":1000000000000000000000}}, \"type\":\"object\" }")
	if h, _ := shuffled.sum(); hashText(h) != got["full"] {
		t.Error("order and spelling of JSON change the hash")
	}
	golden(t, "definition_hash.json", append(indent(t, got), '\n'))
}

func indent(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden compares got with a file in testdata, or writes it with -update.
func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
	}
}

func TestDeleteRestoreClone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Name: "A", Code: "return 1"})
	c1, err := b.Clone(b.ctx, CloneParams{ToolID: tool.ID})
	if err != nil || c1.Tool.Name != "A (Clone)" || c1.Tool.Origin != OriginClone || *c1.Tool.CloneSourceID != tool.ID || c1.Tool.DefinitionHash != tool.DefinitionHash {
		t.Fatalf("clone %+v, %v", c1.Tool, err)
	}
	c2, err := b.Clone(b.ctx, CloneParams{ToolID: tool.ID})
	if err != nil || c2.Tool.Name != "A (Clone 2)" {
		t.Fatalf("second clone %q, %v", c2.Tool.Name, err)
	}
	b.update(t, c1.Tool, `{"icon":"y"}`) // a clone's name is a valid name
	d, err := b.Delete(b.ctx, ToolID{tool.ID})
	if err != nil || d.UndoUntil == "" {
		t.Fatal(err)
	}
	_, err = b.Get(b.ctx, GetParams{ToolID: tool.ID})
	wantKind(t, err, fault.NotFound)
	if _, err := b.Get(b.ctx, GetParams{ToolID: c1.Tool.ID}); err != nil {
		t.Errorf("the clone went with its source: %v", err)
	}
	again := b.create(t, CreateParams{Name: "a", Code: "return 2"})
	r, err := b.Restore(b.ctx, ToolID{tool.ID})
	if err != nil || r.Tool.Name != "A 2" || r.Tool.ID != tool.ID {
		t.Fatalf("restored %+v, %v", r.Tool, err)
	}
	_, err = b.Restore(b.ctx, ToolID{uuid.New()})
	wantKind(t, err, fault.NotFound)
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error { // a purge of the source leaves the clone
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`DELETE FROM custom_tools WHERE id = ?`, tool.ID)
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	if g, err := b.Get(b.ctx, GetParams{ToolID: c1.Tool.ID}); err != nil || g.Tool.CloneSourceID != nil {
		t.Errorf("clone after the purge: %+v, %v", g.Tool.CloneSourceID, err)
	}
	_ = again
}

func TestListAndSearch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := storagetest.OtherUser(t, b.db)
	names := []string{"Alpha", "a,visibility.eq.private", "100% done", "it's", `say "hi"; --`, "under_score"}
	clean := strings.NewReplacer(",", " ", "%", " pct", "'", "", `"`, "", ";", "")
	for i, n := range names {
		vis := Private
		if i%2 == 0 {
			vis = Public
		}
		b.create(t, CreateParams{Name: strings.TrimSpace(clean.Replace(n)), Description: n, Code: "return 1", Tags: []string{"t" + itoa(i), "All"}, Visibility: vis})
	}
	for _, n := range append(names, "%", "'", `"; --`, "_") {
		l, err := b.List(b.ctx, ListParams{Query: n})
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, m := range names {
			if strings.Contains(strings.ToLower(m), strings.ToLower(n)) || strings.Contains(strings.ToLower(clean.Replace(m)), strings.ToLower(n)) {
				want++
			}
		}
		if l.Total != want || len(l.Tools) != want {
			t.Errorf("query %q: %d, want %d", n, l.Total, want)
		}
		s, err := b.Search(other, SearchParams{Query: n})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range s.Tools {
			if x.Visibility != Public || x.Mine || x.LastUsed != nil {
				t.Errorf("query %q shows %+v to somebody else", n, x)
			}
		}
	}
	s, err := b.Search(other, SearchParams{})
	if err != nil || s.Total != 3 {
		t.Fatalf("marketplace %+v, %v", s, err)
	}
	if l, _ := b.List(other, ListParams{}); l.Total != 0 {
		t.Errorf("somebody else lists %d tools", l.Total)
	}
	l, err := b.List(b.ctx, ListParams{Tags: []string{"all", "T3"}})
	if err != nil || l.Total != 1 {
		t.Errorf("by tags %d, %v", l.Total, err)
	}
	l, err = b.List(b.ctx, ListParams{Sort: SortName, Limit: 2, Offset: 1})
	if err != nil || len(l.Tools) != 2 || l.Total != 6 || l.Limit != 2 || l.Offset != 1 {
		t.Errorf("page %+v, %v", l, err)
	}
	for _, p := range []ListParams{{Limit: 101}, {Limit: -1}, {Offset: -1}, {Sort: "size"}, {Visibility: "x"}} {
		_, err := b.List(b.ctx, p)
		wantKind(t, err, fault.Invalid)
	}
}

func TestToolsOfOtherUsersAreNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := storagetest.OtherUser(t, b.db)
	tool := b.create(t, CreateParams{Name: "Mine", Code: "return 1"})
	sh, err := b.Share(b.ctx, ShareParams{ToolID: tool.ID, Access: AccessLink})
	if err != nil {
		t.Fatal(err)
	}
	missing := uuid.New()
	call := func(id uuid.UUID) map[string]error {
		m := map[string]error{}
		_, m["get"] = b.Get(other, GetParams{ToolID: id})
		_, m["metadata"] = b.Metadata(other, ToolID{id})
		_, m["update"] = b.Update(other, UpdateParams{ToolID: id, BaseVersion: "1.0.0", Patch: patch(t, `{"name":"x"}`)})
		_, m["enabled"] = b.SetEnabled(other, SetEnabledParams{ToolID: id})
		_, m["delete"] = b.Delete(other, ToolID{id})
		_, m["restore"] = b.Restore(other, ToolID{id})
		_, m["clone"] = b.Clone(other, CloneParams{ToolID: id})
		_, m["versions"] = b.Versions(other, VersionsParams{ToolID: id})
		_, m["diff"] = b.Diff(other, DiffParams{ToolID: id, From: "1.0.0", To: "1.0.0"})
		_, m["rollback"] = b.Rollback(other, RollbackParams{ToolID: id, Version: "1.0.0"})
		_, m["usage"] = b.Usage(other, UsageParams{ToolID: &id})
		_, m["audit"] = b.Audit(other, AuditParams{ToolID: &id})
		_, m["export"] = b.Export(other, ExportParams{ToolIDs: []uuid.UUID{id}})
		_, m["share"] = b.Share(other, ShareParams{ToolID: id, Access: AccessLink})
		_, m["shares"] = b.Shares(other, SharesParams{ToolID: &id})
		_, m["sign"] = b.Sign(other, ToolID{id})
		_, m["state"] = b.State(other, ToolID{id})
		_, m["state_clear"] = b.StateClear(other, StateClearParams{ToolID: id})
		_, m["capabilities"] = b.Capabilities(other, ToolID{id})
		_, m["execute"] = b.Execute(other, ExecuteParams{ToolID: &id})
		_, m["secret"] = b.SecretSet(other, SecretSetParams{Name: "x", Value: "yyyy", Hosts: []string{"a.example.com"}, ToolIDs: []uuid.UUID{id}})
		return m
	}
	foreign, unknown := call(tool.ID), call(missing)
	for name, err := range foreign {
		if f := wantKind(t, err, fault.NotFound); f.Message != fault.As(unknown[name]).Message {
			t.Errorf("%s: %q for a foreign tool, %q for a missing one", name, f.Message, fault.As(unknown[name]).Message)
		}
	}
	_, err = b.Unshare(other, UnshareParams{ShareID: sh.ShareID})
	wantKind(t, err, fault.NotFound)
	g, err := b.Get(b.ctx, GetParams{ToolID: tool.ID})
	if err != nil || g.Tool.UsageCount != 0 || g.Tool.LastUsed != nil {
		t.Errorf("the counters moved: %+v, %v", g.Tool, err)
	}
	b.update(t, tool, `{"visibility":"public"}`)
	g, err = b.Get(other, GetParams{ToolID: tool.ID})
	if err != nil || g.Tool.Mine || len(g.Tool.Samples) != 0 {
		t.Fatalf("public tool: %+v, %v", g, err)
	}
	_, err = b.Execute(other, ExecuteParams{ToolID: &tool.ID})
	wantKind(t, err, fault.Denied)
	c, err := b.Clone(other, CloneParams{ToolID: tool.ID})
	if err != nil || !c.Tool.Mine || c.Tool.Visibility != Private {
		t.Fatalf("clone of a public tool: %+v, %v", c.Tool, err)
	}
}

func TestVersionsAreBounded(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Name: "A", Code: "return 0"})
	if _, err := b.Share(b.ctx, ShareParams{ToolID: tool.ID, Access: AccessLink}); err != nil {
		t.Fatal(err)
	}
	// The versions are inserted directly, because only the deletion of the oldest ones is tested.
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		cur := tool
		for i := range maxVersions + 5 {
			cur.Version = "1.1." + itoa(i)
			if err := insertVersion(tx, &cur, ""); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	v, err := b.Versions(b.ctx, VersionsParams{ToolID: tool.ID})
	if err != nil || v.Total != maxVersions {
		t.Fatalf("%d versions, %v", v.Total, err)
	}
	if _, err := b.Diff(b.ctx, DiffParams{ToolID: tool.ID, From: "1.0.0", To: "1.1.204"}); err != nil {
		t.Errorf("the shared version went: %v", err)
	}
	small := setup(t, func(o *Options) { o.MaxTools = 1 })
	small.create(t, CreateParams{Code: "return 1"})
	_, err = small.Create(small.ctx, CreateParams{Name: "two", Code: "return 1"})
	wantKind(t, err, fault.Limit)
}
