package memory

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/trash"
)

// Trash describes deleted memories, conversations and documents. Purged rows have no text
// and are not shown.
func (s *Service) Trash() []trash.Kind {
	memories := trash.Kind{
		Name: KindMemory,
		Rows: `SELECT id, metadata AS name, content AS text, deleted_at FROM memories WHERE user_id = ?1 AND deleted_at IS NOT NULL AND content <> ''`,
		Open: func(id uuid.UUID, metadata, content []byte) (string, string, error) {
			text, err := s.open("memories", "content", id, content)
			if title := search.TitleOf(json.RawMessage(metadata)); title != "" {
				return title, text, err
			}
			first, _, _ := strings.Cut(text, "\n")
			return first, text, err
		},
		Purge: func(tx *storage.Tx, id uuid.UUID) error {
			_, err := s.purgeTx(tx, identity.UserID(tx.Context()), []uuid.UUID{id})
			return err
		},
	}
	out := []trash.Kind{memories}
	for _, w := range parents() {
		out = append(out, trash.Kind{
			Name: w.noun,
			Rows: `SELECT id, title AS name, ` + w.detail + ` AS text, deleted_at FROM ` + w.table + ` WHERE user_id = ?1 AND deleted_at IS NOT NULL AND ` + w.notPurged(),
			Purge: func(tx *storage.Tx, id uuid.UUID) error {
				_, err := w.purge(s, tx, identity.UserID(tx.Context()), id)
				return err
			},
		})
	}
	for i := range out {
		out[i].Restore = func(ctx context.Context, id uuid.UUID) error {
			_, err := s.Restore(ctx, IDsParams{IDs: []string{id.String()}})
			return err
		}
	}
	return out
}
