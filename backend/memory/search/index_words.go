package search

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// CheckWords makes search_fts what it has to be: empty with private storage, and else with a
// row for each item. It is written anew when it is not, as after the setting has changed.
func (x *Index) CheckWords(ctx context.Context) error {
	var items, rows int64
	err := x.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT (SELECT count(*) FROM search_items), (SELECT count(*) FROM search_fts_docsize)`).Scan(&items, &rows)
	})
	if err != nil || x.o.Private && rows == 0 || !x.o.Private && rows == items {
		return err
	}
	return x.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`INSERT INTO search_fts (search_fts) VALUES ('delete-all')`); err != nil || x.o.Private {
			return err
		}
		return x.eachText(tx, func(item uint32, e *Entry) error {
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
func (x *Index) loadWords(tx *storage.Tx) error {
	x.postings.startFull()
	return x.eachText(tx, func(item uint32, e *Entry) error {
		title, tags, content := e.columns()
		x.postings.addLoaded(item, termWeights(title, tags, tokenize(content)))
		return nil
	})
}

// eachText calls fn with the words of every item, some at a time.
func (x *Index) eachText(tx *storage.Tx, fn func(item uint32, e *Entry) error) error {
	for _, part := range kinds {
		for last := uint32(0); ; {
			items, entries, err := x.someTexts(tx, part, last)
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

func (x *Index) someTexts(tx *storage.Tx, of kind, after uint32) (items []uint32, entries []*Entry, err error) {
	rows, err := tx.Query(of.words, after)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var item uint32
		var id uuid.UUID
		var heading, tags string
		var title sql.NullString
		var content []byte
		e := &Entry{Kind: of.name}
		if err := rows.Scan(&item, &id, &title, &heading, &tags, &e.Speaker, &e.Seq, &content); err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal([]byte(tags), &e.Tags); err != nil {
			return nil, nil, err
		}
		e.Title = title.String
		switch {
		case of.name == KindMemory:
			e.Title = TitleOf(json.RawMessage(title.String))
		case heading != "":
			e.Title = strings.TrimSpace(e.Title + HeadingJoin + heading)
		}
		if e.Text, err = x.o.Unseal(of.table, "content", id, content); err != nil {
			return nil, nil, err
		}
		items, entries = append(items, item), append(entries, e)
	}
	return items, entries, rows.Err()
}
