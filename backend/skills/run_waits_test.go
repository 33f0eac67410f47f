package skills

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

func (b *fixture) answer(id uuid.UUID, path, decision string, more ...func(*AnswerParams)) (Execution, error) {
	p := AnswerParams{ExecutionID: id, StepPath: path, Decision: decision}
	for _, f := range more {
		f(&p)
	}
	return b.s.Answer(b.ctx, p)
}

const approval = `{"stepId":"ask","toolType":"approval","title":"Send it?","message":{"$concat":["to ","$.input.to"]},"show":["$.input.to"],"waitMs":60000,"form":{"type":"object","properties":{"n":{"type":"integer"}}}}`

func TestRunApproval(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	skill := skillText(approval, step("send", "ok", `"inputMapping":{"n":"$.ask.data.n"}`))
	out := b.run(skill, `{"to":"you"}`)
	if out.Status != machine.Waiting || out.WaitReason != machine.WaitApproval {
		t.Fatalf("%+v", out)
	}
	x := b.until(out.ExecutionID, is(machine.Waiting))
	if len(x.Waits) != 1 || x.Waits[0].Request.Title != "Send it?" || x.Waits[0].Request.Message != "to you" || x.Waits[0].Until == nil || x.DeadlineAt != nil {
		t.Fatalf("%+v", x)
	}
	if _, err := b.answer(out.ExecutionID, "ask", "retry"); !fault.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
	if _, err := b.answer(out.ExecutionID, "other", "approve"); !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	if _, err := b.answer(out.ExecutionID, "ask", "approve", func(p *AnswerParams) { p.Data = json.RawMessage(`{"n":"x"}`) }); !fault.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
	other := *b
	other.ctx = storagetest.OtherUser(t, b.db)
	if _, err := other.answer(out.ExecutionID, "ask", "approve"); !fault.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	if _, err := b.answer(out.ExecutionID, "ask", "approve", func(p *AnswerParams) { p.Data = json.RawMessage(`{"n":7}`) }); err != nil {
		t.Fatal(err)
	}
	if x = b.until(out.ExecutionID, is(machine.Completed)); string(x.FinalOutput) != `{"n":7}` {
		t.Fatalf("%+v", x)
	}
	if _, err := b.answer(out.ExecutionID, "ask", "approve"); !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	b.replay(out.ExecutionID)
	out = b.run(skill, `{"to":"you"}`)
	if _, err := b.answer(out.ExecutionID, "ask", "decline"); err != nil {
		t.Fatal(err)
	}
	if x = b.until(out.ExecutionID, is(machine.Failed)); x.Error.Kind != "denied" {
		t.Fatalf("%+v", x.Error)
	}
}

// start runs the background work of a service until the test ends.
func (b *fixture) start(s *Service) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	b.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
}

// TestRunWaitsOutOfMemory checks that a waiting run is unloaded, and loaded again by an answer, at
// its time, and after a restart.
func TestRunWaitsOutOfMemory(t *testing.T) {
	t.Parallel()
	var b *fixture
	var ahead atomic.Int64 // added to the clock, so that the test determines when a wait ends
	options := func(o *Options) {
		o.Limits.WaitInMemory = time.Millisecond
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	pass := func(d time.Duration) {
		ahead.Add(int64(d))
		b.s.wake()
	}
	b = newFixture(t, options)
	b.start(b.s)
	parked := func(id uuid.UUID) {
		t.Helper()
		b.until(id, func(x Execution) bool {
			b.s.mu.Lock()
			defer b.s.mu.Unlock()
			return x.Status == machine.Waiting && b.s.live[id] == nil
		})
	}
	out := b.run(skillText(approval, step("send", "ok", "")), `{"to":"you"}`)
	parked(out.ExecutionID)
	if _, err := b.answer(out.ExecutionID, "ask", "approve"); err != nil {
		t.Fatal(err)
	}
	b.until(out.ExecutionID, is(machine.Completed))

	timed := b.async(skillText(`{"stepId":"w","toolType":"builtin","toolName":"wait","parameters":{"ms":3600000}}`, step("send", "ok", "")), `{}`)
	parked(timed)
	pass(time.Hour)
	x := b.until(timed, is(machine.Completed))
	var waited struct{ WaitedMs int64 }
	if err := json.Unmarshal(x.ExecutionContext["w"], &waited); err != nil || waited.WaitedMs < 3600000 {
		t.Fatalf("%s %v", x.ExecutionContext["w"], err)
	}
	if x.ExecutionTimeMs >= 3600000 {
		t.Fatalf("the wait counts as running: %v", x.ExecutionTimeMs)
	}
	b.replay(timed)

	again := b.async(skillText(`{"stepId":"w","toolType":"builtin","toolName":"wait","parameters":{"ms":3600000}}`), `{}`)
	parked(again)
	b.s.Close()
	b.s = b.service(options)
	b.start(b.s)
	pass(time.Hour)
	b.until(again, is(machine.Completed))
	late := b.run(skillText(approval), `{"to":"you"}`)
	parked(late.ExecutionID)
	pass(time.Minute)
	if x = b.until(late.ExecutionID, is(machine.Failed)); x.Error.Kind != "timeout" {
		t.Fatalf("%+v", x.Error)
	}
}

// TestRunOpenedTwice checks that while one goroutine loads a run, an answer from another cannot
// load it too and advance it.
func TestRunOpenedTwice(t *testing.T) {
	t.Parallel()
	b := newFixture(t, func(o *Options) { o.Limits.WaitInMemory = time.Millisecond })
	out := b.run(skillText(approval, step("send", "ok", "")), `{"to":"you"}`)
	b.until(out.ExecutionID, func(x Execution) bool {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		return x.Status == machine.Waiting && b.s.live[out.ExecutionID] == nil
	})
	b.s.limits.WaitInMemory = time.Hour // an outdated copy of the run would stay
	answered := make(chan error, 1)
	_, _, err := b.s.open(b.ctx, out.ExecutionID, func(*live) {
		go func() {
			_, err := b.answer(out.ExecutionID, "ask", "approve")
			if err == nil {
				b.until(out.ExecutionID, func(x Execution) bool {
					b.s.mu.Lock()
					defer b.s.mu.Unlock()
					return x.Status == machine.Completed && b.s.live[out.ExecutionID] == nil
				})
			}
			answered <- err
		}()
		select {
		case err := <-answered:
			answered <- err
		case <-time.After(300 * time.Millisecond):
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	b.until(out.ExecutionID, func(x Execution) bool {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		return x.Status == machine.Completed && len(b.s.live) == 0
	})
	if n := b.h.made("ok"); n != 1 {
		t.Errorf("the step was called %d times", n)
	}
	b.replay(out.ExecutionID)
}

// gate stands for package permission; the test answers.
type gate struct {
	mu   sync.Mutex
	said map[uuid.UUID]string
}

func (g *gate) ApprovalStatus(_ context.Context, id uuid.UUID) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.said[id]; s != "" {
		return s, nil
	}
	return "pending", nil
}

func (g *gate) Restore(context.Context, json.RawMessage) (*permission.Authority, error) {
	return nil, fault.Internalf(nil, "no run of these tests has a caller")
}

func (g *gate) say(b *fixture, id uuid.UUID, what string) {
	g.mu.Lock()
	g.said[id] = what
	g.mu.Unlock()
	bus.Publish(b.db.Bus(), b.db.LocalUser().ID, permission.ApprovalChanged{ID: id, Status: what})
}

func TestRunPermission(t *testing.T) {
	t.Parallel()
	g := &gate{said: map[uuid.UUID]string{}}
	b := newFixture(t, func(o *Options) { o.Gate = g })
	ask := uuid.New()
	b.h.on("guarded", func(ctx context.Context, c Call) (json.RawMessage, error) {
		if said, _ := g.ApprovalStatus(ctx, ask); said == "approved" {
			return json.RawMessage(`"in"`), nil
		}
		return nil, fault.Deniedf("network is not allowed").WithDetails(callable.Refusal{PendingApprovalID: ask, Reason: "network:x"})
	})
	skill := skillText(step("a", "guarded", ""))
	out := b.run(skill, `{}`)
	if out.Status != machine.Waiting || out.WaitReason != machine.WaitPermission {
		t.Fatalf("%+v", out)
	}
	x := b.until(out.ExecutionID, is(machine.Waiting))
	if x.Waits[0].ApprovalID == nil || *x.Waits[0].ApprovalID != ask {
		t.Fatalf("%+v", x.Waits)
	}
	g.say(b, ask, "approved")
	if x = b.until(out.ExecutionID, is(machine.Completed)); string(x.FinalOutput) != `"in"` {
		t.Fatalf("%+v", x)
	}
	b.replay(out.ExecutionID)

	g.mu.Lock()
	delete(g.said, ask)
	g.mu.Unlock()
	out = b.run(skill, `{}`)
	g.say(b, ask, "denied")
	if x = b.until(out.ExecutionID, is(machine.Failed)); x.Error.Kind != "denied" {
		t.Fatalf("%+v", x.Error)
	}
	g.mu.Lock()
	delete(g.said, ask)
	g.mu.Unlock()

	// Nobody is present: it fails at once.
	var id uuid.UUID
	err := b.db.Write(b.ctx, func(tx *storage.Tx) (err error) {
		id, err = b.s.EnqueueTx(tx, Enqueue{Skill: skill, Trigger: "schedule"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.s.Begin(id)
	b.s.Begin(id)
	x = b.until(id, is(machine.Failed))
	if state, err := b.state(id); err != nil || !state.NeedsApproval || x.Error.Kind != "denied" || x.Trigger != "schedule" {
		t.Fatalf("%+v %v", state, err)
	}
}

// asked records the questions of a service in Approvals, by reference, and how they were closed.
type asked struct {
	mu     sync.Mutex
	open   map[string]permission.QuestionRequest
	closed map[string]string
}

func (a *asked) AskTx(_ *storage.Tx, q permission.QuestionRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open, a.closed = map[string]permission.QuestionRequest{}, map[string]string{}
	}
	a.open[q.Ref] = q
	return nil
}

func (a *asked) CloseTx(_ *storage.Tx, _ uuid.UUID, ref, choice string, _ uuid.UUID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for r := range a.open {
		if ref == "" || ref == r {
			a.closed[r] = choice
			delete(a.open, r)
		}
	}
	return nil
}

func (a *asked) question(ref string) permission.QuestionRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open[ref]
}

func (a *asked) choice(ref string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed[ref]
}

// TestRunUnknown checks that a process that dies during an effect leaves a question.
func TestRunUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, more, decision string
		status               Status
		calls                int
	}{
		{"send", "", machine.Done, machine.Completed, 1},
		{"send", "", machine.TryAgain, machine.Completed, 2},
		{"send", "", machine.GiveUp, machine.Failed, 1},
		{"send", `"onUnknown":"fail"`, "", machine.Failed, 1},
		{"idem-send", "", "", machine.Completed, 2},
		{"read-it", "", "", machine.Completed, 2},
	} {
		t.Run(c.tool+c.more+c.decision, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t)
			hang := true
			b.h.on(c.tool, func(ctx context.Context, _ Call) (json.RawMessage, error) {
				if hang {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return json.RawMessage(`1`), nil
			})
			id := b.async(skillText(step("a", c.tool, c.more)), `{}`)
			b.until(id, func(Execution) bool { return b.h.made(c.tool) == 1 })
			b.s.stop(errShutdown) // as close to a crash as possible in a test
			b.s.Close()
			hang = false
			var q asked
			b.s = b.service(func(o *Options) { o.Questions = &q })
			b.start(b.s)
			if c.decision != "" {
				var w permission.QuestionRequest
				x := b.until(id, func(x Execution) bool {
					w = q.question(place("a", ""))
					return is(machine.Waiting)(x) && w.Run == id
				})
				if string(w.Question.Details) != `{}` || len(w.Question.Choices) != 3 {
					t.Fatalf("asked in Approvals: %+v", w)
				}
				if x.WaitReason != machine.WaitUnknown || string(x.Waits[0].Input) != `{}` {
					t.Fatalf("%+v", x)
				}
				if _, err := b.answer(id, "a", c.decision, func(p *AnswerParams) {
					if c.decision == machine.Done {
						p.Output = json.RawMessage(`"it did"`)
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
			x := b.until(id, is(c.status))
			if b.h.made(c.tool) != c.calls {
				t.Fatalf("%d calls", b.h.made(c.tool))
			}
			if c.decision == machine.Done && string(x.FinalOutput) != `"it did"` {
				t.Fatalf("%s", x.FinalOutput)
			}
			if c.decision != "" {
				b.until(id, func(Execution) bool { return q.choice(place("a", "")) == c.decision })
			}
			if unknown := x.StepResults[0].Unknown; unknown != (c.status == machine.Failed) {
				t.Fatalf("unknown: %v", unknown)
			}
			b.replay(id)
		})
	}
}

// TestRunReplaced checks that when the database is replaced, runs are unloaded and continue in the
// state of the new one.
func TestRunReplaced(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.start(b.s)
	b.h.on("idem-slow", func(ctx context.Context, _ Call) (json.RawMessage, error) {
		if b.h.made("idem-slow") == 1 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return json.RawMessage(`1`), nil
	})
	id := b.async(skillText(step("a", "idem-slow", "")), `{}`)
	b.until(id, func(Execution) bool { return b.h.made("idem-slow") == 1 })
	bus.Publish(b.db.Bus(), b.db.LocalUser().ID, storage.Replaced{})
	b.until(id, is(machine.Completed))
	b.replay(id)
}

// TestReplacedDatabaseHidesRunsInMemory checks that from the moment the database is replaced, a run
// of the old one is not found, whether or not it has been unloaded.
func TestReplacedDatabaseHidesRunsInMemory(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	id := b.async(skillText(`{"stepId":"ask","toolType":"approval","title":"Go on?"}`), `{}`)
	b.until(id, is(machine.Waiting))
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error { // not in the new database
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`DELETE FROM composite_skill_executions WHERE id = ?`, id)
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	bus.Publish(b.db.Bus(), b.db.LocalUser().ID, storage.Replaced{}) // Run, which would unload it, is not active
	if x, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: id}); !fault.Is(err, fault.NotFound) {
		t.Errorf("the execution: %s, %v", x.Status, err)
	}
	if st, err := b.state(id); !fault.Is(err, fault.NotFound) {
		t.Errorf("its state: %+v, %v", st, err)
	}
	if v, err := b.s.Evaluate(b.ctx, EvaluateParams{ExecutionID: &id, Expression: json.RawMessage(`"$.input"`), As: "path"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("its document: %+v, %v", v, err)
	}
}

// TestRunCancelUnknown checks that a run canceled before it has reported an unknown outcome
// still reports it.
func TestRunCancelUnknown(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.h.on("send", func(ctx context.Context, _ Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	id := b.async(skillText(step("a", "send", "")), `{}`)
	b.until(id, func(Execution) bool { return b.h.made("send") == 1 })
	b.s.stop(errShutdown)
	b.s.Close()
	b.s = b.service()
	if c, err := b.s.Cancel(b.ctx, CancelParams{ExecutionID: id}); err != nil || c.Status != machine.Cancelled {
		t.Fatal(c, err)
	}
	if x := b.until(id, is(machine.Cancelled)); !x.StepResults[0].Unknown || b.h.made("send") != 1 {
		t.Fatalf("%+v", x.StepResults)
	}
}

// TestRunStopped checks that the time during which Helix is not running does not count.
func TestRunStopped(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	now := func(o *Options) { o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }
	b := newFixture(t, now)
	b.h.on("idem-slow", func(ctx context.Context, _ Call) (json.RawMessage, error) {
		if b.h.made("idem-slow") == 1 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return json.RawMessage(`1`), nil
	})
	id := b.async(skillText(step("a", "idem-slow", "")), `{}`)
	b.until(id, func(Execution) bool { return b.h.made("idem-slow") == 1 })
	b.s.stop(errShutdown)
	b.s.Close()
	ahead.Store(int64(24 * time.Hour))
	b.s = b.service(now)
	b.start(b.s)
	x := b.until(id, func(x Execution) bool { return final(x.Status) })
	if x.Status != machine.Completed || x.ExecutionTimeMs > 60_000 {
		t.Fatalf("%s %+v after %v ms", x.Status, x.Error, x.ExecutionTimeMs)
	}
	b.replay(id)
}

// TestCancelReachesRunThatIsBeingUnloaded puts an unloaded run back, as if its loop had read its
// last message and had not left yet.
func TestCancelReachesRunThatIsBeingUnloaded(t *testing.T) {
	t.Parallel()
	b := newFixture(t, func(o *Options) { o.Limits.WaitInMemory = time.Hour })
	out := b.run(skillText(approval), `{"to":"you"}`)
	leaving := b.s.inMemory(out.ExecutionID)
	b.s.Close()
	b.s = b.service()
	leaving.s, leaving.inbox, leaving.gone = b.s, make(chan message, 1), make(chan struct{})
	b.s.mu.Lock()
	b.s.live[out.ExecutionID] = leaving
	b.s.mu.Unlock()
	go func() {
		<-leaving.inbox
		b.s.mu.Lock()
		delete(b.s.live, out.ExecutionID)
		b.s.mu.Unlock()
		close(leaving.gone)
	}()
	if c, err := b.s.Cancel(b.ctx, CancelParams{ExecutionID: out.ExecutionID}); err != nil || c.Status != machine.Cancelled {
		t.Fatal(c, err)
	}
}
