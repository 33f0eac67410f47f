package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// checkWords makes search_fts what it has to be: empty with private storage, and else with a
// row for each item. It is written anew when it is not, as after the setting has changed.
func (s *Service) checkWords(ctx context.Context) error {
	var items, rows int64
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT (SELECT count(*) FROM search_items), (SELECT count(*) FROM search_fts_docsize)`).Scan(&items, &rows)
	})
	if err != nil || s.o.Private && rows == 0 || !s.o.Private && rows == items {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`INSERT INTO search_fts (search_fts) VALUES ('delete-all')`); err != nil || s.o.Private {
			return err
		}
		return s.eachText(tx, func(item uint32, e *entry) error {
			title, tags, content := e.columns()
			if _, err := tx.Exec(`INSERT INTO search_fts (rowid, title, tags, content) VALUES (?, ?, ?, ?)`, item, title, tags, content); err != nil {
				return err
			}
			_, err := tx.Exec(`UPDATE search_items SET tokens = ? WHERE item = ?`, len(tokenize(content)), item)
			return err
		})
	})
}

// loadWords fills the postings with those of all items: with private storage they are nowhere
// else.
func (s *Service) loadWords(tx *storage.Tx) error {
	s.search.postings.startFull()
	return s.eachText(tx, func(item uint32, e *entry) error {
		title, tags, content := e.columns()
		s.search.postings.addLoaded(item, termWeights(title, tags, tokenize(content)))
		return nil
	})
}

// wordQueries read the words of each kind: item, id, title, heading, tags, speaker, seq, text.
var wordQueries = []struct{ kind, table, query string }{
	{KindMemory, "memories", `SELECT s.item, m.id, m.metadata, '', (SELECT json_group_array(t.tag ORDER BY t.tag) FROM memory_tags t WHERE t.memory_id = m.id), '', 0, m.content
		FROM search_items s JOIN memories m ON m.id = s.item_id WHERE s.kind = 'memory' AND s.item > ? ORDER BY s.item LIMIT 1000`},
	{KindTurn, "conversation_turns", `SELECT s.item, t.id, c.title, '', c.tags, t.speaker, t.seq, t.content
		FROM search_items s JOIN conversation_turns t ON t.id = s.item_id JOIN conversations c ON c.id = t.conversation_id WHERE s.kind = 'turn' AND s.item > ? ORDER BY s.item LIMIT 1000`},
	{KindChunk, "chunks", `SELECT s.item, k.id, d.title, k.heading, d.tags, '', k.seq, k.content
		FROM search_items s JOIN chunks k ON k.id = s.item_id JOIN documents d ON d.id = k.document_id WHERE s.kind = 'chunk' AND s.item > ? ORDER BY s.item LIMIT 1000`},
}

// eachText calls fn with the words of every item, some at a time.
func (s *Service) eachText(tx *storage.Tx, fn func(item uint32, e *entry) error) error {
	for _, part := range wordQueries {
		for last := uint32(0); ; {
			items, entries, err := s.someTexts(tx, part.kind, part.table, part.query, last)
			if err != nil {
				return err
			}
			for i, e := range entries {
				if err := fn(items[i], e); err != nil {
					return err
				}
			}
			if len(items) == 0 {
				break
			}
			last = items[len(items)-1]
		}
	}
	return nil
}

func (s *Service) someTexts(tx *storage.Tx, kind, table, query string, after uint32) (items []uint32, entries []*entry, err error) {
	err = tx.Select(query, after).Each(func(row storage.Row) error {
		var item uint32
		var id uuid.UUID
		var heading, tags string
		var title sql.NullString
		var content []byte
		e := &entry{kind: kind}
		if err := row.Scan(&item, &id, &title, &heading, &tags, &e.speaker, &e.seq, &content); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(tags), &e.tags); err != nil {
			return err
		}
		e.title = title.String
		switch {
		case kind == KindMemory:
			e.title = titleOf(json.RawMessage(title.String))
		case heading != "":
			e.title = strings.TrimSpace(e.title + headingJoin + heading)
		}
		if e.text, err = s.open(table, "content", id, content); err != nil {
			return err
		}
		items, entries = append(items, item), append(entries, e)
		return nil
	})
	return items, entries, err
}
