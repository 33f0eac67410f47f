package memory

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/trash"
)

// parent describes a table whose rows are listed, deleted, restored and purged together
// with all their parts.
type parent struct {
	noun   string // name of the kind in the trash
	detail string // what the trash shows next to the title
	table  string
	parts  string // table of the parts
	key    string // column of the parts that references the row
	kind   string // kind of the parts in search
	clears string // what a purge clears besides title, tags and metadata
	undo   string // undo action of a deletion
	none   func() error
	// put indexes all parts of a row for search. known means that only their attributes changed.
	put func(s *Service, tx *storage.Tx, user, id uuid.UUID, known bool) error

	columns    string // of a list
	order      string
	trashOrder string
	from, to   string // the time columns that a list is filtered by
	names      string // the columns that a list is searched in
}

var conversationParent = parent{
	noun: "conversation", detail: "''", table: "conversations", parts: "conversation_turns", key: "conversation_id", kind: KindTurn, clears: "participants = '[]', started_at = NULL, ended_at = NULL",
	undo: undoConversation, none: errNoConversation, put: (*Service).putConversation,
	columns: conversationColumns, order: "started_at DESC, id DESC", trashOrder: "deleted_at DESC, id DESC",
	from: "coalesce(ended_at, started_at)", to: "started_at", names: "title",
}

var documentParent = parent{
	noun: "document", detail: "source_uri", table: "documents", parts: "chunks", key: "document_id", kind: KindChunk, clears: "occurred_at = NULL",
	undo: undoDocument, none: errNoDocument, put: (*Service).putDocument,
	columns: documentColumns, order: "updated_at DESC, id DESC", trashOrder: "updated_at DESC, id DESC",
	from: "coalesce(occurred_at, created_at)", to: "coalesce(occurred_at, created_at)", names: "title || char(10) || source_uri",
}

// parents returns both kinds, for operations on an id of unknown kind.
func parents() [2]*parent { return [2]*parent{&conversationParent, &documentParent} }

// notPurged returns the condition that a row has not been purged.
func (w *parent) notPurged() string {
	return `(title <> '' OR EXISTS (SELECT 1 FROM ` + w.parts + ` p WHERE p.` + w.key + ` = ` + w.table + `.id))`
}

// list reads a page of the caller's rows. scan receives the columns of w and the number of parts.
func (w *parent) list(ctx context.Context, s *Service, p PageParams, scan func(storage.Row) error) (total int64, err error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, pageSize, maxPage); err != nil {
		return 0, err
	}
	c, order := where{}, w.order
	c.add("user_id = ?", identity.UserID(ctx))
	if p.Trash {
		c.add("deleted_at IS NOT NULL AND " + w.notPurged())
		order = w.trashOrder
	} else {
		c.add("deleted_at IS NULL")
	}
	if p.From != nil {
		c.add(w.from+" >= ?", p.From)
	}
	if p.To != nil {
		c.add(w.to+" < ?", p.To)
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if p.Query != "" {
			ids, err := w.idsByName(tx, identity.UserID(ctx), p.Query)
			if err != nil {
				return err
			}
			c.add("id IN (SELECT unhex(value) FROM json_each(?))", ids)
		}
		if err := tx.QueryRow(`SELECT count(*) FROM `+w.table+` WHERE `+c.String(), c.args...).Scan(&total); err != nil {
			return err
		}
		return tx.Select(`SELECT `+w.columns+`, (SELECT count(*) FROM `+w.parts+` p WHERE p.`+w.key+` = `+w.table+`.id AND p.deleted_at IS NULL)
			FROM `+w.table+` WHERE `+c.String()+` ORDER BY `+order+` LIMIT ? OFFSET ?`, append(c.args, p.Limit, p.Offset)...).Each(scan)
	})
	return total, err
}

// idsByName returns the ids of the rows of user that contain text in one of their names, ignoring case,
// as a JSON list in hexadecimal. It is not done in SQL because SQLite folds the case of ASCII only.
func (w *parent) idsByName(tx *storage.Tx, user uuid.UUID, text string) (string, error) {
	fold := func(s string) string { return norm.NFC.String(strings.ToLower(s)) }
	text = fold(strings.TrimSpace(text))
	ids := []string{}
	err := tx.Select(`SELECT id, `+w.names+` FROM `+w.table+` WHERE user_id = ?`, user).Each(func(row storage.Row) error {
		var id uuid.UUID
		var name string
		if err := row.Scan(&id, &name); err != nil {
			return err
		}
		if strings.Contains(fold(name), text) {
			ids = append(ids, hex.EncodeToString(id[:]))
		}
		return nil
	})
	list, _ := json.Marshal(ids) // strings only
	return string(list), err
}

// page counts the parts of a row and determines the start of a page: at offset, or so that the part
// around is in its middle.
func (w *parent) page(tx *storage.Tx, id uuid.UUID, around *int64, limit, offset int) (total int64, begin int, err error) {
	const live = ` = ? AND deleted_at IS NULL`
	if err := tx.QueryRow(`SELECT count(*) FROM `+w.parts+` WHERE `+w.key+live, id).Scan(&total); err != nil || around == nil {
		return total, offset, err
	}
	var before int
	err = tx.QueryRow(`SELECT count(*) FROM `+w.parts+` WHERE `+w.key+live+` AND seq < ?`, id, *around).Scan(&before)
	return total, max(0, min(before-limit/2, int(total)-limit)), err
}

// partsOf returns the ids of all parts of a row, in order.
func (w *parent) partsOf(tx *storage.Tx, id uuid.UUID) ([]uuid.UUID, error) {
	return storage.Collect(tx.Select(`SELECT id FROM `+w.parts+` WHERE `+w.key+` = ? ORDER BY seq`, id), storage.RowTo[uuid.UUID])
}

// delete moves a row of the caller to the trash and removes its parts from search. The ids and
// vectors of the parts are kept while it can be restored.
func (w *parent) delete(ctx context.Context, s *Service, id uuid.UUID) (out CountResult, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		done, err := w.deleteTx(s, tx, user, id)
		if err != nil {
			return err
		}
		if !done {
			return w.none()
		}
		out.Count = 1
		out.UndoToken, err = tx.KeepUndo(user, w.undo, idsUndo{IDs: []uuid.UUID{id}, At: tx.Now.UnixMicro()})
		return err
	})
	return out, err
}

// deleteTx is delete within tx. It returns false if the row does not exist or is already in the trash.
func (w *parent) deleteTx(s *Service, tx *storage.Tx, user, id uuid.UUID) (bool, error) {
	if done, err := updateRow(tx, `UPDATE `+w.table+` SET deleted_at = ?, updated_at = ? WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, tx.Now, tx.Now, id, user); !done {
		return false, err
	}
	if err := trash.Deleted(tx, user, id); err != nil {
		return false, err
	}
	parts, err := w.partsOf(tx, id)
	if err != nil {
		return false, err
	}
	changed(tx, user, "delete", id)
	return true, s.search.Drop(tx, w.kind, parts...)
}

// restore restores a row from the trash; if at is not nil, only if the row was deleted at that
// time. It returns false if there is no such row.
func (w *parent) restore(s *Service, tx *storage.Tx, user, id uuid.UUID, at *int64) (bool, error) {
	if done, err := updateRow(tx, `UPDATE `+w.table+` SET deleted_at = NULL, updated_at = ? WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL
		AND (? IS NULL OR deleted_at = ?) AND `+w.notPurged(), tx.Now, id, user, at, at); !done {
		return false, err
	}
	changed(tx, user, "restore", id)
	return true, w.put(s, tx, user, id, false)
}

// purge deletes the content and the parts of a row in the trash and leaves a tombstone.
func (w *parent) purge(s *Service, tx *storage.Tx, user, id uuid.UUID) (bool, error) {
	if done, err := updateRow(tx, `UPDATE `+w.table+` SET title = '', tags = '[]', metadata = '{}', updated_at = ?, `+w.clears+`
		WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL AND `+w.notPurged(), tx.Now, id, user); !done {
		return false, err
	}
	parts, err := w.partsOf(tx, id)
	if err != nil {
		return false, err
	}
	if err := s.search.Drop(tx, w.kind, parts...); err != nil {
		return false, err
	}
	if err := purgeVectors(tx, w.kind, parts...); err != nil {
		return false, err
	}
	for _, p := range parts {
		if err := purgeRecall(tx, user, w.kind, p); err != nil {
			return false, err
		}
	}
	changed(tx, user, "purge", id)
	return true, tx.WithoutCapture(func() error {
		_, err := tx.Exec(`DELETE FROM `+w.parts+` WHERE `+w.key+` = ?`, id)
		return err
	})
}

// eitherParent calls do for conversations and, if it returns false, for documents.
func eitherParent(do func(*parent) (bool, error)) (bool, error) {
	for _, w := range parents() {
		if done, err := do(w); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// updateRow runs a statement and reports whether it changed a row.
func updateRow(tx *storage.Tx, query string, args ...any) (bool, error) {
	r, err := tx.Exec(query, args...)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// handedOutParts logs the parts that a call is about to return.
func (s *Service) handedOutParts(ctx context.Context, kind string, ids []uuid.UUID) error {
	hits := make([]search.Hit, len(ids))
	for i, id := range ids {
		hits[i] = search.Hit{ID: id, Kind: kind}
	}
	return s.handedOut(ctx, hits...)
}

func errNoConversation() error { return fault.NotFoundf("Conversation not found.") }

func errNoDocument() error { return fault.NotFoundf("Document not found.") }
