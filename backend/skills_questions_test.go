package backend

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/skills"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// waiting returns the open questions of a run.
func (c *chain) waiting(run uuid.UUID) []permission.Approval {
	c.t.Helper()
	list, err := c.Permission.ListApprovals(c.ctx, permission.ListApprovalsParams{})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []permission.Approval
	for _, a := range list.Approvals {
		if a.Run.ID != nil && *a.Run.ID == run {
			out = append(out, a)
		}
	}
	return out
}

func (c *chain) decide(a permission.Approval, p permission.AnswerParams) permission.AnswerResult {
	c.t.Helper()
	p.ID, p.DefinitionHash = a.ID, a.DefinitionHash
	res, err := c.Permission.AnswerApproval(c.ctx, p)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

func TestApprovalStepIsAnsweredInApprovals(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	m := c.save("Letters", `[{"stepId":"ask","toolType":"approval","title":"Send it?","show":["$.input"],"form":{"type":"object","properties":{"copies":{"type":"integer"}},"required":["copies"]}},
		{"stepId":"end","toolType":"transform","value":"$.ask.data.copies"}]`)
	run := c.run(m)
	if run.Status != machine.Waiting {
		t.Fatalf("%+v", run)
	}
	open := c.waiting(run.ExecutionID)
	if len(open) != 1 || open[0].Kind != "command" || open[0].Sentence != "Send it?" || open[0].Subject.Name != "Letters" || open[0].Question.Step != "ask" || open[0].Question.Form == nil {
		t.Fatalf("approvals: %+v", open)
	}
	if _, err := c.Permission.AnswerApproval(c.ctx, permission.AnswerParams{ID: open[0].ID, DefinitionHash: open[0].DefinitionHash, Decision: "approve", Data: json.RawMessage(`{"copies":"x"}`)}); !fault.Is(err, fault.Invalid) {
		t.Errorf("data that does not fit the form: %v", err)
	}
	if res := c.decide(open[0], permission.AnswerParams{Decision: "approve", Data: json.RawMessage(`{"copies":3}`)}); res.Status != "approved" {
		t.Errorf("%+v", res)
	}
	if x := c.ended(run.ExecutionID); !x.Success || string(x.FinalOutput) != "3" {
		t.Errorf("%+v", x.ExecuteResult)
	}
}

func TestQuestionLeavesApprovalsWithItsRun(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	for name, settle := range map[string]func(skills.ExecuteResult) error{
		"answered in the run": func(r skills.ExecuteResult) error {
			_, err := c.Skills.Answer(c.ctx, skills.AnswerParams{ExecutionID: r.ExecutionID, StepPath: "ask", Decision: machine.Decline})
			return err
		},
		"canceled": func(r skills.ExecuteResult) error {
			_, err := c.Skills.Cancel(c.ctx, skills.CancelParams{ExecutionID: r.ExecutionID})
			return err
		},
	} {
		run, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{Skill: json.RawMessage(asks)})
		if err != nil || len(c.waiting(run.ExecutionID)) != 1 {
			t.Fatalf("%s: %+v, %v", name, run, err)
		}
		if err := settle(run); err != nil {
			t.Fatal(err)
		}
		c.ended(run.ExecutionID)
		if open := c.waiting(run.ExecutionID); len(open) != 0 {
			t.Errorf("%s: still open: %+v", name, open)
		}
	}
}

func TestQuestionOfANestedRunIsAnsweredInApprovals(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	inner := c.save("Inner", `[{"stepId":"ask","toolType":"approval","title":"Inside?"}]`)
	outer := c.save("Outer", `[{"stepId":"call","toolType":"skill","toolName":"`+inner.Name+`"}]`)
	run := c.run(outer)
	list, err := c.Permission.ListApprovals(c.ctx, permission.ListApprovalsParams{})
	if err != nil || len(list.Approvals) != 1 || list.Approvals[0].Sentence != "Inside?" {
		t.Fatalf("%+v, %v", list, err)
	}
	c.decide(list.Approvals[0], permission.AnswerParams{Decision: "approve"})
	if x := c.ended(run.ExecutionID); !x.Success {
		t.Errorf("%+v", x.ExecuteResult)
	}
}

func TestRunsThatWaitedBeforeQuestionsWereShownAreShownAtStart(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	var run skills.ExecuteResult
	t.Run("before", func(t *testing.T) {
		c := &chain{Backend: startWith(t, o), t: t}
		c.ctx = c.as(c.LocalUser())
		var err error
		if run, err = c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{Skill: json.RawMessage(asks)}); err != nil {
			t.Fatal(err)
		}
		if err := c.DB.Write(c.ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`DELETE FROM pending_approvals`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
	c := &chain{Backend: startWith(t, o), t: t}
	c.ctx = c.as(c.LocalUser())
	news := make(chan struct{}, 1)
	defer bus.Subscribe(c.Bus, func(uuid.UUID, permission.ApprovalChanged) {
		select {
		case news <- struct{}{}:
		default:
		}
	})()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	open := c.waiting(run.ExecutionID)
	for len(open) == 0 {
		select {
		case <-news:
		case <-timer.C:
			t.Fatal("the question is not shown again")
		}
		open = c.waiting(run.ExecutionID)
	}
	c.decide(open[0], permission.AnswerParams{Decision: "approve"})
	if x := c.ended(run.ExecutionID); !x.Success {
		t.Errorf("%+v", x.ExecuteResult)
	}
}
