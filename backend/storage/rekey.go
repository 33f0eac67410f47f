package storage

import (
	"slices"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
)

// localSpace is the name space of the local user on every device.
var localSpace = uuid.UUID{0x5f, 0x9f, 0x6b, 0xb4, 0x6d, 0x0e, 0x4e, 0x57, 0x9c, 0x5d, 0x0d, 0x2f, 0x8a, 0x1b, 0x7c, 0x63}

// IDSpace is the name space for ids of user's rows that are made from a natural key. Before a
// device is enrolled its local user has an id of its own, so for that user the name space does
// not depend on it: two devices make the same row before and after Rekey. Other users of this
// file keep rows of the same key apart by their own ids.
func (db *DB) IDSpace(user uuid.UUID) uuid.UUID {
	if user == db.LocalUser().ID {
		return localSpace
	}
	return user
}

// signedTables hold the user's id in what a hash covers. Their rows keep the id that the user
// had; UserIDs finds them.
var signedTables = []string{"audit_log"}

// Rekey gives everything that belongs to user from to user to, as enrolling at a hub needs: each
// user_id of each table that the schema has now. Rows under a hash keep the former id. from stays
// known as a former id of to, and the local user becomes to when it was from. Nobody else may
// have rows under the id to (Conflict); an unknown from is NotFound.
//
// After the commit Replaced is published, so that the domains let go of what they remember by
// user. Calls and connections that still carry the former id find nothing and have to begin
// again. audit.Rekey puts it on record too; use that.
func (tx *Tx) Rekey(from, to uuid.UUID) error {
	if from == to || to == uuid.Nil {
		return fault.Invalidf("The user's new ID must differ from the current one.")
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
	// First the users: what is final may only go to the user that its own has become.
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

// UserIDs are the ids under which rows of a user may be: the present one, then the former ones.
func (tx *Tx) UserIDs(user uuid.UUID) ([]uuid.UUID, error) {
	former, err := Collect(tx.Select(`SELECT id FROM users WHERE hub_user_id = ? ORDER BY created_at, id`, user), RowTo[uuid.UUID])
	return append([]uuid.UUID{user}, former...), err
}
