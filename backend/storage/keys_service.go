package storage

import (
	"context"
	"encoding/binary"
	"strings"
	"time"

	"helix/backend/fault"
)

// AuditFunc writes one audit entry in tx. If it fails, the change is rolled back.
type AuditFunc func(tx *Tx, action string, details any) error

func (a AuditFunc) write(tx *Tx, action string, details any) error {
	if a == nil {
		return nil
	}
	return a(tx, action, details)
}

// State returns where the root key is stored: keyring, file or "file, unprotected"; locked if
// sealed values exist that no available key opens; none if there is neither a key nor a sealed
// value.
func (k *Keys) State() string {
	if r := k.ring.Load(); r != nil {
		return k.root.Place(r.root)
	}
	if k.sealed.Load() {
		return "locked"
	}
	return "none"
}

// KeysStatus describes the keys without revealing any.
type KeysStatus struct {
	// State is keyring, file, "file, unprotected", locked or none.
	State  string `json:"state"`
	Locked bool   `json:"locked"`
	// Current is the number of the active data key; 0 while locked.
	Current uint64 `json:"current"`
	// Keys are all data keys, oldest first; retired ones still open old backups.
	Keys []DataKey `json:"keys"`
	// Pending counts sealed values that are not yet encrypted with the current key.
	Pending int64 `json:"pending"`
	// RecoveryExportedAt is when the recovery code was last shown.
	RecoveryExportedAt *time.Time `json:"recoveryExportedAt,omitempty"`
	// CanMove reports whether the key is in a file and can be moved to the keyring.
	CanMove bool `json:"canMove"`
}

// DataKey is one key that seals columns.
type DataKey struct {
	No        uint64     `json:"no"`
	Uses      int64      `json:"uses"`
	CreatedAt time.Time  `json:"createdAt"`
	RetiredAt *time.Time `json:"retiredAt,omitempty"`
}

const recoveryExported = "keys.recovery_exported_at"

// Status returns where the root key is stored and which data keys exist.
func (k *Keys) Status(ctx context.Context, _ struct{}) (KeysStatus, error) {
	s := KeysStatus{State: k.State(), Locked: k.State() == "locked", Keys: []DataKey{}}
	r := k.ring.Load()
	if r != nil {
		s.Current = r.current
	}
	_, canMove := k.root.(mover)
	s.CanMove = canMove && (s.State == "file" || s.State == "file, unprotected")
	if db := k.at.Load(); db == nil || db.Recovery() != nil {
		return s, nil // all that is known without the database
	}
	err := k.read(ctx, func(tx *Tx) error {
		err := tx.Select(`SELECT no, uses, created_at, retired_at FROM data_keys ORDER BY no`).Each(func(row Row) error {
			var d DataKey
			if err := row.Scan(&d.No, &d.Uses, Time(&d.CreatedAt), TimePtr(&d.RetiredAt)); err != nil {
				return err
			}
			if d.No == s.Current {
				d.Uses = max(0, d.Uses-k.left.Load())
			}
			s.Keys = append(s.Keys, d)
			return nil
		})
		if err != nil {
			return err
		}
		var text string
		if err := tx.QueryRow(`SELECT coalesce((SELECT value FROM meta WHERE key = ?), '')`, recoveryExported).Scan(&text); err != nil {
			return err
		}
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			s.RecoveryExportedAt = &t
		}
		if len(s.Keys) < 2 || r == nil {
			return nil
		}
		for _, c := range Sealed {
			n, err := k.pending(tx, c, r.current)
			if err != nil {
				return err
			}
			s.Pending += n
		}
		return nil
	})
	return s, err
}

// pending counts the values of one column that are encrypted with another key than current.
func (k *Keys) pending(tx *Tx, c SealedColumn, current uint64) (n int64, err error) {
	head := []byte{sealVersion}
	head = binary.AppendUvarint(head, current)
	err = tx.QueryRow(`SELECT count(*) FROM `+c.Table+` WHERE typeof(`+c.Column+`) = 'blob' AND substr(`+c.Column+`, 1, ?) <> ?`, len(head), head).Scan(&n)
	return n, err
}

// RotateResult names the new data key.
type RotateResult struct {
	No uint64 `json:"no"`
}

// Rotate retires the data key and creates a new one. Rows are encrypted with it in the background.
func (k *Keys) Rotate(ctx context.Context, _ struct{}) (RotateResult, error) {
	no, err := k.rotate(ctx)
	return RotateResult{No: no}, err
}

// RecoveryResult holds the recovery code. Show it once and never store it.
type RecoveryResult struct {
	Code string `json:"code"`
	// Groups are its 24 groups of 4, so that a dialog can ask for two of them.
	Groups []string `json:"groups"`
}

// ExportRecovery returns the recovery code, which opens the sealed values when the keyring
// is lost. It is Unavailable while locked.
func (k *Keys) ExportRecovery(ctx context.Context, _ struct{}) (RecoveryResult, error) {
	r := k.ring.Load()
	if r == nil {
		return RecoveryResult{}, errLocked()
	}
	err := k.write(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
			recoveryExported, tx.Now.Format(time.RFC3339Nano)); err != nil {
			return err
		}
		return k.at.Load().o.Audit.write(tx, "auth.recovery_exported", nil)
	})
	if err != nil {
		return RecoveryResult{}, err
	}
	code := RecoveryCode(r.root)
	return RecoveryResult{Code: code, Groups: strings.Split(code, "-")}, nil
}

// ImportRecoveryParams hold the code that the person typed.
type ImportRecoveryParams struct {
	Code string `json:"code"`
}

// ImportRecovery unlocks with a recovery code. If the keyring and the key file are empty, the key
// is stored there; if they hold another root key, for example after a backup of another computer
// was restored, the data keys are wrapped with that one. A mistyped code is Invalid, with a message
// that says where; a code of other data is Denied.
func (k *Keys) ImportRecovery(ctx context.Context, p ImportRecoveryParams) (KeysStatus, error) {
	root, err := parseRecoveryCode(p.Code)
	if err != nil {
		return KeysStatus{}, err
	}
	db := k.at.Load()
	if db == nil {
		return KeysStatus{}, errNoDatabase()
	}
	r, err := db.openRing(ctx, root)
	if err != nil {
		return KeysStatus{}, err
	}
	if r == nil {
		return KeysStatus{}, fault.Deniedf("This recovery code is for different data.")
	}
	use := root
	if have := k.root.Candidates(); k.root.Place(root) == "none" && len(have) > 0 {
		use = have[0]
		err = k.rewrap(ctx, root, use)
	} else if k.root.Place(root) == "none" {
		err = k.root.Replace(ctx, root)
	}
	if err != nil {
		return KeysStatus{}, err
	}
	if _, err := k.unlock(ctx, [][]byte{use}); err != nil {
		return KeysStatus{}, err
	}
	if err := k.write(ctx, func(tx *Tx) error { return k.at.Load().o.Audit.write(tx, "auth.recovery_imported", nil) }); err != nil {
		return KeysStatus{}, err
	}
	return k.Status(ctx, struct{}{})
}

// Unlock reads the keyring again, for example after the person unlocked it. It is Unavailable if no
// key found now unlocks the data.
func (k *Keys) Unlock(ctx context.Context, _ struct{}) (KeysStatus, error) {
	if k.Locked() {
		if r, ok := k.root.(reloader); ok {
			if err := r.Reload(ctx); err != nil {
				return KeysStatus{}, err
			}
		}
		ok, err := k.unlock(ctx, k.root.Candidates())
		if err != nil {
			return KeysStatus{}, err
		}
		if !ok {
			return KeysStatus{}, errLocked()
		}
	}
	return k.Status(ctx, struct{}{})
}

// MoveToKeyring moves a root key from its file to the keyring. If the keyring refuses it, the call
// is Unavailable and changes nothing.
func (k *Keys) MoveToKeyring(ctx context.Context, _ struct{}) (KeysStatus, error) {
	m, ok := k.root.(mover)
	if !ok {
		return KeysStatus{}, fault.Unavailablef("No system keyring found.")
	}
	if k.Locked() {
		return KeysStatus{}, errLocked()
	}
	if err := m.MoveToKeyring(ctx); err != nil {
		return KeysStatus{}, err
	}
	if err := k.write(ctx, func(tx *Tx) error { return k.at.Load().o.Audit.write(tx, "auth.key_moved", nil) }); err != nil {
		return KeysStatus{}, err
	}
	return k.Status(ctx, struct{}{})
}

// Optional methods of a Root.
type (
	reloader interface {
		Reload(ctx context.Context) error
	}
	mover interface {
		MoveToKeyring(ctx context.Context) error
	}
)
