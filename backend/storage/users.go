package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/user"
	"strings"

	"github.com/google/uuid"
)

// User is the person whose data this is.
type User struct {
	ID          uuid.UUID
	DisplayName string
}

// whoami is what prepare loads: the local user and this device.
type whoami struct {
	user   User
	device Device
}

// LocalUser returns the user that the first start created, or the one that enrolling re-keyed it
// to. It is zero while the database is in recovery mode.
func (db *DB) LocalUser() User {
	if w := db.who.Load(); w != nil {
		return w.user
	}
	return User{}
}

// prepare makes an opened and migrated file ready for use: the local user, the data key and the
// device key if they are missing, which are not synced, then the capture of changes. Each step
// checks whether it is needed, so after a crash between two of them the next start does the rest.
func (db *DB) prepare(ctx context.Context) error {
	u, err := db.ensureUser(ctx)
	if err != nil {
		return fmt.Errorf("local user: %w", err)
	}
	crashPoint("first.user")
	if err := db.keys.attach(ctx, db); err != nil {
		return fmt.Errorf("data keys: %w", err)
	}
	d, err := db.ensureDevice(ctx, u.ID)
	if err != nil {
		return fmt.Errorf("device key: %w", err)
	}
	crashPoint("first.device")
	db.who.Store(&whoami{user: u, device: d})
	db.uncaptured.Store(&Synced)
	return nil
}

// ensureUser returns the local user, and creates it at the first start.
func (db *DB) ensureUser(ctx context.Context) (u User, err error) {
	err = db.Write(ctx, func(tx *Tx) error {
		err := tx.QueryRow(`SELECT u.id, u.display_name FROM sync_local l JOIN users u ON u.id = l.user_id`).Scan(&u.ID, &u.DisplayName)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		u = User{ID: NewID(), DisplayName: loginName()}
		if _, err := tx.Exec(`INSERT INTO users (id, display_name, created_at) VALUES (?, ?, ?)`, u.ID, u.DisplayName, tx.Now); err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO sync_local (one, user_id, epoch) VALUES (1, ?, ?)
			ON CONFLICT (one) DO UPDATE SET user_id = excluded.user_id, epoch = coalesce(epoch, excluded.epoch)`, u.ID, NewID())
		return err
	})
	return u, err
}

// loginName returns the name of the person according to the operating system, or "You" if it has
// none.
func loginName() string {
	u, err := user.Current()
	if err != nil {
		return "You"
	}
	for _, s := range []string{u.Name, u.Username} {
		if s, _, _ = strings.Cut(s, ","); strings.TrimSpace(s) != "" { // GECOS: name, room, phone
			return strings.TrimSpace(s)
		}
	}
	return "You"
}

// AddUser adds a user to this file and returns it, as a hub for several people requires.
func (db *DB) AddUser(ctx context.Context, name string) (User, error) {
	u := User{ID: NewID(), DisplayName: name}
	err := db.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO users (id, display_name, created_at) VALUES (?, ?, ?)`, u.ID, u.DisplayName, tx.Now)
		return err
	})
	return u, err
}
