package memory

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// entry is one thing as search sees it.
type entry struct {
	kind         string
	id           uuid.UUID
	parent       uuid.UUID // conversation or document
	seq          int64     // in its parent
	user         uuid.UUID
	title        string
	tags         []string
	text         string
	hash         [32]byte // of the text, as content_hash
	typ          string
	layer        int
	source       string
	speaker      string
	untrusted    bool
	pinned       bool
	salience     float64
	retention    *float64
	occurredAt   *time.Time
	createdAt    time.Time
	alreadyKnown bool // only attributes changed: neither words nor text
}

// columns are those of search_fts. Who speaks stands beside the text of a turn, because
// questions name people. The title of a conversation counts for its first turn only: in every
// turn it would say nothing.
func (e *entry) columns() (title, tags, content string) {
	title = e.title
	if e.kind == KindTurn {
		title = e.speaker
		if e.seq == 0 {
			title = strings.TrimSpace(e.speaker + " " + e.title)
		}
	}
	return title, strings.Join(e.tags, " "), e.text
}

// put makes an entry findable by words at once and asks for its vector. It replaces the entry
// of the same kind and id, which then has another number. Search sees it when the transaction
// has committed.
func (s *Service) put(tx *storage.Tx, e *entry) error {
	if e.alreadyKnown {
		tx.AfterCommit(func() { s.search.catalog.apply(e.change(0, 0, tx.Now)) })
		return nil
	}
	if err := s.drop(tx, e.kind, e.id); err != nil {
		return err
	}
	var parent, seq any
	if e.parent != uuid.Nil {
		parent, seq = e.parent, e.seq
	}
	title, tags, content := e.columns()
	tokens := tokenize(content)
	res, err := tx.Exec(`INSERT INTO search_items (user_id, kind, item_id, parent_id, seq, text_hash, tokens) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		e.user, e.kind, e.id, parent, seq, e.hash[:], len(tokens))
	if err != nil {
		return err
	}
	item, err := res.LastInsertId()
	if err != nil {
		return err
	}
	if !s.o.Private {
		if _, err := tx.Exec(`INSERT INTO search_fts (rowid, title, tags, content) VALUES (?, ?, ?, ?)`, item, title, tags, content); err != nil {
			return err
		}
	}
	weights := termWeights(title, tags, tokens)
	known := *e
	known.text, known.tags = "", slices.Clone(e.tags)
	tx.AfterCommit(func() {
		s.search.postings.add(uint32(item), weights)
		s.search.catalog.apply(known.change(uint32(item), len(tokens), tx.Now))
	})
	return s.queueVector(tx, item, e.user)
}

// putMany is put for several entries of one transaction.
func (s *Service) putMany(tx *storage.Tx, es []*entry) error {
	for _, e := range es {
		if err := s.put(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// drop makes things unfindable. Their vectors stay in item_vectors until they are purged, so
// that restoring them costs nothing.
func (s *Service) drop(tx *storage.Tx, kind string, ids ...uuid.UUID) error {
	for _, id := range ids {
		var item int64
		err := tx.QueryRow(`DELETE FROM search_items WHERE kind = ? AND item_id = ? RETURNING item`, kind, id).Scan(&item)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		if !s.o.Private {
			if _, err := tx.Exec(`DELETE FROM search_fts WHERE rowid = ?`, item); err != nil {
				return err
			}
		}
		s.vectorsGone(tx, item)
		tx.AfterCommit(func() { s.search.catalog.apply(itemChange{item: uint32(item), drop: true}) })
	}
	return nil
}

// spoken is the text of a turn as its vector is made: who says it belongs to what it means.
func spoken(speaker, text string) string {
	if speaker == "" {
		return text
	}
	return speaker + ": " + text
}
