package cloudsync

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/storage"
)

// keyRing holds the user's keys by version. New data is encrypted with the newest key; the older
// ones are kept to decrypt existing data. A key that the hub lost to another one of the same version v is
// kept under -v.
type keyRing map[int][]byte

func newUserKey() []byte {
	key := make([]byte, userKeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// readRing decodes the stored key ring. Its first format was a single key without a version;
// version applies to that one.
func readRing(secret []byte, version int) (keyRing, error) {
	if len(secret) == userKeySize {
		return keyRing{version: secret}, nil
	}
	ring := keyRing{}
	return ring, json.Unmarshal(secret, &ring)
}

// ring reads this device's keys. It returns an empty ring if the hub is not encrypted.
func (s *Service) ring(ctx context.Context, l local) (keyRing, error) {
	if !l.hub.Private {
		return keyRing{}, nil
	}
	secret, err := s.secrets.Value(s.asUser(ctx), keySecret)
	if err != nil {
		return nil, err
	}
	return readRing(secret, l.keyVersion)
}

// cipher returns a cipher that encrypts with the key of the given version and decrypts with all.
func (r keyRing) cipher(version int) (Cipher, error) {
	c := Cipher{aeads: map[int]cipher.AEAD{}, version: version}
	for v, key := range r {
		block, err := aes.NewCipher(key)
		if err != nil {
			return Cipher{}, err
		}
		if c.aeads[v], err = cipher.NewGCM(block); err != nil {
			return Cipher{}, err
		}
	}
	return c, nil
}

// box is a public key for which keys are encrypted, with a proof that it was published by a device
// of this user.
type box struct {
	ID      uuid.UUID `json:"id"`
	Key     []byte    `json:"key"`
	MAC     []byte    `json:"mac"`
	Version int       `json:"version"`
	Has     bool      `json:"has"` // has the newest key
}

// hubKeys is the hub's answer to app.keys.
type hubKeys struct {
	Version int       `json:"version"`
	MadeBy  uuid.UUID `json:"madeBy"`
	Sealed  []struct {
		Version int    `json:"version"`
		Sealed  []byte `json:"sealed"`
	} `json:"sealed"`
	Devices  []box `json:"devices"`
	Recovery *box  `json:"recovery"`
}

// boxMAC returns the proof that the publisher of a public key for id holds the user's key.
func boxMAC(key []byte, id uuid.UUID, public []byte) []byte {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "helix sync box|%s|", id)
	h.Write(public)
	return h.Sum(nil)
}

func (b box) genuine(r keyRing) bool {
	key, ok := r[b.Version]
	return ok && hmac.Equal(b.MAC, boxMAC(key, b.ID, b.Key))
}

// keyProof returns the proof that the creator of a key version held the signing key, which is the
// previous version. Without it, the hub could introduce a key of its own.
func keyProof(signer []byte, version int, key []byte) []byte {
	h := hmac.New(sha256.New, signer)
	fmt.Fprintf(h, "helix sync key|%d|", version)
	h.Write(key)
	return h.Sum(nil)
}

// sealedKeys are key versions, each with a proof made with the version before it.
type sealedKeys struct {
	Keys   keyRing        `json:"keys"`
	Proofs map[int][]byte `json:"proofs"`
}

func (r keyRing) proofs() map[int][]byte {
	out := map[int][]byte{}
	for v, key := range r {
		if before, ok := r[v-1]; ok {
			out[v] = keyProof(before, v, key)
		}
	}
	return out
}

// add adds the versions in k that directly follow a version in r and have a valid proof.
func (r keyRing) add(k sealedKeys) {
	for _, v := range slices.Sorted(maps.Keys(k.Keys)) {
		if signer, ok := r[v-1]; ok && r[v] == nil && hmac.Equal(k.Proofs[v], keyProof(signer, v, k.Keys[v])) {
			r[v] = k.Keys[v]
		}
	}
}

// replace takes the versions in k that differ from those in r and have a valid proof. It reports whether there were any.
func (r keyRing) replace(k sealedKeys) (any bool) {
	for _, v := range slices.Sorted(maps.Keys(k.Keys)) {
		if signer := r[v-1]; v > 1 && r[v] != nil && signer != nil && !bytes.Equal(r[v], k.Keys[v]) && hmac.Equal(k.Proofs[v], keyProof(signer, v, k.Keys[v])) {
			r[-v], r[v], any = r[v], k.Keys[v], true
		}
	}
	return any
}

// sealFor encrypts keys so that only the owner of the public key can read them, with an ephemeral
// X25519 key, HKDF and AES-GCM.
func sealFor(public []byte, id uuid.UUID, keys sealedKeys) ([]byte, error) {
	to, err := ecdh.X25519().NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	from, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	c, err := boxCipher(from, to, from.PublicKey().Bytes(), public)
	if err != nil {
		return nil, err
	}
	return append(from.PublicKey().Bytes(), c.seal("key", "sealed", id, jsonText(keys))...), nil
}

// openSealed is the inverse of sealFor.
func openSealed(private *ecdh.PrivateKey, id uuid.UUID, sealed []byte) (k sealedKeys, err error) {
	const size = 32
	if len(sealed) < size || !bytes.HasPrefix(sealed[size:], []byte(encrypted)) {
		return k, errors.New("cloudsync: an encrypted key of an unknown form")
	}
	from, err := ecdh.X25519().NewPublicKey(sealed[:size])
	if err != nil {
		return k, err
	}
	c, err := boxCipher(private, from, sealed[:size], private.PublicKey().Bytes())
	if err != nil {
		return k, err
	}
	text, err := c.open("key", "sealed", id, string(sealed[size:]))
	if err != nil {
		return k, err
	}
	return k, json.Unmarshal([]byte(text), &k)
}

func boxCipher(private *ecdh.PrivateKey, public *ecdh.PublicKey, ephemeral, receiver []byte) (Cipher, error) {
	shared, err := private.ECDH(public)
	if err != nil {
		return Cipher{}, err
	}
	key, err := hkdf.Key(sha256.New, shared, append(append([]byte{}, ephemeral...), receiver...), "helix sync key for a device", userKeySize)
	if err != nil {
		return Cipher{}, err
	}
	return newCipher(key, 1)
}

// boxKey returns the private key with which this device receives keys from other devices. It
// creates the key on first use.
func (s *Service) boxKey(ctx context.Context) (*ecdh.PrivateKey, error) {
	secret, err := s.secrets.Value(s.asUser(ctx), boxSecret)
	if err == nil {
		return ecdh.X25519().NewPrivateKey(secret)
	}
	if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return key, s.db.Write(s.asUser(ctx), func(tx *storage.Tx) error { return s.secrets.SetTx(tx, boxSecret, key.Bytes()) })
}

// exchangeKeys receives keys that other devices created and sends the newest one to devices that
// lack it. Rows that could not be decrypted without a new key are retried.
func (s *Service) exchangeKeys(ctx context.Context, h link, l *local) error {
	g := l.greeting
	if !l.hub.Private || g.KeyVersion == l.keyVersion && g.BoxVersion >= l.keyVersion && !g.KeyWanted {
		return nil
	}
	private, err := s.boxKey(ctx)
	if err != nil {
		return err
	}
	ring, err := s.ring(ctx, *l)
	if err != nil {
		return err
	}
	if g.KeyVersion > l.keyVersion {
		if err := s.learnKeys(ctx, h, l, private, ring); err != nil {
			return err
		}
	}
	if g.BoxVersion < l.keyVersion {
		public := private.PublicKey().Bytes()
		if err := h.call(ctx, "publish_box", nil, public, boxMAC(ring[l.keyVersion], l.hub.Device, public), l.keyVersion); err != nil {
			return err
		}
	}
	if g.KeyVersion > l.keyVersion || g.KeyVersion == l.keyVersion && !g.KeyWanted {
		return nil
	}
	var k hubKeys
	if err := h.call(ctx, "keys", &k); err != nil {
		return err
	}
	if k.Version < l.keyVersion { // the hub was restored from a backup that lacks them
		if err := s.adoptKeys(ctx, h, l); err != nil {
			return err
		}
		if ring, err = s.ring(ctx, *l); err != nil {
			return err
		}
	}
	for v := k.Version + 1; v <= l.keyVersion; v++ {
		if err := s.handOn(ctx, h, k, ring, v, true); err != nil {
			return err
		}
	}
	if k.Version < l.keyVersion {
		return nil
	}
	return s.handOn(ctx, h, k, ring, l.keyVersion, false)
}

// learnKeys stores the keys that were encrypted for this device.
func (s *Service) learnKeys(ctx context.Context, h link, l *local, private *ecdh.PrivateKey, ring keyRing) error {
	var k hubKeys
	if err := h.call(ctx, "keys", &k); err != nil {
		return err
	}
	for _, x := range k.Sealed { // ordered by version
		got, err := openSealed(private, l.hub.Device, x.Sealed)
		if err != nil {
			s.o.Logger.Warn("a key of another device can't be opened", "version", x.Version)
			continue
		}
		ring.add(got)
	}
	newest := slices.Max(slices.Collect(maps.Keys(ring)))
	if newest == l.keyVersion {
		return nil
	}
	if err := s.storeRing(ctx, l, ring, newest, k.MadeBy == l.hub.Device && newest == k.Version); err != nil {
		return err
	}
	var r Round
	return s.applyPage(ctx, nil, 0, &r)
}

// adoptKeys takes the keys of a hub that was restored from a backup, where it has others of the same versions: another
// device rotated the key before this one was back. Newer keys of this device are signed again when they are sent.
func (s *Service) adoptKeys(ctx context.Context, h link, l *local) error {
	if !l.hub.Private {
		return nil
	}
	private, err := s.boxKey(ctx)
	if err != nil {
		return err
	}
	ring, err := s.ring(ctx, *l)
	if err != nil {
		return err
	}
	var k hubKeys
	if err := h.call(ctx, "keys", &k); err != nil {
		return err
	}
	adopted := false
	for _, x := range k.Sealed {
		if got, err := openSealed(private, l.hub.Device, x.Sealed); err == nil { // otherwise learnKeys reports it
			adopted = ring.replace(got) || adopted
		}
	}
	if !adopted {
		return nil
	}
	s.o.Logger.Info("took the keys of a restored hub", "version", k.Version)
	return s.storeRing(ctx, l, ring, l.keyVersion, false)
}

// storeRing stores ring and makes version the key for new data. If again is set, all rows are
// queued to be encrypted with it.
func (s *Service) storeRing(ctx context.Context, l *local, ring keyRing, version int, again bool) error {
	if err := s.db.Write(s.asUser(ctx), func(tx *storage.Tx) error {
		if err := s.secrets.SetTx(tx, keySecret, []byte(jsonText(ring))); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE sync_local SET key_version = ?`, version); err != nil {
			return err
		}
		if again {
			return s.logSensitive(tx)
		}
		return nil
	}); err != nil {
		return err
	}
	l.keyVersion = version
	c, err := ring.cipher(version)
	if err == nil {
		s.cipher = c
	}
	return err
}

// logSensitive adds an entry without changed fields to change_log for each row that has encrypted
// columns, so that the row is packaged again with the same values. It skips append-only tables,
// whose rows can't be changed on the hub.
func (s *Service) logSensitive(tx *storage.Tx) error {
	for _, t := range s.tables {
		sensitive := false
		for _, c := range t.columns {
			sensitive = sensitive || c.Sensitive
		}
		if !sensitive || t.Policy == storage.AppendRows {
			continue
		}
		if _, err := tx.Exec(`INSERT INTO change_log (tbl, row_id, op, fields, hlc, txn, at) SELECT ?, r.id, 'U', 0, l.hlc_high, l.txn, ? FROM `+t.Table+` r, sync_local l WHERE r.sync_meta IS NOT NULL ORDER BY r.id`, t.Table, tx.Now); err != nil {
			return err
		}
	}
	return nil
}

// handOn encrypts the keys for the devices that lack the newest one and stores them on the hub. If
// isNew is set, it does so for all devices and for the recovery code.
func (s *Service) handOn(ctx context.Context, h link, k hubKeys, ring keyRing, version int, isNew bool) error {
	sealed, keys := map[string][]byte{}, sealedKeys{ring, ring.proofs()}
	for _, d := range k.Devices {
		if d.Has && !isNew {
			continue
		}
		if !d.genuine(ring) {
			s.o.Logger.Warn("a device without proof gets no key", "device", d.ID)
			continue
		}
		b, err := sealFor(d.Key, d.ID, keys)
		if err != nil {
			return err
		}
		sealed[d.ID.String()] = b
	}
	var wrapped, mac []byte
	if isNew && k.Recovery != nil && k.Recovery.genuine(ring) {
		var err error
		if wrapped, err = sealFor(k.Recovery.Key, uuid.Nil, keys); err != nil {
			return err
		}
		mac = boxMAC(ring[version], uuid.Nil, k.Recovery.Key)
	}
	return h.call(ctx, "add_key", nil, version, jsonText(sealed), wrapped, mac)
}

// RotateKeyResult reports the key for new data.
type RotateKeyResult struct {
	KeyVersion int `json:"keyVersion"`
	// Queued is the number of rows that the next exchanges encrypt again.
	Queued int `json:"queued"`
}

// RotateKey creates a new key for future writes, sends it to the other devices, encrypted for each
// of them, and queues the rows on the hub to be encrypted again. Data encrypted with older keys
// stays readable.
func (s *Service) RotateKey(ctx context.Context, _ struct{}) (r RotateKeyResult, err error) {
	err = s.exclusive(ctx, func() error {
		c, l, err := s.open(ctx)
		if err != nil {
			return err
		}
		if !l.hub.Private {
			return errNotEncrypted
		}
		h := direct{s, c}
		var k hubKeys
		if err := h.call(ctx, "keys", &k); err != nil {
			return hubError(l.hub.Host, err)
		}
		if k.Version != l.keyVersion {
			return fault.Conflictf("This device doesn't have the newest key yet. Sync another device first.")
		}
		ring, err := s.ring(ctx, l)
		if err != nil {
			return err
		}
		ring = maps.Clone(ring)
		r.KeyVersion = k.Version + 1
		ring[r.KeyVersion] = newUserKey()
		if err := s.handOn(ctx, h, k, ring, r.KeyVersion, true); err != nil {
			var pg *pgconn.PgError
			if errors.As(err, &pg) && pg.Code == "HX003" {
				return fault.Conflictf("Another device has just changed the key. Sync, then try again.")
			}
			return hubError(l.hub.Host, err)
		}
		if err := s.storeRing(ctx, &l, ring, r.KeyVersion, true); err != nil {
			return err
		}
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			if err := tx.QueryRow(`SELECT count(*) FROM change_log WHERE fields = 0`).Scan(&r.Queued); err != nil {
				return err
			}
			return audit.Append(tx, audit.Entry{User: l.user, Action: "sync.key_rotated", SubjectKind: "key", SubjectID: strconv.Itoa(r.KeyVersion)})
		})
	})
	return r, err
}

var errNotEncrypted = fault.Invalidf("This hub is not encrypted, so it has no key.")
