package discovery

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/storage"
)

// reconcileSoon applies in the background what other devices changed about the user's tools.
func (s *Service) reconcileSoon(user uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return // the next start does
	}
	s.jobs.Add(1)
	go func() {
		defer s.jobs.Done()
		if err := s.reconcile(s.ctx, user); err != nil && s.ctx.Err() == nil {
			s.log.Error("apply changes of tools by other devices", "error", err)
		}
	}()
}

// reconcile applies what other devices changed about the user's tools: sync has only written their rows. A tool that was approved elsewhere asks for its approval here; one that was disabled or revoked
// elsewhere ends here too.
func (s *Service) reconcile(ctx context.Context, user uuid.UUID) error {
	ctx = s.inBackground(ctx, user)
	ids, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]uuid.UUID, error) {
		return storage.Collect(tx.Select(`SELECT t.id FROM tool_manifest t WHERE t.user_id = ? AND (t.seen_hash IS NOT t.definition_hash OR t.seen_status IS NOT `+sharedStatus+`)`, user), storage.RowTo[uuid.UUID])
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.db.Write(ctx, func(tx *storage.Tx) error { return s.reconcileTool(tx, id) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) reconcileTool(tx *storage.Tx, id uuid.UUID) error {
	t, err := loadTool(tx, id)
	if fault.Is(err, fault.NotFound) || err == nil && t.seen == t.hash && t.seenStatus == t.shared {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE tool_manifest SET seen_hash = definition_hash, seen_status = ? WHERE id = ?`, t.shared, t.ID); err != nil {
		return err
	}
	action := "tool.received"
	switch {
	case t.shared == StatusRevoked:
		action = "tool.revoked"
		if _, _, err := s.retire(tx, t); err != nil {
			return err
		}
	case t.seen != t.hash:
		if t, err = s.definitionChanged(tx, t, t.seen); err != nil {
			return err
		}
	}
	if t.Status == StatusDisabled {
		action = "tool.disabled"
		tx.AfterCommit(func() { s.endRuns(t.ID, "The tool was disabled on another device.") })
	}
	if err := s.o.Permission.SubjectChanged(tx, string(Kind), t.ID.String(), t.Status == StatusActive); err != nil {
		return err
	}
	s.announce(tx, t.user, Changed{t.ID, t.Status})
	return audit.Append(tx, audit.Entry{Action: action, SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name, "status": t.Status, "hash": t.hash[:4], "by": "another device"}})
}

// definitionChanged updates the grants and the approval of a tool whose stored definition replaced the one with
// the hash was, which is zero for a new tool, and returns the tool with its state. The grants of other
// definitions are suspended. A definition that was approved on this device before needs no new approval, unless
// its grants were revoked since; any other waits for one.
func (s *Service) definitionChanged(tx *storage.Tx, t *Tool, was [32]byte) (*Tool, error) {
	if err := s.withdraw(tx, t.ID); err != nil {
		return nil, err
	}
	wants, err := t.manifest.wants()
	if err != nil || t.checkIntact() != nil {
		s.log.Warn("a tool from another device isn't complete", "tool", t.Name, "error", err)
		return t, nil // it can't be approved
	}
	doc, err := t.manifest.document()
	if err != nil {
		return nil, err
	}
	sub := subject(t.ID, t.hash)
	if was != [32]byte{} {
		if _, err := s.o.Permission.DefinitionChanged(tx, sub, was, t.hash, doc); err != nil {
			return nil, err
		}
	}
	allowed, err := s.o.Permission.GrantedTx(tx, sub, wants)
	if err != nil {
		return nil, err
	}
	if !allowed {
		if _, err := tx.Exec(`DELETE FROM tool_install WHERE tool_id = ? AND definition_hash = ?`, t.ID, t.hash); err != nil {
			return nil, err
		}
	}
	if t, err = loadTool(tx, t.ID); err != nil || t.Status != StatusPending {
		return t, err
	}
	return t, s.ask(tx, t)
}
