package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/skills/definition"
	"helix/backend/skills/expr"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/tools"
)

// openScheduler builds the scheduler and offers it what schedules can start here.
func (b *Backend) openScheduler(conf config.Config) {
	b.Scheduler = scheduler.New(b.DB, scheduler.Options{
		Logger: b.log, Poll: conf.SchedulerPoll, MinInterval: conf.SchedulerMinInterval, MaxPerUser: conf.SchedulerMaxSchedules, Condition: condition,
	})
	run := skillRuns{b}
	clean := newCleanup(b)
	b.Scheduler.Register("skill", skillStarter{run}, "skill", "Skill")
	b.Scheduler.Register("tool", toolStarter{run}, "tool", "Tool")
	b.Scheduler.Register("cleanup", clean, "cleanup", "History clean-up")
	unsubscribe := bus.Subscribe(b.Bus, func(_ uuid.UUID, e skills.RunEvent) {
		switch machine.Type(e.Type) {
		case machine.RunFinished, machine.RunWaiting, machine.RunResumed:
			b.Scheduler.Ended(e.ExecutionID)
		}
	})
	b.closing("scheduler", func() error {
		unsubscribe()
		clean.close()
		return b.Scheduler.Close()
	})
}

// condition reads the condition of a schedule's notification.
func condition(text string) (func(doc any) (bool, error), error) {
	c, err := expr.ParseCondition(text)
	if err != nil {
		return nil, err
	}
	return func(doc any) (bool, error) {
		raw, err := json.Marshal(doc)
		if err != nil {
			return false, err
		}
		v, err := expr.Decode(raw)
		if err != nil {
			return false, err
		}
		return c.Holds(v)
	}, nil
}

// skillRuns is what skills and tools as targets share: both are runs of a composite skill.
type skillRuns struct{ b *Backend }

// Start implements scheduler.Starter.
func (r skillRuns) Start(run uuid.UUID) { r.b.Skills.Begin(run) }

// Cancel implements scheduler.Starter.
func (r skillRuns) Cancel(ctx context.Context, run uuid.UUID, reason string) error {
	_, err := r.b.Skills.Cancel(ctx, skills.CancelParams{ExecutionID: run, Reason: reason})
	return err
}

// State implements scheduler.Starter.
func (r skillRuns) State(ctx context.Context, run uuid.UUID) (scheduler.TargetState, error) {
	x, err := r.b.Skills.StateOf(ctx, run)
	if err != nil {
		return scheduler.TargetState{}, err
	}
	out := scheduler.TargetState{
		Status: string(x.Status), WaitReason: x.WaitReason, Output: x.Output, Unknown: x.Unknown, NeedsApproval: x.NeedsApproval,
		StartedAt: x.StartedAt, FinishedAt: x.FinishedAt,
	}
	if x.Status == machine.Completed {
		out.Status = "success"
	}
	if x.Error != nil {
		out.Error = &scheduler.RunError{Kind: x.Error.Kind, Message: x.Error.Message}
	}
	if n := x.Notice; n != nil {
		out.Notice = &scheduler.Notice{Title: n.Title, Body: n.Body, Level: n.Level}
	}
	return out, nil
}

// skillStarter starts composite skills.
type skillStarter struct{ skillRuns }

// Check implements scheduler.Starter.
func (s skillStarter) Check(ctx context.Context, t scheduler.Target) (scheduler.Target, error) {
	id, err := s.find(ctx, t)
	if err != nil {
		return t, err
	}
	m, err := s.b.Skills.GetMetadata(ctx, skills.SkillParams{SkillID: id})
	switch {
	case err != nil:
		return t, err
	case !m.Valid:
		return t, fault.Invalidf("The skill %q is a draft with errors. Correct it first.", m.Name)
	case !m.IsEnabled:
		return t, fault.Conflictf("The skill %q is disabled. Enable it first.", m.Name)
	}
	if t.Version != "" && t.Version != m.Version {
		v, err := s.b.Skills.ListVersions(ctx, skills.SkillParams{SkillID: id})
		if err != nil {
			return t, err
		}
		known := false
		for _, x := range v.Versions {
			known = known || x.Version == t.Version
		}
		if !known {
			return t, fault.NotFoundf("The skill %q has no version %s.", m.Name, t.Version)
		}
	} else if err := fits(m.InputSchema, t.Input); err != nil {
		return t, err
	}
	t.ID, t.Name = &m.SkillID, m.Name
	return t, nil
}

// find gives the id of a skill that a target names.
func (s skillStarter) find(ctx context.Context, t scheduler.Target) (uuid.UUID, error) {
	if t.ID != nil {
		return *t.ID, nil
	}
	if t.Name == "" {
		return uuid.Nil, fault.Invalidf("Say which skill: its id or its name.")
	}
	for p := (skills.ListParams{Query: t.Name, Limit: 100}); ; {
		r, err := s.b.Skills.ListComposite(ctx, p)
		if err != nil {
			return uuid.Nil, err
		}
		for _, m := range r.Skills {
			if strings.EqualFold(m.Name, t.Name) {
				return m.SkillID, nil
			}
		}
		if p.Offset += len(r.Skills); len(r.Skills) == 0 || p.Offset >= r.Total {
			return uuid.Nil, fault.NotFoundf("No skill is called %q.", t.Name)
		}
	}
}

// fits checks an input that is known before the run.
func fits(schema, input json.RawMessage) error {
	if len(schema) == 0 || string(schema) == "null" {
		return nil
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	list, err := tools.CheckJSON(schema, input)
	if err != nil || len(list) == 0 {
		return err
	}
	return fault.Invalidf("The input does not fit: %s: %s.", first(list[0].Path, "the whole"), list[0].Message).WithDetails(tools.ParamErrors{Errors: list})
}

// Enqueue implements scheduler.Starter. The schedule's run is the request: one due time can
// never make two.
func (s skillStarter) Enqueue(tx *storage.Tx, occ scheduler.Occurrence) (uuid.UUID, error) {
	id := occ.Target.ID
	if id == nil {
		found, err := s.find(tx.Context(), occ.Target)
		if err != nil {
			return uuid.Nil, err
		}
		id = &found
	}
	return s.b.Skills.EnqueueTx(tx, skills.Enqueue{
		SkillID: id, Version: occ.Target.Version, Input: occ.Input, Trigger: "schedule", RequestID: "schedule:" + occ.RunID.String(),
	})
}

// toolStarter starts custom tools, each as a skill of one step, so that the rules of runs
// hold for it.
type toolStarter struct{ skillRuns }

func (s toolStarter) find(ctx context.Context, t scheduler.Target) (*tools.Callable, error) {
	id := uuid.Nil
	if t.ID != nil {
		id = *t.ID
	} else if t.Name == "" {
		return nil, fault.Invalidf("Say which tool: its id or its name.")
	}
	found, err := s.b.Tools.FindCallable(ctx, id, t.Name)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || !found[0].Mine {
		return nil, fault.NotFoundf("There is no such tool.")
	}
	return &found[0], nil
}

// Check implements scheduler.Starter.
func (s toolStarter) Check(ctx context.Context, t scheduler.Target) (scheduler.Target, error) {
	if t.Version != "" {
		return t, fault.Invalidf("A schedule runs a tool as it is then: leave the version out.")
	}
	c, err := s.find(ctx, t)
	if err != nil {
		return t, err
	}
	m, err := s.b.Tools.Metadata(ctx, tools.ToolID{ToolID: c.ID})
	if err != nil {
		return t, err
	}
	if !m.IsEnabled {
		return t, fault.Conflictf("The tool %q is disabled. Enable it first.", c.Name)
	}
	if err := fits(c.Parameters, t.Input); err != nil {
		return t, err
	}
	t.ID, t.Name = &c.ID, c.Name
	return t, nil
}

// Enqueue implements scheduler.Starter.
func (s toolStarter) Enqueue(tx *storage.Tx, occ scheduler.Occurrence) (uuid.UUID, error) {
	c, err := s.find(tx.Context(), occ.Target)
	if err != nil {
		return uuid.Nil, err
	}
	params := map[string]json.RawMessage{}
	if len(occ.Input) > 0 {
		if err := json.Unmarshal(occ.Input, &params); err != nil {
			return uuid.Nil, fault.Invalidf("The parameters of a tool are an object.")
		}
	}
	limit := min(max(occ.MaxRun, time.Second), time.Hour).Milliseconds()
	skill, err := json.Marshal(map[string]any{
		"name": fmt.Sprintf("Tool %s", c.Name), "overallTimeoutMs": limit,
		"steps": []any{map[string]any{"stepId": "tool", "toolType": definition.Custom, "toolId": c.ID, "parameters": params, "timeoutMs": limit}},
	})
	if err != nil {
		return uuid.Nil, err
	}
	return s.b.Skills.EnqueueTx(tx, skills.Enqueue{Skill: skill, Trigger: "schedule", RequestID: "schedule:" + occ.RunID.String()})
}

// cleanup is the target that keeps histories within their bounds. It can be done again at any
// time, so that a run which a stop interrupted simply begins anew.
type cleanup struct {
	b    *Backend
	mu   sync.Mutex
	runs map[uuid.UUID]*cleaning
	wg   sync.WaitGroup
	life context.Context
	stop context.CancelFunc
}

// cleaning is one run of it.
type cleaning struct {
	state  scheduler.TargetState
	cancel context.CancelFunc
}

// cleaned is how many runs are remembered after their end.
const cleaned = 100

func newCleanup(b *Backend) *cleanup {
	c := &cleanup{b: b, runs: map[uuid.UUID]*cleaning{}}
	c.life, c.stop = context.WithCancel(context.Background())
	return c
}

func (c *cleanup) close() {
	c.stop()
	c.wg.Wait()
}

// Check implements scheduler.Starter.
func (c *cleanup) Check(_ context.Context, t scheduler.Target) (scheduler.Target, error) {
	if t.ID != nil || t.Version != "" {
		return t, fault.Invalidf("The clean-up has neither id nor version.")
	}
	t.Name = first(t.Name, "History clean-up")
	return t, nil
}

// Enqueue implements scheduler.Starter.
func (c *cleanup) Enqueue(*storage.Tx, scheduler.Occurrence) (uuid.UUID, error) {
	return storage.NewID(), nil
}

// Start implements scheduler.Starter.
func (c *cleanup) Start(run uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs[run] != nil || c.life.Err() != nil {
		return
	}
	if len(c.runs) >= cleaned {
		maps.DeleteFunc(c.runs, func(_ uuid.UUID, x *cleaning) bool { return !x.state.FinishedAt.IsZero() })
	}
	ctx, cancel := context.WithCancel(c.life)
	x := &cleaning{cancel: cancel, state: scheduler.TargetState{Status: "running", StartedAt: time.Now()}}
	c.runs[run] = x
	c.wg.Go(func() {
		defer cancel()
		done, err := c.b.cleanUp(ctx)
		out, _ := json.Marshal(done) // numbers
		c.mu.Lock()
		x.state.FinishedAt, x.state.Output, x.state.Status = time.Now(), out, "success"
		switch f := fault.As(err); {
		case err == nil:
		case f.Kind == fault.Canceled:
			x.state.Status = "cancelled"
		default:
			x.state.Status, x.state.Error = "failed", &scheduler.RunError{Kind: string(f.Kind), Message: f.Message}
		}
		c.mu.Unlock()
		c.b.Scheduler.Ended(run)
	})
}

// State implements scheduler.Starter.
func (c *cleanup) State(_ context.Context, run uuid.UUID) (scheduler.TargetState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.runs[run]
	if x == nil {
		return scheduler.TargetState{}, fault.NotFoundf("There is no such clean-up.")
	}
	return x.state, nil
}

// Cancel implements scheduler.Starter.
func (c *cleanup) Cancel(_ context.Context, run uuid.UUID, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.runs[run]; x != nil {
		x.cancel()
	}
	return nil
}

// cleanUp prunes every history by its own rules and says how many rows left.
func (b *Backend) cleanUp(ctx context.Context) (map[string]int64, error) {
	done := map[string]int64{}
	ctx = identity.With(ctx, identity.Identity{User: b.LocalUser(), Scopes: identity.Write.Closed(), Client: "scheduler", Pipe: "schedule"})
	for _, part := range []struct {
		name  string
		prune func(context.Context) (int64, error)
	}{
		{"toolRuns", b.Tools.Prune}, {"scheduleRuns", b.Scheduler.Prune},
		{"skillRuns", func(ctx context.Context) (int64, error) {
			n, err := b.Skills.Prune(ctx)
			return int64(n), err
		}},
		{"audit", func(ctx context.Context) (int64, error) { return 0, b.Audit.Prune(ctx) }},
	} {
		n, err := part.prune(ctx)
		done[part.name] = n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
