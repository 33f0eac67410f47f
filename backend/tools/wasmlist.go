package tools

import (
	"context"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// ListWasm returns a page of the caller's WASM skills, the last changed first.
func (s *Service) ListWasm(ctx context.Context, p ListWasmParams) (ListWasmResult, error) {
	out := ListWasmResult{Skills: []WasmSkill{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	out.Limit, out.Offset = p.Limit, p.Offset
	var f lifecycle.Filter
	f.Add("user_id = ?", identity.UserID(ctx))
	f.Add("deleted_at IS NULL")
	f.Text(p.Query, "name", "description")
	if p.Enabled != nil {
		f.Add("is_enabled = ?", *p.Enabled)
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if err := tx.QueryRow(`SELECT count(*) FROM skills s WHERE `+f.Where(), f.Args...).Scan(&out.Total); err != nil {
			return err
		}
		list, err := storage.Collect(tx.Select(`SELECT `+skillColumns+` FROM skills s WHERE `+f.Where()+` ORDER BY s.updated_at DESC, s.id DESC LIMIT ? OFFSET ?`,
			append(f.Args, p.Limit, p.Offset)...), scanSkill)
		if err != nil {
			return err
		}
		if err := s.completeSkill(tx, list...); err != nil {
			return err
		}
		for _, w := range list {
			out.Skills = append(out.Skills, *w)
		}
		return nil
	})
	return out, err
}

// GetWasm returns a WASM skill of the caller, and on request the report about its module.
func (s *Service) GetWasm(ctx context.Context, p GetWasmParams) (GetWasmResult, error) {
	var out GetWasmResult
	var w *WasmSkill
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if w, err = ownSkill(tx, p.SkillID); err != nil {
			return err
		}
		return s.completeSkill(tx, w)
	}); err != nil {
		return out, err
	}
	out.Skill = *w
	if !p.Report {
		return out, nil
	}
	wasm, err := s.readBlob(ctx, w.ref())
	if fault.Is(err, fault.Unavailable) {
		return out, nil // Downloaded tells it
	}
	if err != nil {
		return out, err
	}
	again := *w // the report completes a definition, which must stay as it is stored
	report, err := s.examineWasm(ctx, &again, wasm)
	if err != nil {
		return out, err
	}
	out.Report = &report
	return out, nil
}

// WasmExecutions returns a page of the runs of a skill, newest first.
func (s *Service) WasmExecutions(ctx context.Context, p SkillExecutionsParams) (SkillExecutionsResult, error) {
	out := SkillExecutionsResult{Executions: []SkillExecution{}}
	if err := storage.CheckPage(&p.Limit, nil, 50, 100); err != nil {
		return out, err
	}
	if err := lifecycle.CheckEnum("status", p.Status); err != nil {
		return out, err
	}
	user := identity.UserID(ctx)
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if _, err := ownSkill(tx, p.SkillID); err != nil {
			return err
		}
		where, args := "skill_id = ? AND user_id = ?", []any{p.SkillID, user}
		if p.Status != "" {
			where, args = where+" AND status = ?", append(args, string(p.Status))
		}
		if p.Before != nil {
			where += " AND (timestamp, id) < (SELECT timestamp, id FROM skill_executions WHERE id = ? AND skill_id = ? AND user_id = ?)"
			args = append(args, *p.Before, p.SkillID, user)
		}
		var err error
		out.Executions, err = storage.Collect(tx.Select(`SELECT id, skill_id, input_params, output_result, status, coalesce(error_class, ''), coalesce(error_message, ''),
			execution_time_ms, cpu_time_ms, memory_used_mb, host_calls, tier, isolation, version, caller, timestamp
			FROM skill_executions WHERE `+where+` ORDER BY timestamp DESC, id DESC LIMIT ?`, append(args, p.Limit+1)...), func(row storage.Row) (x SkillExecution, err error) {
			err = row.Scan(&x.ID, &x.SkillID, storage.JSON(&x.Input), storage.JSON(&x.Output), &x.Status, &x.ErrorClass, &x.Error,
				&x.ExecutionTimeMs, &x.CPUTimeMs, &x.MemoryUsedMb, &x.HostCalls, &x.Tier, &x.Isolation, &x.Version, &x.Caller, storage.Time(&x.Timestamp))
			return x, err
		})
		return err
	})
	if len(out.Executions) > p.Limit {
		out.Executions, out.More = out.Executions[:p.Limit], true
	}
	return out, err
}
