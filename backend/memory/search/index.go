package search

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// Entry is one item to index.
type Entry struct {
	Kind         string
	ID           uuid.UUID
	Parent       uuid.UUID // conversation or document
	Seq          int64     // position in its parent
	User         uuid.UUID
	Title        string
	Tags         []string
	Text         string
	Hash         [32]byte // of the text, as content_hash
	Type         string
	Layer        int
	Source       string
	Speaker      string
	Untrusted    bool
	Pinned       bool
	Salience     float64
	Retention    *float64
	OccurredAt   *time.Time
	CreatedAt    time.Time
	AlreadyKnown bool // only attributes changed, neither words nor text
}

// columns returns the columns of search_fts. The speaker of a turn is part of its text, because
// questions name people. The title of a conversation is indexed with its first turn only; in every
// turn it would not discriminate.
func (e *Entry) columns() (title, tags, content string) {
	title = e.Title
	if e.Kind == KindTurn {
		title = e.Speaker
		if e.Seq == 0 {
			title = strings.TrimSpace(e.Speaker + " " + e.Title)
		}
	}
	return title, strings.Join(e.Tags, " "), e.Text
}

// Put indexes entries by their words immediately and requests their vectors. An entry replaces the one
// with the same kind and id, and gets a new number. Queries see the entries once tx has committed.
func (x *Index) Put(tx *storage.Tx, entries ...*Entry) error {
	for _, e := range entries {
		if err := x.put(tx, e); err != nil {
			return err
		}
	}
	return nil
}

func (x *Index) put(tx *storage.Tx, e *Entry) error {
	if e.AlreadyKnown {
		tx.AfterCommit(func() { x.catalog.apply(e.change(0, 0, tx.Now)) })
		return nil
	}
	if err := x.Drop(tx, e.Kind, e.ID); err != nil {
		return err
	}
	var parent, seq any
	if e.Parent != uuid.Nil {
		parent, seq = e.Parent, e.Seq
	}
	title, tags, content := e.columns()
	tokens := tokenize(content)
	res, err := tx.Exec(`INSERT INTO search_items (user_id, kind, item_id, parent_id, seq, text_hash, tokens) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		e.User, e.Kind, e.ID, parent, seq, e.Hash[:], len(tokens))
	if err != nil {
		return err
	}
	item, err := res.LastInsertId()
	if err != nil {
		return err
	}
	if !x.o.Private {
		if _, err := tx.Exec(`INSERT INTO search_fts (rowid, title, tags, content) VALUES (?, ?, ?, ?)`, item, title, tags, content); err != nil {
			return err
		}
	}
	weights := termWeights(title, tags, tokens)
	known := *e
	known.Text, known.Tags = "", slices.Clone(e.Tags)
	tx.AfterCommit(func() {
		x.postings.add(uint32(item), weights)
		x.catalog.apply(known.change(uint32(item), len(tokens), tx.Now))
	})
	return x.o.Meaning.Queue(tx, item, e.User)
}

// Retain sets the retention of items once tx is committed.
func (x *Index) Retain(tx *storage.Tx, kind string, retention map[uuid.UUID]float64) {
	tx.AfterCommit(func() {
		changes := make([]itemChange, 0, len(retention))
		for id, v := range retention {
			changes = append(changes, itemChange{retain: true, row: row{kind: nameIndex(kindNames, kind), id: id, retention: float32(v)}})
		}
		x.catalog.apply(changes...)
	})
}

// Drop removes items from the index. Their vectors remain in item_vectors until they are purged, so
// that restoring an item is cheap.
func (x *Index) Drop(tx *storage.Tx, kind string, ids ...uuid.UUID) error {
	for _, id := range ids {
		var item int64
		err := tx.QueryRow(`DELETE FROM search_items WHERE kind = ? AND item_id = ? RETURNING item`, kind, id).Scan(&item)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		if !x.o.Private {
			if _, err := tx.Exec(`DELETE FROM search_fts WHERE rowid = ?`, item); err != nil {
				return err
			}
		}
		x.o.Meaning.Dropped(tx, item)
		tx.AfterCommit(func() { x.catalog.apply(itemChange{item: uint32(item), drop: true}) })
	}
	return nil
}
