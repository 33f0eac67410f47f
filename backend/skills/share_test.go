package skills

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/lifecycle"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// portableTools is a toolSource with portable tools.
type portableTools struct{ toolSource }

func (m *portableTools) Export(ctx context.Context, ids []string) (out []json.RawMessage, _ error) {
	for _, id := range ids {
		found, _ := m.Find(ctx, id, "")
		if len(found) == 0 {
			return nil, fault.NotFoundf("Tool not found.")
		}
		out = append(out, must(json.Marshal(map[string]string{"name": found[0].Name, "hash": found[0].Hash})))
	}
	return out, nil
}

func (m *portableTools) Import(ctx context.Context, tools []json.RawMessage, commit bool) (out []callable.Imported, _ error) {
	for _, raw := range tools {
		var t struct{ Name, Hash string }
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, fault.Invalidf("A tool in the file cannot be read.")
		}
		done := callable.Imported{Name: t.Name, As: t.Name}
		if found, _ := m.Find(ctx, "", t.Name); len(found) == 0 || found[0].Hash != t.Hash {
			done.New = true
			if len(found) > 0 {
				done.As += " 2"
			}
			if commit {
				m.things = append(m.things, aTool("new "+done.As, done.As, t.Hash))
			}
		}
		out = append(out, done)
	}
	return out, nil
}

const travelling = `{"name":"Travels","description":"d","version":"1.4.2","tags":["x"],"icon":"i","outputMapping":null,"inputSchema":{"type":"object"},"steps":[
	{"stepId":"a","toolType":"custom","toolId":"t-fetch","parameters":{"query":"<&>é"},"ui":{"x":1.50}},
	{"stepId":"b","toolName":"count","condition":"$.a.n > 1","errorHandling":"retry","retryOn":[]},
	{"stepId":"c","toolType":"map","items":"$.input.l","steps":[{"stepId":"d","toolType":"transform","value":{"$literal":"$.x"}}]}]}`

func newMarket() *portableTools { return &portableTools{toolSource: *someTools()} }

func (d *storeFixture) export(t testing.TB, id SkillParams, tools bool) json.RawMessage {
	t.Helper()
	r, err := d.Export(d.ctx, ExportParams{SkillID: id.SkillID, IncludeTools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return r.File
}

// unsigned returns a file without its signature.
func unsigned(t testing.TB, file json.RawMessage) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(file, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "signature")
	return string(must(jcs.Canonicalize(must(json.Marshal(m)))))
}

// resealed returns a changed file with a correct checksum, without a signature.
func resealed(t testing.TB, file json.RawMessage, change func(m map[string]any)) json.RawMessage {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(file, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "signature")
	delete(m, "sha256")
	change(m)
	h := sha256.Sum256(must(jcs.Canonicalize(must(json.Marshal(m)))))
	if _, ok := m["sha256"]; !ok {
		m["sha256"] = hex.EncodeToString(h[:])
	}
	return must(json.Marshal(m))
}

func TestExportImport(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t, func(o *Options) { o.Callables = offering(newMarket()) })
	m := d.save(t, travelling)
	for _, tools := range []bool{false, true} {
		r, err := d.Export(d.ctx, ExportParams{SkillID: m.SkillID, IncludeTools: tools})
		if err != nil || r.Filename != "Travels.helixskill.json" {
			t.Fatalf("%v %s", err, r.Filename)
		}
		if !bytes.Equal(r.File, must(jcs.Canonicalize(r.File))) {
			t.Error("the file is not canonical")
		}
		for _, secret := range []string{m.SkillID.String(), d.db.LocalUser().ID.String(), "t-fetch", m.VersionID.String(), "isEnabled", "userId"} {
			if strings.Contains(string(r.File), secret) {
				t.Errorf("the file holds %s", secret)
			}
		}
		var f struct {
			Dependencies []Dependency
			Tools        []json.RawMessage
			Signature    *lifecycle.SealSignature
		}
		if err := json.Unmarshal(r.File, &f); err != nil || f.Signature == nil {
			t.Fatalf("%v %s", err, r.File)
		}
		want := []Dependency{{definition.Custom, "count", "h2"}, {definition.Custom, "fetch", "h1"}}
		if !slices.Equal(f.Dependencies, want) || len(f.Tools) != map[bool]int{true: 2}[tools] {
			t.Errorf("%+v, %d tools", f.Dependencies, len(f.Tools))
		}
		// A reimported skill is identical, byte for byte.
		if _, err := d.DeleteComposite(d.ctx, SkillParams{m.SkillID}); err != nil {
			t.Fatal(err)
		}
		dry, err := d.Import(d.ctx, ImportParams{File: r.File, DryRun: true})
		if err != nil || dry.SkillID != nil || dry.Action != "created" || dry.Name != "Travels" || !dry.Trusted {
			t.Fatalf("%v %+v", err, dry)
		}
		in, err := d.Import(d.ctx, ImportParams{File: r.File})
		if err != nil || in.SkillID == nil || *in.SkillID == m.SkillID || len(in.Errors)+len(in.Missing) > 0 || in.Rights.Verdict != "ready" || len(in.Rights.Steps) != 2 {
			t.Fatalf("%v %+v", err, in)
		}
		got, err := d.GetMetadata(d.ctx, SkillParams{*in.SkillID})
		if err != nil || got.IsEnabled || !got.Valid || got.Version != "1.4.2" || got.DefinitionHash == "" || got.Description != "d" || got.Visibility != "private" {
			t.Fatalf("%v %+v", err, got)
		}
		again := d.export(t, SkillParams{*in.SkillID}, tools)
		if unsigned(t, again) != unsigned(t, r.File) {
			t.Errorf("\n%s\n%s", again, r.File)
		}
		if string(again) != string(r.File) {
			t.Error("the signature of the same file by the same key is another")
		}
		if m, err = d.change(t, *in.SkillID, `"isEnabled":true`); err != nil || !m.IsEnabled {
			t.Fatalf("%v %+v", err, m)
		}
	}
}

func TestImportConflicts(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	m := d.save(t, travelling)
	file := d.export(t, SkillParams{m.SkillID}, false)
	if r, err := d.Import(d.ctx, ImportParams{File: file}); err != nil || r.Action != "created" || r.Name != "Travels 2" {
		t.Fatalf("%v %+v", err, r)
	}
	if r, err := d.Import(d.ctx, ImportParams{File: file, OnConflict: "skip"}); err != nil || r.Action != "skipped" || r.SkillID != nil || r.Rights.Steps == nil {
		t.Fatalf("%v %+v", err, r)
	}
	// The file names what the skill called by its id, which changes the definition. The same
	// definition creates no version.
	if r, err := d.Import(d.ctx, ImportParams{File: file, OnConflict: "newVersion"}); err != nil || r.Action != "version" || len(r.Warnings) != 0 {
		t.Fatalf("%v %+v", err, r)
	}
	if r, err := d.Import(d.ctx, ImportParams{File: file, OnConflict: "newVersion"}); err != nil || r.Action != "version" || *r.SkillID != m.SkillID || len(r.Warnings) != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	if _, err := d.change(t, m.SkillID, `"steps":[{"stepId":"z","toolType":"transform","value":1}]`); err != nil {
		t.Fatal(err)
	}
	r, err := d.Import(d.ctx, ImportParams{File: file, OnConflict: "newVersion"})
	if err != nil || r.Action != "version" || *r.SkillID != m.SkillID {
		t.Fatalf("%v %+v", err, r)
	}
	got, err := d.GetMetadata(d.ctx, SkillParams{m.SkillID})
	if err != nil || got.Version != "1.4.5" || got.IsEnabled || got.StepCount != 4 {
		t.Fatalf("%v %+v", err, got)
	}
	if v := must(d.ListVersions(d.ctx, SkillParams{m.SkillID})).Versions; len(v) != 4 || v[0].Origin != "import" {
		t.Errorf("%+v", v)
	}
	_, err = d.Import(d.ctx, ImportParams{File: file, OnConflict: "replace"})
	wantKind(t, err, fault.Invalid)
	if l := must(d.ListComposite(d.ctx, ListParams{})); l.Total != 2 {
		t.Errorf("%d skills", l.Total)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	m := d.save(t, travelling)
	file := d.export(t, SkillParams{m.SkillID}, false)
	for name, bad := range map[string]json.RawMessage{
		"changed":       bytes.Replace(file, []byte(`"description":"d"`), []byte(`"description":"e"`), 1),
		"a field added": append(slices.Clone(bytes.TrimSuffix(file, []byte("}"))), []byte(`,"z":1}`)...),
		"no sum":        resealed(t, file, func(m map[string]any) { m["sha256"] = "" }),
		"other format":  resealed(t, file, func(m map[string]any) { m["format"] = "helix-tools" }),
		"newer":         resealed(t, file, func(m map[string]any) { m["formatVersion"] = 2 }),
		"no steps":      resealed(t, file, func(m map[string]any) { m["skill"] = map[string]any{"name": "n", "steps": nil} }),
		"no skill":      resealed(t, file, func(m map[string]any) { delete(m, "skill") }),
		"twice":         json.RawMessage(`{"format":"helix-skill","format":"helix-skill"}`),
		"text":          json.RawMessage(`"x"`), "empty": nil, "null": json.RawMessage(`null`), "cut": file[:len(file)-5],
		"signed by another": func() json.RawMessage {
			var m map[string]any
			if err := json.Unmarshal(file, &m); err != nil {
				t.Fatal(err)
			}
			m["signature"].(map[string]any)["deviceKey"] = base64.StdEncoding.EncodeToString(make([]byte, 32))
			return must(json.Marshal(m))
		}(),
	} {
		_, err := d.Import(d.ctx, ImportParams{File: bad})
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := d.Import(d.ctx, ImportParams{File: make([]byte, maxShareFile+1)})
	wantKind(t, err, fault.Limit)
	if l := must(d.ListComposite(d.ctx, ListParams{})); l.Total != 1 {
		t.Errorf("%d skills", l.Total)
	}
}

// TestImportWithMissingToolsMakesDraft checks that a skill with missing tools becomes a draft that lists them.
func TestImportWithMissingToolsMakesDraft(t *testing.T) {
	t.Parallel()
	here := newStoreFixture(t, func(o *Options) { o.Callables = offering(newMarket()) })
	m := here.save(t, travelling)
	plain, with := here.export(t, SkillParams{m.SkillID}, false), here.export(t, SkillParams{m.SkillID}, true)

	there := newStoreFixture(t, func(o *Options) { o.Callables = offering(&toolSource{}) })
	r, err := there.Import(there.ctx, ImportParams{File: plain})
	if err != nil || r.Trusted || len(r.Signer) != 64 || len(r.Errors) != 2 || r.Rights.Verdict != "denied" ||
		!slices.Equal(r.Missing, []Dependency{{definition.Custom, "count", "h2"}, {definition.Custom, "fetch", "h1"}}) {
		t.Fatalf("%v %+v", err, r)
	}
	_, err = there.change(t, *r.SkillID, `"isEnabled":true`)
	wantKind(t, err, fault.Invalid)
	// Without a provider that accepts them the tools are not imported, which is reported.
	if r, err = there.Import(there.ctx, ImportParams{File: with}); err != nil || len(r.Missing) != 2 || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "2 tools") }) {
		t.Fatalf("%v %+v", err, r)
	}

	shop := &portableTools{}
	shop.things = []callable.Info{aTool("c", "count", "another")}
	third := newStoreFixture(t, func(o *Options) { o.Callables = offering(shop) })
	key := here.db.Device().PublicKey
	if err := third.db.Write(third.ctx, func(tx *storage.Tx) error {
		_, err := lifecycle.SetTrust(tx, third.db.LocalUser().ID, key, "Somebody", true)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	dry, err := third.Import(third.ctx, ImportParams{File: with, DryRun: true})
	if err != nil || !dry.Trusted || len(dry.Errors) != 0 || len(dry.Missing) != 0 || len(shop.things) != 1 {
		t.Fatalf("%v %+v", err, dry)
	}
	if r, err = third.Import(third.ctx, ImportParams{File: with}); err != nil || len(r.Errors) != 0 || len(shop.things) != 3 {
		t.Fatalf("%v %+v", err, r)
	}
	got := must(third.GetMetadata(third.ctx, SkillParams{*r.SkillID}))
	if got.Steps[0].ToolName != "fetch" || got.Steps[1].ToolName != "count 2" || !got.Valid {
		t.Errorf("%+v", got.Steps)
	}
	// An unsigned file.
	if r, err = third.Import(third.ctx, ImportParams{File: json.RawMessage(unsigned(t, plain))}); err != nil || r.Signer != "unsigned" || r.Trusted {
		t.Fatalf("%v %+v", err, r)
	}
}

func FuzzImport(f *testing.F) {
	d := newStoreFixture(f)
	m := d.save(f, travelling)
	file := d.export(f, SkillParams{m.SkillID}, false)
	f.Add([]byte(file), false)
	f.Add([]byte(travelling), true)
	f.Add([]byte(`{"name":"n","steps":[{"stepId":"a","toolName":"x.y","toolId":"z","condition":{"field":"a","operator":"exists"}}]}`), true)
	f.Fuzz(func(t *testing.T, text []byte, sealed bool) {
		if sealed { // the text is the skill of a valid file
			if !json.Valid(text) {
				return
			}
			var m map[string]any
			if json.Unmarshal(file, &m) != nil {
				t.Fatal("the seed cannot be read")
			}
			if _, err := jcs.Canonicalize(text); err != nil {
				return
			}
			text = resealed(t, file, func(m map[string]any) { m["skill"] = json.RawMessage(text) })
		}
		r, err := d.Import(d.ctx, ImportParams{File: text})
		if err != nil {
			if k := fault.KindOf(err); k != fault.Invalid && k != fault.Limit {
				t.Fatalf("kind %s: %v", k, err)
			}
			return
		}
		first := d.export(t, SkillParams{*r.SkillID}, false)
		if _, err := d.DeleteComposite(d.ctx, SkillParams{*r.SkillID}); err != nil {
			t.Fatal(err)
		}
		again, err := d.Import(d.ctx, ImportParams{File: first})
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		second := d.export(t, SkillParams{*again.SkillID}, false)
		if unsigned(t, first) != unsigned(t, second) {
			t.Fatalf("\n%s\n%s", first, second)
		}
		if _, err := d.DeleteComposite(d.ctx, SkillParams{*again.SkillID}); err != nil {
			t.Fatal(err)
		}
	})
}
