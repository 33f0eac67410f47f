package backend

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/permission"
	"helix/backend/skills"
	"helix/backend/tools"
)

// TestShareWithTools shares a skill with its tools with another installation, where it runs after
// both were enabled, and exports the same file again.
func TestShareWithTools(t *testing.T) {
	t.Parallel()
	here, there := start(t), start(t)
	ctxOf := func(b *Backend) context.Context {
		return identity.With(t.Context(), identity.Identity{User: b.DB.LocalUser().ID, Scopes: identity.Admin, Client: identity.ClientWindow})
	}
	ctx := ctxOf(here)
	m, err := here.Skills.CreateFromTemplate(ctx, skills.FromTemplateParams{Key: "compare-texts"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := here.Skills.Export(ctx, skills.ExportParams{SkillID: m.SkillID, IncludeTools: true})
	if err != nil {
		t.Fatal(err)
	}
	away := ctxOf(there)
	dry, err := there.Skills.Import(away, skills.ImportParams{File: file.File, DryRun: true})
	if err != nil || len(dry.Errors)+len(dry.Missing) > 0 || dry.Trusted || dry.Signer == "unsigned" {
		t.Fatalf("%v %+v", err, dry)
	}
	if l, err := there.Tools.List(away, tools.ListParams{}); err != nil || l.Total != 0 {
		t.Fatalf("a dry run added %d tools, %v", l.Total, err)
	}
	in, err := there.Skills.Import(away, skills.ImportParams{File: file.File})
	if err != nil || in.SkillID == nil || len(in.Errors)+len(in.Missing) > 0 || in.Rights.Verdict != "denied" {
		t.Fatalf("%v %+v", err, in)
	}
	again, err := there.Skills.Export(away, skills.ExportParams{SkillID: *in.SkillID, IncludeTools: true})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := plainFile(t, file.File), plainFile(t, again.File); a != b {
		t.Errorf("the file is another:\n%s\n%s", a, b)
	}
	list, err := there.Tools.List(away, tools.ListParams{})
	if err != nil || list.Total != 2 {
		t.Fatalf("%v %d tools", err, list.Total)
	}
	for _, tool := range list.Tools {
		if tool.IsEnabled {
			t.Errorf("%s is enabled", tool.Name)
		}
		if _, err := there.Tools.SetEnabled(away, tools.SetEnabledParams{ToolID: tool.ID, Enabled: true}); err != nil {
			t.Fatal(err)
		}
	}
	enable := func(id uuid.UUID) {
		t.Helper()
		raw, err := json.Marshal(map[string]any{"skillId": id, "isEnabled": true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := there.Skills.UpdateComposite(away, skills.SaveParams{Skill: raw}); err != nil {
			t.Fatal(err)
		}
	}
	enable(*in.SkillID)
	rights, err := there.Skills.PreviewRights(away, skills.PreviewRightsParams{SkillID: in.SkillID})
	if err != nil || rights.Verdict != "asks" {
		t.Fatalf("%v %+v", err, rights)
	}
	told := make(chan string, 1000)
	t.Cleanup(bus.Subscribe(there.Bus, func(_ uuid.UUID, e skills.RunEvent) { told <- e.Type }))
	run, err := there.Skills.ExecuteComposite(away, skills.ExecuteParams{SkillID: in.SkillID, Input: json.RawMessage(`{"texts":[{"name":"n","text":"a b c"}]}`), Async: true})
	if err != nil {
		t.Fatal(err)
	}
	// untrusted tools ask when they first run
	asked := 0
	for limit, ended := time.After(patience), false; !ended; {
		select {
		case e := <-told:
			if ended = e == "run.finished"; e != "run.waiting" {
				continue
			}
			open, err := there.Permission.ListApprovals(away, permission.ListApprovalsParams{})
			if err != nil || len(open.Approvals) == 0 {
				t.Fatalf("%v, the run waits and nothing is asked", err)
			}
			for _, a := range open.Approvals {
				asked++
				if _, err := there.Permission.AnswerApproval(away, permission.AnswerParams{ID: a.ID, Decision: "approve", DefinitionHash: a.DefinitionHash, Scope: "always"}); err != nil {
					t.Fatal(err)
				}
			}
		case <-limit:
			t.Fatal("the run does not end")
		}
	}
	done, err := there.Skills.GetExecution(away, skills.RunParams{ExecutionID: run.ExecutionID})
	if err != nil || !done.Success || asked != 2 {
		t.Fatalf("%v %+v %+v, asked %d times", err, done.Status, done.Error, asked)
	}
	if third, err := there.Skills.Import(away, skills.ImportParams{File: file.File, OnConflict: "newVersion"}); err != nil || *third.SkillID != *in.SkillID {
		t.Fatalf("%v %+v", err, third)
	}
	if l, err := there.Tools.List(away, tools.ListParams{}); err != nil || l.Total != 2 {
		t.Errorf("the same tools came twice: %d, %v", l.Total, err)
	}
}

// plainFile returns a share file without its signature.
func plainFile(t *testing.T, file json.RawMessage) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(file, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "signature")
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jcs.Canonicalize(raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
