package tools

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// Delete moves a tool to the trash. Its grants are revoked and its shares end immediately; clones
// are not affected. Restore restores the tool without the grants.
func (s *Service) Delete(ctx context.Context, p ToolID) (DeleteResult, error) {
	var out DeleteResult
	var shares []uuid.UUID
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		if shares, err = storage.Collect(tx.Select(`UPDATE custom_tool_shares SET revoked_at = ? WHERE custom_tool_id = ? AND revoked_at IS NULL RETURNING id`, tx.Now, t.ID), storage.RowTo[uuid.UUID]); err != nil {
			return err
		}
		out.UndoUntil = tx.Now.Add(tx.TrashAge()).Format(time.RFC3339)
		return s.kind.Delete(tx, t.item())
	})
	if err == nil {
		s.cancelTool(p.ToolID)
		s.unpublish(ctx, shares)
	}
	return out, err
}

// Restore restores a deleted tool from the trash. If its name has been taken meanwhile a
// number is appended.
func (s *Service) Restore(ctx context.Context, p ToolID) (ToolResult, error) {
	return s.answer(ctx, s.db.Write, func(tx *storage.Tx) (*Tool, error) {
		if err := s.kind.Restore(tx, p.ToolID); err != nil {
			return nil, err
		}
		return ownTool(tx, p.ToolID)
	})
}

// Clone copies a tool of the caller or a public one. The copy is private and has no grants, secrets
// or state. It keeps the signature, because the definition is the same; the first edit drops it.
func (s *Service) Clone(ctx context.Context, p CloneParams) (ToolResult, error) {
	user := identity.UserID(ctx)
	return s.answer(ctx, s.db.Write, func(tx *storage.Tx) (*Tool, error) {
		src, err := visibleTool(tx, p.ToolID)
		if err != nil {
			return nil, err
		}
		name := p.Name
		if name == "" {
			if name, err = s.kind.CloneName(tx, user, src.Name); err != nil {
				return nil, err
			}
		} else if name, err = lifecycle.CheckName("tool", name); err != nil {
			return nil, err
		}
		t := &Tool{
			ID: storage.NewID(), owner: user, Mine: true, Name: name, Version: src.Version, Author: src.Author, Icon: src.Icon, Tags: src.Tags,
			Samples: src.Samples, Origin: OriginClone, CloneSourceID: &src.ID, Visibility: Private, IsEnabled: true,
		}
		t.setDefinition(src.definition())
		t.hash, t.DefinitionHash, t.sig = src.hash, src.DefinitionHash, src.sig
		if err := lifecycle.AddSigner(tx, user, src.sig); err != nil {
			return nil, err
		}
		return t, s.add(tx, t, "cloned from "+src.Name)
	})
}
