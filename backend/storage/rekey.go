package storage

import (
	"slices"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
)

// localSpace is the namespace of the local user on every device.
var localSpace = uuid.UUID{0x5f, 0x9f, 0x6b, 0xb4, 0x6d, 0x0e, 0x4e, 0x57, 0x9c, 0x5d, 0x0d, 0x2f, 0x8a, 0x1b, 0x7c, 0x63}

// IDSpace returns the namespace for ids of user's rows that are derived from a natural key. Before
// a device is enrolled, its local user has an id of its own, so that user's namespace does not
// depend on the user id: two devices derive the same id before and after Rekey. The ids of other
// users in this file serve as their namespaces, which keeps rows with the same key apart.
func (db *DB) IDSpace(user uuid.UUID) uuid.UUID {
	if user == db.LocalUser().ID {
		return localSpace
	}
	return user
}

// signedTables are the tables in which a hash covers the user id. Their rows keep the id that the
// user had; UserIDs finds them.
var signedTables = []string{"audit_log"}

// Rekey transfers everything that belongs to user from to user to, as enrolling at a hub requires:
// it updates every user_id column in the current schema. Rows covered by a hash keep the former id.
// from is recorded as a former id of to, and if from was the local user, to becomes the local user.
// If another user already has rows under the id to, it is a Conflict; an unknown from is NotFound.
//
// After the commit Replaced is published, so that the domains drop what they cached by user. Calls
// and connections that still use the former id find nothing and must start again. Use audit.Rekey,
// which also writes an audit entry.
func (tx *Tx) Rekey(from, to uuid.UUID) error {
	if from == to || to == uuid.Nil {
		return fault.Invalidf("The new id of a user must be another one.")
	}
	var known bool
	if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM users WHERE id = ? AND hub_user_id IS NULL)`, from).Scan(&known); err != nil {
		return err
	}
	if !known {
		return fault.NotFoundf("User not found.")
	}
	tables, err := Collect(tx.Select(`SELECT m.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'user_id' ORDER BY m.name`), RowTo[string])
	if err != nil {
		return err
	}
	tables = slices.DeleteFunc(tables, func(t string) bool { return slices.Contains(signedTables, t) })
	for _, t := range tables {
		var taken bool
		if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM `+quote(t)+` WHERE user_id = ?)`, to).Scan(&taken); err != nil {
			return err
		}
		if taken {
			return fault.Conflictf("The user already has data on this device.")
		}
	}
	// Users first: triggers let the owner of an immutable row change only to the hub_user_id of
	// that owner.
	for _, q := range []string{
		`INSERT INTO users (id, display_name, created_at) SELECT ?2, display_name, created_at FROM users WHERE id = ?1
			ON CONFLICT (id) DO UPDATE SET display_name = excluded.display_name, hub_user_id = NULL`,
		`UPDATE users SET hub_user_id = ?2 WHERE (id = ?1 OR hub_user_id = ?1) AND id <> ?2`,
	} {
		if _, err := tx.Exec(q, from, to); err != nil {
			return err
		}
	}
	for _, t := range tables {
		if _, err := tx.Exec(`UPDATE `+quote(t)+` SET user_id = ? WHERE user_id = ?`, to, from); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() {
		if w := tx.db.who.Load(); w != nil && w.user.ID == from {
			next := *w
			next.user.ID = to
			tx.db.who.Store(&next)
		}
		bus.Publish(tx.db.bus, to, Replaced{Same: true})
	})
	return nil
}

// UserIDs returns the ids under which rows of a user may be stored: the current id, then the former
// ones.
func (tx *Tx) UserIDs(user uuid.UUID) ([]uuid.UUID, error) {
	former, err := Collect(tx.Select(`SELECT id FROM users WHERE hub_user_id = ? ORDER BY created_at, id`, user), RowTo[uuid.UUID])
	return append([]uuid.UUID{user}, former...), err
}
