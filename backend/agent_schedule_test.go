package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/callable/callabletest"
	"helix/backend/coretools"
	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/synthesis"
)

func (c *chatter) schedule(input string) scheduler.Schedule {
	c.t.Helper()
	s, err := c.b.Scheduler.Create(c.ctx(), scheduler.CreateParams{
		Name: "Morning", Target: scheduler.Target{Kind: "agent", Input: json.RawMessage(input)}, Cadence: json.RawMessage(`{"type":"interval","everySecs":86400}`),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c *chatter) ctx() context.Context { return c.b.as(c.b.LocalUser()) }

// runNow starts a schedule and waits until its run ends.
func (c *chatter) runNow(s scheduler.Schedule) scheduler.Run {
	c.t.Helper()
	news := make(chan scheduler.RunEvent, 256)
	defer bus.Subscribe(c.b.Bus, func(_ uuid.UUID, e scheduler.RunEvent) { news <- e })()
	r, err := c.b.Scheduler.RunNow(c.ctx(), scheduler.RunNowParams{ScheduleID: s.ScheduleID})
	if err != nil {
		c.t.Fatal(err)
	}
	for e := range news {
		if e.RunID == r.RunID && (e.Status == "success" || e.Status == "failed" || e.Status == "cancelled") {
			break
		}
	}
	list, err := c.b.Scheduler.Runs(c.ctx(), scheduler.RunsParams{ScheduleID: &s.ScheduleID})
	if err != nil || list.Runs[0].RunID != r.RunID {
		c.t.Fatalf("%+v, %v", list.Runs, err)
	}
	return list.Runs[0]
}

// A schedule gives the agent a task. The run shows the answer and its cost; its notification is
// what the agent requested, and its chat is in the archive.
func TestScheduledAgent(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()), calls("schedule_notify", `{"title":"Rain","body":"Take an umbrella."}`), providers.ScriptedReply{Text: "[NOTIFY] It will rain."},
		providers.ScriptedReply{Text: "First."}, providers.ScriptedReply{Text: "Second."})
	notices := make(chan scheduler.Notification, 8)
	defer bus.Subscribe(c.b.Bus, func(_ uuid.UUID, n scheduler.Notification) { notices <- n })()
	s := c.schedule(`{"prompt":"What is the weather?"}`)
	r := c.runNow(s)
	if r.Status != "success" || r.OutputSummary != "[NOTIFY] It will rain." || r.TurnCount != 2 || !r.Notified {
		t.Fatalf("%+v %+v", r, r.Error)
	}
	if n := <-notices; n.Title != "Rain" || n.Body != "Take an umbrella." {
		t.Errorf("notice: %+v", n)
	}
	var turn agent.TurnResult
	c.call("chat.wait", agent.WaitParams{TurnID: *r.TargetRunID}, &turn)
	var list agent.ListResult
	c.call("chat.list", agent.ListParams{IncludeArchived: true}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].Kind != agent.KindScheduled || list.Sessions[0].ArchivedAt == nil || list.Sessions[0].ID != turn.Turn.SessionID || list.Sessions[0].Title != "Morning" {
		t.Errorf("%+v", list.Sessions)
	}
	same := c.schedule(`{"prompt":"Go on","session":"same"}`)
	c.runNow(same)
	c.runNow(same)
	c.call("chat.list", agent.ListParams{}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].MessageCount != 4 || list.Sessions[0].ArchivedAt != nil {
		t.Errorf("%+v", list.Sessions)
	}
	c.replays(list.Sessions[0].ID, 2)
	if _, err := c.b.Scheduler.Create(c.ctx(), scheduler.CreateParams{Name: "Nothing to do", Target: scheduler.Target{Kind: "agent", Input: json.RawMessage(`{}`)}, Cadence: json.RawMessage(`{"type":"interval","everySecs":86400}`)}); !fault.Is(err, fault.Invalid) {
		t.Errorf("without a prompt: %v", err)
	}
}

// No one is present to allow what a scheduled turn requests: its run fails, and the question waits.
func TestScheduledAgentAsksNobody(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()), calls("file_write", `{"path":"/shared/note.txt","text":"hello"}`), providers.ScriptedReply{Text: "I may not."})
	r := c.runNow(c.schedule(`{"prompt":"Write a note"}`))
	if r.Status != "failed" || r.Reason != "needs_approval" || r.Error == nil || r.Error.Kind != "denied" || !r.Notified {
		t.Fatalf("%+v %+v", r, r.Error)
	}
	var asked permission.ListApprovalsResult
	c.call("approvals.list", permission.ListApprovalsParams{}, &asked)
	if len(asked.Approvals) != 1 {
		t.Errorf("%+v", asked.Approvals)
	}
}

// Once a person allows what an unattended turn could not do, the same input starts again, and the call that
// was asked about is made. Another one is asked about again.
func TestUnattendedTurnStartsAgainAfterItsAnswer(t *testing.T) {
	t.Parallel()
	write := func(path string) providers.ScriptedReply {
		return calls("file_write", `{"path":"/shared/`+path+`","text":"hello"}`)
	}
	c := newChatter(t, testOptions(t.TempDir()), write("note.txt"), providers.ScriptedReply{Text: "I may not."}, write("note.txt"), write("other.txt"), providers.ScriptedReply{Text: "Only one."})
	r := c.runNow(c.schedule(`{"prompt":"Write a note"}`))
	var asked permission.ListApprovalsResult
	c.call("approvals.list", permission.ListApprovalsParams{}, &asked)
	if r.Reason != "needs_approval" || len(asked.Approvals) != 1 || !asked.Approvals[0].Run.Rerun {
		t.Fatalf("%+v %+v", r, asked.Approvals)
	}
	var answer permission.AnswerResult
	c.call("approvals.decide", permission.AnswerParams{ID: asked.Approvals[0].ID, Decision: "approve", Scope: "once", DefinitionHash: asked.Approvals[0].DefinitionHash, Rerun: true}, &answer)
	if answer.RunID == nil || answer.RerunError != "" || *answer.RunID == *r.TargetRunID {
		t.Fatalf("%+v", answer)
	}
	turn := c.until(*answer.RunID)
	if turn.FinishedAt == nil || turn.StopReason != agent.StopDenied {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	var results []string
	for _, m := range c.messages(turn.SessionID) {
		if m.Role == "tool" && m.TurnID == turn.TurnID {
			results = append(results, m.Parts[0].Status)
		}
	}
	if !slices.Equal(results, []string{"done", "denied"}) {
		t.Errorf("the calls of the second turn are %v", results)
	}
	if input := string(c.srv.Requests()[2].Body); !strings.Contains(input, "Write a note") {
		t.Errorf("the second turn was asked %s", input)
	}
	var list agent.ListResult
	c.call("chat.list", agent.ListParams{IncludeArchived: true}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].ArchivedAt == nil {
		t.Errorf("%+v", list.Sessions)
	}
}

// A scheduled turn that does not end stops at the budget of its schedule: 10 steps by default.
func TestScheduledAgentStopsAtItsBudget(t *testing.T) {
	t.Parallel()
	var replies []providers.ScriptedReply
	for i := range 20 {
		replies = append(replies, calls("scratchpad_write", `{"text":"`+string(rune('a'+i))+`"}`))
	}
	c := newChatter(t, testOptions(t.TempDir()), replies...)
	r := c.runNow(c.schedule(`{"prompt":"Never stop"}`))
	if r.Status != "failed" || r.Error == nil || r.Error.Kind != "limit" || r.TurnCount != 10 || c.srv.Calls() != 10 {
		t.Fatalf("%+v %+v, %d calls", r, r.Error, c.srv.Calls())
	}
}

// A scheduled turn that spends too fast stops at the money of its schedule, 0.50 dollars by default, before
// its steps are used up. Its run shows what the calls cost.
func TestScheduledAgentStopsAtItsMoney(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	config := "[caps.overrides.\"emulated/one\"]\ninput_price = 2.0\noutput_price = 8.0\noutput = 1000\n"
	var replies []providers.ScriptedReply
	for i := range 20 {
		r := calls("scratchpad_write", `{"text":"`+string(rune('a'+i))+`"}`)
		r.Usage = providers.Usage{Input: 60_000, Output: 100} // 0.1208 dollars
		replies = append(replies, r)
	}
	c := newChatter(t, o, replies...)
	if err := os.WriteFile(c.b.Config.Paths().ConfigFile(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if problems := c.b.Config.Reload(); len(problems) > 0 {
		t.Fatal(problems)
	}
	r := c.runNow(c.schedule(`{"prompt":"Never stop"}`))
	n := c.srv.Calls()
	if r.Status != "failed" || r.Error == nil || r.Error.Kind != "limit" || n < 2 || n >= 10 || r.TurnCount != n {
		t.Fatalf("%+v %+v, %d calls", r, r.Error, n)
	}
	if want := int64(n) * 120_800; r.CostMicros != want || want > 500_000 {
		t.Errorf("%d calls cost %d micros, want %d", n, r.CostMicros, want)
	}
	var turn agent.TurnResult
	c.call("chat.wait", agent.WaitParams{TurnID: *r.TargetRunID}, &turn)
	if turn.Turn.StopReason != agent.StopBudget || turn.Turn.CostMicros != r.CostMicros {
		t.Errorf("%+v", turn.Turn)
	}
}

// The agent is a callable like any other.
func TestAgentIsCallable(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()), slices.Repeat([]providers.ScriptedReply{{Text: "Four."}}, 8)...)
	callabletest.Run(t, callabletest.Harness{
		Ctx: c.ctx(), Registry: c.b.Callables, Kind: agent.Kind,
		Good: callabletest.Case{ID: agent.DefaultAgent, Input: `{"prompt":"Two and two?"}`}, Bad: `{}`,
		Outside: &callabletest.Case{ID: agent.DefaultAgent, Input: `{"prompt":"Two and two?"}`},
	})
	out, err := c.b.Callables.CallByName(c.ctx(), callable.CallParams{Kind: agent.Kind, Name: "Helix", Input: json.RawMessage(`{"prompt":"Two and two?"}`)})
	var said struct{ Text string }
	if err != nil || json.Unmarshal(out.Output, &said) != nil || said.Text != "Four." || out.Usage.Turns != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// A queued scheduled turn survives a stop before its start, starts only once, and can be canceled
// before.
func TestScheduledAgentStartsOnce(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	var run, other uuid.UUID
	t.Run("before", func(t *testing.T) {
		c := newChatter(t, o)
		p := c.b.Agent.Provider().(callable.Starter)
		err := c.b.DB.Write(c.ctx(), func(tx *storage.Tx) (err error) {
			for _, id := range []*uuid.UUID{&run, &other} {
				if *id, err = p.Enqueue(tx, callable.Ref{Kind: agent.Kind, ID: agent.DefaultAgent}, callable.Request{Input: json.RawMessage(`{"prompt":"Hello"}`), Caller: callable.Caller{Kind: "schedule", ID: "s", Label: "Morning", Run: storage.NewID()}}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	c := newChatter(t, o, providers.ScriptedReply{Text: "Hello."})
	p := c.b.Agent.Provider().(callable.Starter)
	if err := p.Cancel(c.ctx(), other, ""); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		p.Start(run)
		p.Start(other)
	}
	if turn := c.until(run); turn.State != agent.Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	if st, err := p.State(c.ctx(), other); err != nil || st.Status != "cancelled" || c.srv.Calls() != 1 {
		t.Errorf("%+v, %v, %d calls", st, err, c.srv.Calls())
	}
}

// A realistic task: list a folder, find the three largest files, write a skill that does it and
// schedule it. Helix is stopped while the second question waits; the person answers after the next
// start, enables the skill and resumes the schedule, which then returns the three files.
func TestChatWritesAndSchedulesSkill(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	script := []providers.ScriptedReply{
		calls("file_list", `{"path":"/shared","sort":"size","limit":3,"recursive":true}`),
		calls("skill_save", `{"name":"Largest files","steps":[{"stepId":"list","toolType":"builtin","toolName":"file.lists"}]}`),
		calls("skill_save", `{"name":"Largest files","steps":[{"stepId":"list","toolType":"builtin","toolName":"file.list","parameters":{"path":"/shared","sort":"size","limit":3,"recursive":true},"outputMapping":"$.entries[*].path"}]}`),
		calls("schedule_create", `{"name":"Largest files each morning","target":{"kind":"skill","name":"Largest files"},"cadence":{"type":"cron","expression":"30 8 * * 1-5"}}`),
		{Text: "Done. Enable the skill and resume the schedule."},
	}
	approve := func(c *chatter, turn agent.Turn, scope string) agent.Turn {
		t.Helper()
		if turn.State != agent.Waiting || len(turn.Approvals) != 1 {
			t.Fatalf("%+v %+v", turn, c.messages(turn.SessionID))
		}
		var asked permission.GetApprovalResult
		c.call("approvals.get", permission.GetApprovalParams{ID: turn.Approvals[0]}, &asked)
		c.call("approvals.decide", permission.AnswerParams{ID: asked.ID, Decision: "approve", Scope: scope, DefinitionHash: asked.DefinitionHash}, nil)
		return c.until(turn.TurnID)
	}
	var turn agent.Turn
	t.Run("before", func(t *testing.T) {
		c := newChatter(t, o, script[:4]...)
		var at coretools.Status
		c.call("workspace.status", nil, &at)
		for i, name := range []string{"a.txt", "b.txt", "c.txt", "d.txt", "e.txt"} {
			if err := os.WriteFile(filepath.Join(at.Root, "shared", name), make([]byte, 100*(i+1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		turn = c.say(c.create(agent.CreateParams{}).ID, "Read the shared folder, find the three largest files, write a skill that does it, and schedule it on weekdays at half past eight.")
		turn = approve(c, turn, "run")
		if len(c.srv.Requests()) != 4 || !strings.Contains(string(c.srv.Requests()[2].Body), "file.lists") {
			t.Errorf("%d requests; the error of the first skill is not in the third", len(c.srv.Requests()))
		}
	})
	c := newChatter(t, o, script[4:]...)
	if turn = approve(c, turn, "once"); turn.State != agent.Completed || turn.Steps != 5 {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	c.replays(turn.SessionID, 5)
	list, err := c.b.Scheduler.List(c.ctx(), scheduler.ListParams{Kind: "skill"})
	if err != nil || len(list.Schedules) != 1 || list.Schedules[0].Status != "paused" || list.Schedules[0].Target.ID == nil {
		t.Fatalf("%+v, %v", list.Schedules, err)
	}
	s := list.Schedules[0]
	text, _ := json.Marshal(map[string]any{"skillId": s.Target.ID, "isEnabled": true})
	if _, err := c.b.Skills.UpdateComposite(c.ctx(), skills.SaveParams{Skill: text}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.b.Scheduler.Resume(c.ctx(), scheduler.ScheduleParams{ScheduleID: s.ScheduleID}); err != nil {
		t.Fatal(err)
	}
	if r := c.runNow(s); r.Status != "success" || r.OutputSummary != `["/shared/e.txt","/shared/d.txt","/shared/c.txt"]` {
		t.Errorf("%+v %+v", r, r.Error)
	}
}

// A step of a skill calls a model: a person allows it once, the input is data without secrets, an
// answer that violates the schema is corrected or rejected, and the budgets apply.
func TestStepAsksModel(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()), providers.ScriptedReply{Text: "```json\n{\"mood\":7}\n```"}, providers.ScriptedReply{Text: `{"mood":"calm"}`},
		providers.ScriptedReply{Text: "Calm."}, providers.ScriptedReply{Text: "Still calm."}, providers.ScriptedReply{Text: "Calm, I said."})
	c.call("tools.secret_set", map[string]any{"name": "KEY", "value": "correct-horse-battery-77", "hosts": []string{"api.example.com"}, "toolIds": []string{}}, nil)
	m, err := c.b.Skills.CreateComposite(c.ctx(), skills.SaveParams{Skill: json.RawMessage(`{"name":"Mood","inputSchema":{"type":"object"},"steps":[{"stepId":"ask","toolType":"builtin","toolName":"llm.complete",
		"parameters":{"prompt":"Which mood?","schema":{"type":"object","required":["mood"],"properties":{"mood":{"type":"string"}}}},"inputMapping":{"input":"$.input.text"},"outputMapping":"$.value"}]}`)})
	if err != nil || !m.Valid {
		t.Fatal(m, err)
	}
	run := func() skills.ExecuteResult {
		t.Helper()
		out, err := c.b.Skills.ExecuteComposite(c.ctx(), skills.ExecuteParams{SkillID: &m.SkillID, Input: json.RawMessage(`{"text":"My key is correct-horse-battery-77, and I am at rest."}`), WaitMs: 60_000})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	waiting := run()
	var asked permission.ListApprovalsResult
	c.call("approvals.list", permission.ListApprovalsParams{}, &asked)
	if waiting.Status != "waiting" || len(asked.Approvals) != 1 || c.srv.Calls() != 0 {
		t.Fatalf("%+v, %d questions", waiting, len(asked.Approvals))
	}
	ended := make(chan skills.RunEvent, 64)
	defer bus.Subscribe(c.b.Bus, func(_ uuid.UUID, e skills.RunEvent) { ended <- e })()
	c.call("approvals.decide", permission.AnswerParams{ID: asked.Approvals[0].ID, Decision: "approve", Scope: "always", DefinitionHash: asked.Approvals[0].DefinitionHash}, nil)
	for e := range ended {
		if e.ExecutionID == waiting.ExecutionID && machine.Type(e.Type) == machine.RunFinished {
			break
		}
	}
	done, err := c.b.Skills.GetExecution(c.ctx(), skills.RunParams{ExecutionID: waiting.ExecutionID})
	if err != nil {
		t.Fatal(err)
	}
	if !done.Success || !strings.Contains(string(done.FinalOutput), `"calm"`) || c.srv.Calls() != 2 {
		t.Fatalf("%+v %+v, %d calls", done, done.Error, c.srv.Calls())
	}
	first, second := string(c.srv.Requests()[0].Body), string(c.srv.Requests()[1].Body)
	if strings.Contains(first, "battery-77") || !strings.Contains(first, "«data ") || !strings.Contains(second, "/mood") {
		t.Errorf("requests: %s\n%s", first, second)
	}
	if out := run(); out.Success || out.Error.Kind != "invalid" || c.srv.Calls() != 5 {
		t.Errorf("an answer that never matches: %+v %+v, %d calls", out, out.Error, c.srv.Calls())
	}
	few := int64(10)
	c.call("agent.set_budget", agent.SetBudgetParams{Scope: agent.ScopeDay, MaxTokens: &few}, nil)
	if out := run(); out.Success || out.Error.Kind != "limit" || c.srv.Calls() != 5 {
		t.Errorf("over the budget: %+v %+v, %d calls", out, out.Error, c.srv.Calls())
	}
	var spent agent.LedgerResult
	c.call("agent.ledger", agent.LedgerParams{}, &spent)
	if len(spent.Rows) != 5 || spent.Rows[0].SessionID != nil {
		t.Errorf("%+v", spent.Rows)
	}
}

// The tools of a turn get no more permissions than its caller has, and no one is asked for them.
func TestAgentKeepsRightsOfCaller(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()), calls("schedule_delete", `{"scheduleId":"018f3c5e-0000-7000-8000-000000000000"}`), calls("file_list", `{"path":"/vault"}`), providers.ScriptedReply{Text: "Done."})
	nothing := (&chain{Backend: c.b, t: t, ctx: c.ctx()}).noAuthority()
	_, err := c.b.Callables.Call(c.ctx(), callable.Ref{Kind: agent.Kind, ID: agent.DefaultAgent}, callable.Request{
		Input: json.RawMessage(`{"prompt":"Look into the vault"}`), Caller: callable.Caller{Kind: "skill", Label: "Reader", Attended: true, Authority: nothing},
	})
	var asked permission.ListApprovalsResult
	c.call("approvals.list", permission.ListApprovalsParams{}, &asked)
	if err != nil || len(asked.Approvals) != 0 {
		t.Fatalf("%v, %d questions", err, len(asked.Approvals))
	}
	var list agent.ListResult
	c.call("chat.list", agent.ListParams{IncludeArchived: true}, &list)
	for _, m := range c.messages(list.Sessions[0].ID) {
		for _, p := range m.Parts {
			if p.Kind == agent.PartToolResult && p.Status == "done" {
				t.Errorf("%s was called: %s", p.Tool, p.Text)
			}
		}
	}
}

// The engine llm of synthesis calls the model of its role at the person's expense. A remote model
// is called only after a person has answered the question in Approvals; a schedule ends denied.
func TestSynthesisAsksModel(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()), providers.ScriptedReply{Text: `{"patterns":[{"type":"goal","layer":4,"description":"You want a garden.","subjects":["Garden"],"confidence":0.9,
		"evidence":[{"id":"t1","quote":"a garden"},{"id":"t2","quote":"a garden"},{"id":"t3","quote":"a garden"}],"recommendations":[]}]}`})
	for i := range 3 {
		c.call("memory.add", memory.AddParams{Content: fmt.Sprintf("Day %d: I want a garden, and my key is correct-horse-battery-77.", i)}, nil)
	}
	c.call("tools.secret_set", map[string]any{"name": "KEY", "value": "correct-horse-battery-77", "hosts": []string{"api.example.com"}, "toolIds": []string{}}, nil)
	p := synthesis.SynthesizeParams{SynthesisType: synthesis.Full, Engine: "llm"}
	var pe *fault.Error
	if err := c.try("memory.synthesize", p, nil); !errors.As(err, &pe) || pe.Kind != fault.Unavailable {
		t.Fatal("without a model of this role:", err)
	}
	c.call("providers.set_role", providers.SetRoleParams{Role: providers.RoleSynthesis, Chain: []providers.ModelRef{"emulated/one"}}, nil)
	out := synthesized(c.call, p)
	if out.Analysis == nil || len(out.Analysis.Patterns) != 1 || out.Model != "emulated/one" || strings.Contains(string(c.srv.Requests()[0].Body), "battery-77") {
		t.Fatalf("%+v %s", out, c.srv.Requests()[0].Body)
	}
	var raw any
	c.call("memory.synthesis_status", map[string]any{"jobId": out.JobID}, &raw)
	camelCase(t, "job", raw)
	var spent agent.LedgerResult
	c.call("agent.ledger", agent.LedgerParams{}, &spent)
	if len(spent.Rows) != 1 || spent.Rows[0].Purpose != "synthesis" {
		t.Errorf("%+v", spent.Rows)
	}

	c.call("providers.set", providers.SetParams{Name: "far", Entry: providers.Entry{Type: providers.WireChat, BaseURL: "https://models.example.com", SkipCatalogValidation: true}, APIKey: "far-key-0123456789"}, nil)
	c.call("providers.set_role", providers.SetRoleParams{Role: providers.RoleSynthesis, Chain: []providers.ModelRef{"far/one"}}, nil)
	_, err := c.b.Callables.Call(c.ctx(), callable.Ref{Kind: synthesis.Kind, ID: "weekly"}, callable.Request{Input: json.RawMessage(`{"engine":"llm"}`), Caller: callable.Caller{Kind: "schedule"}})
	if !fault.Is(err, fault.Denied) {
		t.Error("a schedule:", err)
	}
	var asked permission.ListApprovalsResult
	c.call("approvals.list", permission.ListApprovalsParams{}, &asked)
	if len(asked.Approvals) != 1 || !strings.Contains(asked.Approvals[0].Question.Text, "far/one") || !strings.Contains(string(asked.Approvals[0].Question.Details), "I want a garden") {
		t.Fatalf("%+v", asked.Approvals)
	}
	c.call("approvals.decide", permission.AnswerParams{ID: asked.Approvals[0].ID, Decision: "deny", DefinitionHash: asked.Approvals[0].DefinitionHash}, nil)
	if c.call("approvals.list", permission.ListApprovalsParams{}, &asked); len(asked.Approvals) != 0 {
		t.Errorf("still open: %+v", asked.Approvals)
	}
	c.call("approvals.list", permission.ListApprovalsParams{Status: "denied"}, &asked)
	if len(asked.Approvals) != 1 || len(asked.Approvals[0].Question.Details) != 0 {
		t.Errorf("the text is kept with the answered question: %+v", asked.Approvals)
	}
}

// What a person approved for one model is not sent to another: neither to the next of the role if
// the first fails, nor to the same name at another address.
func TestSynthesisAsksOnlyTheModelShown(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()), providers.ScriptedReply{Text: `{"patterns":[]}`})
	for i := range 3 {
		c.call("memory.add", memory.AddParams{Content: fmt.Sprintf("Day %d: I want a garden.", i)}, nil)
	}
	c.call("providers.set", providers.SetParams{Name: "broken", Entry: providers.Entry{Type: providers.WireChat, BaseURL: "http://127.0.0.1:1/v1"}}, nil)
	c.call("providers.set_role", providers.SetRoleParams{Role: providers.RoleSynthesis, Chain: []providers.ModelRef{"broken/one", "emulated/one"}}, nil)
	out := synthesized(c.call, synthesis.SynthesizeParams{SynthesisType: synthesis.Full, Engine: "llm"})
	if out.Status != "failed" || c.srv.Calls() != 0 {
		t.Errorf("%s, and the second model of the role got %d texts", out.Status, c.srv.Calls())
	}
	q := providers.Request{Role: providers.RoleSynthesis, Pin: &providers.Pin{Model: "emulated/one", Host: "models.example.com"}, Messages: []providers.Message{{Role: providers.User, Parts: []providers.Part{providers.TextPart("Hello")}}}}
	if _, err := c.b.Providers.Complete(c.ctx(), q); !fault.Is(err, fault.Conflict) || c.srv.Calls() != 0 {
		t.Errorf("another address: %v, %d calls", err, c.srv.Calls())
	}
	q.Pin.Model = "other/one"
	if _, err := c.b.Providers.Complete(c.ctx(), q); !fault.Is(err, fault.Conflict) {
		t.Error("a model that left the role:", err)
	}
}

var camel = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

// camelCase checks that all members of a value on the wire are in camel case.
func camelCase(t *testing.T, path string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if !camel.MatchString(k) {
				t.Errorf("%s has the member %q", path, k)
			}
			camelCase(t, path+"."+k, inner)
		}
	case []any:
		for _, inner := range v {
			camelCase(t, path+"[]", inner)
		}
	}
}
