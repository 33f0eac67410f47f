package skills

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/skills/definition"
	"helix/backend/skills/expr"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

const (
	defaultWait = 2 * time.Minute
	requestAge  = 24 * time.Hour // how long a request id identifies the same run
)

func errUnwritten() *fault.Error {
	return fault.Unavailablef("Couldn't record the run. Nothing was started.")
}

// beginning describes a run to be created.
type beginning struct {
	id, user  uuid.UUID
	input     json.RawMessage
	trigger   string
	attended  bool
	above     []string
	limit     time.Duration // 0: that of the skill
	parent    *uuid.UUID
	path      string
	depth     int
	request   string
	restarted *uuid.UUID
	authority *permission.Authority // of the caller; nil: the user
	budget    callable.Budget
	reused    map[string]machine.ReusedData
}

// ExecuteComposite runs a skill and waits until it ends or waits for a person. The run continues
// even if the caller stops waiting.
func (s *Service) ExecuteComposite(ctx context.Context, p ExecuteParams) (ExecuteResult, error) {
	return s.execute(ctx, p, beginning{trigger: triggerOf(ctx), attended: !p.Unattended})
}

func (s *Service) execute(ctx context.Context, p ExecuteParams, by beginning) (ExecuteResult, error) {
	if len(p.RequestID) > 200 {
		return ExecuteResult{}, fault.Invalidf("requestId can have at most 200 characters.")
	}
	wait := defaultWait
	if p.WaitMs > 0 {
		wait = duration.Of(p.WaitMs, time.Millisecond)
	}
	if p.Async {
		wait = 0
	}
	if id, err := s.requested(ctx, p.RequestID); err != nil || id != uuid.Nil {
		if err != nil {
			return ExecuteResult{}, err
		}
		return s.result(ctx, id, wait)
	}
	skill, warnings, err := s.chosen(ctx, p.SkillID, p.Skill, p.Version)
	if err != nil {
		return ExecuteResult{}, err
	}
	input, err := s.checkInput(ctx, skill.body, p.Input)
	if err != nil {
		return ExecuteResult{}, err
	}
	by.id, by.user, by.input, by.request = storage.NewID(), identity.UserID(ctx), input, p.RequestID
	id, r, err := s.begin(ctx, skill, by)
	if err != nil {
		if other, ferr := s.requested(ctx, p.RequestID); ferr == nil && other != uuid.Nil { // a concurrent call
			return s.result(ctx, other, wait)
		}
		return ExecuteResult{}, err
	}
	var out ExecuteResult
	if r != nil && wait > 0 {
		out, err = s.followed(ctx, r, wait)
	} else {
		out, err = s.result(ctx, id, wait)
	}
	out.Warnings = append(out.Warnings, warnings...)
	return out, err
}

// triggerOf returns the trigger of a run that is started by a call.
func triggerOf(ctx context.Context) string {
	id, _ := identity.From(ctx)
	switch {
	case id.Client == identity.ClientTerminal:
		return "cli"
	case id.Person():
		return "user"
	}
	return "rpc"
}

// requested returns the run that was started with a request id, or the zero UUID.
func (s *Service) requested(ctx context.Context, request string) (id uuid.UUID, err error) {
	if request == "" {
		return uuid.Nil, nil
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT id FROM composite_skill_executions WHERE user_id = ? AND request_id = ? AND created_at >= ?`,
			identity.UserID(ctx), request, s.now().Add(-requestAge)).Scan(&id)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, err
}

// chosen returns the skill that a call names or contains.
func (s *Service) chosen(ctx context.Context, id *uuid.UUID, raw json.RawMessage, version string) (skill *row, warnings []string, err error) {
	if (id == nil) == (len(raw) == 0) {
		return nil, nil, fault.Invalidf("Provide either skillId or skill.")
	}
	if id != nil {
		skill, err = storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*row, error) { return saved(tx, *id, version) })
		if err == nil && version != "" {
			err = s.requireRunnable(ctx, skill)
		}
		return skill, nil, err
	}
	return s.readDraft(ctx, raw)
}

// saved loads a skill that may be run.
func saved(tx *storage.Tx, id uuid.UUID, version string) (*row, error) {
	skill, err := visibleSkill(tx, id)
	switch {
	case err != nil:
		return nil, err
	case !skill.enabled:
		return nil, fault.Conflictf("The skill is disabled.")
	case version != "" && version != skill.version:
		err = skill.at(tx, version)
	}
	return skill, err
}

// requireRunnable returns an error for a version that is only a draft. A missing tool is not an error; the
// run reports it when it reaches the step.
func (s *Service) requireRunnable(ctx context.Context, skill *row) error {
	report, err := check(skill, s.catalog(ctx))
	if err != nil {
		return err
	}
	report.Errors = slices.DeleteFunc(report.Errors, func(p definition.Problem) bool {
		return p.Code == definition.CodeTool || p.Code == definition.CodeAmbiguous
	})
	if !report.Valid() {
		return problemsError(report, "The skill cannot run")
	}
	return nil
}

// readDraft reads a definition that is not saved.
func (s *Service) readDraft(ctx context.Context, raw json.RawMessage) (*row, []string, error) {
	report, err := definition.Read(raw, s.catalog(ctx))
	if err != nil {
		return nil, nil, err
	}
	if !report.Valid() {
		return nil, nil, problemsError(report, "The skill cannot run")
	}
	hash, err := report.Skill.Hash()
	if err != nil {
		return nil, nil, err
	}
	var warnings []string
	for _, w := range report.Warnings {
		warnings = append(warnings, w.Message)
	}
	k := report.Skill
	return &row{user: identity.UserID(ctx), name: k.Name, version: k.Version, body: &k.Body, hash: hash, enabled: true}, warnings, nil
}

// checkInput validates the input of a run against its skill.
func (s *Service) checkInput(ctx context.Context, body *definition.Body, input json.RawMessage) (json.RawMessage, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if len(input) > s.limits.Input {
		return nil, fault.Limitf("The input has %d bytes; the limit is %d.", len(input), s.limits.Input)
	}
	v, err := expr.Decode(input)
	if err != nil {
		return nil, fault.Invalidf("The input can't be used: %s.", fault.As(err).Message)
	}
	if len(body.InputSchema) > 0 && string(body.InputSchema) != "null" {
		if err := checkValue(ctx, &s.schemas, body.InputSchema, v, "input"); err != nil {
			return nil, err
		}
	}
	return input, nil
}

// newRun creates a run that is not recorded yet.
func (s *Service) newRun(ctx context.Context, skill *row, b beginning) (*live, error) {
	made := created{
		Name: skill.name, Trigger: b.trigger, Attended: b.attended, Above: b.above, Reused: b.reused,
		TimeoutMs: skill.body.OverallTimeout().Milliseconds(), MaxDocument: s.limits.Document,
	}
	if b.limit > 0 {
		made.TimeoutMs = max(min(made.TimeoutMs, b.limit.Milliseconds()), 1)
	}
	if skill.id != uuid.Nil {
		made.Above = append(append([]string{}, b.above...), skill.id.String())
	}
	if err := s.resolve(ctx, skill.body, &made); err != nil {
		return nil, err
	}
	r, err := s.runRow(skill, b)
	if err != nil {
		return nil, err
	}
	prog, err := s.programs.get(skill.hash, func() (*definition.Body, error) { return skill.body, nil })
	if err != nil {
		return nil, err
	}
	l, err := s.newLive(*r, prog, made, nil)
	if err == nil {
		l.fresh, l.authority, l.budget = true, b.authority, b.budget
	}
	return l, err
}

// runRow returns the row of a new run.
func (s *Service) runRow(skill *row, b beginning) (*runRow, error) {
	r := &runRow{
		id: b.id, user: b.user, hash: skill.hash, mode: modeLive, trigger: b.trigger, input: b.input, status: machine.Queued, parent: b.parent,
		parentPath: b.path, depth: b.depth, restarted: b.restarted, request: b.request, device: s.db.Device().ID, created: s.now(),
		name: skill.name, label: skill.version, sum: machine.Summary{Total: len(skill.body.Steps)},
	}
	if err := r.keepCaller(b.authority, b.budget); err != nil {
		return nil, err
	}
	if skill.id != uuid.Nil {
		r.skill = &skill.id
	}
	if skill.head != uuid.Nil {
		r.version = &skill.head
		return r, nil
	}
	k := &definition.Skill{Name: skill.name, Version: skill.version, Body: *skill.body}
	var err error
	r.body, err = k.Text()
	return r, err
}

// begin starts a run and returns it, or queues it and returns only its id.
func (s *Service) begin(ctx context.Context, skill *row, b beginning) (uuid.UUID, *live, error) {
	slot := s.takeSlot(b.user)
	if !slot {
		if err := s.mayQueue(b.user); err != nil {
			return uuid.Nil, nil, err
		}
	}
	r, err := s.newRun(ctx, skill, b)
	if err != nil {
		if slot {
			s.freeSlot(b.user)
		}
		return uuid.Nil, nil, err
	}
	if slot {
		r.slot = true
		r, _, err := s.launch(r)
		return b.id, r, s.unwritten(err)
	}
	defer r.cancel(errParked)
	row, events := r.row, r.batch
	err = s.writes.Write(context.WithoutCancel(ctx), len(events), func(tx *storage.Tx) error {
		if err := row.insert(tx); err != nil {
			return err
		}
		return insertEvents(tx, row.id, events)
	})
	if err != nil {
		return uuid.Nil, nil, s.unwritten(err)
	}
	s.queueUp(b.user, s.queued(b.user, b.id), false)
	return b.id, nil, nil
}

// unwritten returns the error when a run could not be recorded.
func (s *Service) unwritten(err error) error {
	switch {
	case err == nil:
		return nil
	case s.isClosed():
		return errStopping()
	}
	return errUnwritten().WithCause(err)
}

// queued returns what a queued run does when a slot is free.
func (s *Service) queued(user, id uuid.UUID) queuedRun {
	return queuedRun{id, func() {
		used := false
		_, _, err := s.open(s.life, id, func(r *live) { r.slot, used = true, true })
		if !used {
			s.freeSlot(user)
		}
		if err != nil && !fault.Is(err, fault.NotFound) && s.life.Err() == nil {
			s.broken(s.life, id, err)
		}
	}}
}

// launch starts the loop of a run and waits until its start is recorded. If another goroutine has
// started the run already, launch returns that one.
func (s *Service) launch(r *live) (*live, *runRow, error) {
	s.mu.Lock()
	other := s.live[r.row.id]
	if s.closed || other != nil {
		closed := s.closed
		s.mu.Unlock()
		r.cancel(errParked)
		if r.slot {
			s.freeSlot(r.row.user)
		}
		if closed {
			return nil, nil, errStopping()
		}
		return other, nil, nil
	}
	s.live[r.row.id] = r
	fresh := r.fresh
	s.wg.Go(r.loop)
	s.mu.Unlock()
	if fresh {
		if err := <-r.first; err != nil {
			return nil, nil, err
		}
	}
	return r, nil, nil
}

func errStopping() *fault.Error { return fault.Unavailablef("Helix is stopping.") }

// open returns a loaded run, or the row of a run that has ended. It loads the run if necessary, and then
// calls prepare before the loop starts. If the journal makes the program panic, the run ends as failed.
func (s *Service) open(ctx context.Context, id uuid.UUID, prepare func(*live)) (r *live, row *runRow, err error) {
	err = fault.Catch(func() (err error) {
		r, row, err = s.load(ctx, id, prepare)
		return err
	})
	if p := (*fault.Panic)(nil); errors.As(err, &p) {
		s.broken(ctx, id, err)
		return nil, nil, err
	}
	return r, row, err
}

func (s *Service) load(ctx context.Context, id uuid.UUID, prepare func(*live)) (*live, *runRow, error) {
	if found := s.inMemory(id); found != nil {
		return found, nil, nil
	}
	door := &s.loadLocks[id[len(id)-1]%loadLockCount]
	door.Lock()
	defer door.Unlock()
	s.mu.Lock()
	found, closed := s.live[id], s.closed
	s.mu.Unlock()
	if found != nil && found.lost.Load() { // it is loaded again once the old one is unloaded
		found.send(message{})
		<-found.gone
	} else if found != nil {
		return found, nil, nil
	}
	row, prog, events, err := s.stored(ctx, id)
	switch {
	case row != nil && row.final():
		return nil, row, nil
	case err != nil:
		return nil, nil, err
	case row.reason == WaitQuarantined:
		return nil, nil, errQuarantined()
	case closed:
		return nil, nil, errStopping()
	}
	if row.status == machine.Waiting && !row.interrupted { // it is active from now on, although its status does not show it
		if err := s.writes.Write(context.WithoutCancel(ctx), 1, func(tx *storage.Tx) error { return noteAtWork(tx, id) }); err != nil {
			return nil, nil, err
		}
		row.interrupted = true
	}
	var made created
	if len(events) > 0 {
		err = json.Unmarshal(events[0].Data, &made)
	} else {
		made, err = s.makeCreated(row, prog)
	}
	if err != nil {
		return nil, nil, err
	}
	r, err := s.newLive(*row, prog, made, events)
	if err == nil {
		r.authority, r.budget, err = s.restoreCaller(r.ctx, row.caller)
	}
	if err != nil {
		return nil, nil, err
	}
	if row.cancelAt != nil {
		r.stop.Store(new(string))
	}
	if prepare != nil {
		prepare(r)
	}
	return s.launch(r)
}

// stored reads a run and, if it has not ended, its definition and journal.
func (s *Service) stored(ctx context.Context, id uuid.UUID) (row *runRow, prog *program, events []machine.Event, err error) {
	err = s.db.Read(context.WithoutCancel(ctx), func(tx *storage.Tx) (err error) {
		if row, err = anyRun(tx, id); err != nil || row.final() {
			return err
		}
		if prog, err = s.program(tx, row); err == nil {
			events, err = loadEvents(tx, id, 0, 0)
		}
		return err
	})
	return row, prog, events, err
}

// makeCreated resolves what a run needs that was only enqueued.
func (s *Service) makeCreated(row *runRow, prog *program) (created, error) {
	made := created{
		Name: row.name, Trigger: row.trigger, Attended: row.trigger != "schedule" && row.trigger != "agent",
		TimeoutMs: prog.body.OverallTimeout().Milliseconds(), MaxDocument: s.limits.Document,
	}
	if row.skill != nil {
		made.Above = []string{row.skill.String()}
	}
	ctx := identity.With(s.life, identity.Identity{User: row.user, Scopes: identity.Read | identity.Write, Client: identity.ClientProgram, Pipe: "skills"})
	return made, s.resolve(ctx, prog.body, &made)
}

func (r *runRow) final() bool { return final(r.status) }

func final(s Status) bool {
	return s == machine.Completed || s == machine.Failed || s == machine.Cancelled
}
