package storage

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
)

// Device is this installation: an id that is generated once, and the public half of its key.
type Device struct {
	ID        uuid.UUID
	PublicKey ed25519.PublicKey
}

// Device returns this installation. It is the zero Device when no key could be made, because the
// database is locked or in recovery mode.
func (db *DB) Device() Device {
	if w := db.who.Load(); w != nil {
		return w.device
	}
	return Device{}
}

// Device is DB.Device.
func (tx *Tx) Device() Device { return tx.db.Device() }

// Bus returns Options.Bus; it is never nil. Publish from AfterCommit.
func (tx *Tx) Bus() *bus.Bus { return tx.db.bus }

// Bus returns the bus that receives this database's events.
func (db *DB) Bus() *bus.Bus { return db.bus }

// Sign signs msg with the device key. It is Unavailable while the database is locked. It may be
// called within a transaction.
func (db *DB) Sign(msg []byte) ([]byte, error) {
	d := db.Device()
	if d.ID == uuid.Nil {
		return nil, errLocked()
	}
	var sealed []byte
	if err := db.readers.QueryRow(`SELECT private_key FROM device_keys WHERE id = ?`, d.ID[:]).Scan(&sealed); err != nil {
		return nil, fault.Internalf(err, "The key of this device could not be read.")
	}
	key, err := db.openDeviceKey(d.ID, sealed)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	return ed25519.Sign(key, msg), nil
}

// Sign is DB.Sign.
func (tx *Tx) Sign(msg []byte) ([]byte, error) { return tx.db.Sign(msg) }

func (db *DB) openDeviceKey(id uuid.UUID, sealed []byte) (ed25519.PrivateKey, error) {
	seed, err := db.keys.Unseal("device_keys", "private_key", id, sealed)
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	if len(seed) != ed25519.SeedSize {
		return nil, fault.Internalf(errors.New("device_keys.private_key: wrong length"), "The key of this device is damaged.")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// DeviceKeys are the public keys of this installation, present and retired. They are computed
// from the sealed private halves, because anyone who can write to the file can add a public key. A
// row whose private half cannot be decrypted is ignored; while the database is locked, only the
// stored public halves are available.
func (db *DB) DeviceKeys(ctx context.Context) (keys []ed25519.PublicKey, err error) {
	err = db.Read(ctx, func(tx *Tx) error {
		return tx.Select(`SELECT id, public_key, private_key FROM device_keys`).Each(func(row Row) error {
			var id uuid.UUID
			var public, sealed []byte
			if err := row.Scan(&id, &public, &sealed); err != nil {
				return err
			}
			if db.keys.Locked() {
				keys = append(keys, public)
			} else if key, err := db.openDeviceKey(id, sealed); err == nil {
				keys = append(keys, key.Public().(ed25519.PublicKey))
				clear(key)
			}
			return nil
		})
	})
	return keys, err
}

// newLogKey is the meta key that exists until the audit log has its first entry.
const newLogKey = "audit.new"

func newLogMessage(device uuid.UUID) []byte {
	return append([]byte("helix-audit-new-v1"), device[:]...)
}

// LogIsNew reports whether nothing has been signed in the audit log since this database was
// created. Only a signature by one of keys counts, so a log that was emptied by hand is not new.
func (tx *Tx) LogIsNew(keys []ed25519.PublicKey) (bool, error) {
	var text string
	err := tx.QueryRow(`SELECT value FROM meta WHERE key = ?`, newLogKey).Scan(&text)
	if err != nil {
		return false, ignoreNoRows(err)
	}
	sig, err := hex.DecodeString(text)
	return err == nil && slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool {
		return len(k) == ed25519.PublicKeySize && ed25519.Verify(k, newLogMessage(tx.Device().ID), sig)
	}), nil
}

// LogBegun records that the audit log has an entry: LogIsNew is false from now on.
func (tx *Tx) LogBegun() error {
	_, err := tx.Exec(`DELETE FROM meta WHERE key = ?`, newLogKey)
	return err
}

// ensureDevice returns this device. It generates the key pair if there is none and a data key
// exists to encrypt it with. A private key that was never stored has signed nothing, so a crash
// before the commit loses nothing.
func (db *DB) ensureDevice(ctx context.Context, user uuid.UUID) (d Device, err error) {
	err = db.Write(ctx, func(tx *Tx) error {
		var pub []byte
		err := tx.QueryRow(`SELECT d.id, d.public_key FROM sync_local l JOIN device_keys d ON d.id = l.device_id`).Scan(&d.ID, &pub)
		if err == nil {
			d.PublicKey = pub
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) || db.keys.Locked() {
			return ignoreNoRows(err)
		}
		pub, priv, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		d = Device{ID: NewID(), PublicKey: pub}
		sealed, err := db.keys.Seal("device_keys", "private_key", d.ID, priv.Seed())
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO device_keys (id, user_id, public_key, private_key, created_at) VALUES (?, ?, ?, ?, ?)`,
			d.ID, user, pub, sealed, tx.Now); err != nil {
			return err
		}
		if _, err = tx.Exec(`UPDATE sync_local SET device_id = ?`, d.ID); err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO meta (key, value) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM audit_log) AND NOT EXISTS (SELECT 1 FROM audit_segments)
			AND (SELECT count(*) FROM device_keys) = 1 ON CONFLICT (key) DO UPDATE SET value = excluded.value`, newLogKey, hex.EncodeToString(ed25519.Sign(priv, newLogMessage(d.ID))))
		return err
	})
	return d, err
}

func ignoreNoRows(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
