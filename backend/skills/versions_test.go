package skills

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/skills/definition"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	tools := someTools()
	tools.rights = map[string]permission.PreviewResult{"fetch": preview("missing", "network:https", "a.example")}
	d := newStoreFixture(t, func(o *Options) { o.Callables = offering(tools) })
	m := d.save(t, oneStep("V", "1"))
	edit := func(steps string) Meta {
		t.Helper()
		m, err := d.UpdateComposite(d.ctx, SaveParams{Skill: json.RawMessage(fmt.Sprintf(`{"skillId":%q,"steps":[%s]}`, m.SkillID, steps)), Note: "because"})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m2 := edit(`{"stepId":"a","toolType":"transform","value":2},{"stepId":"b","toolName":"fetch","parameters":{"query":"x"}}`)
	list, err := d.ListVersions(d.ctx, SkillParams{m.SkillID})
	if err != nil || len(list.Versions) != 2 || !list.Versions[0].Current || list.Versions[1].Current || list.Versions[0].Note != "because" ||
		list.Versions[1].VersionID != m.VersionID || list.Versions[0].Body != nil || list.Versions[0].Origin != "edit" {
		t.Fatalf("%v %+v", err, list)
	}
	v, err := d.GetVersion(d.ctx, VersionParams{m.VersionID})
	if err != nil || string(v.Body) != `{"steps":[{"stepId":"a","toolType":"transform","value":1}]}` || v.Version != "1.0.0" || v.DefinitionHash != m.DefinitionHash {
		t.Fatalf("%v %+v %s", err, v, v.Body)
	}
	diff, err := d.DiffVersions(d.ctx, DiffParams{m.VersionID, m2.VersionID})
	if err != nil || len(diff.Steps.Added) != 1 || diff.Steps.Added[0].Path != "steps[1]" || len(diff.Steps.Changed) != 1 || diff.Steps.Changed[0].Path != "value" ||
		!slices.Equal(diff.Rights.Added, []string{"network:https(a.example)"}) || len(diff.Rights.Removed) != 0 {
		t.Fatalf("%v %+v", err, diff)
	}
	back, err := d.Rollback(d.ctx, RollbackParams{m.SkillID, m.VersionID})
	if err != nil || back.Version != "1.0.2" || back.DefinitionHash != m.DefinitionHash || back.VersionID == m.VersionID || !back.IsEnabled || back.StepCount != 1 {
		t.Fatalf("%v %+v", err, back)
	}
	if again, err := d.Rollback(d.ctx, RollbackParams{m.SkillID, m.VersionID}); err != nil || again.Version != "1.0.2" {
		t.Fatalf("%v %+v", err, again)
	}
	list, err = d.ListVersions(d.ctx, SkillParams{m.SkillID})
	if err != nil || len(list.Versions) != 3 || list.Versions[0].Origin != "rollback" || list.Versions[0].Note != "back to 1.0.0" {
		t.Fatalf("%v %+v", err, list)
	}
	other := d.save(t, oneStep("W", "1"))
	_, err = d.Rollback(d.ctx, RollbackParams{other.SkillID, m.VersionID})
	wantKind(t, err, fault.NotFound)
	_, err = d.GetVersion(d.ctx, VersionParams{uuid.New()})
	wantKind(t, err, fault.NotFound)

	// Roll back to a definition whose tool is missing: it is stored, and the skill disabled.
	tools.things = nil
	if gone, err := d.Rollback(d.ctx, RollbackParams{m.SkillID, m2.VersionID}); err != nil || gone.Valid || gone.IsEnabled || gone.Version != "1.0.3" {
		t.Fatalf("%v %+v", err, gone)
	}
}

// TestVersionsNeverChange checks that rows of earlier versions never change, whatever is
// done with a skill.
func TestVersionsNeverChange(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	m := d.save(t, oneStep("V", "0"))
	id := SkillParams{m.SkillID}
	rows := func() map[string]string {
		t.Helper()
		out := map[string]string{}
		err := d.db.Read(d.ctx, func(tx *storage.Tx) error {
			list, err := tx.Query(`SELECT hex(id), version || body || hex(definition_hash) || note || origin || created_at || updated_at FROM composite_skill_versions`)
			if err != nil {
				return err
			}
			defer list.Close()
			for list.Next() {
				var k, v string
				if err := list.Scan(&k, &v); err != nil {
					return err
				}
				out[k] = v
			}
			return list.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	file := must(d.Export(d.ctx, ExportParams{SkillID: m.SkillID})).File
	before := rows()
	for i, act := range []func() error{
		func() error {
			_, err := d.change(t, m.SkillID, `"steps":[{"stepId":"a","toolType":"transform","value":1,"ui":{"x":1}}]`)
			return err
		},
		func() error {
			_, err := d.change(t, m.SkillID, `"steps":[{"stepId":"a","toolType":"transform","value":1,"ui":{"x":2}}]`)
			return err
		},
		func() error {
			_, err := d.change(t, m.SkillID, `"name":"W","isEnabled":false,"visibility":"public"`)
			return err
		},
		func() error { _, err := d.Rollback(d.ctx, RollbackParams{m.SkillID, m.VersionID}); return err },
		func() error { _, err := d.DeleteComposite(d.ctx, id); return err },
		func() error { _, err := d.RestoreComposite(d.ctx, id); return err },
		func() error { _, err := d.CloneComposite(d.ctx, id); return err },
		func() error {
			_, err := d.change(t, m.SkillID, `"name":"V","steps":[{"stepId":"a","toolType":"transform","value":5}]`)
			return err
		},
		func() error {
			_, err := d.Import(d.ctx, ImportParams{File: file, OnConflict: "newVersion"})
			return err
		},
		func() error { _, err := d.Import(d.ctx, ImportParams{File: file}); return err },
	} {
		if err := act(); err != nil {
			t.Fatalf("act %d: %v", i, err)
		}
		after := rows()
		for k, v := range before {
			if after[k] != v {
				t.Fatalf("act %d changed a version: %s to %s", i, v, after[k])
			}
		}
		before = after
	}
	err := d.db.Write(d.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE composite_skill_versions SET body = '{}' WHERE composite_skill_id = ?`, m.SkillID)
		return err
	})
	if err == nil {
		t.Error("the database lets a version change")
	}
	if len(before) != 7 { // 0, 1, back to 0, clone, 5, import of 0 and a new skill
		t.Errorf("%d versions", len(before))
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	tools := someTools()
	steps := []callable.Func{{Info: callable.Info{Name: "notify"}}, {Info: callable.Info{Name: "http.request", Capabilities: []string{"network:https(*)"}}}}
	d := newStoreFixture(t, func(o *Options) { o.Callables = offering(tools, steps...) })
	inner := d.save(t, `{"name":"Inner","steps":[{"stepId":"get","toolName":"fetch","parameters":{"query":"x"}}]}`)
	outer := d.save(t, `{"name":"Outer","steps":[{"stepId":"n","toolName":"notify"},
		{"stepId":"pick","toolType":"branch","cases":[{"when":"$.input.x == 1","steps":[{"stepId":"do","toolType":"skill","toolName":"Inner"}]}],
			"else":[{"stepId":"all","toolType":"map","items":"$.input.y","steps":[{"stepId":"again","toolType":"skill","toolName":"Inner"},{"stepId":"c","toolName":"count"}]}]}]}`)
	if v := must(d.ValidateComposite(d.ctx, ValidateParams{Skill: must(json.Marshal(outer))})); !v.Valid || len(v.Warnings) > 0 {
		t.Fatalf("%+v", v)
	}
	look := func(unattended bool) RightsPreview {
		t.Helper()
		r, err := d.PreviewRights(d.ctx, PreviewRightsParams{SkillID: &outer.SkillID, Unattended: unattended})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	net := []string{"network:https(a.example)"}
	r := look(true)
	var paths []string
	for _, st := range r.Steps {
		paths = append(paths, st.StepPath)
	}
	if want := []string{"n", "pick/do", "pick/do/get", "pick/all/again", "pick/all/c"}; !slices.Equal(paths, want) || r.Verdict != "ready" {
		t.Fatalf("%v %+v", paths, r)
	}
	tools.rights = map[string]permission.PreviewResult{"fetch": preview("granted", "network:https", "a.example")}
	if r := look(true); r.Verdict != "ready" || !slices.Equal(r.Union, net) || r.Reason != "" {
		t.Errorf("%+v", r)
	}
	tools.rights["fetch"] = preview("missing", "network:https", "a.example")
	if r := look(false); r.Verdict != "asks" || r.Reason == "" {
		t.Errorf("%+v", r)
	}
	if r := look(true); r.Verdict != "denied" {
		t.Errorf("%+v", r)
	}
	tools.rights["count"] = permission.PreviewResult{Stops: []permission.PreviewStop{{Reason: permission.ReasonInactive, Message: "The tool was changed"}}}
	if r := look(false); r.Verdict != "denied" || r.Reason != "Step pick/all/c: The tool was changed." {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]string{
		`{"name":"n","steps":[{"stepId":"h","toolName":"http.request"}]}`:                   "asks",
		`{"name":"n","steps":[{"stepId":"h","toolType":"custom","toolName":"nothing"}]}`:    "denied",
		`{"name":"n","steps":[{"stepId":"h","toolType":"custom","toolName":"twin"}]}`:       "denied",
		`{"name":"n","steps":[{"stepId":"h","toolType":"wasm","toolName":"x"}]}`:            "denied",
		`{"name":"n","steps":[{"stepId":"h","toolType":"transform","value":"$.input"}]}`:    "ready",
		`{"name":"n","steps":[{"stepId":"h","toolType":"skill","toolName":"Inner"}, null]}`: "asks",
	} {
		r, err := d.PreviewRights(d.ctx, PreviewRightsParams{Skill: json.RawMessage(text)})
		if err != nil || r.Verdict != want {
			t.Errorf("%s: %v %+v", text, err, r)
		}
	}
	for _, p := range []PreviewRightsParams{{}, {SkillID: &inner.SkillID, Skill: json.RawMessage(`{}`)}, {Skill: json.RawMessage(`[]`)}} {
		_, err := d.PreviewRights(d.ctx, p)
		wantKind(t, err, fault.Invalid)
	}
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	doc := json.RawMessage(`{"input":{"list":[{"n":1},{"n":22222222222222222222},{"x":null}]},"step-1":{"ok":true}}`)
	for _, c := range []struct{ as, expression, value, kind string }{
		{"path", `"$.input.list[*].n"`, `[1,22222222222222222222]`, ""},
		{"path", `"$.input.list[0].n"`, `1`, ""},
		{"path", `"$.nothing"`, `null`, ""},
		{"path", `"$["`, `null`, "invalid"},
		{"path", `1`, `null`, "invalid"},
		{"condition", `"$['step-1'].ok == true"`, `true`, ""},
		{"condition", `"$.input.list[0].n > 1"`, `false`, ""},
		{"condition", `"constructor.constructor(\"return process\")()"`, `null`, "invalid"},
		{"template", `{"a":"$.input.list[0].n","b":["$$x",{"$path":"$.no","default":2}]}`, `{"a":1,"b":["$x",2]}`, ""},
		{"template", `"$.no"`, `null`, "invalid"},
	} {
		r, err := d.Evaluate(d.ctx, EvaluateParams{Document: doc, Expression: json.RawMessage(c.expression), As: c.as})
		kind := ""
		if r.Error != nil {
			kind = r.Error.Kind
		}
		if err != nil || string(r.Value) != c.value || kind != c.kind || r.Matches == nil {
			t.Errorf("%s %s: %v %s %+v", c.as, c.expression, err, r.Value, r.Error)
		}
	}
	r, err := d.Evaluate(d.ctx, EvaluateParams{Document: doc, Expression: json.RawMessage(`"$..n"`), As: "path"})
	if err != nil || len(r.Matches) != 2 || r.Matches[0].Path != "$['input']['list'][0]['n']" || string(r.Matches[1].Value) != "22222222222222222222" {
		t.Errorf("%v %+v", err, r)
	}
	for _, p := range []EvaluateParams{
		{Expression: json.RawMessage(`"$"`), As: "path"}, {Document: doc, ExecutionID: &uuid.UUID{}, Expression: json.RawMessage(`"$"`), As: "path"},
		{Document: doc, As: "path"}, {Document: doc, Expression: json.RawMessage(`"$"`), As: "other"}, {Document: json.RawMessage(`{`), Expression: json.RawMessage(`"$"`), As: "path"},
	} {
		_, err := d.Evaluate(d.ctx, p)
		wantKind(t, err, fault.Invalid)
	}
	nobody := uuid.New()
	_, err = d.Evaluate(d.ctx, EvaluateParams{ExecutionID: &nobody, Expression: json.RawMessage(`"$"`), As: "path"})
	wantKind(t, err, fault.NotFound)
	_, err = d.Document(d.ctx, RunParams{nobody})
	wantKind(t, err, fault.NotFound)
	large := json.RawMessage(`"` + string(make([]byte, 17<<20)) + `"`)
	_, err = d.Evaluate(d.ctx, EvaluateParams{Document: large, Expression: json.RawMessage(`"$"`), As: "path"})
	wantKind(t, err, fault.Limit)
}

// TestVersionsOfTwoDevices: another device used the same label for another definition. Both are
// kept, and on this device the label means the current one.
func TestVersionsOfTwoDevices(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	m := d.save(t, oneStep("V", "1"))
	load := func(version string) (r *row) {
		t.Helper()
		if err := d.db.Read(d.ctx, func(tx *storage.Tx) (err error) {
			if r, err = ownSkill(tx, m.SkillID); err != nil {
				return err
			}
			return r.at(tx, version)
		}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	mine, other := load("1.0.0").head, storage.NewID()
	if err := d.db.Write(d.ctx, func(tx *storage.Tx) error { // like sync
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`INSERT INTO composite_skill_versions (id, composite_skill_id, user_id, version, body, definition_hash, created_at, updated_at)
				SELECT ?, composite_skill_id, user_id, version, body, definition_hash, created_at + 1, updated_at FROM composite_skill_versions`, other)
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	if got := load("1.0.0").head; got != mine {
		t.Errorf("the label means %s, the current version is %s", got, mine)
	}
	if _, err := d.change(t, m.SkillID, `"steps":[{"stepId":"a","toolType":"transform","value":2}]`); err != nil {
		t.Fatal(err)
	}
	if got := load("1.0.0").head; got != other {
		t.Errorf("the label means %s, the newest is %s", got, other)
	}
	if v, err := d.ListVersions(d.ctx, SkillParams{m.SkillID}); err != nil || len(v.Versions) != 3 || v.Versions[0].Version != "1.0.1" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestHashedFieldsDoNotMergeByThemselves(t *testing.T) {
	t.Parallel()
	storagetest.Hashed(t, "composite_skills", definition.Body{})
}

func TestPinnedVersion(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	in := d.save(t, `{"name":"In","inputSchema":{"type":"object","properties":{"old":{}},"required":["old"]},"steps":[{"stepId":"a","toolType":"transform","value":1}]}`)
	if _, err := d.change(t, in.SkillID, `"inputSchema":{"type":"object","properties":{"new":{}}},"steps":[{"stepId":"a","toolType":"transform","value":2}]`); err != nil {
		t.Fatal(err)
	}
	for version, code := range map[string]string{"1.0.0": definition.CodeParameter, "1.0.1": "", "": "", "3.0.0": definition.CodeTool} {
		v, err := d.ValidateComposite(d.ctx, ValidateParams{Skill: json.RawMessage(`{"name":"n","steps":[{"stepId":"s","toolType":"skill","toolName":"In","skillVersion":"` + version + `"}]}`)})
		if err != nil || v.Valid != (code == "") || code != "" && v.Errors[0].Code != code {
			t.Errorf("version %q: %v %+v", version, err, v.Errors)
		}
	}
}
