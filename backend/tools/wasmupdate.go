package tools

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// WasmConflict are the details of the conflict when a skill has moved on since it was read.
type WasmConflict struct {
	BaseVersion string    `json:"baseVersion"`
	Current     WasmSkill `json:"current"`
}

// apply changes w; it reports whether the definition may change with it.
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
		w.sig = p.Signature
	}
	return len(p.Wasm) > 0 || p.BlobSHA256 != "" || p.Capabilities != nil || len(p.InputSchema) > 0 || p.Description != nil || p.Signature != nil || p.MemoryMb != nil
}

// UpdateWasm changes a WASM skill of the caller. When the definition changes, the grants of
// the former one go out of force, a signature that does not cover the new one is dropped, and
// new bytes raise the version. Runs in progress go on with what they began with.
func (s *Service) UpdateWasm(ctx context.Context, p UpdateWasmParams) (UpdateWasmResult, error) {
	var out UpdateWasmResult
	var base *WasmSkill
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		base, err = ownSkill(tx, p.SkillID)
		return err
	}); err != nil {
		return out, err
	}
	w := *base
	w.Capabilities = append([]string{}, base.Capabilities...)
	deep := p.Patch.apply(&w)
	w.fillDefaults()
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
		now, err := ownSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		if p.BaseVersion != "" && p.BaseVersion != now.Version || now.hash != base.hash || !now.UpdatedAt.Equal(base.UpdatedAt) {
			if err := s.completeSkill(tx, now); err != nil {
				return err
			}
			return fault.Conflictf("The skill is at version %s now and was changed meanwhile. Your changes were not saved; look at it and save again.", now.Version).
				WithDetails(WasmConflict{shorten(p.BaseVersion, 64), *now})
		}
		if w.WasmBytecode != now.WasmBytecode && w.Version == now.Version {
			w.Version = raisePatch(now.Version, func(string) bool { return false })
		}
		if err := skillNameConflict(tx, &w); err != nil {
			return err
		}
		if err := s.knowSigner(tx, w.owner, p.Patch.Signature); err != nil {
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
	out.Skill, out.SuspendedGrants = w, orEmpty(out.SuspendedGrants)
	return out, nil
}

// examineUpdate checks what a patch makes of a definition and keeps new bytes.
func (s *Service) examineUpdate(ctx context.Context, p *WasmPatch, base, w *WasmSkill) (*WasmReport, error) {
	wasm, blob := p.Wasm, p.BlobSHA256
	fresh := len(wasm) > 0 || blob != ""
	if !fresh {
		blob = base.WasmBytecode
	}
	wasm, err := s.wasmBytes(ctx, wasm, blob)
	if err != nil {
		return nil, err
	}
	if p.Signature == nil { // the former one says nothing about a new definition
		w.sig = nil
	}
	report, err := s.examineWasm(ctx, w, wasm)
	if err != nil {
		return nil, err
	}
	if err := installError(report); err != nil {
		return nil, err
	}
	if id, _ := identity.From(ctx); w.WasmBytecode != base.WasmBytecode && !id.MayApprove() {
		w.Origin = WasmImport // that a module is the user's own is said by a person, for these bytes
		s.isolate(w)
		report.Tier, report.Isolation, report.Reasons = w.Tier, w.Isolation, w.Reasons
		report.Refused = s.refusedHere(w)
	}
	if p.Signature == nil && w.hash == base.hash {
		w.sig = base.sig
	}
	if fresh {
		return &report, s.keepWasm(ctx, wasm)
	}
	return &report, nil
}

// commitSkill saves w, whose former state is old.
func (s *Service) commitSkill(tx *storage.Tx, old, w *WasmSkill) (suspended []uuid.UUID, err error) {
	if err := saveSkill(tx, w); err != nil {
		return nil, err
	}
	id, kind := w.ID.String(), "updated"
	if old.IsEnabled != w.IsEnabled {
		if kind = "disabled"; w.IsEnabled {
			kind = "enabled"
		}
		if err := s.perm.SubjectChanged(tx, wasmKind, id, true); err != nil { // runs in progress go on
			return nil, err
		}
	}
	s.announceSkill(tx, w.ID, kind)
	details := map[string]any{"version": w.Version, "definitionHash": w.DefinitionHash}
	if w.hash != old.hash {
		details["oldHash"], details["wasm"] = old.DefinitionHash, w.WasmBytecode
	}
	if err := audit.Append(tx, audit.Entry{Action: "skill." + kind, SubjectKind: wasmKind, SubjectID: id, Details: details}); err != nil {
		return nil, err
	}
	if w.hash == old.hash {
		return nil, nil
	}
	return s.perm.DefinitionChanged(tx, w.wasmSubject(), old.hash, w.hash, w.document())
}

// DeleteWasm puts a WASM skill into the trash: its grants are revoked and its runs end.
// skills.restore_wasm brings it back for 30 days, without the grants.
func (s *Service) DeleteWasm(ctx context.Context, p SkillID) (DeleteWasmResult, error) {
	var out DeleteWasmResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		w, err := ownSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE skills SET deleted_at = ?, updated_at = ? WHERE id = ?`, tx.Now, tx.Now, w.ID); err != nil {
			return err
		}
		if _, err := s.perm.RevokeSubject(tx, wasmKind, w.ID.String(), "the skill was deleted"); err != nil {
			return err
		}
		s.announceSkill(tx, w.ID, "deleted")
		out.UndoUntil = tx.Now.Add(restorable)
		return audit.Append(tx, audit.Entry{Action: "skill.deleted", SubjectKind: wasmKind, SubjectID: w.ID.String(), Details: map[string]any{"name": w.Name}})
	})
	if err == nil {
		s.cancelTool(p.SkillID)
	}
	return out, err
}

// RestoreWasm brings a deleted WASM skill back within 30 days. When its name was taken
// meanwhile it gets a number.
func (s *Service) RestoreWasm(ctx context.Context, p SkillID) (WasmSkillResult, error) {
	var out WasmSkillResult
	user := identity.UserID(ctx)
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		var name string
		var deleted time.Time
		err := tx.QueryRow(`SELECT name, deleted_at FROM skills WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, p.SkillID, user).
			Scan(&name, storage.Time(&deleted))
		if errors.Is(err, sql.ErrNoRows) {
			return s.loadInto(tx, p, &out) // not deleted at all: nothing to do
		}
		if err != nil {
			return err
		}
		if tx.Now.Sub(deleted) > restorable {
			return fault.NotFoundf("The skill was deleted more than 30 days ago and cannot be restored.")
		}
		for n, try := 2, name; ; n++ {
			_, _, taken, err := skillNamed(tx, user, try, p.SkillID)
			if err != nil {
				return err
			}
			if !taken {
				name = try
				break
			}
			try = withSuffix(name, n)
		}
		if _, err := tx.Exec(`UPDATE skills SET deleted_at = NULL, name = ?, updated_at = ? WHERE id = ?`, name, tx.Now, p.SkillID); err != nil {
			return err
		}
		if err := s.perm.SubjectChanged(tx, wasmKind, p.SkillID.String(), true); err != nil {
			return err
		}
		s.announceSkill(tx, p.SkillID, "restored")
		if err := audit.Append(tx, audit.Entry{Action: "skill.restored", SubjectKind: wasmKind, SubjectID: p.SkillID.String(), Details: map[string]any{"name": name}}); err != nil {
			return err
		}
		return s.loadInto(tx, p, &out)
	})
	return out, err
}

func (s *Service) loadInto(tx *storage.Tx, p SkillID, out *WasmSkillResult) error {
	w, err := ownSkill(tx, p.SkillID)
	if err != nil {
		return err
	}
	if err := s.completeSkill(tx, w); err != nil {
		return err
	}
	out.Skill = *w
	return nil
}

// SignWasm signs the current definition of a WASM skill with this device's key, which says
// that the user vouches for the module: from then on it runs in process, until it changes.
func (s *Service) SignWasm(ctx context.Context, p SkillID) (SignResult, error) {
	var out SignResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		w, err := ownSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		sig := &signature{
			Name: w.Name, Version: w.Version, Author: s.db.LocalUser().DisplayName,
			SignedAt: tx.Now.UTC().Format(time.RFC3339Nano), PublicKey: keyText(tx.Device().PublicKey),
		}
		text, err := signedText(w.hash, sig.Name, sig.Version, sig.Author, sig.SignedAt)
		if err != nil {
			return err
		}
		raw, err := s.db.Sign(text)
		if err != nil {
			return err
		}
		sig.Signature = base64.StdEncoding.EncodeToString(raw)
		w.sig = sig
		if err := saveSkill(tx, w); err != nil {
			return err
		}
		out = SignResult{Signature: sig.Signature, Fingerprint: keyFingerprint(tx.Device().PublicKey)}
		s.announceSkill(tx, w.ID, "signed")
		return audit.Append(tx, audit.Entry{Action: "skill.signed", SubjectKind: wasmKind, SubjectID: w.ID.String(),
			Details: map[string]any{"version": w.Version, "definitionHash": w.DefinitionHash, "fingerprint": out.Fingerprint}})
	})
	return out, err
}
