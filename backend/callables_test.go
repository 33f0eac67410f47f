package backend

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/callable/callabletest"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/psychology"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/tools"
	"helix/backend/wasmtools"
)

// noAuthority returns the authority of a run of a tool without permissions.
func (c *chain) noAuthority() *permission.Authority {
	c.t.Helper()
	poor := c.tool("poor", "export default () => 1")
	info, err := c.Tools.Subject(c.ctx, "tool", poor.ID.String())
	if err != nil {
		c.t.Fatal(err)
	}
	run := storage.NewID()
	auth, err := c.Permission.Begin(c.ctx, nil, permission.Subject{Kind: "tool", ID: poor.ID.String(), DefinitionHash: info.DefinitionHash}, run)
	if err != nil {
		c.t.Fatal(err)
	}
	return auth
}

// allowed creates a tool that calls the server, and grants that.
func (c *chain) allowed(name string) tools.Tool {
	c.t.Helper()
	made := c.asker(name)
	if _, err := c.Tools.Execute(c.ctx, tools.ExecuteParams{ToolID: &made.ID}); !fault.Is(err, fault.Denied) {
		c.t.Fatal(err)
	}
	c.answer("approve", "always")
	return made
}

// TestProvidersConform runs the conformance suite on every provider of a complete backend.
func TestProvidersConform(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	audited := func() int {
		r, err := c.Audit.List(c.ctx, audit.ListParams{Limit: 1})
		if err != nil || len(r.Entries) == 0 {
			t.Fatal(err)
		}
		return int(r.Entries[0].Seq)
	}
	begun := make(chan struct{}, 8)
	c.served = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"n":7}`)) //nolint:errcheck // the caller reads it
	}
	base := callabletest.Harness{Ctx: c.ctx, Registry: c.Callables, Effects: func() int { return int(c.asked.Load()) }, Audited: audited, Nothing: c.noAuthority(), Permission: c.Permission}
	asker, slow := c.allowed("asks"), c.allowed("slow")
	strict, err := c.Tools.Create(c.ctx, tools.CreateParams{Name: "strict", Code: "export default (p) => p.n", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := c.WasmTools.CreateWasm(c.ctx, wasmtools.CreateWasmParams{Name: "echo", Wasm: wasmFile(t, "echo"), Origin: wasmtools.WasmLocal, InputSchema: json.RawMessage(`{"type":"object","required":["a"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	calls := c.save("Calls", `[{"stepId":"a","toolName":"asks","toolType":"custom"}]`)
	waits := c.save("Waits", `[{"stepId":"a","toolName":"slow","toolType":"custom"}]`)
	plain, err := c.Skills.CreateComposite(c.ctx, skills.SaveParams{Skill: json.RawMessage(`{"name":"Plain","inputSchema":{"type":"object","required":["n"]},"steps":[{"stepId":"a","toolType":"transform","value":"$.input.n"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	url := `{"url":"http://localhost:` + c.port + `/`
	if _, err := c.Callables.Call(c.ctx, callable.Ref{Kind: callable.Builtin, ID: "http.request"}, callable.Request{Input: json.RawMessage(url + `"}`)}); !fault.Is(err, fault.Denied) {
		t.Fatal(err)
	}
	c.answer("approve", "always")

	for kind, change := range map[callable.Kind]func(h *callabletest.Harness){
		callable.Tool: func(h *callabletest.Harness) {
			h.Good, h.Bad = callabletest.Case{ID: strict.Tool.ID.String(), Input: `{"n":1}`}, `{"n":"x"}`
			h.Acts = &callabletest.Case{ID: asker.ID.String(), Input: `{}`}
			h.Needs, h.Outside = h.Acts, h.Acts
			h.Slow, h.Begun = &callabletest.Case{ID: slow.ID.String(), Input: `{}`}, begun
		},
		callable.WASM: func(h *callabletest.Harness) {
			h.Good, h.Bad = callabletest.Case{ID: wasm.Skill.ID.String(), Input: `{"a":1}`}, `{}`
		},
		callable.Skill: func(h *callabletest.Harness) {
			h.Good, h.Bad = callabletest.Case{ID: plain.SkillID.String(), Input: `{"n":1}`}, `{}`
			h.Acts = &callabletest.Case{ID: calls.SkillID.String(), Input: `{}`}
			h.Needs, h.Outside = h.Acts, h.Acts
			h.Slow, h.Begun = &callabletest.Case{ID: waits.SkillID.String(), Input: `{}`}, begun
		},
		callable.Builtin: func(h *callabletest.Harness) {
			h.Good, h.Bad = callabletest.Case{ID: "json.validate", Input: `{"value":1,"schema":true}`}, `{"value":1}`
			h.Acts = &callabletest.Case{ID: "http.request", Input: url + `"}`}
			h.Needs, h.Outside = h.Acts, h.Acts
			h.Slow, h.Begun = &callabletest.Case{ID: "http.request", Input: url + `slow"}`}, begun
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			h := base
			h.Kind = kind
			change(&h)
			callabletest.Run(t, h)
		})
	}
	t.Run("memory", func(t *testing.T) {
		h := base
		h.Kind, h.Needs = callable.Builtin, nil
		h.Good, h.Bad = callabletest.Case{ID: "memory.search", Input: `{"query":"tea"}`}, `{}`
		h.Outside = &h.Good
		h.Acts = &callabletest.Case{ID: "memory.create", Input: `{"content":"The kettle is blue."}`}
		h.Effects = func() (n int) {
			if err := c.DB.Read(c.ctx, func(tx *storage.Tx) error { return tx.QueryRow(`SELECT count(*) FROM memories`).Scan(&n) }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		callabletest.Run(t, h)
	})
}

// A step stores a memory and a later run finds it.
func TestStepsCreateAndFindMemories(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	m := c.save("Remember", `[{"stepId":"keep","toolName":"memory.create","toolType":"builtin","parameters":{"content":"The kettle is blue.","tags":["kitchen"]}},
		{"stepId":"find","toolName":"memory.search","toolType":"builtin","parameters":{"query":"kettle","mode":"keyword"},"outputMapping":"$.results[0].snippet"}]`)
	out, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{SkillID: &m.SkillID})
	if err != nil || string(out.FinalOutput) != `"The kettle is blue."` {
		t.Fatalf("%s %+v, %v", out.FinalOutput, out.Error, err)
	}
}

// The trust in a person, up to the last stage, does not affect permission decisions.
func TestTrustStageChangesNoPermission(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	alpha := c.asker("alpha")
	s := c.session(t)
	decisions := func() string {
		var p permission.PreviewResult
		s.call("permissions.preview", permission.PreviewParams{Subject: permission.PreviewSubject{Kind: "tool", ID: alpha.ID.String()}}, &p)
		_, err := c.Tools.Execute(c.ctx, tools.ExecuteParams{ToolID: &alpha.ID})
		return fmt.Sprintf("%+v %v", p, fault.As(err).Kind)
	}
	before := decisions()
	var person psychology.Entry
	s.call("psychology.upsert_entry", psychology.UpsertParams{LayerNumber: 3, Kind: "person", Data: json.RawMessage(`{"name":"Ada"}`)}, &person)
	var r psychology.InteractionResult
	for range 200 {
		s.call("psychology.record_interaction", psychology.InteractionParams{PersonID: person.ID, SalienceTier: "critical", Evidence: new(1.0)}, &r)
	}
	if r.Stage != "primary_attachment" {
		t.Fatalf("%+v", r)
	}
	if after := decisions(); after != before || !strings.Contains(before, "denied") {
		t.Errorf("before %s\nafter  %s", before, after)
	}
}

// permissions.preview returns what the steps of a skill need, and permissions.diff what changed.
func TestPermissionsOfASkill(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	alpha := c.asker("alpha")
	m := c.save("Asks alpha", `[{"stepId":"a","toolName":"alpha","toolType":"custom"},{"stepId":"t","toolType":"transform","value":1}]`)
	s := c.session(t)
	ask := permission.PreviewParams{Subject: permission.PreviewSubject{Kind: "skill", ID: m.SkillID.String()}}
	var p permission.PreviewResult
	s.call("permissions.preview", ask, &p)
	want := permission.PreviewCapability{Capability: permission.NetworkLocalhost, Resource: c.port, State: "missing"}
	if len(p.Steps) != 1 || p.Steps[0].StepID != "a" || p.Steps[0].Subject.ID != alpha.ID.String() || len(p.Union) != 1 || p.Union[0] != want || p.Unattended != "will_stop" {
		t.Errorf("%+v", p)
	}
	if _, err := c.Tools.Execute(c.ctx, tools.ExecuteParams{ToolID: &alpha.ID}); !fault.Is(err, fault.Denied) {
		t.Fatal(err)
	}
	c.answer("approve", "always")
	if s.call("permissions.preview", ask, &p); p.Union[0].State != "granted" || p.Unattended != "ok" {
		t.Errorf("once it is granted: %+v", p)
	}
	if _, err := c.Skills.UpdateComposite(c.ctx, skills.SaveParams{Skill: json.RawMessage(`{"skillId":"` + m.SkillID.String() + `","steps":[{"stepId":"t","toolType":"transform","value":2}]}`)}); err != nil {
		t.Fatal(err)
	}
	var d permission.DiffResult
	if s.call("permissions.diff", permission.DiffParams{SubjectKind: "skill", SubjectID: m.SkillID.String()}, &d); len(d.Changes) == 0 || d.From != m.DefinitionHash || d.To == d.From {
		t.Errorf("%+v", d)
	}
}

const killedDir = "HELIX_TEST_KILLED_DIR"

// A run that another program started continues after a kill with the permissions that the program
// had: its row stores them.
func TestAuthoritySurvivesKill(t *testing.T) {
	if dir := os.Getenv(killedDir); dir != "" {
		beginNarrowRuns(t, dir)
		return
	}
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAuthoritySurvivesKill$")
	cmd.Env = append(os.Environ(), killedDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]uuid.UUID{}
	for lines := bufio.NewScanner(out); len(runs) < 3 && lines.Scan(); {
		if name, id, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "run "), " "); ok && strings.HasPrefix(lines.Text(), "run ") {
			runs[name] = uuid.MustParse(id)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if len(runs) != 3 {
		t.Fatalf("the process to kill began %v", runs)
	}

	c := &chain{Backend: startWith(t, testOptions(dir)), t: t}
	c.ctx = c.as(c.LocalUser())
	for name, run := range runs {
		c.Callables.Starter(callable.Skill).Start(run)
		c.until(run, func(x *skills.Execution) bool { return x.Status == machine.Waiting })
		if _, err := c.Skills.Answer(c.ctx, skills.AnswerParams{ExecutionID: run, StepPath: "ok", Decision: machine.Approve}); err != nil {
			t.Fatal(err)
		}
		// The server that the tool calls does not respond, so the user's own run fails in another
		// way.
		if x := c.ended(run); (failure(x.Error).Kind == "denied") != (name != "own") {
			t.Errorf("%s: %s %+v", name, x.Status, failure(x.Error))
		}
	}
}

// TestRestartKeepsNarrowedAuthority checks that a run started by a caller without permissions still
// has none after the user restarted it.
func TestRestartKeepsNarrowedAuthority(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.allowed("alpha")
	m := c.save("Asks", `[{"stepId":"a","toolName":"alpha","toolType":"custom"}]`)
	if own := c.run(m); !own.Success || c.asked.Load() != 1 {
		t.Fatalf("the user's own run: %+v, asked %d times", own, c.asked.Load())
	}
	_, err := c.Callables.Call(c.ctx, callable.Ref{Kind: callable.Skill, ID: m.SkillID.String()},
		callable.Request{Caller: callable.Caller{Kind: "agent", Authority: c.noAuthority()}})
	if !fault.Is(err, fault.Denied) {
		t.Fatal(err)
	}
	h, err := c.Skills.History(c.ctx, skills.HistoryParams{SkillID: &m.SkillID, Limit: 1})
	if err != nil || len(h.Executions) != 1 || h.Executions[0].Status != machine.Failed {
		t.Fatalf("%+v, %v", h, err)
	}
	r, err := c.Skills.Restart(c.ctx, skills.RestartParams{ExecutionID: h.Executions[0].ExecutionID, FromStepID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if x := c.ended(r.ExecutionID); failure(x.Error).Kind != "denied" || c.asked.Load() != 1 {
		t.Errorf("restarted: %s %+v, asked %d times", x.Status, failure(x.Error), c.asked.Load())
	}
}

// beginNarrowRuns starts runs for a caller without permissions, and one for the user, until it is
// killed.
func beginNarrowRuns(t *testing.T, dir string) {
	c := &chain{Backend: startWith(t, testOptions(dir)), t: t, port: "9"}
	c.ctx = c.as(c.LocalUser())
	c.allowed("alpha")
	m := c.save("Waits, then asks", `[{"stepId":"ok","toolType":"approval","title":"Go on?"},{"stepId":"a","toolName":"alpha","toolType":"custom"}]`)
	ref, nothing := callable.Ref{Kind: callable.Skill, ID: m.SkillID.String()}, c.noAuthority()
	var run uuid.UUID
	err := c.DB.Write(c.ctx, func(tx *storage.Tx) (err error) {
		run, err = c.Callables.Starter(callable.Skill).Enqueue(tx, ref, callable.Request{Caller: callable.Caller{Kind: "agent", Authority: nothing}, Budget: callable.Budget{MaxTurns: 3}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("run enqueued", run)
	for name, who := range map[string]callable.Caller{"called": {Kind: "agent", Attended: true, Authority: nothing}, "own": {}} {
		_, err := c.Callables.Call(c.ctx, ref, callable.Request{Caller: who})
		d, ok := fault.As(err).Details.(map[string]any)
		if !ok {
			t.Fatal(err)
		}
		fmt.Println("run", name, d["executionId"])
	}
	select {}
}

// A tool that a schedule starts runs as a skill of one step, with the schedule's budget.
func TestScheduleOfABuiltin(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	ended := make(chan scheduler.RunEvent, 64)
	defer bus.Subscribe(c.Bus, func(_ uuid.UUID, e scheduler.RunEvent) { ended <- e })()
	s, err := c.Scheduler.Create(c.ctx, scheduler.CreateParams{Name: "Now", Target: scheduler.Target{Kind: "builtin", Name: "time.now"}, Cadence: json.RawMessage(`{"type":"interval","everySecs":86400}`)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Scheduler.RunNow(c.ctx, scheduler.RunNowParams{ScheduleID: s.ScheduleID})
	if err != nil {
		t.Fatal(err)
	}
	for e := range ended {
		if e.RunID == r.RunID && e.Status == "failed" {
			t.Fatalf("%+v", e)
		}
		if e.RunID == r.RunID && e.Status == "success" {
			return
		}
	}
}

// TestCallablesListExplainsRefusals lists with a limit, as pickers do.
func TestCallablesListExplainsRefusals(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	fine, changed := c.tool("fine", "export default () => 1"), c.allowed("changed")
	code := "export default () => 2"
	if _, err := c.Tools.Update(c.ctx, tools.UpdateParams{ToolID: changed.ID, BaseVersion: changed.Version, Patch: tools.Patch{Code: &code}}); err != nil {
		t.Fatal(err)
	}
	r, err := c.Callables.ListCallables(c.ctx, callable.ListParams{Kind: callable.Tool, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]callable.Reason{}
	for _, i := range r.Callables {
		got[i.ID] = i.Blocked
	}
	if len(got) != 2 || got[fine.ID.String()] != "" || got[changed.ID.String()] != callable.ReasonChanged {
		t.Errorf("blocked: %v", got)
	}
	if r, err := c.Callables.ListCallables(c.ctx, callable.ListParams{Limit: 1}); err != nil || len(r.Callables) != 1 {
		t.Errorf("a limit of 1 lists %d, %v", len(r.Callables), err)
	}
	if _, err := c.Callables.ListCallables(c.ctx, callable.ListParams{Limit: 501}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a limit of 501: %v", err)
	}
}
