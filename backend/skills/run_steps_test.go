package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

func (b *fixture) rowStatus(id uuid.UUID) (status Status, completed int) {
	b.t.Helper()
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT status, steps_completed FROM composite_skill_executions WHERE id = ?`, id).Scan(&status, &completed)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return status, completed
}

func (b *fixture) count(table string) (n int) {
	b.t.Helper()
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error { return tx.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n) })
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// quick makes the clock skip back-offs.
func quick(o *Options) {
	var ahead atomic.Int64
	o.Rand = func() float64 { return 0 }
	o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Add(int64(40 * time.Millisecond)))) }
}

func TestRunRetries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, more string
		fails      int
		kind       fault.Kind
		attempts   int
		success    bool
	}{
		{"succeeds the third time", `"errorHandling":"retry","maxRetries":3`, 2, fault.Unavailable, 3, true},
		{"gives up", `"errorHandling":"retry","maxRetries":2`, 99, fault.Unavailable, 3, false},
		{"zero retries are zero", `"errorHandling":"retry","maxRetries":0`, 99, fault.Unavailable, 1, false},
		{"invalid is never retried", `"errorHandling":"retry","maxRetries":5`, 99, fault.Invalid, 1, false},
		{"without a policy", ``, 99, fault.Unavailable, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, quick)
			var n atomic.Int64
			b.h.on("flaky", func(context.Context, Call) (json.RawMessage, error) {
				if int(n.Add(1)) <= c.fails {
					return nil, fault.New(c.kind, "not now")
				}
				return json.RawMessage(`true`), nil
			})
			out := b.run(skillText(step("a", "flaky", c.more)), `{}`)
			r := out.StepResults[0]
			if int(n.Load()) != c.attempts || out.Success != c.success || r.Attempts != c.attempts || r.RetriesUsed != c.attempts-1 {
				t.Fatalf("%d calls, %+v", n.Load(), out)
			}
			if !c.success && (out.Error.Kind != string(c.kind) || !strings.Contains(out.Error.Message, `step "a": not now`)) {
				t.Fatalf("%+v", out.Error)
			}
			b.replay(out.ExecutionID)
		})
	}
}

func TestRunStopsAtFailure(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.h.on("bad", func(context.Context, Call) (json.RawMessage, error) { return nil, fault.Invalidf("no") })
	out := b.run(skillText(step("a", "ok", ""), step("b", "bad", ""), step("c", "ok", "")), `{}`)
	status, completed := b.rowStatus(out.ExecutionID)
	if out.Success || len(out.StepResults) != 2 || status != machine.Failed || completed != 1 || out.StepsFailed != 1 || b.h.made("ok") != 1 {
		t.Fatalf("%+v %s %d", out, status, completed)
	}
	goOn := b.run(skillText(step("a", "bad", `"errorHandling":"skip"`), step("b", "bad", `"errorHandling":"continue"`), step("c", "ok", `"parameters":{"x":1}`)), `{}`)
	if !goOn.Success || goOn.StepsSkipped != 1 || goOn.StepsFailed != 1 || goOn.StepsCompleted != 1 || string(goOn.FinalOutput) != `{"x":1}` {
		t.Fatalf("%+v", goOn)
	}
}

func TestRunFinalOutput(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for _, v := range []string{`0`, `false`, `""`, `null`, `[]`} {
		out := b.run(skillText(`{"stepId":"a","toolType":"transform","value":`+v+`}`, `{"stepId":"b","toolType":"transform","value":1,"condition":"1 == 2"}`), `{}`)
		if string(out.FinalOutput) != v || out.StepsSkipped != 1 || out.StepsCompleted != 1 || !out.StepResults[1].Skipped || out.StepResults[1].Reason != "condition" {
			t.Fatalf("%s: %+v", v, out)
		}
		x, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: out.ExecutionID})
		if err != nil || string(x.FinalOutput) != v {
			t.Fatalf("%s: %s %v", v, x.FinalOutput, err)
		}
	}
}

func TestRunTimeouts(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	b.h.on("slow", func(ctx context.Context, _ Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	b.h.on("deaf", func(context.Context, Call) (json.RawMessage, error) {
		<-stuck
		return nil, nil
	})
	for _, c := range []struct {
		tool    string
		unknown bool
	}{{"slow", true}, {"deaf", true}} {
		begun := time.Now()
		out := b.run(skillText(step("a", c.tool, `"timeoutMs":100`)), `{}`)
		took := time.Since(begun)
		if out.Error == nil || out.Error.Kind != "timeout" || out.StepResults[0].Unknown != c.unknown || took < 100*time.Millisecond {
			t.Fatalf("%s after %s: %+v", c.tool, took, out)
		}
	}
	b.h.on("idem-slow", func(ctx context.Context, _ Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	out := b.run(skillText(step("a", "idem-slow", `"timeoutMs":50`)), `{}`)
	if out.StepResults[0].Unknown || out.Error.Kind != "timeout" {
		t.Fatalf("%+v", out)
	}
	// The clock stands still until the second step has begun.
	begun := time.Now()
	var passed atomic.Int64
	still := newFixture(t, func(o *Options) { o.Now = func() time.Time { return begun.Add(time.Duration(passed.Load())) } })
	still.h.on("slow", func(ctx context.Context, _ Call) (json.RawMessage, error) {
		passed.Store(int64(time.Hour))
		<-ctx.Done()
		return nil, ctx.Err()
	})
	whole := still.run(json.RawMessage(`{"name":"s","overallTimeoutMs":100,"steps":[`+step("a", "ok", "")+","+step("b", "slow", "")+`]}`), `{}`)
	if whole.Status != machine.Failed || whole.Error.Kind != "timeout" || whole.StepsCompleted != 1 || whole.StepResults[1].Status != machine.Cancelled || !whole.StepResults[1].Unknown {
		t.Fatalf("%+v", whole)
	}
	b.h.on("flaky", func(context.Context, Call) (json.RawMessage, error) { return nil, fault.Unavailablef("no") })
	back := b.run(json.RawMessage(`{"name":"s","overallTimeoutMs":200,"steps":[`+step("a", "flaky", `"errorHandling":"retry","maxRetries":9`)+`]}`), `{}`)
	if back.Status != machine.Failed || back.Error.Kind != "timeout" {
		t.Fatalf("inside of a back-off: %+v", back)
	}
	for _, id := range []uuid.UUID{out.ExecutionID, back.ExecutionID} {
		b.replay(id)
	}
	still.replay(whole.ExecutionID)
}

func TestRunCancel(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	begun := make(chan struct{})
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	b.h.on("deaf", func(context.Context, Call) (json.RawMessage, error) {
		close(begun)
		<-stuck
		return nil, nil
	})
	id := b.async(skillText(step("a", "ok", ""), step("b", "deaf", ""), step("c", "ok", "")), `{}`)
	<-begun
	if status, _ := b.rowStatus(id); status != machine.Running {
		t.Fatal(status)
	}
	out, err := b.s.Cancel(b.ctx, CancelParams{ExecutionID: id, Reason: "enough"})
	if err != nil || out.Status != machine.Cancelled {
		t.Fatal(out, err)
	}
	x := b.until(id, is(machine.Cancelled))
	if len(x.StepResults) != 2 || !x.StepResults[0].Success || x.StepResults[1].Status != machine.Cancelled || !strings.Contains(x.Error.Message, "enough") {
		t.Fatalf("%+v", x)
	}
	if out, err = b.s.Cancel(b.ctx, CancelParams{ExecutionID: id}); err != nil || out.Status != machine.Cancelled {
		t.Fatal("a second time:", out, err)
	}
	done := b.run(skillText(step("a", "ok", "")), `{}`)
	if out, err = b.s.Cancel(b.ctx, CancelParams{ExecutionID: done.ExecutionID}); err != nil || out.Status != machine.Completed {
		t.Fatal("a finished run:", out, err)
	}
	b.replay(id)
}

func TestRunBadInput(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	one := skillText(step("a", "ok", ""))
	id := uuid.New()
	for name, c := range map[string]struct {
		p    ExecuteParams
		kind fault.Kind
		text string
	}{
		"neither":      {ExecuteParams{}, fault.Invalid, "skillId or skill"},
		"both":         {ExecuteParams{SkillID: &id, Skill: one}, fault.Invalid, "skillId or skill"},
		"unknown":      {ExecuteParams{SkillID: &id}, fault.NotFound, "Skill not found"},
		"no steps":     {ExecuteParams{Skill: json.RawMessage(`{"name":"s","steps":null}`)}, fault.Invalid, "problem"},
		"input schema": {ExecuteParams{Skill: json.RawMessage(`{"name":"s","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}},"steps":[` + step("a", "ok", "") + `]}`), Input: json.RawMessage(`{"x":1}`)}, fault.Invalid, "input/x: expected string"},
		"not JSON":     {ExecuteParams{Skill: one, Input: json.RawMessage(`{`)}, fault.Invalid, "not JSON"},
		"too large":    {ExecuteParams{Skill: one, Input: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}, fault.Limit, "bytes"},
	} {
		_, err := b.s.ExecuteComposite(b.ctx, c.p)
		if !fault.Is(err, c.kind) || !strings.Contains(fault.As(err).Message, c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.count("composite_skill_executions"); n != 0 {
		t.Fatalf("%d rows of runs that never were", n)
	}
}

func TestRunMappingErrors(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	out := b.run(skillText(step("s2", "ok", `"inputMapping":{"query":"$.input.q"}`)), `{"step1":{"x":1},"steps":{"step1":{"output":1}},"run":{"id":"x"}}`)
	if out.Success || out.Error.Message != `step "s2": parameter "query": $.input.q matches nothing` {
		t.Fatalf("%+v", out.Error)
	}
	out = b.run(skillText(step("a", "ok", `"condition":"$.input.step1 && $.run.id != 'x'"`)), `{"step1":1,"run":{"id":"x"}}`)
	if !out.Success {
		t.Fatalf("%+v", out)
	}
	out = b.run(skillText(step("a", "read-strict", `"parameters":{"n":"many"}`)), `{}`)
	if out.Success || !strings.Contains(out.Error.Message, `n: expected integer`) || b.h.made("read-strict") != 0 {
		t.Fatalf("%+v", out)
	}
	out = b.run(skillText(step("a", "ok", `"parameters":{"x":1},"outputMapping":"$.y"`)), `{}`)
	if out.Success || out.Error.Kind != "invalid" || string(out.StepResults[0].Output) != `{"x":1}` {
		t.Fatalf("%+v", out)
	}
}

func TestRunLargeOutputs(t *testing.T) {
	t.Parallel()
	b := newFixture(t, func(o *Options) { o.Limits.Document = 2 << 20 })
	big := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n) + `"`) }
	b.h.on("huge", func(context.Context, Call) (json.RawMessage, error) { return big(3 << 20), nil })
	b.h.on("large", func(context.Context, Call) (json.RawMessage, error) { return big(900 << 10), nil })
	b.h.on("text", func(context.Context, Call) (json.RawMessage, error) { return json.RawMessage("hello"), nil })
	out := b.run(skillText(step("s", "huge", "")), `{}`)
	if out.Error == nil || out.Error.Kind != "limit" || out.Error.Message != `step "s": output is 3 MiB, limit 1 MiB` || len(out.StepResults[0].Output) < 4096 || len(out.StepResults[0].Output) > 4200 {
		t.Fatalf("%+v", out.Error)
	}
	if out = b.run(skillText(step("s", "text", "")), `{}`); out.Error == nil || out.Error.Kind != "invalid" || string(out.StepResults[0].Output) != `{"preview":"hello"}` {
		t.Fatalf("%+v", out.Error)
	}
	out = b.run(skillText(step("a", "large", "")), `{}`)
	x, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: out.ExecutionID})
	if err != nil || len(x.StepResults[0].Output) != 900<<10+2 {
		t.Fatal(len(x.StepResults[0].Output), err)
	}
	out = b.run(skillText(step("a", "large", ""), step("b", "large", ""), step("c", "large", "")), `{}`)
	if out.Error == nil || out.Error.Kind != "limit" || out.StepsCompleted != 2 {
		t.Fatalf("%+v", out.Error)
	}
	b.replay(out.ExecutionID)
}

func TestRunFailsWhenToolWasDeleted(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	m, err := b.s.CreateComposite(b.ctx, SaveParams{Skill: skillText(step("a", "ok", ""), step("b", "x", ""))})
	if err != nil {
		t.Fatal(err)
	}
	b.h.mu.Lock()
	b.h.gone["x"] = true
	b.h.mu.Unlock()
	out, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{SkillID: &m.SkillID})
	if err != nil || out.Error == nil || out.Error.Kind != "not_found" || out.Error.Message != `step "b": tool "x" no longer exists` || out.StepsCompleted != 1 {
		t.Fatalf("%+v %v", out, err)
	}
	b.replay(out.ExecutionID)
	if m, err = b.s.GetMetadata(b.ctx, SkillParams{SkillID: m.SkillID}); err != nil || m.ExecutionCount != 1 || m.LastExecuted == nil {
		t.Fatalf("%+v %v", m, err)
	}
}

func TestRunRequestID(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	p := ExecuteParams{Skill: skillText(step("a", "ok", "")), RequestID: "r-1"}
	first, err := b.s.ExecuteComposite(b.ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		out ExecuteResult
		err error
	}
	got := make(chan result, 8)
	for range 8 {
		go func() {
			out, err := b.s.ExecuteComposite(b.ctx, p)
			got <- result{out, err}
		}()
	}
	for range 8 {
		if r := <-got; r.err != nil || r.out.ExecutionID != first.ExecutionID || !r.out.Success {
			t.Error(r)
		}
	}
	p.RequestID = "r-2"
	ids := map[uuid.UUID]bool{}
	for range 8 {
		go func() {
			out, err := b.s.ExecuteComposite(b.ctx, p)
			got <- result{out, err}
		}()
	}
	for range 8 {
		r := <-got
		if r.err != nil {
			t.Error(r.err)
		}
		ids[r.out.ExecutionID] = true
	}
	if len(ids) != 1 || b.h.made("ok") != 2 {
		t.Fatalf("%d runs, %d calls", len(ids), b.h.made("ok"))
	}
}

func TestRunMapAndBranch(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.h.on("odd", func(_ context.Context, c Call) (json.RawMessage, error) {
		var in struct{ N int }
		_ = json.Unmarshal(c.Input, &in)
		if in.N%2 == 1 {
			return nil, fault.Invalidf("odd")
		}
		return json.RawMessage(fmt.Sprint(in.N * 10)), nil
	})
	out := b.run(skillText(
		`{"stepId":"m","toolType":"map","items":"$.input.list","concurrency":8,"onItemError":"continue","steps":[`+step("each", "odd", `"inputMapping":{"n":"$.item"}`)+`]}`,
		`{"stepId":"b","toolType":"branch","cases":[{"when":"$.m[0] == 0","steps":[{"stepId":"yes","toolType":"transform","value":"$.m"}]}],"else":[{"stepId":"no","toolType":"transform","value":0}]}`,
	), `{"list":[0,1,2,3,4]}`)
	if !out.Success || string(out.FinalOutput) != `[0,null,20,null,40]` {
		t.Fatalf("%+v", out)
	}
	last := out.StepResults[len(out.StepResults)-1]
	if out.StepsCompleted != 2 || last.StepID == "" {
		t.Fatalf("%+v", out)
	}
	b.replay(out.ExecutionID)
}

func TestRunNotice(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	skill := func(limit int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"name":"s","notification":{"when":"$.a.n > %d","title":{"$concat":["found ","$.input.what"]},"body":"$.a","level":"warning"},"steps":[%s]}`,
			limit, step("a", "ok", `"parameters":{"n":5}`)))
	}
	out := b.run(skill(1), `{"what":"it"}`)
	if out.Notification == nil || *out.Notification != (Notice{"found it", `{"n":5}`, "warning"}) {
		t.Fatalf("%+v", out.Notification)
	}
	state, err := b.state(out.ExecutionID)
	if err != nil || state.Notice == nil || state.Status != "success" || string(state.Output) != `{"n":5}` {
		t.Fatalf("%+v %v", state, err)
	}
	if out = b.run(skill(9), `{"what":"it"}`); out.Notification != nil {
		t.Fatalf("%+v", out.Notification)
	}
}
