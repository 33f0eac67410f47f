package skills

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/skills/definition"
	"helix/backend/skills/expr"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// Sources of the results in a dry run.
const (
	fromMock     = "mock"
	fromRecord   = "recorded"
	fromReal     = "real"
	fromTheShape = "schema"
)

// rehearsal is a dry run. It has a clock of its own, so that back-offs take no time.
type rehearsal struct {
	s        *Service
	ctx      context.Context
	p        DryRunParams
	made     created
	gives    map[string]json.RawMessage // output schemas, by step id
	st       *machine.State
	events   []machine.Event
	now      time.Time
	id       uuid.UUID
	recorded map[string][]machine.OutcomeData
	answers  map[string]machine.AnswerData
	used     map[string]int // number of mocks used, by step
	would    map[string]*WouldDo
}

// DryRun runs a skill with the same engine but without effects. The results of calls come from the
// mocks, the outcomes recorded by an earlier run, real calls that are read-only, or the output
// schema. A step without any of these ends the dry run.
func (s *Service) DryRun(ctx context.Context, p DryRunParams) (ExecuteResult, error) {
	skill, err := s.rehearsed(ctx, p)
	if err != nil {
		return ExecuteResult{}, err
	}
	input, err := s.checkInput(ctx, skill.body, p.Input)
	if err != nil {
		return ExecuteResult{}, err
	}
	for path, m := range p.Mocks {
		if err := m.check(path); err != nil {
			return ExecuteResult{}, err
		}
	}
	d := &rehearsal{
		s: s, ctx: ctx, p: p, id: storage.NewID(), now: s.now(), gives: map[string]json.RawMessage{}, used: map[string]int{}, would: map[string]*WouldDo{},
		made: created{Name: skill.name, Trigger: triggerOf(ctx), TimeoutMs: skill.body.OverallTimeout().Milliseconds(), MaxDocument: s.limits.Document},
	}
	if err := d.record(ctx); err != nil {
		return ExecuteResult{}, err
	}
	if err := s.resolveAll(ctx, skill.body, &d.made, func(step string, f definition.Callable) { d.gives[step] = f.Output }); err != nil {
		return ExecuteResult{}, err
	}
	row, err := s.runRow(skill, beginning{id: d.id, user: identity.UserID(ctx), input: input, trigger: d.made.Trigger})
	if err != nil {
		return ExecuteResult{}, err
	}
	row.mode = modeDry
	prog := &program{body: skill.body}
	if d.st, err = machine.New(d.made.start(s, d.id, d.now, input, prog)); err != nil {
		return ExecuteResult{}, err
	}
	begun := d.now
	if err := d.play(); err != nil {
		return ExecuteResult{}, err
	}
	fin := d.st.Finished()
	row.started, row.finished, row.status = &begun, &d.now, machine.Running
	end := *row
	end.status, end.err, end.output, end.sum = fin.Status, fin.Error, fin.Output, d.st.Summary()
	for _, e := range d.events {
		end.bytes += int64(len(e.Data) + eventBytes)
	}
	err = s.writes.Write(context.WithoutCancel(ctx), len(d.events), func(tx *storage.Tx) error {
		if err := row.insert(tx); err != nil {
			return err
		}
		if err := insertEvents(tx, d.id, d.events); err != nil {
			return err
		}
		return s.finish(tx, &end, nil)
	})
	if err != nil {
		return ExecuteResult{}, s.unwritten(err)
	}
	x := end.view()
	d.made.fill(&x, d.st, nil)
	for i := range x.StepResults {
		r := &x.StepResults[i]
		r.WouldDo = d.would[place(r.StepPath, r.Iteration)]
	}
	return x.ExecuteResult, nil
}

// rehearsed returns the skill that the request names or contains. It may be disabled.
func (s *Service) rehearsed(ctx context.Context, p DryRunParams) (skill *row, err error) {
	n := 0
	for _, given := range []bool{p.SkillID != nil && p.VersionID == nil, len(p.Skill) > 0, p.VersionID != nil} {
		if given {
			n++
		}
	}
	if n != 1 {
		return nil, fault.Invalidf("Give exactly one of skillId, skill and versionId.")
	}
	if len(p.Skill) > 0 {
		skill, _, err = s.readDraft(ctx, p.Skill)
		return skill, err
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if p.VersionID == nil {
			skill, err = visibleSkill(tx, *p.SkillID)
			return err
		}
		v, err := scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM composite_skill_versions WHERE id = ? AND user_id = ?`, p.VersionID, identity.UserID(ctx)))
		if err != nil {
			return err
		}
		if skill, err = ownSkill(tx, v.SkillID); err != nil {
			return err
		}
		return skill.at(tx, v.Version)
	})
	if err != nil {
		return nil, err
	}
	report, err := check(skill, s.catalog(ctx))
	if err == nil && !report.Valid() {
		err = problemsError(report, "The skill cannot run")
	}
	return skill, err
}

func (m *Mock) check(path string) error {
	n := 0
	for _, given := range []bool{len(m.Output) > 0, m.Error != nil, len(m.Sequence) > 0} {
		if given {
			n++
		}
	}
	if n != 1 {
		return fault.Invalidf("The mock of %q needs one of output, error and sequence.", path)
	}
	if len(m.Output) > 0 && !json.Valid(m.Output) {
		return fault.Invalidf("The mock of %q is not JSON.", path)
	}
	if err := jcs.CheckNumbers(m.Output); err != nil {
		return fault.Invalidf("The mock of %q cannot be used: %s.", path, fault.As(err).Message)
	}
	for i := range m.Sequence {
		if len(m.Sequence[i].Sequence) > 0 {
			return fault.Invalidf("The mock of %q has a sequence inside of its sequence.", path)
		}
		if err := m.Sequence[i].check(path); err != nil {
			return err
		}
	}
	return nil
}

// record loads the outcomes of the source run, and of the runs that it was restarted from.
func (d *rehearsal) record(ctx context.Context) error {
	d.recorded, d.answers = map[string][]machine.OutcomeData{}, map[string]machine.AnswerData{}
	if d.p.ExecutionID == nil {
		return nil
	}
	return d.s.db.Read(ctx, func(tx *storage.Tx) error {
		row, err := ownRun(tx, *d.p.ExecutionID)
		if err != nil {
			return err
		}
		return d.recordRun(tx, row)
	})
}

// recordRun adds the outcomes of a run to those of the older run whose steps it reused.
func (d *rehearsal) recordRun(tx *storage.Tx, row *runRow) error {
	if row.restarted != nil {
		older, err := ownRun(tx, *row.restarted)
		if err == nil {
			err = d.recordRun(tx, older)
		}
		if err != nil && !fault.Is(err, fault.NotFound) { // it may have been pruned
			return err
		}
	}
	events, err := loadEvents(tx, row.id, 0, 0)
	own := map[string]bool{}
	for _, e := range events {
		key := place(e.StepPath, e.Iteration)
		switch e.Type {
		case machine.StepOutcome:
			var o machine.OutcomeData
			if json.Unmarshal(e.Data, &o) != nil || o.Unmocked {
				continue
			}
			if !own[key] {
				own[key], d.recorded[key] = true, nil
			}
			d.recorded[key] = append(d.recorded[key], o)
		case machine.ApprovalAnswered:
			var a machine.AnswerData
			if json.Unmarshal(e.Data, &a) == nil {
				d.answers[key] = a
			}
		}
	}
	return err
}

func (d *rehearsal) apply(e machine.Event) error {
	e.Seq, e.At = d.st.Seq()+1, d.now
	d.events = append(d.events, e)
	return d.st.Apply(e)
}

// play executes the dry run until its end.
func (d *rehearsal) play() error {
	if err := d.apply(machine.Created(d.made)); err != nil {
		return err
	}
	for d.st.Finished() == nil {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		todo := d.st.Next()
		var e machine.Event
		switch {
		case len(todo.Records) > 0:
			e = todo.Records[0]
		case len(todo.Calls) > 0:
			e = d.call(todo.Calls[0])
		case len(todo.Later) > 0:
			e = todo.Later[0].Event
			if at := todo.Later[0].NotBefore; at.After(d.now) {
				d.now = at
			}
		case len(todo.Waits) > 0:
			e = d.ask(todo.Waits[0])
		default:
			return fault.Internalf(nil, "The dry run can't continue.")
		}
		if err := d.apply(e); err != nil {
			return err
		}
	}
	return nil
}

// mock returns the next mock of a step.
func (d *rehearsal) mock(path string) (*machine.OutcomeData, bool) {
	m, ok := d.p.Mocks[path]
	if !ok {
		return nil, false
	}
	if len(m.Sequence) > 0 {
		n := d.used[path]
		d.used[path]++
		m = m.Sequence[min(n, len(m.Sequence)-1)]
	}
	out := &machine.OutcomeData{Output: m.Output, Error: m.Error, Source: fromMock}
	if m.Error != nil {
		out.Jitter = 1
	}
	return out, true
}

// ask answers an approval, or ends the dry run.
func (d *rehearsal) ask(w machine.Wait) machine.Event {
	c := &machine.Call{Path: w.Path, Iteration: w.Iteration, Attempt: 1}
	if out, ok := d.mock(w.Path); ok {
		return machine.Outcome(c, *out)
	}
	if a, ok := d.answers[place(w.Path, w.Iteration)]; ok {
		return machine.Answer(w, a)
	}
	return machine.Outcome(c, machine.OutcomeData{Unmocked: true})
}

// call returns the result of a call without making it.
func (d *rehearsal) call(c *machine.Call) machine.Event {
	t := d.made.Tools[c.Step.StepID]
	key := callKey(c)
	would := &WouldDo{Tier: c.Tool.Tier, Rights: append([]string{}, t.Capabilities...), Input: c.Input}
	d.would[key] = would
	clear := true // no missing capability
	if t.Kind != definition.SkillCall && t.Missing == nil {
		rights, err := d.s.stepRights(d.ctx, d.made.callable(c.Step.StepID), c.Input)
		if err == nil {
			would.Rights = rights.Needs
		}
		clear = err == nil && len(rights.Missing) == 0 && rights.Denied == ""
	}
	if out, ok := d.mock(c.Path); ok {
		return machine.Outcome(c, *out)
	}
	if list := d.recorded[key]; len(list) > 0 {
		out := list[min(c.Attempt, len(list))-1]
		out.Source = fromRecord
		return machine.Outcome(c, out)
	}
	if t.Missing != nil {
		return machine.Outcome(c, machine.OutcomeData{Error: t.Missing, Jitter: 1})
	}
	timer := t.Kind == definition.Builtin && t.Name == waitName
	if d.p.AllowReadOnly && t.Tier == tierReadOnly && clear && !timer {
		return machine.Outcome(c, d.callReadOnly(c))
	}
	if d.p.FillFromSchema {
		if out, ok := shape(d.gives[c.Step.StepID]); ok {
			return machine.Outcome(c, machine.OutcomeData{Output: out, Source: fromTheShape})
		}
	}
	return machine.Outcome(c, machine.OutcomeData{Unmocked: true})
}

// callReadOnly makes a read-only call.
func (d *rehearsal) callReadOnly(c *machine.Call) machine.OutcomeData {
	limit := c.Step.Timeout()
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	reply, err := d.s.call(ctx, &d.made, c, limit, callable.Caller{Run: d.id}, callable.Budget{})
	out := d.s.output(reply.Output)
	if err != nil {
		out = d.s.failed(err)
	}
	out.Source = fromReal
	return out
}

// shape returns the simplest value that matches a schema. ok is false if the schema does not
// determine one.
func shape(schema json.RawMessage) (json.RawMessage, bool) {
	if len(schema) == 0 || string(schema) == "null" {
		return nil, false
	}
	v, err := expr.Decode(schema)
	if err != nil {
		return nil, false
	}
	out, ok := plainest(v, 0)
	if !ok {
		return nil, false
	}
	b, err := jcs.Marshal(out)
	return b, err == nil
}

func plainest(schema any, depth int) (any, bool) {
	m, ok := schema.(map[string]any)
	if !ok || depth > 16 {
		return nil, false
	}
	for _, k := range []string{"const", "default"} {
		if v, ok := m[k]; ok {
			return v, true
		}
	}
	for _, k := range []string{"examples", "enum"} {
		if list, ok := m[k].([]any); ok && len(list) > 0 {
			return list[0], true
		}
	}
	kind, _ := m["type"].(string)
	if list, ok := m["type"].([]any); ok && len(list) > 0 {
		kind, _ = list[0].(string)
	}
	props, _ := m["properties"].(map[string]any)
	if kind == "" && props != nil {
		kind = "object"
	}
	switch kind {
	case "object":
		out := map[string]any{}
		for k, p := range props {
			if v, ok := plainest(p, depth+1); ok {
				out[k] = v
			}
		}
		return out, true
	case "array":
		if v, ok := plainest(m["items"], depth+1); ok {
			return []any{v}, true
		}
		return []any{}, true
	case "string":
		return "", true
	case "integer", "number":
		if low, ok := m["minimum"]; ok {
			return low, true
		}
		return json.Number("0"), true
	case "boolean":
		return false, true
	case "null":
		return nil, true
	}
	return nil, false
}
