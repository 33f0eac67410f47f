package memory

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// Tag adds tags to memories and removes others. A tag in both lists is added. Adding a tag that a
// memory has, or removing one that it lacks, changes nothing.
func (s *Service) Tag(ctx context.Context, p TagParams) (ItemsResult, error) {
	ids, err := parseIDs(p.ID, p.IDs)
	if err != nil {
		return ItemsResult{}, err
	}
	add, err := checkTags("add", p.Add)
	if err != nil {
		return ItemsResult{}, err
	}
	remove := make([]string, 0, len(p.Remove))
	for _, tag := range p.Remove {
		if tag = search.NormalTag(tag); tag != "" && !slices.Contains(add, tag) {
			remove = append(remove, tag)
		}
	}
	if len(add)+len(remove) == 0 {
		return ItemsResult{}, invalid("add", "Give a tag to add or remove.")
	}
	return s.changeMany(ctx, ids, undoTag, func(tx *storage.Tx, m *memoryRow) (any, error) {
		d := tagDelta{ID: m.ID, Added: difference(add, m.Tags), Removed: difference(remove, difference(remove, m.Tags))}
		if len(d.Added)+len(d.Removed) == 0 {
			return nil, nil
		}
		if n := len(m.Tags) + len(d.Added) - len(d.Removed); n > maxTags {
			return nil, invalid("add", "A memory has at most %d tags; one of these would have %d.", maxTags, n)
		}
		if err := s.retag(tx, m, d.Added, d.Removed); err != nil {
			return nil, err
		}
		return d, s.search.Put(tx, m.entry())
	})
}

// tagDelta holds the tags that were added to and removed from a memory.
type tagDelta struct {
	ID      uuid.UUID `json:"id"`
	Added   []string  `json:"added,omitempty"`
	Removed []string  `json:"removed,omitempty"`
}

// changeMany changes the caller's memories with the given ids in one transaction. fn changes one
// memory and returns its undo state, or nil if there was nothing to change.
func (s *Service) changeMany(ctx context.Context, ids []uuid.UUID, act string, fn func(*storage.Tx, *memoryRow) (any, error)) (ItemsResult, error) {
	out := ItemsResult{Items: []Item{}}
	user := identity.UserID(ctx)
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		ms, err := s.memoriesOf(tx, user, ids)
		if err != nil {
			return err
		}
		var undo []any
		var touched []uuid.UUID
		for _, m := range ms {
			u, err := fn(tx, m)
			if err != nil {
				return err
			}
			if u != nil {
				undo, touched = append(undo, u), append(touched, m.ID)
			}
			out.Items = append(out.Items, m.Item)
		}
		if len(undo) == 0 {
			return nil
		}
		changed(tx, user, "update", touched...)
		out.UndoToken, err = tx.KeepUndo(user, act, undo)
		return err
	})
	if err != nil {
		return ItemsResult{}, err
	}
	return out, nil
}

// retag changes the tags of a memory as an edit: it increments the version, so that a concurrent
// edit of the previous tags is a conflict. The caller updates search.
func (s *Service) retag(tx *storage.Tx, m *memoryRow, add, remove []string) error {
	if err := writeTags(tx, m, add, remove); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE memories SET version = version + 1, updated_at = ? WHERE id = ?`, tx.Now, m.ID); err != nil {
		return err
	}
	m.Version, m.UpdatedAt = m.Version+1, tx.Now
	return nil
}

// writeTags updates the rows of the tags, and the tags of m.
func writeTags(tx *storage.Tx, m *memoryRow, add, remove []string) error {
	for _, tag := range remove {
		if _, err := tx.Exec(`DELETE FROM memory_tags WHERE memory_id = ? AND tag = ?`, m.ID, tag); err != nil {
			return err
		}
	}
	for _, tag := range add {
		if _, err := tx.Exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, m.ID, m.user, tag); err != nil {
			return err
		}
	}
	tags := append(difference(m.Tags, remove), difference(add, m.Tags)...)
	slices.Sort(tags)
	m.Tags = slices.Compact(tags)
	if m.Tags == nil {
		m.Tags = []string{}
	}
	return nil
}
