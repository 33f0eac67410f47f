package skills

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/schema"
	"helix/backend/skills/expr"
)

// toolMaker is a toolSource that can create tools.
type toolMaker struct {
	toolSource
	drafts []callable.Draft
}

func (w *toolMaker) Ensure(_ context.Context, d callable.Draft) (callable.Info, error) {
	sum := sha256.Sum256([]byte(d.Code))
	for _, t := range w.things {
		if t.Name == d.Name {
			return t, nil
		}
	}
	c := aTool("id of "+d.Name, d.Name, hex.EncodeToString(sum[:]))
	c.Input, c.Effects.ReadOnly = d.Parameters, true
	w.things, w.drafts = append(w.things, c), append(w.drafts, d)
	return c, nil
}

// withBuiltins adds the built-ins to the options of a service.
func withBuiltins(p callable.Provider) func(*Options) {
	list, closing := Builtins(BuiltinOptions{})
	closing()
	return func(o *Options) { o.Callables = offering(p, list...) }
}

// TestExamples creates a skill from each template, twice and in the presence of the others: there
// are no errors or warnings.
func TestExamples(t *testing.T) {
	t.Parallel()
	w := &toolMaker{}
	d := newStoreFixture(t, withBuiltins(w))
	list, err := d.Templates(d.ctx, struct{}{})
	if err != nil || len(list.Templates) != 6 {
		t.Fatalf("%v, %d templates", err, len(list.Templates))
	}
	var shows []string
	for _, tpl := range slices.Backward(list.Templates) {
		shows = append(shows, tpl.Shows...)
		if tpl.Name == "" || tpl.Description == "" || tpl.StepCount == 0 || len(tpl.Shows) == 0 || !json.Valid(tpl.SampleInput) {
			t.Errorf("%+v", tpl)
		}
		m, err := d.CreateFromTemplate(d.ctx, FromTemplateParams{Key: tpl.Key})
		if err != nil {
			t.Errorf("%s: %v", tpl.Key, err)
			continue
		}
		if !m.Valid || !m.IsEnabled || m.StepCount != tpl.StepCount {
			t.Errorf("%s: %+v", tpl.Key, m)
		}
		r, err := d.visible(d.ctx, m.SkillID)
		if err != nil {
			t.Fatal(err)
		}
		report, err := check(r, d.catalog(d.ctx))
		if err != nil || len(report.Errors)+len(report.Warnings) > 0 {
			t.Errorf("%s: %v %+v %+v", tpl.Key, err, report.Errors, report.Warnings)
		}
		if v, err := d.ValidateComposite(d.ctx, ValidateParams{Skill: must(r.skill().Text())}); err != nil || !v.Valid {
			t.Errorf("%s: %v %+v", tpl.Key, err, v.Errors)
		}
		if err := must(schema.Compile(m.InputSchema)).Check(t.Context(), must(expr.Decode(tpl.SampleInput))); err != nil {
			t.Errorf("%s: its sample does not fit: %v", tpl.Key, err)
		}
	}
	for _, want := range []string{"nested", "map", "approval", "branch", "wait"} {
		if !slices.Contains(shows, want) {
			t.Errorf("no template shows %s", want)
		}
	}
	if len(w.drafts) != 4 {
		t.Errorf("%d tools were made", len(w.drafts))
	}
	// The nested one created what it calls; the next ones find it or append a number.
	names := []string{}
	for _, m := range must(d.ListComposite(d.ctx, ListParams{Limit: 100})).Skills {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	if want := []string{"Ask first", "Check a table", "Compare texts", "Daily brief", "Remind me", "Text report", "Text report 2"}; !slices.Equal(names, want) {
		t.Errorf("made %q", names)
	}
	again, err := d.CreateFromTemplate(d.ctx, FromTemplateParams{Key: "daily-brief", Name: "Mine"})
	if err != nil || again.Name != "Mine" || again.Steps[2].ToolName != "Text report" || again.Steps[2].ToolID == "" {
		t.Errorf("%v %+v", err, again)
	}
	_, err = d.CreateFromTemplate(d.ctx, FromTemplateParams{Key: "none"})
	wantKind(t, err, fault.NotFound)
	plain := newStoreFixture(t)
	_, err = plain.CreateFromTemplate(plain.ctx, FromTemplateParams{Key: "text-report"})
	wantKind(t, err, fault.Unavailable)
}
