package backend

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/tools"
	"helix/backend/wasmtools"
)

// chain is a running backend with a counting server that tools can call.
type chain struct {
	*Backend
	ctx    context.Context
	t      *testing.T
	port   string
	asked  atomic.Int64
	served func(w http.ResponseWriter, r *http.Request)
}

func newChain(t *testing.T) *chain {
	t.Helper()
	c := &chain{Backend: start(t), t: t}
	c.ctx = c.as(c.LocalUser())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		if c.served != nil {
			c.served(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"n":7}`)) //nolint:errcheck // the caller reads it
	}))
	t.Cleanup(srv.Close)
	c.port = srv.URL[strings.LastIndexByte(srv.URL, ':')+1:]
	return c
}

// tool creates a tool; caps may be omitted.
func (c *chain) tool(name, code string, caps ...string) tools.Tool {
	c.t.Helper()
	made, err := c.Tools.Create(c.ctx, tools.CreateParams{Name: name, Code: code, Capabilities: caps})
	if err != nil {
		c.t.Fatal(err)
	}
	return made.Tool
}

// asker creates a tool that calls the server, which needs a permission.
func (c *chain) asker(name string) tools.Tool {
	c.t.Helper()
	return c.tool(name, `export default async (p, helix) => (await helix.fetch("http://localhost:`+c.port+`/`+name+`")).json()`, "network:localhost("+c.port+")")
}

// save saves a skill with the given steps in JSON.
func (c *chain) save(name, steps string) skills.Meta {
	c.t.Helper()
	m, err := c.Skills.CreateComposite(c.ctx, skills.SaveParams{Skill: json.RawMessage(`{"name":"` + name + `","steps":` + steps + `}`)})
	if err != nil {
		c.t.Fatal(err)
	}
	if !m.Valid {
		v, err := c.Skills.ValidateComposite(c.ctx, skills.ValidateParams{Skill: json.RawMessage(`{"name":"` + name + `","steps":` + steps + `}`)})
		c.t.Fatalf("%s is a draft: %+v, %v", name, v.Errors, err)
	}
	return m
}

func (c *chain) run(m skills.Meta) skills.ExecuteResult {
	c.t.Helper()
	r, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{SkillID: &m.SkillID})
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// answer answers the only open question.
func (c *chain) answer(decision, scope string) permission.Approval {
	c.t.Helper()
	list, err := c.Permission.ListApprovals(c.ctx, permission.ListApprovalsParams{})
	if err != nil || len(list.Approvals) != 1 {
		c.t.Fatalf("open questions: %+v, %v", list.Approvals, err)
	}
	a := list.Approvals[0]
	if _, err := c.Permission.AnswerApproval(c.ctx, permission.AnswerParams{ID: a.ID, Decision: decision, DefinitionHash: a.DefinitionHash, Scope: scope}); err != nil {
		c.t.Fatal(err)
	}
	return a
}

// patience limits each wait of these tests; it is only reached if something is broken.
const patience = 5 * time.Minute

// ended waits until a run has ended and returns it.
func (c *chain) ended(id uuid.UUID) skills.Execution {
	c.t.Helper()
	return c.until(id, func(x *skills.Execution) bool {
		return x.Status != machine.Running && x.Status != machine.Waiting && x.Status != machine.Queued
	})
}

func (c *chain) until(id uuid.UUID, done func(*skills.Execution) bool) skills.Execution {
	c.t.Helper()
	news := make(chan struct{}, 1)
	defer bus.Subscribe(c.Bus, func(_ uuid.UUID, e skills.RunEvent) {
		select {
		case news <- struct{}{}:
		default:
		}
	})()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		x, err := c.Skills.GetExecution(c.ctx, skills.RunParams{ExecutionID: id})
		if err != nil {
			c.t.Fatal(err)
		}
		if done(&x) {
			return x
		}
		select {
		case <-news:
		case <-timer.C:
			c.t.Fatalf("the run is %s (%s)", x.Status, x.WaitReason)
		}
	}
}

func failure(x *machine.Failure) machine.Failure {
	if x == nil {
		return machine.Failure{}
	}
	return *x
}

// A tool is found by its name and by its id, a step's output reaches the next one, and a replay
// produces the same events.
func TestSkillByNameAndID(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	double := c.tool("Double", "export default (p) => ({ n: p.n * 2 })")
	m := c.save("Both", `[
		{"stepId":"a","toolName":"Double","parameters":{"n":4}},
		{"stepId":"b","toolType":"custom","toolId":"`+double.ID.String()+`","inputMapping":{"n":"$.a.n"}},
		{"stepId":"each","toolType":"map","items":"$.input.list","steps":[{"stepId":"c","toolName":"Double","toolType":"custom","inputMapping":{"n":"$.item"}}]}]`)
	r, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{SkillID: &m.SkillID, Input: json.RawMessage(`{"list":[1,2,3]}`)})
	if err != nil || !r.Success || string(r.ExecutionContext["b"]) != `{"n":16}` {
		t.Fatalf("%+v, %v", r, err)
	}
	if string(r.FinalOutput) != `[{"n":2},{"n":4},{"n":6}]` {
		t.Errorf("the map gave %s", r.FinalOutput)
	}
	rep, err := c.Skills.Replay(c.ctx, skills.RunParams{ExecutionID: r.ExecutionID})
	if err != nil || !rep.Identical || rep.Events == 0 {
		t.Errorf("replay: %+v, %v", rep, err)
	}
	u, err := c.Tools.Usage(c.ctx, tools.UsageParams{ToolID: &double.ID})
	if err != nil || len(u.Entries) != 5 {
		t.Errorf("the tool ran %d times, %v", len(u.Entries), err)
	}
	for _, e := range u.Entries {
		if e.Caller != "skill" {
			t.Errorf("the caller is %q", e.Caller)
		}
	}
}

// Errors of tools have the kinds that retries are based on.
func TestSkillToolErrors(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.tool("Thrower", "throw new Error('no milk')")
	c.tool("Spinner", "export default () => { for (;;); }")
	c.tool("Talker", "export default () => 'x'.repeat(2 << 20)")
	picky, err := c.Tools.Create(c.ctx, tools.CreateParams{Name: "Picky", Code: "export default (p) => p.n", Parameters: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ name, step, kind, word string }{
		{"thrower", `{"stepId":"s","toolName":"Thrower"}`, "internal", "no milk"},
		{"spinner", `{"stepId":"s","toolName":"Spinner","timeoutMs":300}`, "timeout", ""},
		{"talker", `{"stepId":"s","toolName":"Talker"}`, "limit", ""},
		{"picky", `{"stepId":"s","toolName":"` + picky.Tool.Name + `","inputMapping":{"n":"$.input.n"}}`, "invalid", "n"},
	} {
		m := c.save(x.name, "["+x.step+"]")
		r, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{SkillID: &m.SkillID, Input: json.RawMessage(`{"n":"text"}`)})
		if f := failure(r.Error); err != nil || r.Success || f.Kind != x.kind || !strings.Contains(f.Message, x.word) {
			t.Errorf("%s: %+v, %v", x.name, f, err)
		}
	}
}

// A tool that reached its own time limit may have had its effect, so it is not retried. One that
// only computes is.
func TestSkillTimeoutLeavesDoubt(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	const forever = "export default async (p, helix) => { for (;;); }"
	for _, p := range []tools.CreateParams{
		{Name: "Keeper", Code: "export default async (p, helix) => { await helix.state.set('done', 1); for (;;); }", Capabilities: []string{"state(1MiB)"}},
		{Name: "Thinker", Code: forever},
	} {
		p.Limits = &tools.Limits{WallMs: 200}
		if _, err := c.Tools.Create(c.ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	const retry = `"toolType":"custom","errorHandling":"retry","maxRetries":1`
	r := c.run(c.save("Keeps", `[{"stepId":"s","toolName":"Keeper",`+retry+`}]`))
	if r.WaitReason != machine.WaitPermission {
		t.Fatalf("%s %s", r.Status, r.WaitReason)
	}
	c.answer("approve", "always")
	x := c.ended(r.ExecutionID)
	if s := x.StepResults[0]; failure(x.Error).Kind != "timeout" || !s.Unknown || s.Attempts != 2 { // the first was refused before it started
		t.Errorf("with an effect: %+v %+v", s, x.Error)
	}
	r = c.run(c.save("Thinks", `[{"stepId":"s","toolName":"Thinker",`+retry+`}]`))
	if s := r.StepResults[0]; failure(r.Error).Kind != "timeout" || s.Unknown || s.RetriesUsed != 1 {
		t.Errorf("without one: %+v %+v", s, r.Error)
	}
}

// A deleted tool, a changed one and one that was changed during the run.
func TestRunFailsWhenToolWasDeletedOrChanged(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	one := c.tool("One", "export default () => 1")
	m := c.save("Uses one", `[{"stepId":"hold","toolType":"approval","title":"Go on?"},{"stepId":"s","toolName":"One","toolType":"custom"}]`)
	begin := func() skills.ExecuteResult {
		r := c.run(m)
		if r.Status != machine.Waiting || r.WaitReason != machine.WaitApproval {
			t.Fatalf("%s %s", r.Status, r.WaitReason)
		}
		return r
	}
	approve := func(r skills.ExecuteResult) skills.Execution {
		if _, err := c.Skills.Answer(c.ctx, skills.AnswerParams{ExecutionID: r.ExecutionID, StepPath: "hold", Decision: machine.Approve}); err != nil {
			t.Fatal(err)
		}
		return c.ended(r.ExecutionID)
	}
	if x := approve(begin()); !x.Success || string(x.FinalOutput) != "1" {
		t.Fatalf("%+v", x)
	}
	waits := begin()
	code := "export default () => 2"
	if _, err := c.Tools.Update(c.ctx, tools.UpdateParams{ToolID: one.ID, BaseVersion: one.Version, Patch: tools.Patch{Code: &code}}); err != nil {
		t.Fatal(err)
	}
	if x := approve(waits); failure(x.Error).Kind != "denied" || !strings.Contains(failure(x.Error).Message, "has changed") {
		t.Errorf("changed meanwhile: %+v", x.Error)
	}
	if x := approve(begin()); !x.Success || string(x.FinalOutput) != "2" {
		t.Errorf("changed before: %+v", x.ExecuteResult)
	}
	waits = begin()
	if _, err := c.Tools.Delete(c.ctx, tools.ToolID{ToolID: one.ID}); err != nil {
		t.Fatal(err)
	}
	if x := approve(waits); failure(x.Error).Kind != "not_found" || !strings.Contains(failure(x.Error).Message, "no longer exists") {
		t.Errorf("deleted meanwhile: %+v", x.Error)
	}
	if x := approve(begin()); failure(x.Error).Kind != "not_found" || len(x.StepResults) == 0 {
		t.Errorf("deleted before: %+v", x.Error)
	}
}

// A step has the grants of its own tool and none of another one; a skill inside a skill has no
// more.
func TestSkillRightsAreTheTools(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.asker("alpha")
	c.asker("beta")
	both := c.save("Both ask", `[{"stepId":"b","toolName":"beta","toolType":"custom"},{"stepId":"a","toolName":"alpha","toolType":"custom"}]`)
	r := c.run(both)
	if r.Status != machine.Waiting || r.WaitReason != machine.WaitPermission || c.asked.Load() != 0 {
		t.Fatalf("%s %s, asked %d times", r.Status, r.WaitReason, c.asked.Load())
	}
	if a := c.answer("approve", "always"); a.Subject.Name != "beta" || !strings.Contains(a.Requested[0].Why, "Both ask") {
		t.Errorf("the question is about %+v: %+v", a.Subject, a.Requested)
	}
	x := c.until(r.ExecutionID, func(x *skills.Execution) bool {
		return x.Status == machine.Waiting && len(x.Waits) == 1 && x.Waits[0].StepPath == "a" || x.Success
	})
	if x.Success || c.asked.Load() != 1 {
		t.Fatalf("alpha used beta's grant: %+v, asked %d times", x.ExecuteResult, c.asked.Load())
	}
	p, err := c.Skills.PreviewRights(c.ctx, skills.PreviewRightsParams{SkillID: &both.SkillID})
	if err != nil || p.Verdict != "asks" || len(p.Steps) != 2 || len(p.Steps[0].Granted) != 1 || len(p.Steps[1].Missing) != 1 {
		t.Errorf("preview: %+v, %v", p, err)
	}
	c.answer("deny", "")
	if x = c.ended(r.ExecutionID); failure(x.Error).Kind != "denied" || c.asked.Load() != 1 {
		t.Errorf("refused: %+v, asked %d times", x.Error, c.asked.Load())
	}

	inner := c.save("Inner", `[{"stepId":"a","toolName":"alpha","toolType":"custom"}]`)
	outer := c.save("Outer", `[{"stepId":"b","toolName":"beta","toolType":"custom"},{"stepId":"in","toolType":"skill","toolId":"`+inner.SkillID.String()+`"}]`)
	r = c.run(outer)
	if r.Status != machine.Waiting || r.WaitReason != machine.WaitPermission || c.asked.Load() != 2 {
		t.Fatalf("the nested skill: %s %s, asked %d times", r.Status, r.WaitReason, c.asked.Load())
	}
	c.answer("approve", "run")
	if x = c.ended(r.ExecutionID); !x.Success || c.asked.Load() != 3 {
		t.Errorf("the nested skill: %+v, asked %d times", x.ExecuteResult, c.asked.Load())
	}
}

// The authority of the caller limits a call, whatever was granted to the tool itself.
func TestSkillCallerLendsNoMore(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	alpha := c.asker("alpha")
	if _, err := c.Tools.Execute(c.ctx, tools.ExecuteParams{ToolID: &alpha.ID}); !fault.Is(err, fault.Denied) {
		t.Fatal(err)
	}
	c.answer("approve", "always")
	poor := c.tool("poor", "export default () => 1")
	info, err := c.Tools.Subject(c.ctx, "tool", poor.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	run := storage.NewID()
	auth, err := c.Permission.Begin(c.ctx, nil, permission.Subject{Kind: "tool", ID: poor.ID.String(), DefinitionHash: info.DefinitionHash}, run)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Permission.EndRun(c.ctx, run) //nolint:errcheck // the test is over
	found, err := c.Callables.One(c.ctx, callable.Tool, alpha.ID.String(), "")
	if err != nil {
		t.Fatal(found, err)
	}
	call := callable.Request{Hash: found.Hash, Timeout: patience, Caller: callable.Caller{Kind: "skill", Run: storage.NewID(), Label: "S", Step: "s", Attended: true}}
	if _, err := c.Callables.Call(c.ctx, found.Ref, call); err != nil || c.asked.Load() != 1 {
		t.Fatalf("with its own grant: %v", err)
	}
	call.Caller.Authority = auth
	_, err = c.Callables.Call(c.ctx, found.Ref, call)
	d, ok := callable.RefusalOf(err)
	if !fault.Is(err, fault.Denied) || !ok || d.Reason != permission.ReasonCallerLacks || d.PendingApprovalID != uuid.Nil || c.asked.Load() != 1 {
		t.Errorf("through a caller without it: %v, %+v", err, d)
	}
	call.Hash, call.Input = "", json.RawMessage(`{"url":"http://localhost:`+c.port+`/"}`)
	if _, err := c.Callables.Call(c.ctx, callable.Ref{Kind: callable.Builtin, ID: "http.request"}, call); !fault.Is(err, fault.Denied) || c.asked.Load() != 1 {
		t.Errorf("http.request through a caller without it: %v", err)
	}
}

// A scheduled run does not wait for an absent person: it ends denied at once, leaves the question,
// and runs once it is answered.
func TestSkillUnattended(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.asker("alpha")
	m := c.save("Nightly", `[{"stepId":"a","toolName":"alpha","toolType":"custom"}]`)
	notices := make(chan scheduler.Notification, 8)
	defer bus.Subscribe(c.Bus, func(_ uuid.UUID, n scheduler.Notification) { notices <- n })()
	s, err := c.Scheduler.Create(c.ctx, scheduler.CreateParams{Name: "Nightly", Target: scheduler.Target{Kind: "skill", Name: "nightly"}, Cadence: json.RawMessage(`{"type":"interval","everySecs":86400}`)})
	if err != nil || s.Target.ID == nil || *s.Target.ID != m.SkillID {
		t.Fatal(s.Target, err)
	}
	runNow := func() scheduler.Run {
		t.Helper()
		news := make(chan scheduler.RunEvent, 64)
		defer bus.Subscribe(c.Bus, func(_ uuid.UUID, e scheduler.RunEvent) { news <- e })()
		r, err := c.Scheduler.RunNow(c.ctx, scheduler.RunNowParams{ScheduleID: s.ScheduleID})
		if err != nil {
			t.Fatal(err)
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		for {
			select {
			case e := <-news:
				if e.RunID != r.RunID || e.Status != "success" && e.Status != "failed" {
					continue
				}
			case <-timer.C:
				t.Fatal("the scheduled run does not end")
			}
			list, err := c.Scheduler.Runs(c.ctx, scheduler.RunsParams{ScheduleID: &s.ScheduleID})
			if err != nil {
				t.Fatal(err)
			}
			return list.Runs[0]
		}
	}
	r := runNow()
	if r.Status != "failed" || r.Reason != "needs_approval" || r.Error == nil || r.Error.Kind != "denied" || c.asked.Load() != 0 {
		t.Fatalf("unattended: %+v %+v, asked %d times", r, r.Error, c.asked.Load())
	}
	select {
	case n := <-notices:
		if n.ScheduleID != s.ScheduleID {
			t.Errorf("notice: %+v", n)
		}
	case <-time.After(patience):
		t.Error("no notice that a right is missing")
	}
	question := c.answer("approve", "always")
	denied, err := c.Skills.GetExecution(c.ctx, skills.RunParams{ExecutionID: *r.TargetRunID})
	if err != nil || denied.Error == nil || denied.Error.ApprovalID == nil || *denied.Error.ApprovalID != question.ID {
		t.Errorf("the run does not name its question %s: %+v, %v", question.ID, denied.Error, err)
	}
	if r = runNow(); r.Status != "success" || c.asked.Load() != 1 {
		t.Errorf("after the answer: %+v %+v", r, r.Error)
	}
	x, err := c.Skills.GetExecution(c.ctx, skills.RunParams{ExecutionID: *r.TargetRunID})
	if err != nil || x.Trigger != "schedule" {
		t.Errorf("trigger %q, %v", x.Trigger, err)
	}
}

// A tool as a target is a run of one step.
func TestScheduledToolAndCleanup(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.tool("Double", "export default (p) => ({ n: p.n * 2 })")
	finish := func(p scheduler.CreateParams) scheduler.Run {
		t.Helper()
		news := make(chan scheduler.RunEvent, 64)
		defer bus.Subscribe(c.Bus, func(_ uuid.UUID, e scheduler.RunEvent) { news <- e })()
		p.Cadence = json.RawMessage(`{"type":"interval","everySecs":86400}`)
		s, err := c.Scheduler.Create(c.ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Scheduler.RunNow(c.ctx, scheduler.RunNowParams{ScheduleID: s.ScheduleID})
		if err != nil {
			t.Fatal(err)
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		for {
			select {
			case e := <-news:
				if e.RunID == r.RunID && (e.Status == "success" || e.Status == "failed") {
					list, err := c.Scheduler.Runs(c.ctx, scheduler.RunsParams{ScheduleID: &s.ScheduleID})
					if err != nil {
						t.Fatal(err)
					}
					return list.Runs[0]
				}
			case <-timer.C:
				t.Fatal("the run does not end")
			}
		}
	}
	r := finish(scheduler.CreateParams{Name: "Double it", Target: scheduler.Target{Kind: "tool", Name: "Double", Input: json.RawMessage(`{"n":21}`)}})
	if r.Status != "success" || r.OutputSummary != `{"n":42}` {
		t.Errorf("tool: %+v %+v", r, r.Error)
	}
	c.tool("Breaks", "export default () => { throw new Error('no luck') }")
	r = finish(scheduler.CreateParams{Name: "Break it", Target: scheduler.Target{Kind: "tool", Name: "Breaks"}})
	if r.Status != "failed" || r.Error == nil || strings.HasPrefix(r.Error.Message, "step ") || !strings.Contains(r.Error.Message, "no luck") {
		t.Errorf("a tool that throws: %+v %+v", r, r.Error)
	}
	if out, err := c.Scheduler.RunOutput(c.ctx, scheduler.RunOutputParams{RunID: r.RunID}); err != nil || !out.IsError || out.Text != r.Error.Message {
		t.Errorf("the output of a run that failed: %+v, %v", out, err)
	}
	if r = finish(scheduler.CreateParams{Name: "Tidy", Target: scheduler.Target{Kind: "cleanup"}}); r.Status != "success" {
		t.Errorf("clean-up: %+v %+v", r, r.Error)
	}
	for what, target := range map[string]scheduler.Target{
		"no tool": {Kind: "tool", Name: "Nobody"}, "no skill": {Kind: "skill", Name: "Nobody"},
	} {
		_, err := c.Scheduler.Create(c.ctx, scheduler.CreateParams{Name: what, Target: target, Cadence: json.RawMessage(`{"type":"interval","everySecs":86400}`)})
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.Tools.Create(c.ctx, tools.CreateParams{Name: "Picky", Code: "export default (p) => p.n", Parameters: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Scheduler.Create(c.ctx, scheduler.CreateParams{Name: "Picky", Target: scheduler.Target{Kind: "tool", Name: "Picky"}, Cadence: json.RawMessage(`{"type":"interval","everySecs":86400}`)})
	var where struct{ Field string }
	if raw, jsonErr := json.Marshal(fault.As(err).Details); jsonErr != nil || json.Unmarshal(raw, &where) != nil || where.Field != "target.input" {
		t.Errorf("an input that does not fit: %v, details %s", err, raw)
	}
}

// http.request requests permission for the host that it is about to reach, sends its key and is
// recorded.
func TestSkillHTTPRequest(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	var key atomic.Value
	c.served = func(w http.ResponseWriter, r *http.Request) {
		key.Store(r.Header.Get("Idempotency-Key"))
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"n":1}`)) //nolint:errcheck // the caller reads it
	}
	m := c.save("Web", `[{"stepId":"get","toolType":"builtin","toolName":"http.request","parameters":{"url":"http://localhost:`+c.port+`/x","idempotencyKey":true},"outputMapping":"$.json.n"}]`)
	r := c.run(m)
	if r.WaitReason != machine.WaitPermission || c.asked.Load() != 0 {
		t.Fatalf("%s %s", r.Status, r.WaitReason)
	}
	if a := c.answer("approve", "once"); a.Subject.Name != "http.request" || a.Requested[0].Resource != c.port {
		t.Errorf("the question: %+v %+v", a.Subject, a.Requested)
	}
	x := c.ended(r.ExecutionID)
	if !x.Success || string(x.FinalOutput) != "1" || c.asked.Load() != 1 || len(key.Load().(string)) < 16 {
		t.Fatalf("%+v, key %v", x.ExecuteResult, key.Load())
	}
	if r = c.run(m); r.WaitReason != machine.WaitPermission || c.asked.Load() != 1 {
		t.Errorf("once was more than once: %s %s", r.Status, r.WaitReason)
	}
	if _, err := c.Skills.Cancel(c.ctx, skills.CancelParams{ExecutionID: r.ExecutionID}); err != nil {
		t.Error(err)
	}
	own := c.save("Own port", `[{"stepId":"get","toolType":"builtin","toolName":"http.request","parameters":{"url":"`+c.Gateway.URL()+`/healthz"}}]`)
	if r = c.run(own); r.Success || failure(r.Error).Kind != "denied" {
		t.Errorf("Helix's own port: %+v", r)
	}
	private := c.save("Private", `[{"stepId":"get","toolType":"builtin","toolName":"http.request","parameters":{"url":"https://10.0.0.1/"}}]`)
	if r = c.run(private); r.Success || failure(r.Error).Kind != "denied" {
		t.Errorf("a private address: %+v", r)
	}
}

// One method runs and cancels both kinds of skill.
func TestSkillExecuteServesBothKinds(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	wasm, err := c.WasmTools.CreateWasm(c.ctx, wasmtools.CreateWasmParams{Name: "echo", Wasm: wasmFile(t, "echo"), Origin: wasmtools.WasmLocal})
	if err != nil {
		t.Fatal(err)
	}
	m := c.save("Calls it", `[{"stepId":"e","toolType":"wasm","toolName":"echo","parameters":{"a":[1]}}]`)
	var w struct {
		Success bool
		Output  json.RawMessage
	}
	answer := func(p ExecuteSkillParams, out any) {
		t.Helper()
		r, err := c.ExecuteSkill(c.ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(r)
		if err != nil || json.Unmarshal(b, out) != nil {
			t.Fatal(string(b), err)
		}
	}
	if answer(ExecuteSkillParams{SkillID: &wasm.Skill.ID, Input: json.RawMessage(`{"x":1}`)}, &w); !w.Success || string(w.Output) != `{"x":1}` {
		t.Errorf("WASM: %+v", w)
	}
	var x skills.ExecuteResult
	if answer(ExecuteSkillParams{SkillID: &m.SkillID}, &x); !x.Success || string(x.FinalOutput) != `{"a":[1]}` {
		t.Errorf("composite: %+v", x)
	}
	nobody := storage.NewID()
	if _, err := c.ExecuteSkill(c.ctx, ExecuteSkillParams{SkillID: &nobody}); !fault.Is(err, fault.NotFound) {
		t.Errorf("nobody's: %v", err)
	}
	for _, p := range []ExecuteSkillParams{{SkillID: &wasm.Skill.ID, Async: true}, {SkillID: &m.SkillID, TimeoutMs: 5}, {}} {
		if _, err := c.ExecuteSkill(c.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for id, want := range map[uuid.UUID]skills.Status{x.ExecutionID: machine.Completed} {
		if r, err := c.CancelSkill(c.ctx, skills.CancelParams{ExecutionID: id}); err != nil || r.Status != want || r.Canceled {
			t.Errorf("cancel: %+v, %v", r, err)
		}
	}
	if _, err := c.CancelSkill(c.ctx, skills.CancelParams{ExecutionID: nobody}); !fault.Is(err, fault.NotFound) {
		t.Errorf("cancel nobody's: %v", err)
	}
}

// An MCP step whose tool does not exist is refused when the skill is validated and when it is called.
func TestSkillMCP(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	r, err := c.Skills.ValidateComposite(c.ctx, skills.ValidateParams{Skill: json.RawMessage(`{"name":"M","steps":[{"stepId":"m","toolType":"mcp","toolName":"files.read"}]}`)})
	if err != nil || r.Valid {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := c.Callables.Call(c.ctx, callable.Ref{Kind: "mcp", ID: "files.read"}, callable.Request{}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// A notification of a step reaches the user's clients and no one else's.
func TestSkillNotify(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	got := make(chan uuid.UUID, 4)
	defer bus.Subscribe(c.Bus, func(user uuid.UUID, n skills.Notification) {
		if n.Title == "Zwölf" && n.Level == "warning" && n.Skill == "Tell" {
			got <- user
		}
	})()
	m := c.save("Tell", `[{"stepId":"n","toolType":"builtin","toolName":"notify","parameters":{"level":"warning"},"inputMapping":{"title":"$.input.title"}}]`)
	if _, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{SkillID: &m.SkillID, Input: json.RawMessage(`{"title":"Zwölf"}`)}); err != nil {
		t.Fatal(err)
	}
	select {
	case user := <-got:
		if user != c.LocalUser() || user != identity.UserID(c.ctx) {
			t.Errorf("the notice went to %s", user)
		}
	case <-time.After(patience):
		t.Error("no notice")
	}
}

// A number with a hundred million digits is rejected wherever it arrives, and no run stores it.
func TestHugeNumbersAreRefusedEverywhere(t *testing.T) {
	t.Parallel()
	const huge = `{"n":1e100000000}`
	c := newChain(t)
	made, err := c.Tools.Create(c.ctx, tools.CreateParams{Name: "positive", Code: `export default async (p) => p`, Parameters: json.RawMessage(`{"properties":{"n":{"minimum":0}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "1e100000000") {
			t.Errorf("%s: %v", what, err)
		}
	}
	m := c.save("Waits", `[{"stepId":"w","toolType":"builtin","toolName":"wait","parameters":{"ms":0}},{"stepId":"p","toolType":"custom","toolName":"positive","inputMapping":{"n":"$.input.n"}}]`)
	_, err = c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{SkillID: &m.SkillID, Input: json.RawMessage(huge)})
	refused("input", err)
	_, err = c.Skills.CreateComposite(c.ctx, skills.SaveParams{Skill: json.RawMessage(`{"name":"x","inputSchema":{"properties":{"n":{"maximum":1e100000000}}},"steps":[]}`)})
	refused("schema of a skill", err)
	_, err = c.Tools.Execute(c.ctx, tools.ExecuteParams{ToolID: &made.Tool.ID, Params: json.RawMessage(huge)})
	refused("parameters", err)

	asks := c.save("Asks", `[{"stepId":"q","toolType":"approval","title":"How many?","form":{"properties":{"n":{"minimum":0}}}}]`)
	run, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{SkillID: &asks.SkillID, Async: true})
	if err != nil {
		t.Fatal(err)
	}
	c.until(run.ExecutionID, func(x *skills.Execution) bool { return x.Status == machine.Waiting })
	_, err = c.Skills.Answer(c.ctx, skills.AnswerParams{ExecutionID: run.ExecutionID, StepPath: "q", Decision: machine.Approve, Data: json.RawMessage(huge)})
	refused("answer", err)
	if _, err := c.Skills.Answer(c.ctx, skills.AnswerParams{ExecutionID: run.ExecutionID, StepPath: "q", Decision: machine.Approve, Data: json.RawMessage(`{"n":1}`)}); err != nil {
		t.Errorf("the next answer: %v", err)
	}

	outer := c.save("Nests", `[{"stepId":"s","toolType":"skill","toolName":"Waits","inputMapping":{"n":"$.input.n"}}]`)
	_, err = c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{SkillID: &outer.SkillID, Input: json.RawMessage(huge)})
	refused("input of a skill that calls a skill", err)

	wasm, err := c.WasmTools.CreateWasm(c.ctx, wasmtools.CreateWasmParams{Name: "echo", Wasm: wasmFile(t, "echo"), Origin: wasmtools.WasmLocal})
	if err != nil {
		t.Fatal(err)
	}
	printed, err := c.Tools.ExecuteSkill(c.ctx, tools.ExecuteSkillParams{SkillID: wasm.Skill.ID, Input: json.RawMessage(huge)})
	if err != nil || printed.Success || printed.ErrorClass != "output" || !strings.Contains(printed.Error, "/n: the number 1e100000000") {
		t.Errorf("printed by a module: %+v, %v", printed, err)
	}
}
