package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

func TestRunRestart(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	var fail atomic.Bool
	fail.Store(true)
	b.h.on("fragile", func(_ context.Context, c Call) (json.RawMessage, error) {
		if fail.Load() {
			return nil, fault.Unavailablef("not now")
		}
		return c.Input, nil
	})
	m := b.save(`{"name":"s","steps":[` + step("a", "ok", `"inputMapping":{"x":"$.input.x"}`) + `,{"stepId":"b","toolType":"transform","value":1,"condition":"1 == 2"},` +
		step("c", "fragile", `"inputMapping":{"y":"$.a.x"}`) + `]}`)
	first, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{SkillID: &m.SkillID, Input: json.RawMessage(`{"x":3}`)})
	if err != nil || first.Success {
		t.Fatalf("%+v %v", first, err)
	}
	fail.Store(false)
	r, err := b.s.Restart(b.ctx, RestartParams{ExecutionID: first.ExecutionID, FromStepID: "c"})
	if err != nil || len(r.Warnings) != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	x := b.until(r.ExecutionID, is(machine.Completed))
	if string(x.FinalOutput) != `{"y":3}` || b.h.made("ok") != 1 || x.RestartedFrom == nil || *x.RestartedFrom != first.ExecutionID || x.StepResults[1].Reason != "reused" {
		t.Fatalf("%+v", x)
	}
	b.replay(r.ExecutionID)
	dry, err := b.s.DryRun(b.ctx, DryRunParams{SkillID: &m.SkillID, Input: json.RawMessage(`{"x":3}`), ExecutionID: &r.ExecutionID})
	if err != nil || string(dry.FinalOutput) != `{"y":3}` || dry.StepResults[0].Source != fromRecord || b.h.made("ok") != 1 {
		t.Fatalf("the rehearsal of a run that reused steps: %+v %v", dry, err)
	}
	if before, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: first.ExecutionID}); err != nil || before.Status != machine.Failed {
		t.Fatalf("the source run changed: %+v %v", before, err)
	}
	for from, text := range map[string]string{"none": `no step "none"`} {
		if _, err := b.s.Restart(b.ctx, RestartParams{ExecutionID: first.ExecutionID, FromStepID: from}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", from, err)
		}
	}
	next, err := b.s.UpdateComposite(b.ctx, SaveParams{Skill: json.RawMessage(fmt.Sprintf(`{"skillId":%q,"steps":[%s,%s,%s]}`, m.SkillID,
		step("a", "ok", `"parameters":{"z":1}`), step("c", "fragile", `"inputMapping":{"y":"$.a.x"}`), step("d", "ok", "")))})
	if err != nil {
		t.Fatal(err)
	}
	r, err = b.s.Restart(b.ctx, RestartParams{ExecutionID: first.ExecutionID, FromStepID: "c", VersionID: &next.VersionID})
	if err != nil || len(r.Warnings) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	b.until(r.ExecutionID, is(machine.Completed))
	if _, err = b.s.Restart(b.ctx, RestartParams{ExecutionID: first.ExecutionID, FromStepID: "d", VersionID: &next.VersionID}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"c"`) {
		t.Fatal(err)
	}
}

func TestRunDry(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	skill := skillText(
		step("a", "send", `"inputMapping":{"x":"$.input.x"}`),
		step("b", "read-strict", `"parameters":{"n":1}`),
		`{"stepId":"ask","toolType":"approval","title":"?"}`,
		`{"stepId":"w","toolType":"builtin","toolName":"wait","parameters":{"ms":86400000}}`,
		step("c", "send", `"errorHandling":"retry","maxRetries":3,"inputMapping":{"y":"$.b.n"}`),
	)
	counts := map[string]int{}
	tables := []string{"composite_skills", "composite_skill_steps", "change_log", "audit_log", "pending_approvals", "composite_skill_executions WHERE mode <> 'dry'"}
	for _, table := range tables {
		counts[table] = b.count(table)
	}
	dry := func(p DryRunParams) ExecuteResult {
		t.Helper()
		p.Skill, p.Input = skill, json.RawMessage(`{"x":1}`)
		out, err := b.s.DryRun(b.ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := dry(DryRunParams{})
	if out.Success || out.Error.Kind != "unmocked" || len(out.StepResults) != 1 || out.StepResults[0].Status != machine.Unmocked {
		t.Fatalf("%+v", out)
	}
	if w := out.StepResults[0].WouldDo; w == nil || w.Tier != "sideEffecting" || string(w.Input) != `{"x":1}` || len(w.Rights) != 1 || w.Rights[0] != "network:https(send.example.org)" {
		t.Fatalf("%+v", w)
	}
	mocks := map[string]Mock{
		"a":   {Output: json.RawMessage(`"sent"`)},
		"ask": {Output: json.RawMessage(`{"decision":"approve","data":null}`)},
		"w":   {Output: json.RawMessage(`{"waitedMs":1}`)},
		"c":   {Sequence: []Mock{{Error: &machine.Failure{Kind: "unavailable", Message: "busy"}}, {Output: json.RawMessage(`7`)}}},
	}
	out = dry(DryRunParams{Mocks: mocks, AllowReadOnly: true})
	if !out.Success || string(out.FinalOutput) != `7` || out.StepResults[4].RetriesUsed != 1 {
		t.Fatalf("%+v", out)
	}
	for i, source := range []string{"mock", "real", "mock", "mock", "mock"} {
		if out.StepResults[i].Source != source {
			t.Errorf("step %d: %s, not %s", i, out.StepResults[i].Source, source)
		}
	}
	if b.h.made("send") != 0 || b.h.made("read-strict") != 1 {
		t.Fatalf("%d sent, %d read", b.h.made("send"), b.h.made("read-strict"))
	}
	out = dry(DryRunParams{Mocks: mocks, FillFromSchema: true})
	if !out.Success || out.StepResults[1].Source != "schema" || string(out.StepResults[1].Output) != `{"n":3}` || string(out.StepResults[4].WouldDo.Input) != `{"y":3}` {
		t.Fatalf("%+v", out)
	}
	for _, table := range tables {
		if n := b.count(table); n != counts[table] {
			t.Errorf("%s: %d rows, %d before", table, n, counts[table])
		}
	}
	x, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: out.ExecutionID})
	if err != nil || x.Mode != "dry" || len(x.StepResults) != 5 {
		t.Fatalf("%+v %v", x, err)
	}
	b.replay(out.ExecutionID)
	if list, err := b.s.History(b.ctx, HistoryParams{}); err != nil || len(list.Executions) != 0 {
		t.Fatalf("%+v %v", list, err)
	}
	// The recorded outcomes of an earlier run are used.
	live := b.run(skillText(step("a", "send", `"inputMapping":{"x":"$.input.x"}`), step("b", "send", `"inputMapping":{"y":"$.a.x"}`)), `{"x":5}`)
	rec, err := b.s.DryRun(b.ctx, DryRunParams{Skill: skillText(step("a", "send", ""), step("b", "send", "")), ExecutionID: &live.ExecutionID})
	if err != nil || !rec.Success || string(rec.FinalOutput) != `{"y":5}` || rec.StepResults[0].Source != "recorded" || b.h.made("send") != 2 {
		t.Fatalf("%+v %v", rec, err)
	}
	if _, err := b.s.DryRun(b.ctx, DryRunParams{Skill: skill, Mocks: map[string]Mock{"a": {}}}); !fault.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
}

func TestRunHistory(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.h.on("bad", func(context.Context, Call) (json.RawMessage, error) { return nil, fault.Invalidf("no") })
	m := b.save(oneLevel("kept", step("a", "ok", "")))
	var ids []uuid.UUID
	for i := range 5 {
		if i == 2 {
			ids = append(ids, b.run(skillText(step("a", "bad", "")), `{}`).ExecutionID)
			continue
		}
		out, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{SkillID: &m.SkillID})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, out.ExecutionID)
	}
	var seen []uuid.UUID
	p := HistoryParams{Limit: 2}
	for {
		page, err := b.s.History(b.ctx, p)
		if err != nil || page.Bytes == 0 {
			t.Fatal(page.Bytes, err)
		}
		for _, x := range page.Executions {
			seen = append(seen, x.ExecutionID)
		}
		if p.Cursor = page.NextCursor; p.Cursor == "" {
			break
		}
	}
	for i := range seen {
		if seen[i] != ids[len(ids)-1-i] {
			t.Fatalf("%v, begun %v", seen, ids)
		}
	}
	for name, c := range map[string]struct {
		p HistoryParams
		n int
	}{
		"skill":   {HistoryParams{SkillID: &m.SkillID}, 4},
		"failed":  {HistoryParams{Status: machine.Failed}, 1},
		"trigger": {HistoryParams{Trigger: "schedule"}, 0},
		"all":     {HistoryParams{}, 5},
	} {
		if page, err := b.s.History(b.ctx, c.p); err != nil || len(page.Executions) != c.n {
			t.Errorf("%s: %d %v", name, len(page.Executions), err)
		}
	}
	if page, err := b.s.History(storagetest.OtherUser(t, b.db), HistoryParams{}); err != nil || len(page.Executions) != 0 {
		t.Fatalf("%+v %v", page, err)
	}
	if _, err := b.s.History(b.ctx, HistoryParams{Cursor: "x"}); !fault.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
	if _, err := b.s.Pin(b.ctx, PinParams{ExecutionID: ids[0], Pinned: true}); err != nil {
		t.Fatal(err)
	}
	gone, err := b.s.PurgeHistory(b.ctx, PurgeParams{SkillID: &m.SkillID})
	if err != nil || gone.Removed != 3 || b.count("composite_skill_executions") != 2 {
		t.Fatalf("%+v %v", gone, err)
	}
	if n := b.count("composite_skill_events WHERE execution_id NOT IN (SELECT id FROM composite_skill_executions)"); n != 0 {
		t.Fatalf("%d events are left", n)
	}
}

func TestRunPrune(t *testing.T) {
	t.Parallel()
	var kept uuid.UUID
	b := newFixture(t)
	prune := func(runs int, bytes int64) int64 {
		r := Retention(runs, bytes, func(*storage.Tx) ([]uuid.UUID, error) { return []uuid.UUID{kept}, nil })
		return storagetest.Prune(t, b.db, storage.ServiceOptions{Retention: []storage.Retention{r}})
	}
	var ids []uuid.UUID
	for range 8 {
		ids = append(ids, b.run(skillText(step("a", "ok", "")), `{}`).ExecutionID)
	}
	kept = ids[1]
	if _, err := b.s.Pin(b.ctx, PinParams{ExecutionID: ids[0], Pinned: true}); err != nil {
		t.Fatal(err)
	}
	if n := prune(3, 1<<30); n != 3 {
		t.Fatal(n)
	}
	for i, id := range ids {
		_, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: id})
		if there := err == nil; there != (i < 2 || i >= 5) {
			t.Errorf("run %d: %v", i, err)
		}
	}
	if n := prune(3, 1); n != 3 {
		t.Fatal(n)
	}
}

// TestRunEvents checks that the events on the bus are those of the journal, without gaps, and each
// is published after it is recorded.
func TestRunEvents(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	var mu sync.Mutex
	var heard []RunEvent
	bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e RunEvent) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, e)
	})
	out := b.run(skillText(step("a", "ok", ""), step("b", "ok", "")), `{}`)
	b.until(out.ExecutionID, func(Execution) bool {
		mu.Lock()
		defer mu.Unlock()
		return len(heard) >= 7
	})
	page, err := b.s.Events(b.ctx, EventsParams{ExecutionID: out.ExecutionID, AfterSeq: 2, Limit: 3})
	if err != nil || len(page.Events) != 3 || page.LastSeq != 7 {
		t.Fatalf("%+v %v", page, err)
	}
	mu.Lock()
	defer mu.Unlock()
	for i, e := range heard {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has the number %d", i, e.Seq)
		}
	}
	if want := []string{"run.created", "run.started", "step.intent", "step.outcome", "step.intent", "step.outcome", "run.finished"}; len(heard) != len(want) {
		t.Fatalf("%+v", heard)
	}
}

// TestRunJournalFails checks that nothing happens that cannot be recorded.
func TestRunJournalFails(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	block := func(on bool) {
		t.Helper()
		err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
			sql := `DROP TRIGGER full`
			if on {
				sql = `CREATE TRIGGER full BEFORE INSERT ON composite_skill_events BEGIN SELECT RAISE(ABORT, 'disk full'); END`
			}
			_, err := tx.Exec(sql)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	block(true)
	_, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{Skill: skillText(step("a", "ok", ""))})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.As(err).Message, "Nothing was started") || b.h.made("ok") != 0 {
		t.Fatal(err)
	}
	if b.count("composite_skill_executions") != 0 {
		t.Fatal("a row is left")
	}
	block(false)
	began, goOn := make(chan struct{}), make(chan struct{})
	b.h.on("first", func(context.Context, Call) (json.RawMessage, error) {
		close(began)
		<-goOn
		return json.RawMessage(`1`), nil
	})
	id := b.async(skillText(step("a", "first", ""), step("b", "ok", "")), `{}`)
	<-began
	block(true)
	close(goOn)
	b.until(id, func(x Execution) bool { return x.StepResults[0].Status == machine.Completed })
	if b.h.made("ok") != 0 {
		t.Fatal("a step began without its intent on record")
	}
	block(false)
	b.until(id, is(machine.Completed))
	b.replay(id)
}

// TestRunCommits checks that an outcome and the next intent share a transaction, and so do
// concurrent runs.
func TestRunCommits(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	var steps []string
	for i := range 50 {
		steps = append(steps, step(fmt.Sprintf("s%d", i), "ok", ""))
	}
	before := b.s.writes.Commits()
	out := b.run(skillText(steps...), `{}`)
	if n := b.s.writes.Commits() - before; !out.Success || float64(n)/50 > 1.1 || n < 50 {
		t.Fatalf("%d commits for 50 steps: %+v", n, out.Error)
	}
	before = b.s.writes.Commits()
	b.run(skillText(`{"stepId":"a","toolType":"transform","value":1}`, `{"stepId":"b","toolType":"transform","value":"$.a"}`), `{}`)
	if n := b.s.writes.Commits() - before; n != 1 {
		t.Fatalf("%d commits for a run without effects", n)
	}
}

// TestRunMemory checks that a long skill and a long map use little memory, and finished runs none.
func TestRunMemory(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	var steps []string
	for i := range 500 {
		steps = append(steps, fmt.Sprintf(`{"stepId":"s%d","toolType":"transform","value":{"n":%d}}`, i, i))
	}
	out := b.run(skillText(steps...), `{}`)
	if !out.Success || out.StepsCompleted != 500 {
		t.Fatalf("%+v", out.Error)
	}
	list, _ := json.Marshal(make([]int, 1000))
	out = b.run(skillText(`{"stepId":"m","toolType":"map","items":"$.input","concurrency":8,"steps":[`+step("e", "idem", `"inputMapping":{"x":"$.item"}`)+`]}`), string(list))
	if !out.Success || len(out.StepResults) != 1001 || b.h.made("idem") != 1000 {
		t.Fatalf("%d results, %+v", len(out.StepResults), out.Error)
	}
	b.until(out.ExecutionID, func(Execution) bool {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		return len(b.s.live) == 0 && len(b.s.queues) == 0 && len(b.s.watchers) <= 1
	})
	b.replay(out.ExecutionID)
}
