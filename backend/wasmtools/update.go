package wasmtools

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
	"helix/backend/trash"
)

// WasmConflict is the detail of the conflict when a WASM tool has changed since it was read.
type WasmConflict struct {
	BaseVersion string    `json:"baseVersion"`
	Current     WasmSkill `json:"current"`
}

// apply applies the patch to w. It reports whether the definition may have changed.
func (p *WasmPatch) apply(w *WasmSkill) (definition bool) {
	set := func(dst, v *string) {
		if v != nil {
			*dst = *v
		}
	}
	set(&w.Name, p.Name)
	set(&w.Description, p.Description)
	set(&w.Version, p.Version)
	if p.TimeoutMs != nil {
		w.TimeoutMs = *p.TimeoutMs
	}
	if p.MemoryMb != nil {
		w.MemoryMb = *p.MemoryMb
	}
	if p.IsEnabled != nil {
		w.IsEnabled = *p.IsEnabled
	}
	if p.Capabilities != nil {
		w.Capabilities = *p.Capabilities
	}
	if len(p.InputSchema) > 0 {
		w.InputSchema = p.InputSchema
	}
	if p.Signature != nil {
		w.Sig = p.Signature
	}
	return len(p.Wasm) > 0 || p.BlobSHA256 != "" || p.Capabilities != nil || len(p.InputSchema) > 0 || p.Description != nil || p.Signature != nil || p.MemoryMb != nil
}

// UpdateWasm changes a WASM tool of the caller. A change of the definition suspends the grants of
// the previous one and drops a signature that does not cover the new one; new bytes also increment
// the version. Active runs continue with the previous definition.
func (s *Service) UpdateWasm(ctx context.Context, p UpdateWasmParams) (UpdateWasmResult, error) {
	var out UpdateWasmResult
	var base *WasmSkill
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		base, err = Load(tx, p.SkillID)
		return err
	}); err != nil {
		return out, err
	}
	w := *base
	w.Capabilities = append([]string{}, base.Capabilities...)
	deep := p.Patch.apply(&w)
	w.FillDefaults()
	if err := w.check(); err != nil {
		return out, err
	}
	if deep {
		report, err := s.examineUpdate(ctx, &p.Patch, base, &w)
		if err != nil {
			return out, err
		}
		out.Report = report
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		now, err := Load(tx, p.SkillID)
		if err != nil {
			return err
		}
		if p.BaseVersion != "" && p.BaseVersion != now.Version || now.Hash != base.Hash || !now.UpdatedAt.Equal(base.UpdatedAt) {
			if err := s.completeSkill(tx, now); err != nil {
				return err
			}
			return fault.Conflictf("The skill has changed and is at version %s now. Your changes were not saved. Review it, then save again.", now.Version).
				WithDetails(WasmConflict{lifecycle.Shorten(p.BaseVersion, 64), *now})
		}
		if w.WasmBytecode != now.WasmBytecode && w.Version == now.Version {
			w.Version = lifecycle.RaisePatch(now.Version)
		}
		if err := s.checkSkillNameFree(tx, &w); err != nil {
			return err
		}
		if err := lifecycle.AddSigner(tx, w.Owner, p.Patch.Signature); err != nil {
			return err
		}
		if out.SuspendedGrants, err = s.commitSkill(tx, now, &w); err != nil {
			return err
		}
		return s.completeSkill(tx, &w)
	})
	if err != nil {
		return UpdateWasmResult{}, err
	}
	out.Skill, out.SuspendedGrants = w, append([]uuid.UUID{}, out.SuspendedGrants...)
	return out, nil
}

// examineUpdate checks the definition that results from a patch, and stores new bytes.
func (s *Service) examineUpdate(ctx context.Context, p *WasmPatch, base, w *WasmSkill) (*WasmReport, error) {
	wasm, blob := p.Wasm, p.BlobSHA256
	fresh := len(wasm) > 0 || blob != ""
	if !fresh {
		blob = base.WasmBytecode
	}
	wasm, err := s.Module(ctx, wasm, blob)
	if err != nil {
		return nil, err
	}
	if p.Signature == nil { // the previous one does not apply to a new definition
		w.Sig = nil
	}
	report, err := s.Examine(ctx, w, wasm)
	if err != nil {
		return nil, err
	}
	if err := InstallError(report); err != nil {
		return nil, err
	}
	if id, _ := identity.From(ctx); w.WasmBytecode != base.WasmBytecode && !id.MayApprove() {
		w.Origin = WasmImport // only a person can declare a module as their own, and only for these bytes
		s.Isolate(w)
		report.Tier, report.Isolation, report.Reasons = w.Tier, w.Isolation, w.Reasons
		report.Refused = s.refusedHere(w)
	}
	if p.Signature == nil && w.Hash == base.Hash {
		w.Sig = base.Sig
	}
	if fresh {
		return &report, s.keepWasm(ctx, wasm)
	}
	return &report, nil
}

// commitSkill saves w, whose previous state is old.
func (s *Service) commitSkill(tx *storage.Tx, old, w *WasmSkill) (suspended []uuid.UUID, err error) {
	if err := saveSkill(tx, w); err != nil {
		return nil, err
	}
	change := "updated"
	if old.IsEnabled != w.IsEnabled {
		if change, err = s.kind.Switched(tx, w.item(), w.IsEnabled); err != nil {
			return nil, err
		}
	}
	details := map[string]any{"version": w.Version, "definitionHash": w.DefinitionHash}
	if w.Hash != old.Hash {
		details["oldHash"], details["wasm"] = old.DefinitionHash, w.WasmBytecode
	}
	if err := s.kind.Changed(tx, w.item(), change, details); err != nil {
		return nil, err
	}
	if w.Hash == old.Hash {
		return nil, nil
	}
	return s.perm.DefinitionChanged(tx, w.Subject(), old.Hash, w.Hash, w.Document())
}

// DeleteWasm moves a WASM tool to the trash, revokes its grants and ends its runs.
// skills.restore_wasm restores it, without the grants.
func (s *Service) DeleteWasm(ctx context.Context, p SkillID) (DeleteWasmResult, error) {
	var out DeleteWasmResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		w, err := Load(tx, p.SkillID)
		if err != nil {
			return err
		}
		out.UndoUntil = tx.Now.Add(tx.TrashAge())
		return s.kind.Delete(tx, w.item())
	})
	return out, err
}

// RestoreWasm restores a deleted WASM tool from the trash. If its name has been taken meanwhile a
// number is appended.
func (s *Service) RestoreWasm(ctx context.Context, p SkillID) (WasmSkillResult, error) {
	var out WasmSkillResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := s.kind.Restore(tx, p.SkillID); err != nil {
			return err
		}
		w, err := Load(tx, p.SkillID)
		if err != nil {
			return err
		}
		if err := s.completeSkill(tx, w); err != nil {
			return err
		}
		out.Skill = *w
		return nil
	})
	return out, err
}

// SignWasm signs the current definition of a WASM tool with this device's key, by which the user
// vouches for the module. It then runs in process until it changes.
func (s *Service) SignWasm(ctx context.Context, p SkillID) (lifecycle.SignResult, error) {
	var out lifecycle.SignResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		w, err := Load(tx, p.SkillID)
		if err != nil {
			return err
		}
		if w.Sig, err = lifecycle.Sign(tx, s.db, w.item(), w.Hash, ""); err != nil {
			return err
		}
		if err := saveSkill(tx, w); err != nil {
			return err
		}
		out, err = s.kind.Signed(tx, w.item(), w.Hash, w.Sig)
		return err
	})
	return out, err
}

// Trash describes deleted WASM tools.
func (s *Service) Trash() trash.Kind { return s.kind.Trash(s.db, Kind, "") }
