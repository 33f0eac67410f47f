package storage

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"errors"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
)

// Device is this installation: an id that is made once and the public half of its key.
type Device struct {
	ID        uuid.UUID
	PublicKey ed25519.PublicKey
}

// Device returns this installation. It is zero while no key could be made because the
// database is locked or in recovery mode.
func (db *DB) Device() Device {
	if w := db.who.Load(); w != nil {
		return w.device
	}
	return Device{}
}

// Device is DB.Device.
func (tx *Tx) Device() Device { return tx.db.Device() }

// Bus is the bus of Options; it is never nil. Publish with AfterCommit.
func (tx *Tx) Bus() *bus.Bus { return tx.db.bus }

// Bus is where this database's events go.
func (db *DB) Bus() *bus.Bus { return db.bus }

// Sign signs msg with the device key. It is Unavailable while the database is locked. It
// may be called inside a transaction.
func (db *DB) Sign(msg []byte) ([]byte, error) {
	d := db.Device()
	if d.ID == uuid.Nil {
		return nil, errLocked()
	}
	var sealed []byte
	if err := db.readers.QueryRow(`SELECT private_key FROM device_keys WHERE id = ?`, d.ID[:]).Scan(&sealed); err != nil {
		return nil, fault.Internalf(err, "The key of this device could not be read.")
	}
	seed, err := db.keys.Unseal("device_keys", "private_key", d.ID, sealed)
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	if len(seed) != ed25519.SeedSize {
		return nil, fault.Internalf(errors.New("device_keys.private_key: wrong length"), "The key of this device is damaged.")
	}
	return ed25519.Sign(ed25519.NewKeyFromSeed(seed), msg), nil
}

// ensureDevice returns this device and makes its key pair when there is none and a data key
// to seal it with. A private key that was never stored has signed nothing, so a crash before
// the commit loses nothing.
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
		_, err = tx.Exec(`UPDATE sync_local SET device_id = ?`, d.ID)
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
