package memory

import (
	"database/sql"
	"errors"
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

// put makes an entry findable by words at once and asks for its vector. It replaces the entry
// of the same kind and id. Search sees it when the transaction has committed.
func (s *Service) put(tx *storage.Tx, e *entry) error {
	if e.alreadyKnown {
		return nil
	}
	var item int64
	var parent, seq any
	if e.parent != uuid.Nil {
		parent, seq = e.parent, e.seq
	}
	var known []byte
	err := tx.QueryRow(`SELECT item, text_hash FROM search_items WHERE kind = ? AND item_id = ?`, e.kind, e.id).Scan(&item, &known)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		res, err := tx.Exec(`INSERT INTO search_items (user_id, kind, item_id, parent_id, seq, text_hash) VALUES (?, ?, ?, ?, ?, ?)`, e.user, e.kind, e.id, parent, seq, e.hash[:])
		if err != nil {
			return err
		}
		if item, err = res.LastInsertId(); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if _, err := tx.Exec(`UPDATE search_items SET parent_id = ?, seq = ?, text_hash = ? WHERE item = ?`, parent, seq, e.hash[:], item); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(`INSERT OR REPLACE INTO search_fts (rowid, title, tags, content) VALUES (?, ?, ?, ?)`, item, e.title, strings.Join(e.tags, " "), e.text); err != nil {
		return err
	}
	if string(known) == string(e.hash[:]) {
		return nil
	}
	return s.queueVector(tx, item, e.user)
}

// drop makes things unfindable. Their vectors stay in item_vectors until they are purged, so
// that restoring them costs nothing.
func (s *Service) drop(tx *storage.Tx, kind string, ids ...uuid.UUID) error {
	for _, id := range ids {
		if _, err := tx.Exec(`DELETE FROM search_fts WHERE rowid IN (SELECT item FROM search_items WHERE kind = ? AND item_id = ?)`, kind, id); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM search_items WHERE kind = ? AND item_id = ?`, kind, id); err != nil {
			return err
		}
	}
	return nil
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
