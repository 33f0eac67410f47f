package wasmtools

import (
	"context"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// ListWasm returns a page of the caller's WASM tools, most recently changed first.
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

// GetWasm returns a WASM tool of the caller and, on request, the report about its module.
func (s *Service) GetWasm(ctx context.Context, p GetWasmParams) (GetWasmResult, error) {
	var out GetWasmResult
	var w *WasmSkill
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if w, err = Load(tx, p.SkillID); err != nil {
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
	wasm, err := s.Read(ctx, w.Ref())
	if fault.Is(err, fault.Unavailable) {
		return out, nil // Downloaded is false
	}
	if err != nil {
		return out, err
	}
	again := *w // a copy, because Examine modifies the definition
	report, err := s.Examine(ctx, &again, wasm)
	if err != nil {
		return out, err
	}
	out.Report = &report
	return out, nil
}
