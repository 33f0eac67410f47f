package search

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"helix/backend/storage"
)

// CheckWords rebuilds search_fts if it is not in the expected state, such as after a change of the
// setting: it must be empty with private storage, and otherwise have a row for each item.
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

// loadWords fills the postings with those of all items. It is needed with private storage, where
// the words are stored nowhere else.
func (x *Index) loadWords(tx *storage.Tx) error {
	x.postings.startFull()
	return x.eachText(tx, func(item uint32, e *Entry) error {
		title, tags, content := e.columns()
		x.postings.addLoaded(item, termWeights(title, tags, tokenize(content)))
		return nil
	})
}

// eachText calls fn with the words of every item. It reads the items in batches.
func (x *Index) eachText(tx *storage.Tx, fn func(item uint32, e *Entry) error) error {
	for _, of := range kinds {
		for last := uint32(0); ; {
			some, err := storage.Collect(tx.Select(of.words, last), func(r storage.Row) (*worded, error) { return x.scanWords(r, of) })
			if err != nil {
				return err
			}
			for _, w := range some {
				if err := fn(w.item, &w.Entry); err != nil {
					return err
				}
				last = w.item
			}
			if len(some) == 0 {
				break
			}
		}
	}
	return nil
}

// worded is an item of which only the words are set.
type worded struct {
	Entry
	item uint32
}

func (x *Index) scanWords(r storage.Row, of kind) (*worded, error) {
	w := &worded{Entry: Entry{Kind: of.name}}
	var heading string
	var title sql.NullString
	var content []byte
	err := r.Scan(&w.item, &w.ID, &title, &heading, storage.JSON(&w.Tags), &w.Speaker, &w.Seq, &content)
	if err != nil {
		return nil, err
	}
	w.Title = title.String
	switch {
	case of.name == KindMemory:
		w.Title = TitleOf(json.RawMessage(title.String))
	case heading != "":
		w.Title = strings.TrimSpace(w.Title + HeadingJoin + heading)
	}
	w.Text, err = x.o.Unseal(of.table, "content", w.ID, content)
	return w, err
}
