package agent

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	snippetBytes  = 160
	privateSearch = 5000 // newest messages to scan when words may not be indexed
)

// Search finds words, or their prefixes, in the messages of the caller's chats, newest first: the order
// of the index, which can stop at the limit, while a rank has to be computed for every match.
func (s *Service) Search(ctx context.Context, p SearchParams) (out SearchResult, err error) {
	offset := 0
	if err := storage.CheckPage(&p.Limit, &offset, 20, 100); err != nil {
		return out, err
	}
	out.Hits = []Hit{}
	query := matchQuery(p.Query)
	if query == "" {
		return out, nil
	}
	if s.o.Private {
		out.Hits, err = s.searchSealed(ctx, p)
		return out, err
	}
	var session any
	if p.SessionID != nil {
		session = *p.SessionID
	}
	const mark = "\x01"
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		out.Hits, err = storage.Collect(tx.Select(`SELECT m.session_id, s.title, m.seq, m.role, m.created_at, snippet(session_messages_fts, 1, char(1), char(1), '…', 24)
			FROM session_messages_fts f JOIN session_messages m ON m.id = f.message_id JOIN sessions s ON s.id = m.session_id
			WHERE session_messages_fts MATCH ? AND m.user_id = ? AND (? IS NULL OR m.session_id = ?) AND s.deleted_at IS NULL ORDER BY f.rowid DESC LIMIT ?`,
			query, identity.UserID(ctx), session, session, p.Limit), func(row storage.Row) (h Hit, err error) {
			var text string
			if err := row.Scan(&h.SessionID, &h.Title, &h.Seq, &h.Role, storage.Time(&h.At), &text); err != nil {
				return h, err
			}
			h.Highlights = [][2]int{}
			for i, part := range strings.Split(text, mark) {
				if i%2 == 1 {
					h.Highlights = append(h.Highlights, [2]int{len(h.Snippet), len(h.Snippet) + len(part)})
				}
				h.Snippet += part
			}
			return h, nil
		})
		return err
	})
	return out, err
}

// matchQuery converts words to a query that can't have a syntax error: each word is quoted, and the
// last one also matches as a prefix.
func matchQuery(text string) string {
	words := strings.Fields(strings.ReplaceAll(text, "\x00", " "))
	for i, w := range words {
		words[i] = `"` + strings.ReplaceAll(w, `"`, `""`) + `"`
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, " ") + "*"
}

// searchSealed scans the newest messages themselves, because private storage has no word index. The
// newest come first.
func (s *Service) searchSealed(ctx context.Context, p SearchParams) ([]Hit, error) {
	want := strings.FieldsFunc(strings.ToLower(p.Query), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	hits := []Hit{}
	if len(want) == 0 {
		return hits, nil
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		titles := map[uuid.UUID]string{}
		if err := tx.Select(`SELECT id, title FROM sessions WHERE user_id = ? AND deleted_at IS NULL`, identity.UserID(ctx)).Each(func(row storage.Row) error {
			var id uuid.UUID
			var title string
			err := row.Scan(&id, &title)
			titles[id] = title
			return err
		}); err != nil {
			return err
		}
		list, err := s.messageRows(tx, `WHERE m.user_id = ? AND (? IS NULL OR m.session_id = ?) ORDER BY m.created_at DESC LIMIT ?`, identity.UserID(ctx), p.SessionID, p.SessionID, privateSearch)
		for _, m := range list {
			title, there := titles[m.SessionID]
			if h, ok := m.find(want); ok && there && len(hits) < p.Limit {
				h.Title = title
				hits = append(hits, h)
			}
		}
		return err
	})
	return hits, err
}

// find returns the position of the first of the words in the message, and whether the message has all
// of them.
func (m Message) find(want []string) (Hit, bool) {
	text := words(m.Parts)
	lower := strings.ToLower(text)
	for _, w := range want {
		if !strings.Contains(lower, w) {
			return Hit{}, false
		}
	}
	h := Hit{SessionID: m.SessionID, Seq: m.Seq, Role: m.Role, At: m.At, Highlights: [][2]int{}}
	if len(lower) != len(text) { // lower case changed the length of a letter
		h.Snippet, _ = clip(text, snippetBytes)
		return h, true
	}
	at := strings.Index(lower, want[0])
	from := max(0, at-snippetBytes/2)
	for !utf8.RuneStart(text[from]) {
		from++
	}
	h.Snippet, _ = clip(text[from:], snippetBytes)
	h.Highlights = append(h.Highlights, [2]int{at - from, at - from + len(want[0])})
	return h, true
}

// CheckWords makes the word index match the setting of private storage: it empties the index when
// texts are encrypted and rebuilds it when they are plain.
func (s *Service) CheckWords(ctx context.Context) error {
	var indexed, stored bool
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM session_messages_fts), EXISTS (SELECT 1 FROM session_messages)`).Scan(&indexed, &stored)
	})
	if err != nil || indexed == !s.o.Private || !indexed && !stored {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if s.o.Private {
			_, err := tx.Exec(`PRAGMA secure_delete = ON`)
			if err != nil {
				return err
			}
			defer tx.Exec(`PRAGMA secure_delete = FAST`) //nolint:errcheck // on failure, writes only stay slower
			if _, err := tx.Exec(`DELETE FROM session_messages_fts`); err != nil {
				return err
			}
			_, err = tx.Exec(`INSERT INTO session_messages_fts (session_messages_fts) VALUES ('rebuild')`) // leaves no words of deleted messages
			return err
		}
		list, err := s.messageRows(tx, `ORDER BY m.created_at`)
		for _, m := range list {
			if text := words(m.Parts); err == nil && text != "" {
				_, err = tx.Exec(`INSERT INTO session_messages_fts (message_id, text) VALUES (?, ?)`, m.ID, text)
			}
		}
		return err
	})
}
