package storage

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// Secrets stores named values that are sealed and never shown again: access keys, tokens,
// passwords. Each user has their own.
type Secrets struct {
	db     *DB
	usedBy func(ctx context.Context) (map[string][]string, error)
}

// NewSecrets returns the Secrets of db.
func NewSecrets(db *DB) *Secrets { return &Secrets{db: db} }

// SetUsedBy sets the function that finds out what uses a secret: for the caller in ctx, fn returns
// sorted labels of what uses each name. Call it once, before serving.
func (s *Secrets) SetUsedBy(fn func(ctx context.Context) (map[string][]string, error)) { s.usedBy = fn }

// maxSecret is the largest value in bytes; a private key with its certificate chain fits.
const maxSecret = 64 << 10

var secretName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}$`)

// SecretsListParams choose a page.
type SecretsListParams struct {
	// Limit is 1 to 100; default 50.
	Limit  int `json:"limit,omitempty"`
	Offset int `json:"offset,omitempty"`
}

// SecretInfo is the part of a secret that may be shown.
type SecretInfo struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	// SetAt is when the value was last set.
	SetAt time.Time `json:"setAt"`
	// UsedBy lists labels of what uses the secret.
	UsedBy []string `json:"usedBy"`
}

// SecretsListResult is one page, sorted by name.
type SecretsListResult struct {
	Secrets []SecretInfo `json:"secrets"`
	Total   int          `json:"total"`
	Limit   int          `json:"limit"`
	Offset  int          `json:"offset"`
}

// List returns the names of the caller's secrets. A value is never returned.
func (s *Secrets) List(ctx context.Context, p SecretsListParams) (SecretsListResult, error) {
	if err := CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return SecretsListResult{}, err
	}
	r := SecretsListResult{Secrets: []SecretInfo{}, Limit: p.Limit, Offset: p.Offset}
	var users map[string][]string
	if s.usedBy != nil {
		var err error
		if users, err = s.usedBy(ctx); err != nil {
			return SecretsListResult{}, err
		}
	}
	return r, s.db.Read(ctx, func(tx *Tx) error {
		me := identity.UserID(ctx)
		if err := tx.QueryRow(`SELECT count(*) FROM secrets WHERE user_id = ?`, me).Scan(&r.Total); err != nil {
			return err
		}
		return tx.Select(`SELECT name, created_at, updated_at FROM secrets WHERE user_id = ? ORDER BY name LIMIT ? OFFSET ?`, me, p.Limit, p.Offset).Each(func(row Row) error {
			i := SecretInfo{UsedBy: []string{}}
			if err := row.Scan(&i.Name, Time(&i.CreatedAt), Time(&i.SetAt)); err != nil {
				return err
			}
			if u := users[i.Name]; u != nil {
				i.UsedBy = u
			}
			r.Secrets = append(r.Secrets, i)
			return nil
		})
	})
}

// SecretsSetParams set the value of a secret.
type SecretsSetParams struct {
	// Name begins with a letter or digit and has at most 100 of A-Z a-z 0-9 _ . : / -.
	Name string `json:"name"`
	// Value has 1 byte to 64 KiB.
	Value string `json:"value"`
}

// Set stores a value under a name and replaces a former one.
func (s *Secrets) Set(ctx context.Context, p SecretsSetParams) (struct{}, error) {
	return struct{}{}, s.db.Write(ctx, func(tx *Tx) error {
		if err := s.SetTx(tx, p.Name, []byte(p.Value)); err != nil {
			return err
		}
		return s.db.o.Audit.write(tx, "auth.secret_set", map[string]string{"name": p.Name})
	})
}

// SetTx is Set inside a transaction and without an audit entry.
func (s *Secrets) SetTx(tx *Tx, name string, value []byte) error {
	me := identity.UserID(tx.Context())
	switch {
	case !secretName.MatchString(name):
		return fault.Invalidf("A secret's name must start with a letter or digit and can have at most 100 characters from A-Z a-z 0-9 _ . : / -.")
	case len(value) == 0 || len(value) > maxSecret:
		return fault.Invalidf("A secret must have 1 to %d bytes.", maxSecret)
	case me == uuid.Nil:
		return fault.Deniedf("A secret must belong to a user.")
	}
	var id uuid.UUID
	var old []byte
	err := tx.QueryRow(`SELECT id, value FROM secrets WHERE user_id = ? AND name = ?`, me, name).Scan(&id, &old)
	if errors.Is(err, sql.ErrNoRows) {
		id = NewID()
	} else if err != nil {
		return err
	}
	sealed, err := s.db.keys.SealChanged("secrets", "value", id, old, value)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO secrets (id, user_id, name, value, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (user_id, name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
		id, me, name, sealed, tx.Now, tx.Now)
	return err
}

// SecretsDeleteParams name a secret.
type SecretsDeleteParams struct {
	Name string `json:"name"`
}

// Delete removes a secret; an unknown name is NotFound.
func (s *Secrets) Delete(ctx context.Context, p SecretsDeleteParams) (struct{}, error) {
	return struct{}{}, s.db.Write(ctx, func(tx *Tx) error {
		if err := s.DeleteTx(tx, p.Name); err != nil {
			return err
		}
		return s.db.o.Audit.write(tx, "auth.secret_deleted", map[string]string{"name": p.Name})
	})
}

// DeleteTx is Delete inside a transaction and without an audit entry.
func (s *Secrets) DeleteTx(tx *Tx, name string) error {
	r, err := tx.Exec(`DELETE FROM secrets WHERE user_id = ? AND name = ?`, identity.UserID(tx.Context()), name)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errNoSecret(name))
	}
	return nil
}

// Value returns the value for use inside the backend; it must never be sent to a client. An unknown
// name is NotFound; while the database is locked it is Unavailable.
func (s *Secrets) Value(ctx context.Context, name string) (value []byte, err error) {
	err = s.db.Read(ctx, func(tx *Tx) error {
		var id uuid.UUID
		var sealed []byte
		err := tx.QueryRow(`SELECT id, value FROM secrets WHERE user_id = ? AND name = ?`, identity.UserID(ctx), name).Scan(&id, &sealed)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoSecret(name)
		}
		if err != nil {
			return err
		}
		value, err = s.db.keys.Unseal("secrets", "value", id, sealed)
		return err
	})
	return value, err
}

func errNoSecret(name string) error { return fault.NotFoundf("Secret %q not found.", name) }
