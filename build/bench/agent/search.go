package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/identity"
	"helix/backend/storage"
	"helixbench/figures"
)

// searching measures finding words in 100,000 messages of 100 chats, in all of them and in one, compared
// with the same query of FTS5 alone. One of the words is in every message.
func searching(ctx context.Context, db *storage.DB, s *agent.Service, begin func() uuid.UUID) {
	const chats, messages, looks = 100, 1000, 50
	user := identity.UserID(ctx)
	var sessions []uuid.UUID
	for c := range chats {
		session := begin()
		sessions = append(sessions, session)
		figures.Check(db.Write(ctx, func(tx *storage.Tx) error {
			for i := range messages {
				id := storage.NewID()
				text := fmt.Sprintf("message %d about a boat number%d and the sea", i, (c*messages+i)%997)
				if _, err := tx.Exec(`INSERT INTO session_messages (id, session_id, user_id, seq, turn_id, role, content, created_at, updated_at) VALUES (?, ?, ?, ?, ?, 'user', ?, 0, 0)`,
					id, session, user, 1_000_000+i, session, `[{"kind":"text","text":"`+text+`"}]`); err != nil {
					return err
				}
				if _, err := tx.Exec(`INSERT INTO session_messages_fts (message_id, text) VALUES (?, ?)`, id, text); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	look := func(in *uuid.UUID) []float64 {
		return timed(looks, func(i int) {
			r, err := s.Search(ctx, agent.SearchParams{Query: fmt.Sprintf("boat number%d", i), SessionID: in})
			figures.Check(err)
			if len(r.Hits) != 20 && in == nil || len(r.Hits) == 0 {
				figures.Check(fmt.Errorf("%d hits", len(r.Hits)))
			}
		})
	}
	found := look(nil)
	plain := timed(looks, func(i int) {
		figures.Check(db.Read(ctx, func(tx *storage.Tx) error {
			return tx.Select(`SELECT message_id, snippet(session_messages_fts, 1, '', '', '…', 24) FROM session_messages_fts WHERE session_messages_fts MATCH ? ORDER BY rowid DESC LIMIT 20`, fmt.Sprintf(`"boat" "number%d"*`, i)).Each(func(row storage.Row) error {
				var id uuid.UUID
				var text string
				return row.Scan(&id, &text)
			})
		}))
	})
	figures.Print("search", quantile(found, 0.5), "ms", quantile(found, 0.5)/quantile(plain, 0.5), "the same query of FTS5")
	figures.Print("search.p95", quantile(found, 0.95), "ms", 0, "")
	figures.Print("search.chat.p95", quantile(look(&sessions[chats/2]), 0.95), "ms", 0, "")
}
