package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/skills/machine"
	"helix/backend/storage"
)

func (b *fixture) save(text string) Meta {
	b.t.Helper()
	m, err := b.s.CreateComposite(b.ctx, SaveParams{Skill: json.RawMessage(text)})
	if err != nil {
		b.t.Fatal(err)
	}
	if !m.IsEnabled || !m.Valid {
		b.t.Fatalf("%s is a draft", text)
	}
	return m
}

func call(id, skill, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"stepId":%q,"toolType":"skill","toolName":%q%s}`, id, skill, more)
}

// children returns the nested runs of a run.
func (b *fixture) children(id uuid.UUID) (out []uuid.UUID) {
	b.t.Helper()
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		var err error
		out, err = storage.Collect(tx.Select(`SELECT id FROM composite_skill_executions WHERE parent_execution_id = ? ORDER BY created_at`, id), storage.RowTo[uuid.UUID])
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func TestRunNested(t *testing.T) {
	t.Parallel()
	b := newFixture(t, func(o *Options) { o.Limits.Live = 1 }) // nested runs need no slot
	b.save(`{"name":"inner","steps":[` + step("a", "ok", `"inputMapping":{"x":"$.input.y"}`) + `]}`)
	outer := b.save(`{"name":"outer","steps":[` + call("n", "inner", `"parameters":{"y":4}`) + `]}`)
	out, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{SkillID: &outer.SkillID})
	if err != nil || string(out.FinalOutput) != `{"x":4}` {
		t.Fatalf("%+v %v", out, err)
	}
	kids := b.children(out.ExecutionID)
	if len(kids) != 1 {
		t.Fatal(kids)
	}
	x, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: kids[0]})
	if err != nil || x.Trigger != "skill" || x.ParentStepPath != "n" || *x.ParentExecutionID != out.ExecutionID || x.Status != machine.Completed {
		t.Fatalf("%+v %v", x, err)
	}
	b.replay(out.ExecutionID)
	b.replay(kids[0])

	b.h.on("bad", func(context.Context, Call) (json.RawMessage, error) { panic("oh") })
	b.save(`{"name":"broken","steps":[` + step("a", "bad", "") + `]}`)
	out = b.run(skillText(call("n", "broken", "")), `{}`)
	if out.Error == nil || out.Error.Kind != "internal" || !strings.Contains(out.Error.Message, `step "n": skill "broken": step "a"`) {
		t.Fatalf("%+v", out.Error)
	}
}

func TestRunNestedDepthAndCycle(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.save(oneLevel("d4", step("a", "ok", "")))
	b.save(oneLevel("d3", call("n", "d4", "")))
	b.save(oneLevel("d2", call("n", "d3", "")))
	d1 := b.save(oneLevel("d1", call("n", "d2", "")))
	out, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{SkillID: &d1.SkillID})
	if err != nil || !out.Success {
		t.Fatalf("%+v %v", out, err)
	}
	// Names are rebound without the static check.
	rebind := func(name, steps string) {
		t.Helper()
		err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
			if _, err := tx.Exec(`UPDATE composite_skills SET steps = ?, definition_hash = randomblob(32), updated_at = ? WHERE name = ?`, steps, tx.Now, name); err != nil {
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rebind("d4", `[`+call("n", "d2", "")+`]`)
	out, err = b.s.ExecuteComposite(b.ctx, ExecuteParams{SkillID: &d1.SkillID})
	if err != nil || out.Success || !strings.Contains(out.Error.Message, "skills call one another") && !strings.Contains(out.Error.Message, "calls itself") {
		t.Fatalf("%+v %v", out, err)
	}
	rebind("d3", `[`+call("n", "d2", "")+`]`)
	out, err = b.s.ExecuteComposite(b.ctx, ExecuteParams{SkillID: &d1.SkillID})
	if err != nil || out.Success || !strings.Contains(out.Error.Message, `"d2" calls itself`) {
		t.Fatalf("%+v %v", out.Error, err)
	}
}

func oneLevel(name, step string) string { return fmt.Sprintf(`{"name":%q,"steps":[%s]}`, name, step) }

// TestRunNestedWaits checks that a run whose nested run waits for a person waits too, without
// counting time or holding a slot.
func TestRunNestedWaits(t *testing.T) {
	t.Parallel()
	b := newFixture(t, func(o *Options) { o.Limits.Live, o.Limits.WaitInMemory = 1, 1 })
	b.start(b.s)
	b.save(`{"name":"inner","steps":[{"stepId":"ask","toolType":"approval","title":"May I?"},` + step("a", "ok", `"parameters":{"x":1}`) + `]}`)
	out := b.run(skillText(call("n", "inner", "")), `{}`)
	if out.Status != machine.Waiting || out.WaitReason != machine.WaitApproval {
		t.Fatalf("%+v", out)
	}
	if quick := b.run(skillText(step("a", "ok", "")), `{}`); !quick.Success {
		t.Fatalf("%+v", quick)
	}
	gone := func(x Execution) bool {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		return len(b.s.live) == 0
	}
	b.until(out.ExecutionID, gone)
	if x := b.until(out.ExecutionID, is(machine.Waiting)); len(x.Waits) != 1 || x.Waits[0].StepPath != "n/ask" || x.Waits[0].Request.Title != "May I?" {
		t.Fatalf("%+v", x.Waits)
	}
	if _, err := b.answer(out.ExecutionID, "n/ask", "approve"); err != nil {
		t.Fatal(err)
	}
	if x := b.until(out.ExecutionID, is(machine.Completed)); string(x.FinalOutput) != `{"x":1}` {
		t.Fatalf("%+v", x)
	}
	b.replay(out.ExecutionID)

	// Canceling the outer run cancels the nested one.
	out = b.run(skillText(call("n", "inner", "")), `{}`)
	if c, err := b.s.Cancel(b.ctx, CancelParams{ExecutionID: out.ExecutionID}); err != nil || c.Status != machine.Cancelled {
		t.Fatal(c, err)
	}
	b.until(b.children(out.ExecutionID)[0], is(machine.Cancelled))

	// Also after a restart in between.
	out = b.run(skillText(call("n", "inner", "")), `{}`)
	b.s.Close()
	b.s = b.service()
	b.start(b.s)
	kid := b.children(out.ExecutionID)[0]
	if _, err := b.answer(kid, "ask", "decline"); err != nil {
		t.Fatal(err)
	}
	if x := b.until(out.ExecutionID, is(machine.Failed)); x.Error.Kind != "denied" {
		t.Fatalf("%+v %+v", x.Error, x)
	}
	if n := len(b.children(out.ExecutionID)); n != 1 {
		t.Fatalf("%d nested runs", n)
	}
	b.replay(out.ExecutionID)
}
