package backend

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/skills"
)

// TestRightsOfRequests checks that the permissions of the step http.request are shown before it
// runs, and that granted ones are no longer asked for.
func TestRightsOfRequests(t *testing.T) {
	t.Parallel()
	b := start(t)
	ctx := identity.With(t.Context(), identity.Identity{User: b.DB.LocalUser().ID, Scopes: identity.Admin, Client: identity.ClientWindow})
	look := func(step string) skills.StepRights {
		t.Helper()
		skill := json.RawMessage(`{"name":"n","steps":[{"stepId":"get","toolName":"http.request",` + step + `}]}`)
		r, err := b.Skills.PreviewRights(ctx, skills.PreviewRightsParams{Skill: skill})
		if err != nil || len(r.Steps) != 1 {
			t.Fatalf("%v %+v", err, r)
		}
		return r.Steps[0]
	}
	const fixed = `"parameters":{"url":"https://API.example.org/x"}`
	const need = "network:https(api.example.org)"
	if r := look(fixed); !slices.Equal(r.Needs, []string{need}) || !slices.Equal(r.Missing, []string{need}) || r.Denied != "" {
		t.Errorf("%+v", r)
	}
	if r := look(`"inputMapping":{"url":"$.input.url"}`); !slices.Equal(r.Missing, []string{"network:https(host of the url)"}) {
		t.Errorf("%+v", r)
	}
	if r := look(`"parameters":{"url":"http://example.org"}`); r.Denied == "" {
		t.Errorf("%+v", r)
	}
	ask := json.RawMessage(`{"name":"n","steps":[{"stepId":"get","toolName":"http.request",` + fixed + `}]}`)
	waits := make(chan struct{}, 100)
	t.Cleanup(bus.Subscribe(b.Bus, func(_ uuid.UUID, e skills.RunEvent) {
		if e.Type == "run.waiting" {
			waits <- struct{}{}
		}
	}))
	run, err := b.Skills.ExecuteComposite(ctx, skills.ExecuteParams{Skill: ask, Async: true})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-waits:
	case <-time.After(patience):
		t.Fatal("the run does not wait")
	}
	open, err := b.Permission.ListApprovals(ctx, permission.ListApprovalsParams{})
	if err != nil || len(open.Approvals) != 1 {
		t.Fatalf("%v %+v, the run is %s", err, open, run.Status)
	}
	if _, err := b.Skills.Cancel(ctx, skills.CancelParams{ExecutionID: run.ExecutionID}); err != nil {
		t.Fatal(err)
	}
	a := open.Approvals[0]
	if _, err := b.Permission.AnswerApproval(ctx, permission.AnswerParams{ID: a.ID, Decision: "approve", DefinitionHash: a.DefinitionHash, Scope: "always"}); err != nil {
		t.Fatal(err)
	}
	if r := look(fixed); !slices.Equal(r.Granted, []string{need}) || len(r.Missing) != 0 {
		t.Errorf("%+v", r)
	}
}
