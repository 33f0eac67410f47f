package backend

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/discovery"
	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
	"helix/backend/scheduler"
	"helix/backend/skills"
)

// An operation of an API has the same rights and the same log, whoever calls it.
func TestAPIOperationRunsForEveryCaller(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	spec, err := c.Discovery.InspectOpenAPI(c.ctx, discovery.InspectParams{Content: `{"openapi":"3.1.0","info":{"title":"Things","version":"1.0.0"},"servers":[{"url":"http://localhost:` + c.port + `"}],
		"paths":{"/things":{"get":{"operationId":"listThings","parameters":[{"name":"limit","in":"query","schema":{"type":"integer"}}]}}}}`})
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.Discovery.ImportOpenAPI(c.ctx, discovery.ImportOpenAPIParams{SpecID: spec.SpecID, Operations: []string{"get /things"}})
	if err != nil {
		t.Fatal(err)
	}
	skill, err := c.Skills.CreateComposite(c.ctx, skills.SaveParams{Skill: raw(t, map[string]any{"name": "Things", "steps": []any{
		map[string]any{"stepId": "a", "toolType": "api", "toolName": "things.listThings", "parameters": map[string]any{"limit": 3}},
	}})})
	if err != nil || !skill.Valid {
		t.Fatalf("%+v, %v", skill, err)
	}
	schedule, err := c.Scheduler.Create(c.ctx, scheduler.CreateParams{Name: "Things", Target: scheduler.Target{Kind: "skill", ID: &skill.SkillID}, Cadence: raw(t, map[string]any{"type": "interval", "everySecs": 86400})})
	if err != nil {
		t.Fatal(err)
	}
	call := calls("api_things_listthings", `{"limit":3}`)
	chat := &chatter{b: c.Backend, srv: providerstest.New(t, providerstest.Options{Replies: []providers.ScriptedReply{call, {Text: "It can't be called."}, call, {Text: "Done."}}})}
	chat.remote = c.session(t)
	chat.setUp()
	callers := map[string]func() bool{
		"agent": func() bool {
			session := chat.create(agent.CreateParams{Mode: agent.ModeWork})
			if turn := chat.say(session.ID, "List three things."); turn.State != agent.Completed {
				t.Errorf("%+v", turn)
			}
			return chat.did(agent.Turn{SessionID: session.ID}) == "made"
		},
		"": func() bool {
			out, err := c.Callables.CallByName(c.ctx, callable.CallParams{Kind: discovery.Kind, Name: "things.listThings", Input: json.RawMessage(`{"limit":3}`)})
			return err == nil && out.Untrusted
		},
		"skill": func() bool {
			out, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{SkillID: &skill.SkillID})
			return err == nil && out.Success
		},
		"schedule": func() bool {
			ended := make(chan scheduler.RunEvent, 64)
			defer bus.Subscribe(c.Bus, func(_ uuid.UUID, e scheduler.RunEvent) { ended <- e })()
			r, err := c.Scheduler.RunNow(c.ctx, scheduler.RunNowParams{ScheduleID: schedule.ScheduleID})
			if err != nil {
				t.Fatal(err)
			}
			for e := range ended {
				if e.RunID == r.RunID && (e.Status == "success" || e.Status == "failed") {
					return e.Status == "success"
				}
			}
			return false
		},
	}
	for name, call := range callers {
		if call() || c.asked.Load() != 0 {
			t.Errorf("%q reached an operation that isn't approved", name)
		}
	}
	if _, err := c.Discovery.Approve(c.ctx, discovery.ApproveParams{ManifestID: *made.ManifestID, DefinitionHash: made.DefinitionHash}); err != nil {
		t.Fatal(err)
	}
	for name, call := range callers {
		before := c.asked.Load()
		if !call() || c.asked.Load() != before+1 {
			t.Errorf("%q: %d requests", name, c.asked.Load()-before)
		}
	}
	list, err := c.Discovery.Executions(c.ctx, discovery.ExecutionsParams{ManifestID: made.ManifestID, Status: "success"})
	if err != nil || len(list.Executions) != len(callers) {
		t.Errorf("%+v, %v", list, err)
	}
	logged := []string{}
	for _, x := range list.Executions {
		full, err := c.Discovery.Execution(c.ctx, discovery.ExecutionParams{ExecutionID: x.ID})
		if err != nil || string(full.Params) != `{"limit":3}` || full.HTTPStatus == nil || *full.HTTPStatus != 200 || x.Operation != "listThings" {
			t.Errorf("%+v, %v", full, err)
		}
		logged = append(logged, x.Caller)
	}
	slices.Sort(logged)
	if !slices.Equal(logged, []string{"", "agent", "skill", "skill"}) {
		t.Errorf("the log has the callers %q", logged)
	}
	if _, err := c.Discovery.SetEnabled(c.ctx, discovery.EnableParams{ManifestID: *made.ManifestID}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Callables.CallByName(c.ctx, callable.CallParams{Kind: discovery.Kind, Name: "things.listThings"}); !fault.Is(err, fault.Denied) {
		t.Errorf("a disabled operation: %v", err)
	}
}
