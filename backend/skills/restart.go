package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// Restart runs a skill again from a step, reusing the results of the steps before it. The original
// run is not changed.
func (s *Service) Restart(ctx context.Context, p RestartParams) (RestartResult, error) {
	out := RestartResult{Warnings: []string{}}
	source, err := s.execution(ctx, p.ExecutionID, true)
	if err != nil {
		return out, err
	}
	var target *row
	var before *definition.Body
	var caller json.RawMessage
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		old, err := ownRun(tx, p.ExecutionID)
		if err != nil {
			return err
		}
		prog, err := s.program(tx, old)
		if err != nil {
			return err
		}
		before, caller = prog.body, old.caller
		target, err = s.target(tx, old, prog, p.VersionID)
		return err
	})
	if err != nil {
		return out, err
	}
	if p.VersionID != nil {
		if err := s.requireRunnable(ctx, target); err != nil {
			return out, err
		}
	}
	input := source.Input
	if len(p.Input) > 0 {
		input = p.Input
	}
	if input, err = s.checkInput(ctx, target.body, input); err != nil {
		return out, err
	}
	reused, warnings, err := reuse(target.body, before, source, p.FromStepID)
	if err != nil {
		return out, err
	}
	// A restart has the authority of the run that it repeats, and no more.
	authority, budget, err := s.restoreCaller(ctx, caller)
	if err != nil {
		return out, err
	}
	out.ExecutionID = storage.NewID()
	out.Warnings = append(out.Warnings, warnings...)
	_, _, err = s.begin(ctx, target, beginning{
		id: out.ExecutionID, user: identity.UserID(ctx), input: input, trigger: triggerOf(ctx), attended: true, restarted: &p.ExecutionID, reused: reused,
		authority: authority, budget: budget,
	})
	return out, err
}

// target returns the skill that a run is restarted with: its original version or another one.
func (s *Service) target(tx *storage.Tx, old *runRow, prog *program, version *uuid.UUID) (*row, error) {
	k := &row{user: old.user, name: old.name, version: old.label, body: prog.body, hash: old.hash, enabled: true}
	if old.skill != nil {
		k.id = *old.skill
	}
	if old.version != nil {
		k.head = *old.version
	}
	if version == nil {
		return k, nil
	}
	v, err := scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM composite_skill_versions WHERE id = ? AND user_id = ?`, version, old.user))
	if err != nil {
		return nil, err
	}
	if v.SkillID != k.id {
		return nil, fault.Invalidf("That version belongs to another skill.")
	}
	k.version, k.hash, k.head = v.Version, v.DefinitionHash, v.VersionID
	k.body, err = definition.Parse(v.Body)
	return k, err
}

// reuse collects the results of the steps before a step of a run.
func reuse(to, was *definition.Body, source Execution, from string) (map[string]machine.ReusedData, []string, error) {
	results := map[string]StepResult{}
	for _, r := range source.StepResults {
		if r.Iteration == "" && r.StepID == r.StepPath {
			results[r.StepID] = r
		}
	}
	old := map[string]*definition.Step{}
	for i := range was.Steps {
		old[was.Steps[i].StepID] = &was.Steps[i]
	}
	if !slices.ContainsFunc(to.Steps, func(d definition.Step) bool { return d.StepID == from }) {
		return nil, nil, fault.Invalidf("The skill has no step %q at its top level.", from)
	}
	out := map[string]machine.ReusedData{}
	var warnings []string
	for i := range to.Steps {
		def := &to.Steps[i]
		if def.StepID == from {
			break
		}
		r, ok := results[def.StepID]
		switch {
		case !ok:
			return nil, nil, fault.Invalidf("The step %q did not run, so it has no output to reuse. Restart from it or from an earlier step.", def.StepID)
		case r.OutputMissing != "":
			return nil, nil, fault.Unavailablef("The output of the step %q is missing, so it can't be reused. Restart from that step or an earlier one.", def.StepID)
		case r.Status != machine.Completed && r.Status != machine.Skipped:
			return nil, nil, fault.Invalidf("The step %q did not complete, so it has no output to reuse. Restart from it or from an earlier step.", def.StepID)
		}
		if !sameStep(old[def.StepID], def) {
			warnings = append(warnings, fmt.Sprintf("The step %q has changed since; its earlier result is reused.", def.StepID))
		}
		d := machine.ReusedData{Status: r.Status, From: source.ExecutionID.String()}
		if r.Status == machine.Completed {
			d.Output = r.Output
		}
		out[def.StepID] = d
	}
	return out, warnings, nil
}

// sameStep compares two steps, ignoring the positions at which they are drawn.
func sameStep(a, b *definition.Step) bool {
	if a == nil {
		return false
	}
	x, y := *a, *b
	x.UI, y.UI = nil, nil
	left, lerr := jcs.Marshal(x)
	right, rerr := jcs.Marshal(y)
	return lerr == nil && rerr == nil && bytes.Equal(left, right)
}
