package gateway

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	keptCalls    = 10_000
	keptFor      = 24 * time.Hour
	keptResponse = 1 << 20 // larger results are not stored for repeats
)

// repeats tracks the idempotency keys that are in use.
type repeats struct {
	mu      sync.Mutex
	running map[repeatKey]bool
	since   int // calls since old rows were removed
}

type repeatKey struct{ user, key uuid.UUID }

// once runs fn at most once for (user, key), and returns the same answer to later calls. Before fn
// runs, a row without a response is written, so a repeat after a crash reports that the outcome is
// unknown instead of doing the work twice. If fn fails, the row is removed again, so that a failed
// call can be retried.
func (s *Server) once(ctx context.Context, user, key uuid.UUID, m *method, params any, fn func() ([]byte, error)) ([]byte, error) {
	if s.o.DB == nil {
		return nil, fault.Unavailablef("This gateway doesn't store results for repeated calls.")
	}
	canonical, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(canonical)
	k := repeatKey{user, key}
	s.repeats.mu.Lock()
	if s.repeats.running[k] {
		s.repeats.mu.Unlock()
		e := fault.Conflictf("A call with this key is still running.")
		e.RetryAfter = 250 * time.Millisecond
		return nil, e
	}
	s.repeats.running[k] = true
	s.repeats.since++
	clean := s.repeats.since%256 == 1
	s.repeats.mu.Unlock()
	defer func() {
		s.repeats.mu.Lock()
		delete(s.repeats.running, k)
		s.repeats.mu.Unlock()
	}()
	stored, found, err := s.beginOnce(ctx, k, m.target(), hash, clean)
	if err != nil || found {
		return stored, err
	}
	result, err := fn()
	// The answer is stored even if the client is gone, because that is when it will repeat the
	// call.
	if kept := s.endOnce(context.WithoutCancel(ctx), k, m, result, err); kept != nil {
		s.log.Error("answer not kept for repeats", slog.String("method", m.name), slog.Any("error", kept))
	}
	return result, err
}

// beginOnce returns the stored answer, or creates the row.
func (s *Server) beginOnce(ctx context.Context, k repeatKey, method string, hash [32]byte, clean bool) (stored []byte, found bool, err error) {
	err = s.o.DB.Write(ctx, func(tx *storage.Tx) error {
		var oldMethod string
		var oldHash, response []byte
		var at time.Time
		var done bool // an empty response, which is not NULL, is read as nil
		row := tx.QueryRow(`SELECT method, params_hash, response, response IS NOT NULL, created_at FROM rpc_idempotency WHERE user_id = ? AND key = ?`, k.user, k.key)
		err := row.Scan(&oldMethod, &oldHash, &response, &done, storage.Time(&at))
		switch {
		case errors.Is(err, sql.ErrNoRows) || (err == nil && tx.Now.Sub(at) >= keptFor):
		case err != nil:
			return err
		case oldMethod != method || string(oldHash) != string(hash[:]):
			return fault.Conflictf("This key was already used for another call.")
		case !done:
			return fault.Conflictf("Helix stopped during this call. Check whether it took effect before you repeat it with a new key.")
		case len(response) == 0:
			return fault.Conflictf("This call already completed. Its result wasn't kept.")
		default:
			stored, found = response, true
			return nil
		}
		if clean {
			if err := pruneRepeats(tx); err != nil {
				return err
			}
		}
		_, err = tx.Exec(`INSERT INTO rpc_idempotency (user_id, key, method, params_hash, response, created_at) VALUES (?, ?, ?, ?, NULL, ?)
			ON CONFLICT (user_id, key) DO UPDATE SET method = excluded.method, params_hash = excluded.params_hash, response = NULL, created_at = excluded.created_at`,
			k.user, k.key, method, hash, tx.Now)
		return err
	})
	if err != nil || !found {
		return nil, false, err
	}
	stored, err = s.openResponse(k, stored)
	return stored, err == nil, err
}

func (s *Server) endOnce(ctx context.Context, k repeatKey, m *method, result []byte, failed error) error {
	return s.o.DB.Write(ctx, func(tx *storage.Tx) error {
		if failed != nil {
			_, err := tx.Exec(`DELETE FROM rpc_idempotency WHERE user_id = ? AND key = ?`, k.user, k.key)
			return err
		}
		kept := []byte{} // done, without a stored response
		if !m.secret && len(result) <= keptResponse {
			kept = s.sealResponse(k, result)
		}
		_, err := tx.Exec(`UPDATE rpc_idempotency SET response = ? WHERE user_id = ? AND key = ?`, kept, k.user, k.key)
		return err
	})
}

// pruneRepeats limits the age and size of the table.
func pruneRepeats(tx *storage.Tx) error {
	if _, err := tx.Exec(`DELETE FROM rpc_idempotency WHERE created_at < ?`, tx.Now.Add(-keptFor)); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM rpc_idempotency WHERE (user_id, key) IN (SELECT user_id, key FROM rpc_idempotency ORDER BY created_at DESC LIMIT -1 OFFSET ?)`, keptCalls-256)
	return err
}

// sealResponse encrypts the stored response, which can contain anything that the method returned.
// Without a key, only the fact that the call was done is stored.
func (s *Server) sealResponse(k repeatKey, plain []byte) []byte {
	if s.o.DB.Keys() == nil {
		return []byte{}
	}
	sealed, err := s.o.DB.Keys().Seal("rpc_idempotency", "response", k.key, plain)
	if err != nil {
		return []byte{}
	}
	return sealed
}

func (s *Server) openResponse(k repeatKey, sealed []byte) ([]byte, error) {
	return s.o.DB.Keys().Unseal("rpc_idempotency", "response", k.key, sealed)
}
