package memory

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// trustUndo names the rows that one call of SetUntrusted changed.
type trustUndo struct {
	Set           bool        `json:"set"` // the value that was set
	Memories      []uuid.UUID `json:"memories,omitempty"`
	Conversations []uuid.UUID `json:"conversations,omitempty"`
	Documents     []uuid.UUID `json:"documents,omitempty"`
}

const trustUndoRows = 10_000 // a larger change gets no undo token

// SetUntrusted sets whether texts from a source are quoted to models as untrusted: a conversation,
// a document, or everything of one importer. Only a person can mark a source as trusted.
func (s *Service) SetUntrusted(ctx context.Context, p TrustParams) (CountResult, error) {
	given := 0
	for _, is := range []bool{p.ConversationID != nil, p.DocumentID != nil, p.Source != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return CountResult{}, invalid("source", "Give exactly one of a conversation, a document and a source.")
	}
	if !p.Untrusted && !mayTrust(ctx) {
		return CountResult{}, errTrust()
	}
	var out CountResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		u, err := s.trustTargets(tx, user, p)
		if err != nil {
			return err
		}
		out.Count = len(u.Memories) + len(u.Conversations) + len(u.Documents)
		if out.Count == 0 {
			return nil
		}
		if err := s.trust(tx, user, u, u.Set); err != nil {
			return err
		}
		if out.Count <= trustUndoRows {
			out.UndoToken, err = tx.KeepUndo(user, undoTrust, u)
		}
		return err
	})
	return out, err
}

// trustTargets returns the rows that p names and that do not yet have the requested value.
func (s *Service) trustTargets(tx *storage.Tx, user uuid.UUID, p TrustParams) (u trustUndo, err error) {
	u.Set = p.Untrusted
	switch {
	case p.ConversationID != nil:
		c, err := conversation(tx, user, *p.ConversationID)
		if err == nil && c.Untrusted != p.Untrusted {
			u.Conversations = []uuid.UUID{c.ID}
		}
		return u, err
	case p.DocumentID != nil:
		d, err := s.liveDocument(tx, user, *p.DocumentID)
		if err == nil && d.Untrusted != p.Untrusted {
			u.Documents = []uuid.UUID{d.ID}
		}
		return u, err
	}
	for table, ids := range map[string]*[]uuid.UUID{"memories": &u.Memories, "conversations": &u.Conversations, "documents": &u.Documents} {
		if *ids, err = storage.Collect(tx.Select(`SELECT id FROM `+table+` WHERE user_id = ? AND source = ? AND untrusted <> ? AND deleted_at IS NULL`, user, p.Source, p.Untrusted),
			storage.RowTo[uuid.UUID]); err != nil {
			return u, err
		}
	}
	return u, nil
}

// trust sets or clears the untrusted mark of rows and updates all their parts in search.
func (s *Service) trust(tx *storage.Tx, user uuid.UUID, u trustUndo, untrusted bool) error {
	for _, t := range []struct {
		table string
		ids   []uuid.UUID
		put   func(uuid.UUID) error
	}{
		{"memories", u.Memories, func(id uuid.UUID) error {
			m, err := s.memory(tx, user, id)
			if err != nil {
				return err
			}
			return s.search.Put(tx, m.attributes())
		}},
		{"conversations", u.Conversations, func(id uuid.UUID) error { return s.putConversation(tx, user, id, true) }},
		{"documents", u.Documents, func(id uuid.UUID) error { return s.putDocument(tx, user, id, true) }},
	} {
		for _, id := range t.ids {
			if _, err := tx.Exec(`UPDATE `+t.table+` SET untrusted = ?, updated_at = ? WHERE id = ? AND user_id = ?`, untrusted, tx.Now, id, user); err != nil {
				return err
			}
			if err := t.put(id); err != nil {
				return err
			}
		}
		changed(tx, user, "update", t.ids...)
	}
	return nil
}

// undoSetUntrusted restores the previous mark of those rows that still have the value u set.
func (s *Service) undoSetUntrusted(tx *storage.Tx, user uuid.UUID, u trustUndo) (int, error) {
	n := 0
	for table, ids := range map[string]*[]uuid.UUID{"memories": &u.Memories, "conversations": &u.Conversations, "documents": &u.Documents} {
		var still []uuid.UUID
		for _, id := range *ids {
			var yes bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM `+table+` WHERE id = ? AND user_id = ? AND untrusted = ? AND deleted_at IS NULL)`, id, user, u.Set).Scan(&yes); err != nil {
				return 0, err
			}
			if yes {
				still = append(still, id)
			}
		}
		*ids = still
		n += len(still)
	}
	return n, s.trust(tx, user, u, !u.Set)
}
