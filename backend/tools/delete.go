package tools

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// restorable is how long a deleted tool can be brought back.
const restorable = 30 * 24 * time.Hour

// Delete puts a tool into the trash. Its grants are revoked and its shares stop at once;
// clones live on. Restore brings the tool back for 30 days, without the grants.
func (s *Service) Delete(ctx context.Context, p ToolID) (DeleteResult, error) {
	var out DeleteResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE custom_tools SET deleted_at = ?, updated_at = ? WHERE id = ?`, tx.Now, tx.Now, t.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE custom_tool_shares SET revoked_at = ? WHERE custom_tool_id = ? AND revoked_at IS NULL`, tx.Now, t.ID); err != nil {
			return err
		}
		if _, err := s.perm.RevokeSubject(tx, subjectKind, t.ID.String(), "the tool was deleted"); err != nil {
			return err
		}
		s.announce(tx, t.ID, "deleted")
		out.UndoUntil = tx.Now.Add(restorable).Format(time.RFC3339)
		return audit.Append(tx, audit.Entry{Action: "tool.deleted", SubjectKind: subjectKind, SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name}})
	})
	if err == nil {
		s.cancelTool(p.ToolID)
	}
	return out, err
}

// Restore brings a deleted tool back within 30 days. When its name was taken meanwhile it
// gets a number.
func (s *Service) Restore(ctx context.Context, p ToolID) (ToolResult, error) {
	var out ToolResult
	user := identity.UserID(ctx)
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		var name string
		var deleted time.Time
		err := tx.QueryRow(`SELECT name, deleted_at FROM custom_tools WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, p.ToolID, user).
			Scan(&name, storage.Time(&deleted))
		if errors.Is(err, sql.ErrNoRows) {
			t, err := ownTool(tx, p.ToolID) // not deleted at all: nothing to do
			if err != nil {
				return err
			}
			if err := s.complete(tx, t); err != nil {
				return err
			}
			out.Tool = *t
			return nil
		}
		if err != nil {
			return err
		}
		if tx.Now.Sub(deleted) > restorable {
			return fault.NotFoundf("The tool was deleted more than 30 days ago and cannot be restored.")
		}
		free, err := freeName(tx, user, name)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE custom_tools SET deleted_at = NULL, name = ?, updated_at = ? WHERE id = ?`, free, tx.Now, p.ToolID); err != nil {
			return err
		}
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		if err := s.perm.SubjectChanged(tx, subjectKind, t.ID.String(), true); err != nil {
			return err
		}
		s.announce(tx, t.ID, "restored")
		if err := s.complete(tx, t); err != nil {
			return err
		}
		out.Tool = *t
		return audit.Append(tx, audit.Entry{Action: "tool.restored", SubjectKind: subjectKind, SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name}})
	})
	return out, err
}

// Clone copies a tool of the caller or a public one: private, without grants, secrets and
// state. A signature comes along, since the definition is the same; it is dropped with the
// first edit.
func (s *Service) Clone(ctx context.Context, p CloneParams) (ToolResult, error) {
	var out ToolResult
	user := identity.UserID(ctx)
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		src, err := visibleTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		name := p.Name
		if name == "" {
			const suffix = " (Clone)"
			if name, err = freeName(tx, user, cutName(src.Name, maxName-len(suffix))+suffix); err != nil {
				return err
			}
		} else if name, err = checkName(name); err != nil {
			return err
		}
		t := &Tool{
			ID: storage.NewID(), owner: user, Mine: true, Name: name, Version: src.Version, Author: src.Author, Icon: src.Icon, Tags: src.Tags,
			Samples: src.Samples, Origin: OriginClone, CloneSourceID: &src.ID, Visibility: Private, IsEnabled: true,
		}
		t.setDefinition(src.definition())
		t.hash, t.DefinitionHash, t.sig = src.hash, src.DefinitionHash, src.sig
		if src.sig != nil {
			if key, err := src.sig.key(); err == nil && !key.Equal(tx.Device().PublicKey) {
				if err := addSigner(tx, user, keyFingerprint(key), keyText(key), src.sig.Author); err != nil {
					return err
				}
			}
		}
		if err := s.add(tx, t, "cloned from "+src.Name); err != nil {
			return err
		}
		if err := s.complete(tx, t); err != nil {
			return err
		}
		out.Tool = *t
		return nil
	})
	return out, err
}
