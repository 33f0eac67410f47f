package providers

import (
	"context"
	"encoding/json"
	"errors"

	"helix/backend/identity"
	"helix/backend/storage"
)

// config reads the registry and the roles of the caller.
func (s *Service) config(ctx context.Context) (entries map[string]Entry, roles map[Role]RoleConfig, err error) {
	entries, roles = shipped(), map[Role]RoleConfig{}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		me := identity.UserID(ctx)
		err := tx.Select(`SELECT name, entry, removed FROM providers WHERE user_id = ?`, me).Each(func(row storage.Row) error {
			var name, text string
			var removed bool
			if err := row.Scan(&name, &text, &removed); err != nil {
				return err
			}
			var e Entry
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				return err
			}
			entries[name] = e
			if removed {
				delete(entries, name)
			}
			return nil
		})
		return errors.Join(err, tx.Select(`SELECT role, config FROM model_roles WHERE user_id = ?`, me).Each(func(row storage.Row) error {
			var role, text string
			if err := row.Scan(&role, &text); err != nil {
				return err
			}
			var c RoleConfig
			err := json.Unmarshal([]byte(text), &c)
			roles[Role(role)] = c
			return err
		}))
	})
	fromFile, _ := s.fileRoles()
	for role, c := range fromFile {
		roles[role] = c
	}
	for name, e := range s.file() {
		entries[name] = e.Entry
		if e.broken { // listed with its problem
			entries[name] = Entry{Type: WireChat, Disabled: true}
		}
	}
	return entries, roles, err
}

// storeEntry writes an entry. removed hides an entry that is shipped with the program.
func storeEntry(tx *storage.Tx, name string, e Entry, removed bool) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO providers (id, user_id, name, entry, removed, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (user_id, name) DO UPDATE SET entry = excluded.entry, removed = excluded.removed, updated_at = excluded.updated_at`,
		storage.NewID(), identity.UserID(tx.Context()), name, string(text), removed, tx.Now, tx.Now)
	return err
}

func deleteEntry(tx *storage.Tx, name string) error {
	_, err := tx.Exec(`DELETE FROM providers WHERE user_id = ? AND name = ?`, identity.UserID(tx.Context()), name)
	return err
}

func storeRole(tx *storage.Tx, role Role, c RoleConfig) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO model_roles (id, user_id, role, config, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (user_id, role) DO UPDATE SET config = excluded.config, updated_at = excluded.updated_at`,
		storage.NewID(), identity.UserID(tx.Context()), string(role), string(text), tx.Now, tx.Now)
	return err
}
