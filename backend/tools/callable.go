package tools

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// Callable is a tool or a WASM skill as other parts of Helix find it before they call it.
type Callable struct {
	ID             uuid.UUID
	Name           string
	Description    string
	DefinitionHash string // 64 hex digits
	Parameters     json.RawMessage
	Capabilities   []string
	Mine           bool
}

// ReadOnly reports whether a run changes nothing outside itself: no capability with which
// it could reach the network, another tool or its own state.
func (c *Callable) ReadOnly() bool {
	for _, w := range wants(c.Capabilities) {
		switch w.cap {
		case permission.FilesystemRead, permission.Secret:
		default:
			return false
		}
	}
	return true
}

// FindCallable gives the user's tool with an id, or when id is zero with exactly this name;
// when the user has none of that name, the public ones that have it. Nothing is no error.
func (s *Service) FindCallable(ctx context.Context, id uuid.UUID, name string) ([]Callable, error) {
	const columns = `SELECT id, name, description, definition_hash, parameters, capabilities, user_id = ?1 FROM custom_tools WHERE deleted_at IS NULL AND `
	user := identity.UserID(ctx)
	var out []Callable
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if id != uuid.Nil {
			out, err = callables(tx, columns+`id = ?2 AND (user_id = ?1 OR visibility = 'public')`, user, id)
			return err
		}
		if out, err = callables(tx, columns+`user_id = ?1 AND lower(name) = lower(?2) AND name = ?2`, user, name); err != nil || len(out) > 0 {
			return err
		}
		out, err = callables(tx, columns+`user_id <> ?1 AND visibility = 'public' AND name = ?2 ORDER BY id LIMIT 3`, user, name)
		return err
	})
	return out, err
}

// Callables lists the user's own tools by name.
func (s *Service) Callables(ctx context.Context) (out []Callable, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		out, err = callables(tx, `SELECT id, name, description, definition_hash, parameters, capabilities, 1 FROM custom_tools
			WHERE user_id = ? AND deleted_at IS NULL ORDER BY lower(name), id`, identity.UserID(ctx))
		return err
	})
	return out, err
}

// FindCallableWasm is FindCallable for WASM skills, which are always the user's own.
func (s *Service) FindCallableWasm(ctx context.Context, id uuid.UUID, name string) (out []Callable, err error) {
	const columns = `SELECT id, name, description, definition_hash, input_schema, capabilities, 1 FROM skills WHERE user_id = ?1 AND deleted_at IS NULL AND `
	err = s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if id != uuid.Nil {
			out, err = callables(tx, columns+`id = ?2`, identity.UserID(ctx), id)
		} else {
			out, err = callables(tx, columns+`lower(name) = lower(?2) AND name = ?2`, identity.UserID(ctx), name)
		}
		return err
	})
	return out, err
}

// CallableWasm lists the user's WASM skills by name.
func (s *Service) CallableWasm(ctx context.Context) (out []Callable, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		out, err = callables(tx, `SELECT id, name, description, definition_hash, input_schema, capabilities, 1 FROM skills
			WHERE user_id = ? AND deleted_at IS NULL ORDER BY lower(name), id`, identity.UserID(ctx))
		return err
	})
	return out, err
}

func callables(tx *storage.Tx, query string, args ...any) ([]Callable, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []Callable{}
	for rows.Next() {
		var c Callable
		var parameters string
		var raw []byte
		if err := rows.Scan(&c.ID, &c.Name, &c.Description, &raw, &parameters, storage.JSON(&c.Capabilities), &c.Mine); err != nil {
			return nil, err
		}
		var hash [32]byte
		copy(hash[:], raw)
		c.DefinitionHash, c.Parameters = hashText(hash), json.RawMessage(parameters)
		out = append(out, c)
	}
	return out, rows.Err()
}

// SkillRun tells how a run of one of the user's WASM skills ended or stands.
func (s *Service) SkillRun(ctx context.Context, run uuid.UUID) (status SkillStatus, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT status FROM skill_executions WHERE id = ? AND user_id = ?`, run, identity.UserID(ctx)).Scan(&status)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", fault.NotFoundf("There is no such run.")
	}
	return status, err
}
