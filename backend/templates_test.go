package backend

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/skills"
)

// TestTemplatesRun checks that every template runs on a fresh installation, with its sample and
// without any permission.
func TestTemplatesRun(t *testing.T) {
	t.Parallel()
	b := start(t)
	ctx := identity.With(t.Context(), identity.Identity{User: b.DB.LocalUser().ID, Scopes: identity.Admin, Client: identity.ClientWindow})
	list, err := b.Skills.Templates(ctx, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan skills.RunEvent, 1000)
	t.Cleanup(bus.Subscribe(b.Bus, func(_ uuid.UUID, e skills.RunEvent) {
		select {
		case told <- e:
		default:
		}
	}))
	waitFor := func(run uuid.UUID, event string) {
		t.Helper()
		limit := time.After(patience)
		for {
			select {
			case e := <-told:
				if e.ExecutionID == run && e.Type == event {
					return
				}
			case <-limit:
				t.Fatalf("there was no %s", event)
			}
		}
	}
	want := map[string]string{
		"text-report":   `{"facts":{"characters":73,"longestWord":"anywhere","readingMinutes":1,"sentences":2,"words":14},"remark":"This is a short text.","summary":"14 words in 2 sentences, about 1 min to read."}`,
		"compare-texts": `{"mean":4,"texts":[{"name":"first","place":0,"words":3},{"name":"second","place":1,"words":5}],"words":8}`,
		"check-a-table": `{"remark":"The table was read.","result":{"column":"price","count":2,"max":4.5,"mean":3.75,"min":3,"sum":7.5},"rows":2,"valid":true}`,
	}
	for _, tpl := range list.Templates {
		m, err := b.Skills.CreateFromTemplate(ctx, skills.FromTemplateParams{Key: tpl.Key})
		if err != nil || !m.Valid || !m.IsEnabled {
			t.Errorf("%s: %v, valid %v", tpl.Key, err, m.Valid)
			continue
		}
		rights, err := b.Skills.PreviewRights(ctx, skills.PreviewRightsParams{SkillID: &m.SkillID, Unattended: true})
		if err != nil || rights.Verdict != "ready" {
			t.Errorf("%s: %v %+v", tpl.Key, err, rights)
		}
		input := tpl.SampleInput
		if tpl.Key == "remind-me" {
			input = json.RawMessage(`{"text":"x","seconds":0.2}`)
		}
		run, err := b.Skills.ExecuteComposite(ctx, skills.ExecuteParams{SkillID: &m.SkillID, Input: input, Async: true})
		if err != nil {
			t.Errorf("%s: %v", tpl.Key, err)
			continue
		}
		if tpl.Key == "ask-first" {
			waitFor(run.ExecutionID, "run.waiting")
			if _, err := b.Skills.Answer(ctx, skills.AnswerParams{ExecutionID: run.ExecutionID, StepPath: "ask", Decision: "approve", Data: json.RawMessage(`{"level":"warning"}`)}); err != nil {
				t.Errorf("%s: %v", tpl.Key, err)
				continue
			}
		}
		waitFor(run.ExecutionID, "run.finished")
		x, err := b.Skills.GetExecution(ctx, skills.RunParams{ExecutionID: run.ExecutionID})
		if err != nil {
			t.Fatal(err)
		}
		run = x.ExecuteResult
		if run.Status != "completed" || run.StepsFailed != 0 {
			t.Errorf("%s: %s %+v %+v", tpl.Key, run.Status, run.Error, run.StepResults)
		}
		if w := want[tpl.Key]; w != "" && string(run.FinalOutput) != w {
			t.Errorf("%s gives\n%s, want\n%s", tpl.Key, run.FinalOutput, w)
		}
		if tpl.Key == "daily-brief" {
			var out struct {
				Notes   []string
				Count   int
				Summary string
			}
			if err := json.Unmarshal(run.FinalOutput, &out); err != nil || out.Count != 2 || len(out.Notes) != 2 || out.Summary == "" {
				t.Errorf("%s gives %s", tpl.Key, run.FinalOutput)
			}
		}
	}
}
