package backend

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/skills"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

const asks = `{"name":"Asks","steps":[
	{"stepId":"one","toolType":"transform","value":1},
	{"stepId":"ask","toolType":"approval","title":"Go on?"},
	{"stepId":"two","toolType":"transform","value":"$.one"}]}`

// A run that waits for a person survives a restart, and continues with the answer.
func TestSkillSurvivesRestart(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	var run skills.ExecuteResult
	t.Run("before", func(t *testing.T) {
		b := startWith(t, o)
		var err error
		if run, err = b.Skills.ExecuteComposite(b.as(b.LocalUser()), skills.ExecuteParams{Skill: json.RawMessage(asks)}); err != nil || run.Status != machine.Waiting {
			t.Fatal(run, err)
		}
	})
	c := &chain{Backend: startWith(t, o), t: t}
	c.ctx = c.as(c.LocalUser())
	x, err := c.Skills.GetExecution(c.ctx, skills.RunParams{ExecutionID: run.ExecutionID})
	if err != nil || x.Status != machine.Waiting || len(x.Waits) != 1 {
		t.Fatal(x.Status, x.Waits, err)
	}
	if _, err := c.Skills.Answer(c.ctx, skills.AnswerParams{ExecutionID: run.ExecutionID, StepPath: "ask", Decision: machine.Approve}); err != nil {
		t.Fatal(err)
	}
	if x := c.ended(run.ExecutionID); !x.Success || string(x.FinalOutput) != "1" {
		t.Errorf("%+v", x.ExecuteResult)
	}
	rep, err := c.Skills.Replay(c.ctx, skills.RunParams{ExecutionID: run.ExecutionID})
	if err != nil || !rep.Identical {
		t.Errorf("replay: %+v, %v", rep, err)
	}
}

// The services of skills and schedules are listed, and can be stopped and started.
func TestSkillServices(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	s := c.session(t)
	for _, name := range []string{"skills", "scheduler"} {
		var l gateway.ServiceList
		s.whenFree("services.start", gateway.ServiceParams{Name: name})
		for _, step := range []struct {
			method  string
			running bool
		}{{"services.stop", false}, {"services.stop", false}, {"services.start", true}, {"services.restart", true}} {
			s.call(step.method, gateway.ServiceParams{Name: name}, &l)
			if len(l.Services) != 1 || l.Services[0].Name != name || l.Services[0].Running != step.running {
				t.Errorf("%s %s: %+v", step.method, name, l)
			}
		}
	}
	run, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{Skill: json.RawMessage(`{"name":"W","steps":[{"stepId":"w","toolType":"builtin","toolName":"wait","parameters":{"ms":1}}]}`)})
	if err != nil || !run.Success {
		t.Errorf("%+v, %v", run, err)
	}
}

// whenFree retries a method while the backend starts and does its first housekeeping.
func (r *remote) whenFree(method string, params any) {
	r.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		err := r.try(method, params, nil)
		if err == nil {
			return
		}
		if !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Unavailable) || time.Since(began) > patience {
			r.t.Fatalf("%s: %v", method, err)
		}
	}
}

// A run that was active when a backup was made does not continue in the restored data: what it did
// after the backup would be repeated.
func TestSkillRestoredDataEndsItsRuns(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	run, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{Skill: json.RawMessage(asks)})
	if err != nil || run.Status != machine.Waiting {
		t.Fatal(run, err)
	}
	file := filepath.Join(t.TempDir(), "before.zip")
	s := c.session(t)
	s.whenFree("storage.backup", storage.BackupParams{Path: file})
	if _, err := c.Skills.Answer(c.ctx, skills.AnswerParams{ExecutionID: run.ExecutionID, StepPath: "ask", Decision: machine.Approve}); err != nil {
		t.Fatal(err)
	}
	if x := c.ended(run.ExecutionID); !x.Success {
		t.Fatalf("%+v", x.ExecuteResult)
	}
	late, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{Skill: json.RawMessage(asks)})
	if err != nil || late.Status != machine.Waiting {
		t.Fatal(late, err)
	}
	s.whenFree("storage.restore", storage.RestoreParams{Path: file})
	x := c.ended(run.ExecutionID)
	if f := failure(x.Error); x.Status != machine.Failed || f.Kind != "canceled" || f.Message == "" {
		t.Errorf("the run of the backup: %s %+v", x.Status, f)
	}
	tick := time.NewTicker(10 * time.Millisecond) // the service drops its state after the restore, without an event
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		x, err := c.Skills.GetExecution(c.ctx, skills.RunParams{ExecutionID: late.ExecutionID})
		if fault.Is(err, fault.NotFound) {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("a run begun after the backup is there: %s, %v", x.Status, err)
		}
	}
	if run, err = c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{Skill: json.RawMessage(asks)}); err != nil || run.Status != machine.Waiting {
		t.Errorf("a new run: %s, %v", run.Status, err)
	}
}
