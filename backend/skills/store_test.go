package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/skills/definition"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// toolSource provides a few tools that cannot be called.
type toolSource struct {
	things []callable.Info
	rights map[string]permission.PreviewResult // by name
}

func (c *toolSource) Kind() callable.Kind { return callable.Tool }

func (c *toolSource) Find(_ context.Context, id, name string) (out []callable.Info, _ error) {
	for _, t := range c.things {
		if id != "" && t.ID == id || id == "" && t.Name == name {
			out = append(out, t)
		}
	}
	return out, nil
}

func (c *toolSource) List(context.Context) ([]callable.Info, error) { return c.things, nil }

func (c *toolSource) Call(context.Context, callable.Ref, callable.Request) (callable.Result, error) {
	return callable.Result{}, fault.Unavailablef("Nothing is called here.")
}

func (c *toolSource) Rights(_ context.Context, i callable.Info, _ json.RawMessage) (permission.PreviewResult, error) {
	if p, ok := c.rights[i.Name]; ok {
		return p, nil
	}
	return permission.NewPreview(), nil
}

func aTool(id, name, hash string) callable.Info {
	return callable.Info{Ref: callable.Ref{Kind: callable.Tool, ID: id}, Name: name, Hash: hash}
}

// someTools returns the tools that most tests call.
func someTools() *toolSource {
	fetch, count := aTool("t-fetch", "fetch", "h1"), aTool("t-count", "count", "h2")
	fetch.Input = json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`)
	count.Effects.ReadOnly = true
	return &toolSource{things: []callable.Info{fetch, count, aTool("t-twin1", "twin", ""), aTool("t-twin2", "twin", "")}}
}

// storeFixture is a service with its own database, and records its events.
type storeFixture struct {
	*Service
	db  *storage.DB
	ctx context.Context
	mu  sync.Mutex
	ev  []string
}

func newStoreFixture(t testing.TB, change ...func(*Options)) *storeFixture {
	t.Helper()
	db := storagetest.Open(t)
	o := Options{Callables: offering(someTools())}
	for _, c := range change {
		c(&o)
	}
	d := &storeFixture{Service: New(db, o), db: db, ctx: storagetest.Ctx(t, db)}
	o.Callables.Add(d.Provider())
	t.Cleanup(d.Close)
	bus.Subscribe(db.Bus(), func(_ uuid.UUID, c Changed) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ev = append(d.ev, c.Change+" "+c.Version)
	})
	return d
}

func (d *storeFixture) changes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.ev)
}

func (d *storeFixture) save(t testing.TB, text string) Meta {
	t.Helper()
	m, err := d.CreateComposite(d.ctx, SaveParams{Skill: json.RawMessage(text)})
	if err != nil {
		t.Fatalf("create %s: %v", text, err)
	}
	return m
}

func (d *storeFixture) change(t testing.TB, id uuid.UUID, fields string) (Meta, error) {
	t.Helper()
	return d.UpdateComposite(d.ctx, SaveParams{Skill: json.RawMessage(fmt.Sprintf(`{"skillId":%q,%s}`, id, fields))})
}

// oneStep returns a skill with one step that outputs a value.
func oneStep(name, value string) string {
	return fmt.Sprintf(`{"name":%q,"steps":[{"stepId":"a","toolType":"transform","value":%s}]}`, name, value)
}

func wantKind(t testing.TB, err error, k fault.Kind) {
	t.Helper()
	if !fault.Is(err, k) {
		t.Fatalf("error %v, want kind %s", err, k)
	}
}

func TestSaveAndVersions(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	m := d.save(t, oneStep("First", "1"))
	if m.Version != "1.0.0" || !m.IsEnabled || !m.Valid || !m.Mine || m.StepCount != 1 || m.Visibility != "private" || m.VersionID == uuid.Nil {
		t.Fatalf("%+v", m)
	}
	// Only fields outside the definition: no new version.
	m2, err := d.change(t, m.SkillID, `"name":"Second","tags":["a","b"],"isEnabled":false`)
	if err != nil || m2.Version != "1.0.0" || m2.VersionID != m.VersionID || m2.Name != "Second" || m2.IsEnabled || len(m2.Tags) != 2 || m2.StepCount != 1 {
		t.Fatalf("%v %+v", err, m2)
	}
	// Only the position of a step on the canvas: no new version either.
	m3, err := d.change(t, m.SkillID, `"steps":[{"stepId":"a","toolType":"transform","value":1,"ui":{"x":5}}]`)
	if err != nil || m3.VersionID != m.VersionID || m3.DefinitionHash != m.DefinitionHash || m3.Steps[0].UI == nil || m3.Name != "Second" {
		t.Fatalf("%v %+v", err, m3)
	}
	m4, err := d.change(t, m.SkillID, `"steps":[{"stepId":"a","toolType":"transform","value":2}]`)
	if err != nil || m4.Version != "1.0.1" || m4.VersionID == m.VersionID {
		t.Fatalf("%v %+v", err, m4)
	}
	m5, err := d.change(t, m.SkillID, `"version":"2.1.0","overallTimeoutMs":1000,"steps":[{"stepId":"a","toolType":"transform","value":2}]`)
	if err != nil || m5.Version != "2.1.0" || m5.OverallTimeoutMs != 1000 {
		t.Fatalf("%v %+v", err, m5)
	}
	m6, err := d.change(t, m.SkillID, `"version":"1.5.0","steps":[{"stepId":"a","toolType":"transform","value":3}]`)
	if err != nil || m6.Version != "2.1.1" || m6.OverallTimeoutMs != 600000 {
		t.Fatalf("a lower number: %v %+v", err, m6)
	}
	got, err := d.GetMetadata(d.ctx, SkillParams{m.SkillID})
	if err != nil || got.Version != "2.1.1" || string(must(got.Steps[0].Value.MarshalJSON())) != "3" {
		t.Fatalf("%v %+v", err, got)
	}
	want := []string{"created 1.0.0", "disabled 1.0.0", "updated 1.0.0", "updated 1.0.1", "updated 2.1.0", "updated 2.1.1"}
	if ev := d.changes(); !slices.Equal(ev, want) {
		t.Errorf("got %v, want %v", ev, want)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestConflict(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	m := d.save(t, oneStep("One", "1"))
	other := d.save(t, oneStep("Two", "1"))
	edit := func(value, expected string) error {
		_, err := d.UpdateComposite(d.ctx, SaveParams{Skill: json.RawMessage(fmt.Sprintf(`{"skillId":%q,"steps":[{"stepId":"a","toolType":"transform","value":%s}]}`, m.SkillID, value)), ExpectedVersion: expected})
		return err
	}
	if err := edit("2", "1.0.0"); err != nil {
		t.Fatal(err)
	}
	err := edit("3", "1.0.0")
	wantKind(t, err, fault.Conflict)
	if c, ok := fault.As(err).Details.(Current); !ok || c.Version != "1.0.1" {
		t.Errorf("details %+v", fault.As(err).Details)
	}
	_, err = d.change(t, other.SkillID, `"name":"oNE"`)
	wantKind(t, err, fault.Conflict)
	_, err = d.CreateComposite(d.ctx, SaveParams{Skill: json.RawMessage(oneStep("one", "1"))})
	wantKind(t, err, fault.Conflict)
	_, err = d.change(t, uuid.New(), `"name":"x"`)
	wantKind(t, err, fault.NotFound)
	for _, text := range []string{`null`, `[]`, `{}`, `{"skillId":1}`, `{"skillId":"x"}`, ``} {
		_, err := d.UpdateComposite(d.ctx, SaveParams{Skill: json.RawMessage(text)})
		wantKind(t, err, fault.Invalid)
	}
}

func TestDrafts(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	// Definitions with unknown tools and references are stored and cannot be enabled.
	m := d.save(t, `{"name":"Draft","isEnabled":true,"steps":[{"stepId":"a","toolType":"custom","toolName":"nothing"},{"stepId":"b","toolType":"custom"},{"stepId":"c","toolType":"transform","value":"$.z"}]}`)
	if m.Valid || m.IsEnabled || len(m.Steps) != 3 {
		t.Fatalf("%+v", m)
	}
	_, err := d.change(t, m.SkillID, `"isEnabled":true`)
	wantKind(t, err, fault.Invalid)
	p, ok := fault.As(err).Details.(Problems)
	if !ok || len(p.Errors) != 3 || p.Errors[0].Path != "steps[0].toolName" {
		t.Fatalf("details %+v", fault.As(err).Details)
	}
	if m, err = d.change(t, m.SkillID, `"isEnabled":true,"steps":[{"stepId":"c","toolType":"transform","value":1}]`); err != nil || !m.IsEnabled || !m.Valid {
		t.Fatalf("%v %+v", err, m)
	}
	// An enabled skill that becomes a draft is disabled.
	if m, err = d.change(t, m.SkillID, `"isEnabled":true,"steps":[{"stepId":"c","toolType":"transform","value":"$.z"}]`); err != nil || m.IsEnabled || m.Valid {
		t.Fatalf("%v %+v", err, m)
	}
	// A definition that cannot be read is not stored, and all problems are reported at once.
	for _, steps := range []string{`null`, `{}`, `"x"`, `[null]`, `[{"stepId":"a","toolType":"transform","value":1,"timeoutMs":"soon"},{"stepId":"b","toolType":"custom","toolName":"nothing"}]`} {
		_, err := d.CreateComposite(d.ctx, SaveParams{Skill: json.RawMessage(`{"name":"n","steps":` + steps + `}`)})
		wantKind(t, err, fault.Invalid)
		p := fault.As(err).Details.(Problems)
		if len(p.Errors) == 0 || !strings.HasPrefix(p.Errors[0].Path, "steps") {
			t.Errorf("%s: %+v", steps, p)
		}
		if strings.Contains(steps, "soon") && len(p.Errors) != 2 {
			t.Errorf("not all at once: %+v", p.Errors)
		}
	}
	_, err = d.CreateComposite(d.ctx, SaveParams{Skill: json.RawMessage(`{"steps":[]}`)})
	wantKind(t, err, fault.Invalid)
	if l, err := d.ListComposite(d.ctx, ListParams{}); err != nil || l.Total != 1 {
		t.Errorf("%d kept, %v", l.Total, err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	r, err := d.ValidateComposite(d.ctx, ValidateParams{Skill: json.RawMessage(`{"name":"n","steps":[{"stepId":"a","toolName":"fetch","inputMapping":{"query":"input.q"}}]}`)})
	if err != nil || !r.Valid || len(r.Warnings) != 1 || !strings.Contains(string(r.Normalized), `"query":"$.input.q"`) {
		t.Fatalf("%v %+v %s", err, r, r.Normalized)
	}
	for _, text := range []string{`null`, `[]`, `{`, ``, `{"name":"n","steps":null}`} {
		r, err := d.ValidateComposite(d.ctx, ValidateParams{Skill: json.RawMessage(text)})
		if err != nil || r.Valid || len(r.Errors) == 0 || r.Warnings == nil {
			t.Errorf("%s: %v %+v", text, err, r)
		}
	}
}

func TestTwoUsers(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	them := storagetest.OtherUser(t, d.db)
	m := d.save(t, oneStep("Mine", "1"))
	id := SkillParams{m.SkillID}
	for name, call := range map[string]func() error{
		"get": func() error { _, err := d.GetMetadata(them, id); return err },
		"update": func() error {
			_, err := d.UpdateComposite(them, SaveParams{Skill: json.RawMessage(fmt.Sprintf(`{"skillId":%q}`, m.SkillID))})
			return err
		},
		"delete":        func() error { _, err := d.DeleteComposite(them, id); return err },
		"restore":       func() error { _, err := d.RestoreComposite(them, id); return err },
		"clone":         func() error { _, err := d.CloneComposite(them, id); return err },
		"list versions": func() error { _, err := d.ListVersions(them, id); return err },
		"version":       func() error { _, err := d.GetVersion(them, VersionParams{m.VersionID}); return err },
		"diff":          func() error { _, err := d.DiffVersions(them, DiffParams{m.VersionID, m.VersionID}); return err },
		"rollback":      func() error { _, err := d.Rollback(them, RollbackParams{m.SkillID, m.VersionID}); return err },
		"export":        func() error { _, err := d.Export(them, ExportParams{SkillID: m.SkillID}); return err },
		"rights":        func() error { _, err := d.PreviewRights(them, PreviewRightsParams{SkillID: &m.SkillID}); return err },
	} {
		if err := call(); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l, err := d.ListComposite(them, ListParams{}); err != nil || l.Total != 0 {
		t.Errorf("the other user sees %d, %v", l.Total, err)
	}
	if _, err := d.change(t, m.SkillID, `"visibility":"public"`); err != nil {
		t.Fatal(err)
	}
	got, err := d.GetMetadata(them, id)
	if err != nil || got.Mine || got.VersionID != uuid.Nil || got.Visibility != "public" || got.StepCount != 1 {
		t.Fatalf("%v %+v", err, got)
	}
	found, err := d.SearchPublic(them, SearchPublicParams{Query: "min"})
	if err != nil || found.Total != 1 || found.Skills[0].Mine {
		t.Fatalf("%v %+v", err, found)
	}
	if mine, err := d.SearchPublic(d.ctx, SearchPublicParams{}); err != nil || !mine.Skills[0].Mine {
		t.Fatalf("%v %+v", err, mine)
	}
	// A public skill can be called by its name; an own one with that name takes precedence.
	v, err := d.ValidateComposite(them, ValidateParams{Skill: json.RawMessage(`{"name":"n","steps":[{"stepId":"a","toolType":"skill","toolName":"Mine"}]}`)})
	if err != nil || !v.Valid {
		t.Fatalf("%v %+v", err, v)
	}
	clone, err := d.CloneComposite(them, id)
	if err != nil || clone.Name != "Mine (Clone)" || clone.IsEnabled || clone.Visibility != "private" || !clone.Mine || *clone.CloneSourceID != m.SkillID {
		t.Fatalf("%v %+v", err, clone)
	}
	if again, err := d.CloneComposite(them, id); err != nil || again.Name != "Mine (Clone 2)" {
		t.Fatalf("%v %+v", err, again)
	}
	for name, err := range map[string]error{
		"update": func() error {
			_, err := d.UpdateComposite(them, SaveParams{Skill: json.RawMessage(fmt.Sprintf(`{"skillId":%q}`, m.SkillID))})
			return err
		}(),
		"delete": func() error { _, err := d.DeleteComposite(them, id); return err }(),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of a public skill: %v", name, err)
		}
	}
	if _, err := d.change(t, m.SkillID, `"isEnabled":false`); err != nil {
		t.Fatal(err)
	}
	_, err = d.GetMetadata(them, id)
	wantKind(t, err, fault.NotFound)
}

func TestDeleteAndRestore(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	m := d.save(t, oneStep("Here", "1"))
	id := SkillParams{m.SkillID}
	if r, err := d.DeleteComposite(d.ctx, id); err != nil || r.DeletedAt.IsZero() {
		t.Fatalf("%v %+v", err, r)
	}
	_, err := d.GetMetadata(d.ctx, id)
	wantKind(t, err, fault.NotFound)
	_, err = d.DeleteComposite(d.ctx, id)
	wantKind(t, err, fault.NotFound)
	if l, err := d.ListComposite(d.ctx, ListParams{Deleted: true}); err != nil || l.Total != 1 || l.Skills[0].DeletedAt == nil {
		t.Fatalf("%v %+v", err, l)
	}
	d.save(t, oneStep("here", "1"))
	back, err := d.RestoreComposite(d.ctx, id)
	if err != nil || back.Name != "Here 2" || back.DeletedAt != nil || !back.IsEnabled {
		t.Fatalf("%v %+v", err, back)
	}
	if again, err := d.RestoreComposite(d.ctx, id); err != nil || again.Name != "Here 2" {
		t.Fatalf("%v %+v", err, again)
	}
	// After 30 days it is purged.
	if _, err := d.DeleteComposite(d.ctx, id); err != nil {
		t.Fatal(err)
	}
	err = d.db.Write(d.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE composite_skills SET deleted_at = ? WHERE id = ?`, tx.Now.Add(-tx.TrashAge()-1e9), m.SkillID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.RestoreComposite(d.ctx, id)
	wantKind(t, err, fault.NotFound)
	if l, err := d.ListComposite(d.ctx, ListParams{Deleted: true}); err != nil || l.Total != 0 {
		t.Fatalf("%v %+v", err, l)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	d := newStoreFixture(t)
	d.save(t, `{"name":"Alpha 100%","tags":["Mail","work"],"steps":[{"stepId":"a","toolType":"transform","value":1}]}`)
	d.save(t, `{"name":"Beta","description":"reads mail","isEnabled":false,"steps":[{"stepId":"a","toolType":"transform","value":1}]}`)
	d.save(t, oneStep("Gamma_x", "1"))
	names := func(p ListParams) string {
		t.Helper()
		r, err := d.ListComposite(d.ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range r.Skills {
			if len(m.Steps) != 0 || m.StepCount != 1 || !m.Valid {
				t.Errorf("%+v", m)
			}
			out = append(out, m.Name)
		}
		return strings.Join(out, ",")
	}
	on, off := true, false
	for want, p := range map[string]ListParams{
		"Gamma_x,Beta,Alpha 100%": {}, "Gamma_x,Alpha 100%": {Enabled: &on}, "Beta": {Enabled: &off}, "Beta,Alpha 100%": {Query: "mAIL"},
		"Alpha 100%": {Tag: "mail"}, "Gamma_x": {Query: "_"}, "": {Query: "0_"}, "Beta,Alpha 100% ": {Limit: 2, Offset: 1},
	} {
		if got := names(p); got != strings.TrimSpace(want) {
			t.Errorf("%+v gives %q, want %q", p, got, want)
		}
	}
	for _, p := range []ListParams{{Limit: 101}, {Limit: -1}, {Offset: -1}} {
		_, err := d.ListComposite(d.ctx, p)
		wantKind(t, err, fault.Invalid)
	}
}

func TestCatalogWithoutTools(t *testing.T) {
	t.Parallel()
	now := callable.Func{Info: callable.Info{Name: "time.now", Effects: callable.Effects{ReadOnly: true}, Input: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)}}
	d := newStoreFixture(t, func(o *Options) { o.Callables = offering(nil, now) })
	m := d.save(t, `{"name":"n","steps":[{"stepId":"a","toolName":"time.now"},{"stepId":"b","toolType":"wasm","toolName":"x"},{"stepId":"c","toolName":"srv.tool"}]}`)
	if m.Valid || m.Steps[0].ToolType != definition.Builtin || m.Steps[2].ToolType != definition.MCP {
		t.Fatalf("%+v", m)
	}
	c, err := d.Catalog(d.ctx, CatalogParams{})
	if err != nil || len(c.Entries) != 2 || c.Entries[0].Name != "time.now" || c.Entries[0].Tier != "readOnly" || c.Entries[1].ToolType != definition.SkillCall {
		t.Fatalf("%v %+v", err, c)
	}
	if c, err := d.Catalog(d.ctx, CatalogParams{Query: "TIME"}); err != nil || len(c.Entries) != 1 {
		t.Fatalf("%v %+v", err, c)
	}
}
