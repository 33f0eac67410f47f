// Package trash lists everything that the domains have soft-deleted, restores it, and deletes it
// permanently. A domain describes each kind of item with a Kind. Retention, which is run by
// storage, purges items that have been in the trash for too long. Every domain may import it.
package trash

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Kind is a kind of item that can be in the trash.
type Kind struct {
	Name string // on the wire, such as tool
	// Rows selects id, name, text and deleted_at of the items of user ?1 in the trash.
	Rows string
	// Open decrypts name and text; nil: they are stored in plain text.
	Open func(id uuid.UUID, name, text []byte) (string, string, error)
	// Restore restores an item of the caller.
	Restore func(ctx context.Context, id uuid.UUID) error
	// Purge permanently deletes an item of the caller that is in the trash. It returns an error if
	// the item is still in use.
	Purge func(tx *storage.Tx, id uuid.UUID) error
	// Purged deletes an item's data outside of its rows, after the commit; nil: there is none.
	Purged func(ctx context.Context, ids []uuid.UUID) error
}

const (
	purgeBatch = 50   // items per transaction, so that no write waits for long
	maxItems   = 1000 // items per call
	textRunes  = 2000 // characters of a text in a list
	nameRunes  = 120
)

// Service is the trash of all users of this device. It is safe for concurrent use.
type Service struct {
	db    *storage.DB
	age   func() time.Duration
	kinds []Kind
}

// New returns the trash of kinds. age returns how long items are kept.
func New(db *storage.DB, age func() time.Duration, kinds ...Kind) *Service {
	return &Service{db: db, age: age, kinds: kinds}
}

func (s *Service) kind(name string) (Kind, error) {
	i := slices.IndexFunc(s.kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, fault.InvalidField("kind", fault.CodeRange, "kind must be one of: %s.", strings.Join(s.names(), ", "))
	}
	return s.kinds[i], nil
}

func (s *Service) names() []string {
	out := make([]string, len(s.kinds))
	for i, k := range s.kinds {
		out[i] = k.Name
	}
	return out
}

// chosen returns the kinds with these names; without names, all of them.
func (s *Service) chosen(names []string) ([]Kind, error) {
	if len(names) == 0 {
		return s.kinds, nil
	}
	var out []Kind
	for _, k := range s.kinds {
		if slices.Contains(names, k.Name) {
			out = append(out, k)
		}
	}
	for _, n := range names {
		if _, err := s.kind(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rows returns the SQL that selects kind, id, name, text and deleted_at of the trash of user ?1.
func rows(kinds []Kind) string {
	parts := make([]string, len(kinds))
	for i, k := range kinds {
		parts[i] = `SELECT '` + k.Name + `' AS kind, * FROM (` + k.Rows + `)`
	}
	return strings.Join(parts, ` UNION ALL `)
}

// List lists the items in the trash, latest first.
func (s *Service) List(ctx context.Context, p ListParams) (out ListResult, err error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 200); err != nil {
		return out, err
	}
	kinds, err := s.chosen(p.Kinds)
	if err != nil {
		return out, err
	}
	user := identity.UserID(ctx)
	out.Items, out.Limit, out.Offset = []Item{}, p.Limit, p.Offset
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if out.Counts, err = s.counts(tx, user); err != nil {
			return err
		}
		return s.page(tx, user, kinds, p, &out)
	})
	return out, err
}

func (s *Service) counts(tx *storage.Tx, user uuid.UUID) ([]Count, error) {
	out := make([]Count, len(s.kinds))
	for i, k := range s.kinds {
		out[i].Kind = k.Name
		if err := tx.QueryRow(`SELECT count(*) FROM (`+k.Rows+`)`, user).Scan(&out[i].Count); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// page sets the items and their total. A search reads every item, because texts may be sealed.
func (s *Service) page(tx *storage.Tx, user uuid.UUID, kinds []Kind, p ListParams, out *ListResult) error {
	query := `SELECT t.kind, t.id, t.name, t.text, t.deleted_at, coalesce(d.actor, '') FROM (` + rows(kinds) + `) t LEFT JOIN deletions d ON d.item_id = t.id ORDER BY t.deleted_at DESC, t.id`
	args := []any{user}
	wanted := strings.ToLower(strings.TrimSpace(p.Query))
	if wanted == "" {
		for _, c := range out.Counts {
			if len(p.Kinds) == 0 || slices.Contains(p.Kinds, c.Kind) {
				out.Total += c.Count
			}
		}
		query += ` LIMIT ?2 OFFSET ?3`
		args = append(args, p.Limit, p.Offset)
	}
	age := s.age()
	return tx.Select(query, args...).Each(func(r storage.Row) error {
		it, text, err := s.scan(r)
		if err != nil {
			return err
		}
		it.PurgeAt = it.DeletedAt.Add(age)
		if wanted != "" {
			if !strings.Contains(strings.ToLower(it.Name+"\n"+text), wanted) {
				return nil
			}
			out.Total++
			if out.Total <= p.Offset || len(out.Items) == p.Limit {
				return nil
			}
		}
		out.Items = append(out.Items, it)
		return nil
	})
}

// scan reads a row of page. text is the full text.
func (s *Service) scan(r storage.Row) (it Item, text string, err error) {
	var name, body []byte
	if err := r.Scan(&it.Kind, &it.ID, &name, &body, storage.Time(&it.DeletedAt), &it.By); err != nil {
		return it, "", err
	}
	it.Name, text, err = s.open(it.Kind, it.ID, name, body)
	it.Text = cut(text, textRunes)
	return it, text, err
}

func (s *Service) open(kind string, id uuid.UUID, name, text []byte) (string, string, error) {
	k, err := s.kind(kind)
	if err != nil {
		return "", "", err
	}
	shown, body := string(name), string(text)
	if k.Open != nil {
		if shown, body, err = k.Open(id, name, text); err != nil {
			return "", "", err
		}
	}
	return cut(strings.TrimSpace(shown), nameRunes), body, nil
}

func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// Name returns the name of an item in the trash of the caller, or "" if it is not there.
func (s *Service) Name(ctx context.Context, kind string, id uuid.UUID) (name string, err error) {
	k, err := s.kind(kind)
	if err != nil {
		return "", err
	}
	var raw, text []byte
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT name, text FROM (`+k.Rows+`) WHERE id = ?2`, identity.UserID(ctx), id).Scan(&raw, &text)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", err
	}
	name, _, err = s.open(kind, id, raw, text)
	return name, err
}

// check returns an error if an item is not in the trash of the caller.
func check(tx *storage.Tx, k Kind, id uuid.UUID) error {
	var found bool
	err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM (`+k.Rows+`) WHERE id = ?2)`, identity.UserID(tx.Context()), id).Scan(&found)
	if err == nil && !found {
		err = fault.NotFoundf("This item is not in the trash. It may have been restored or deleted permanently.")
	}
	return err
}

// Restore restores items. If the name of an item has been taken meanwhile a number is appended.
// Items that cannot be restored are listed with the reason; if none can, the call fails.
func (s *Service) Restore(ctx context.Context, p ItemsParams) (RestoreResult, error) {
	out := RestoreResult{Restored: []Ref{}, Failed: []Failure{}}
	err := s.each(p.Items, &out.Failed, func(k Kind, ref Ref) error {
		if err := s.db.Read(ctx, func(tx *storage.Tx) error { return check(tx, k, ref.ID) }); err != nil {
			return err
		}
		if err := k.Restore(ctx, ref.ID); err != nil {
			return err
		}
		out.Restored = append(out.Restored, ref)
		return nil
	})
	if err != nil {
		return RestoreResult{}, err
	}
	return out, nil
}

// each calls act for every item. Failures that a person can act on are added to failed; if all
// items fail, the first failure is returned as the error.
func (s *Service) each(items []Ref, failed *[]Failure, act func(Kind, Ref) error) error {
	if len(items) == 0 || len(items) > maxItems {
		return fault.InvalidField("items", fault.CodeRange, "Give 1 to %d items.", maxItems)
	}
	for _, ref := range items {
		k, err := s.kind(ref.Kind)
		if err != nil {
			return err
		}
		if err := act(k, ref); err != nil {
			if fault.Is(err, fault.Internal) || fault.Is(err, fault.Canceled) {
				return err
			}
			*failed = append(*failed, failure(ref, err))
		}
	}
	return all(len(items), *failed)
}

func failure(ref Ref, err error) Failure {
	return Failure{Ref: ref, Reason: fault.KindOf(err), Message: fault.As(err).Message}
}

// all returns the first failure as an error if all n items failed.
func all(n int, failed []Failure) error {
	if len(failed) < n {
		return nil
	}
	return fault.New(failed[0].Reason, "%s", failed[0].Message)
}

// Purge permanently deletes items in the trash. Items that cannot be deleted are listed with the
// reason; if none can, the call fails.
func (s *Service) Purge(ctx context.Context, p ItemsParams) (PurgeResult, error) {
	out := PurgeResult{Counts: []Count{}, Failed: []Failure{}}
	if len(p.Items) == 0 || len(p.Items) > maxItems {
		return out, fault.InvalidField("items", fault.CodeRange, "Give 1 to %d items.", maxItems)
	}
	err := s.purge(ctx, p.Items, &out)
	if err == nil {
		err = all(len(p.Items), out.Failed)
	}
	return out, err
}

// Empty permanently deletes everything in the trash, or everything of some kinds.
func (s *Service) Empty(ctx context.Context, p EmptyParams) (PurgeResult, error) {
	out := PurgeResult{Counts: []Count{}, Failed: []Failure{}}
	kinds, err := s.chosen(p.Kinds)
	if err != nil {
		return out, err
	}
	var items []Ref
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		items, err = storage.Collect(tx.Select(`SELECT kind, id FROM (`+rows(kinds)+`)`, identity.UserID(ctx)), func(r storage.Row) (ref Ref, err error) {
			err = r.Scan(&ref.Kind, &ref.ID)
			return ref, err
		})
		return err
	}); err != nil {
		return out, err
	}
	return out, s.purge(ctx, items, &out)
}

// purge deletes items in batches. out contains what was deleted even if it returns an error.
func (s *Service) purge(ctx context.Context, items []Ref, out *PurgeResult) error {
	byKind := map[string][]uuid.UUID{}
	for _, ref := range items {
		if _, err := s.kind(ref.Kind); err != nil {
			return err
		}
		byKind[ref.Kind] = append(byKind[ref.Kind], ref.ID)
	}
	for _, k := range s.kinds {
		var gone []uuid.UUID
		var failed error
		for batch := range slices.Chunk(byKind[k.Name], purgeBatch) {
			done, refused, err := s.purgeBatch(ctx, k, batch)
			if err != nil {
				failed = err
				break
			}
			gone, out.Failed = append(gone, done...), append(out.Failed, refused...)
		}
		if len(gone) > 0 {
			out.Count += len(gone)
			out.Counts = append(out.Counts, Count{Kind: k.Name, Count: len(gone)})
			if k.Purged != nil {
				failed = errors.Join(failed, k.Purged(ctx, gone))
			}
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// purgeBatch deletes items of one kind in a transaction, with one entry in the audit log.
func (s *Service) purgeBatch(ctx context.Context, k Kind, ids []uuid.UUID) (gone []uuid.UUID, failed []Failure, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		gone, failed = nil, nil
		for _, id := range ids {
			err := check(tx, k, id)
			if err == nil {
				err = tx.WithoutCapture(func() error { return k.Purge(tx, id) })
			}
			switch {
			case fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict):
				failed = append(failed, failure(Ref{k.Name, id}, err))
				continue
			case err != nil:
				return err
			}
			if _, err := tx.Exec(`DELETE FROM deletions WHERE item_id = ?`, id); err != nil {
				return err
			}
			gone = append(gone, id)
		}
		if len(gone) == 0 {
			return nil
		}
		user := identity.UserID(ctx)
		tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, Changed{}) })
		return audit.Append(tx, audit.Entry{Action: "trash.purged", SubjectKind: k.Name, Details: map[string]any{"count": len(gone)}})
	})
	return gone, failed, err
}
