// Package lifecycle implements what stored definitions, that is tools, WASM tools and skills, have
// in common: unique names, version labels, the trash, enabling and disabling, their audit entries,
// signatures and the list of signers. Each domain describes its tables with a Kind and implements
// the meaning of its definitions.
package lifecycle

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/trash"
)

// Rights updates permissions when a definition changes or is deleted.
type Rights interface {
	RevokeSubject(tx *storage.Tx, kind, id, reason string) (int, error)
	SubjectChanged(tx *storage.Tx, kind, id string, usable bool) error
}

// Kind describes one kind of definition. Its table has the columns id, user_id, name, version,
// is_enabled, created_at, updated_at and deleted_at.
type Kind struct {
	Table string // such as custom_tools
	// Versions is the table of previous definitions; "" if the kind keeps none. Parent is its
	// column with the id of the definition, Author the one with the origin of a version.
	Versions, Parent, Author string

	Subject string // its name in permissions and the audit log
	Action  string // the prefix of its actions in the audit log
	Noun    string // in messages, such as tool
	Title   string // in messages that distinguish the kinds; "": Noun
	MaxName int    // characters of a name

	Rights   Rights                                     // nil: the kind has no grants
	Audit    func(*storage.Tx, audit.Entry) error       // nil: audit.Append
	Announce func(tx *storage.Tx, it Item, kind string) // publishes a change after the commit
}

// Item is one stored definition.
type Item struct {
	ID, User      uuid.UUID
	Name, Version string
	Hash          string // of the definition, 64 hex digits; set by Named
}

// NotFound returns the same error for an unknown definition, a deleted one and another user's
// private one.
func (k *Kind) NotFound() error { return fault.NotFoundf("No such %s.", k.Noun) }

func (k *Kind) title() string {
	if k.Title != "" {
		return k.Title
	}
	return k.Noun
}

// Record writes an audit entry for an action on a definition.
func (k *Kind) Record(tx *storage.Tx, it Item, action string, details any) error {
	write := k.Audit
	if write == nil {
		write = audit.Append
	}
	return write(tx, audit.Entry{Action: k.Action + "." + action, SubjectKind: k.Subject, SubjectID: it.ID.String(), Details: details})
}

// Changed writes an audit entry for a change of a definition, and announces it under the same name.
func (k *Kind) Changed(tx *storage.Tx, it Item, change string, details any) error {
	k.Announce(tx, it, change)
	return k.Record(tx, it, change, details)
}

// Switched updates permissions after a definition was enabled or disabled, and returns the name of
// the change. Active runs continue.
func (k *Kind) Switched(tx *storage.Tx, it Item, enabled bool) (change string, err error) {
	if k.Rights != nil {
		err = k.Rights.SubjectChanged(tx, k.Subject, it.ID.String(), true)
	}
	if enabled {
		return "enabled", err
	}
	return "disabled", err
}

// CheckCount returns an error if the user already has limit definitions.
func (k *Kind) CheckCount(tx *storage.Tx, user uuid.UUID, limit int) error {
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM `+k.Table+` WHERE user_id = ? AND deleted_at IS NULL`, user).Scan(&n); err != nil || n < limit {
		return err
	}
	return fault.Limitf("You have %d %ss, and the limit is %d. Delete some first.", n, k.title(), limit)
}

// Named returns the user's definition with the given name, ignoring case, other than except; nil if
// the name is free.
func (k *Kind) Named(tx *storage.Tx, user uuid.UUID, name string, except uuid.UUID) (*Item, error) {
	it := &Item{User: user}
	err := tx.QueryRow(`SELECT id, name, version, lower(hex(definition_hash)) FROM `+k.Table+` WHERE user_id = ? AND lower(name) = lower(?) AND deleted_at IS NULL AND id IS NOT ?`,
		user, name, except).Scan(&it.ID, &it.Name, &it.Version, &it.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return it, err
}

// CheckName returns an error if another definition of the user has the name. details returns the
// error's details from that one.
func (k *Kind) CheckName(tx *storage.Tx, it Item, details func(other Item) any) error {
	other, err := k.Named(tx, it.User, it.Name, it.ID)
	if err != nil || other == nil {
		return err
	}
	return fault.Conflictf("A %s named %q exists already (version %s).", k.title(), other.Name, other.Version).WithDetails(details(*other))
}

// FreeName returns the name, or the name with a number, so that no other definition of the user has
// it. Names in reserved, in lower case, count as taken, except the name itself.
func (k *Kind) FreeName(tx *storage.Tx, user uuid.UUID, name string, reserved map[string]bool) (string, error) {
	try := name
	for n := 2; ; n++ {
		other, err := k.Named(tx, user, try, uuid.Nil)
		if err != nil || other == nil && (n == 2 || !reserved[strings.ToLower(try)]) {
			return try, err
		}
		try = k.numbered(name, n)
	}
}

// CloneName returns the name of a copy: the name with " (Clone)", or with " (Clone 2)" and so on.
func (k *Kind) CloneName(tx *storage.Tx, user uuid.UUID, name string) (string, error) {
	const suffix = " (Clone)"
	return k.FreeName(tx, user, Cut(name, k.MaxName-len(suffix))+suffix, nil)
}

// numbered appends " n" to a name, or sets the number in " (Clone)" and " (Clone n)", and keeps it
// within the limit.
func (k *Kind) numbered(name string, n int) string {
	suffix := fmt.Sprintf(" %d", n)
	if base, ok := strings.CutSuffix(name, ")"); ok {
		name, suffix = base, suffix+")"
	}
	return Cut(name, k.MaxName-len(suffix)) + suffix
}

// Cut truncates a text to n characters, without trailing spaces.
func Cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return strings.TrimRight(string(r[:n]), " ")
	}
	return s
}

// Delete moves a definition to the trash and revokes its grants.
func (k *Kind) Delete(tx *storage.Tx, it Item) error {
	if _, err := tx.Exec(`UPDATE `+k.Table+` SET deleted_at = ?, updated_at = ? WHERE id = ?`, tx.Now, tx.Now, it.ID); err != nil {
		return err
	}
	if err := trash.Deleted(tx, it.User, it.ID); err != nil {
		return err
	}
	if k.Rights != nil {
		if _, err := k.Rights.RevokeSubject(tx, k.Subject, it.ID.String(), "the "+k.Noun+" was deleted"); err != nil {
			return err
		}
	}
	return k.Changed(tx, it, "deleted", map[string]any{"name": it.Name})
}

// Restore restores a definition of the caller from the trash within the trash age, without its
// former grants. If its name was taken meanwhile, a number is added. A definition that is not in
// the trash is left unchanged.
func (k *Kind) Restore(tx *storage.Tx, id uuid.UUID) error {
	it := Item{ID: id, User: identity.UserID(tx.Context())}
	var deleted *time.Time
	err := tx.QueryRow(`SELECT name, version, deleted_at FROM `+k.Table+` WHERE id = ? AND user_id = ?`, id, it.User).
		Scan(&it.Name, &it.Version, storage.TimePtr(&deleted))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return k.NotFound()
	case err != nil || deleted == nil:
		return err
	case tx.Now.Sub(*deleted) > tx.TrashAge():
		return fault.NotFoundf("The %s was deleted more than %d days ago and can't be restored.", k.Noun, int(tx.TrashAge().Hours()/24))
	}
	if it.Name, err = k.FreeName(tx, it.User, it.Name, nil); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE `+k.Table+` SET deleted_at = NULL, name = ?, updated_at = ? WHERE id = ?`, it.Name, tx.Now, id); err != nil {
		return err
	}
	if k.Rights != nil {
		if err := k.Rights.SubjectChanged(tx, k.Subject, id.String(), true); err != nil {
			return err
		}
	}
	return k.Changed(tx, it, "restored", map[string]any{"name": it.Name})
}
