package storage

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// RootKeySize is the length of the root key in bytes.
const RootKeySize = 32

// Root is where the root key is stored: a keyring or a file. config.Root is the implementation.
type Root interface {
	// Candidates returns the root keys found at start, best first; there may be none.
	Candidates() [][]byte
	// Create generates, stores and returns a root key. Keys calls it only when no encrypted values
	// exist.
	Create(ctx context.Context) ([]byte, error)
	// Replace stores key in place of the current one, after a recovery code was verified.
	Replace(ctx context.Context, key []byte) error
	// Place returns where key is stored: "keyring", "file", "file, unprotected" or "none".
	Place(key []byte) string
}

// Keys seals and opens columns with AES-256-GCM under numbered data keys, which the root
// key wraps. It is safe for concurrent use. It is locked until Open attaches it to a database, and
// while the root key is missing.
type Keys struct {
	root Root
	wake chan struct{} // wakes Run; buffers one signal

	ring atomic.Pointer[keyring]
	left atomic.Int64 // uses of the current key that its row already counts

	sealed atomic.Bool // encrypted values exist, whether or not they can be decrypted

	at atomic.Pointer[DB] // nil until attached
	mu sync.Mutex         // held while the ring changes
}

// keyring is an immutable set of unwrapped data keys.
type keyring struct {
	current uint64
	keys    map[uint64]cipher.AEAD
	root    []byte
}

const (
	sealVersion = 0x01
	nonceSize   = 12
	maxUses     = 1 << 31 // a random 96-bit nonce stays unique well beyond this
	useBlock    = 1 << 20 // uses counted in advance, so that Seal need not write to the database
)

// NewKeys returns Keys that use root. With a nil root there is no key and none is created.
func NewKeys(root Root) *Keys {
	if root == nil {
		root = noRoot{}
	}
	return &Keys{root: root, wake: make(chan struct{}, 1)}
}

// Keys returns Options.Keys.
func (db *DB) Keys() *Keys { return db.keys }

func errLocked() error {
	return fault.Unavailablef("The key is not in the keyring.").WithDetails(map[string]string{"state": "locked"})
}

// Locked reports whether sealed values cannot be read or written.
func (k *Keys) Locked() bool { return k.ring.Load() == nil }

// Seal encrypts plain for one column of one row. Sealing the same value twice returns different
// bytes, so write the result only when the plain text has changed: see SealChanged.
func (k *Keys) Seal(table, column string, id uuid.UUID, plain []byte) ([]byte, error) {
	r := k.ring.Load()
	if r == nil {
		return nil, errLocked()
	}
	if k.left.Add(-1) == useBlock/2 {
		k.nudge()
	}
	return seal(r.keys[r.current], r.current, table, column, id, plain)
}

// SealChanged returns old if it is a seal of plain, else a fresh seal of plain.
func (k *Keys) SealChanged(table, column string, id uuid.UUID, old, plain []byte) ([]byte, error) {
	if len(old) > 0 {
		if was, err := k.Unseal(table, column, id, old); err == nil && string(was) == string(plain) {
			return old, nil
		}
	}
	return k.Seal(table, column, id, plain)
}

// Unseal decrypts what Seal returned for the same table, column and row. It is Unavailable while
// the keys are locked, and Internal if the value cannot be decrypted for any other reason.
func (k *Keys) Unseal(table, column string, id uuid.UUID, sealed []byte) ([]byte, error) {
	r := k.ring.Load()
	if r == nil {
		return nil, errLocked()
	}
	no, rest, ok := splitSealed(sealed)
	if !ok {
		return nil, badSeal(table, column, errors.New("not an encrypted value"))
	}
	aead := r.keys[no]
	if aead == nil {
		return nil, badSeal(table, column, fmt.Errorf("no data key %d", no))
	}
	var buf [128]byte
	plain, err := aead.Open(nil, rest[:nonceSize], rest[nonceSize:], appendAAD(buf[:0], table, column, id, no))
	if err != nil {
		return nil, badSeal(table, column, err)
	}
	return plain, nil
}

func badSeal(table, column string, err error) error {
	return fault.Internalf(fmt.Errorf("unseal %s.%s: %w", table, column, err), "Couldn't decrypt a value in %s.%s.", table, column)
}

// seal builds 0x01 ‖ uvarint key number ‖ nonce ‖ ciphertext ‖ tag.
func seal(aead cipher.AEAD, no uint64, table, column string, id uuid.UUID, plain []byte) ([]byte, error) {
	var buf [128]byte
	aad := appendAAD(buf[:0], table, column, id, no)
	out := make([]byte, 0, 1+binary.MaxVarintLen64+nonceSize+len(plain)+aead.Overhead())
	out = append(out, sealVersion)
	out = binary.AppendUvarint(out, no)
	at := len(out)
	out = out[:at+nonceSize]
	if _, err := rand.Read(out[at:]); err != nil {
		return nil, err
	}
	return aead.Seal(out, out[at:], plain, aad), nil
}

// splitSealed splits a sealed value into the key number and the rest, which begins with the nonce.
func splitSealed(b []byte) (no uint64, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != sealVersion {
		return 0, nil, false
	}
	no, n := binary.Uvarint(b[1:])
	if n <= 0 || len(b)-1-n < nonceSize+16 {
		return 0, nil, false
	}
	return no, b[1+n:], true
}

// appendAAD binds a seal to its place: table|column|row id in hex|key number. Table and column are
// constants in the code and contain no "|".
func appendAAD(b []byte, table, column string, id uuid.UUID, no uint64) []byte {
	b = append(b, table...)
	b = append(b, '|')
	b = append(b, column...)
	b = append(b, '|')
	b = hex.AppendEncode(b, id[:])
	b = append(b, '|')
	return strconv.AppendUint(b, no, 10)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// wrapID returns a substitute for the row id of a data key, whose primary key is its number.
func wrapID(no uint64) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[8:], no)
	return id
}

// attach unwraps the data keys of db. If there is none, it takes or creates a root key and creates
// the first data key; if no candidate root key unwraps them, Keys stays locked.
func (k *Keys) attach(ctx context.Context, db *DB) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at.Store(db)
	for _, root := range k.root.Candidates() {
		r, err := db.openRing(ctx, root)
		if err != nil {
			return err
		}
		if r != nil {
			return k.use(ctx, r)
		}
	}
	empty, err := db.hasNoEncryptedValues(ctx)
	k.sealed.Store(!empty)
	if err != nil || !empty {
		return err
	}
	var root []byte
	if c := k.root.Candidates(); len(c) > 0 {
		root = c[0]
	} else if root, err = k.root.Create(ctx); err != nil {
		return err
	}
	crashPoint("keys.root")
	if len(root) == 0 {
		return nil // no place for a root key: nothing can be encrypted, everything else works
	}
	return k.addDataKey(ctx, root, nil, nil)
}

// openRing unwraps all data keys with root. It returns nil if there are none or if root is not the
// key that wrapped them.
func (db *DB) openRing(ctx context.Context, root []byte) (*keyring, error) {
	aead, err := newAEAD(root)
	if err != nil {
		return nil, nil //nolint:nilerr // a candidate of the wrong length is not the key
	}
	r := &keyring{keys: map[uint64]cipher.AEAD{}, root: root}
	err = db.Read(ctx, func(tx *Tx) error {
		return tx.Select(`SELECT no, wrapped, retired_at IS NULL FROM data_keys ORDER BY no`).Each(func(row Row) error {
			var no uint64
			var wrapped []byte
			var live bool
			if err := row.Scan(&no, &wrapped, &live); err != nil {
				return err
			}
			key, ok := openWrapped(aead, no, wrapped)
			if !ok {
				r = nil
				return nil
			}
			if r.keys[no], err = newAEAD(key); err != nil {
				return err
			}
			clear(key)
			if live {
				r.current = no
			}
			return nil
		})
	})
	if err != nil || r == nil || len(r.keys) == 0 {
		return nil, err
	}
	return r, nil
}

func openWrapped(root cipher.AEAD, no uint64, wrapped []byte) ([]byte, bool) {
	n, rest, ok := splitSealed(wrapped)
	if !ok || n != 0 {
		return nil, false
	}
	key, err := root.Open(nil, rest[:nonceSize], rest[nonceSize:], appendAAD(nil, "data_keys", "wrapped", wrapID(no), 0))
	return key, err == nil && len(key) == RootKeySize
}

// use makes r the active ring and counts the first block of uses in advance.
func (k *Keys) use(ctx context.Context, r *keyring) error {
	if r.current == 0 {
		return k.addDataKey(ctx, r.root, r, nil) // there was a crash between retiring and adding
	}
	k.left.Store(0)
	if err := k.reserve(ctx, r.current); err != nil {
		return err
	}
	k.ring.Store(r)
	k.nudge() // values may still name older keys
	return nil
}

// reserve counts one more block of uses in the row of data key no.
func (k *Keys) reserve(ctx context.Context, no uint64) error {
	err := k.write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(`UPDATE data_keys SET uses = uses + ? WHERE no = ?`, useBlock, int64(no))
		return err
	})
	if err == nil {
		k.left.Add(useBlock)
	}
	return err
}

// addDataKey retires the current data key, if any, and activates a new one. with, if not nil, runs
// in the same transaction.
func (k *Keys) addDataKey(ctx context.Context, root []byte, old *keyring, with func(tx *Tx, no uint64) error) error {
	aead, err := newAEAD(root)
	if err != nil {
		return fmt.Errorf("root key: %w", err)
	}
	key := make([]byte, RootKeySize)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	defer clear(key)
	var no uint64
	err = k.write(ctx, func(tx *Tx) error {
		if err := tx.QueryRow(`SELECT coalesce(max(no), 0) + 1 FROM data_keys`).Scan(&no); err != nil {
			return err
		}
		wrapped, err := seal(aead, 0, "data_keys", "wrapped", wrapID(no), key)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE data_keys SET retired_at = ? WHERE retired_at IS NULL`, tx.Now); err != nil {
			return err
		}
		if _, err = tx.Exec(`INSERT INTO data_keys (no, wrapped, uses, created_at) VALUES (?, ?, ?, ?)`, int64(no), wrapped, useBlock, tx.Now); err != nil || with == nil {
			return err
		}
		return with(tx, no)
	})
	if err != nil {
		return err
	}
	crashPoint("keys.added")
	r := &keyring{current: no, keys: map[uint64]cipher.AEAD{}, root: root}
	if old != nil {
		for n, a := range old.keys {
			r.keys[n] = a
		}
	}
	if r.keys[no], err = newAEAD(key); err != nil {
		return err
	}
	k.left.Store(useBlock)
	k.ring.Store(r)
	return nil
}

// write and read run fn in the attached database. If none is attached, as in recovery mode, they
// are Unavailable.
func (k *Keys) write(ctx context.Context, fn func(*Tx) error) error {
	db := k.at.Load()
	if db == nil {
		return errNoDatabase()
	}
	return db.Write(ctx, fn)
}

func (k *Keys) read(ctx context.Context, fn func(*Tx) error) error {
	db := k.at.Load()
	if db == nil {
		return errNoDatabase()
	}
	return db.Read(ctx, fn)
}

func errNoDatabase() error {
	return fault.Unavailablef("The keys cannot be used while the database is damaged.")
}

// hasNoEncryptedValues reports whether there is neither a data key nor a sealed value. Only then
// may a new root key be created.
func (db *DB) hasNoEncryptedValues(ctx context.Context) (empty bool, err error) {
	err = db.Read(ctx, func(tx *Tx) error {
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM data_keys`).Scan(&n); err != nil || n > 0 {
			return err
		}
		for _, s := range Sealed {
			if s.Private {
				continue // plain text unless private mode is on, which needs a data key
			}
			err := tx.QueryRow(`SELECT 1 FROM ` + s.Table + ` WHERE ` + s.Column + ` IS NOT NULL LIMIT 1`).Scan(&n)
			if !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		empty = true
		return nil
	})
	return empty, err
}

// nudge wakes Run; it never blocks.
func (k *Keys) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// noRoot is a Root that stores no keys.
type noRoot struct{}

func (noRoot) Candidates() [][]byte                   { return nil }
func (noRoot) Create(context.Context) ([]byte, error) { return nil, nil }
func (noRoot) Place([]byte) string                    { return "none" }
func (noRoot) Replace(context.Context, []byte) error {
	return fault.Unavailablef("Nowhere to store a key.")
}
