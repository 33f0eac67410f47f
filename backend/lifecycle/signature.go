package lifecycle

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/storage"
)

// SignatureState is the result of verifying a signature.
type SignatureState string

// The states.
const (
	SignatureTrusted SignatureState = "valid_trusted" // valid, by a signer the user trusts
	SignatureUnknown SignatureState = "valid_unknown" // valid, by a key that the user has not confirmed
	SignatureLegacy  SignatureState = "valid_legacy"  // valid in the older format: proves authorship only
	SignatureInvalid SignatureState = "invalid"       // does not verify
	SignatureNone    SignatureState = "none"
)

// Enum lists the values for the generated client.
func (SignatureState) Enum() []string {
	return []string{"valid_trusted", "valid_unknown", "valid_legacy", "invalid", "none"}
}

// SignatureInfo is the state of a definition's signature on this device.
type SignatureInfo struct {
	State       SignatureState `json:"state"`
	Fingerprint string         `json:"fingerprint,omitempty"` // SHA-256 of the public key, 64 hex digits
	PublicKey   string         `json:"publicKey,omitempty"`   // base64, for tools.trust_signer
	Signer      string         `json:"signer,omitempty"`      // the user's name for this key, else the author in the signature
	SignedAt    *time.Time     `json:"signedAt,omitempty"`
}

// BundleSignature is a signature in a shared file: Ed25519 over the canonical JSON of
// {helix:"tool/1", definitionHash, name, version, author, signedAt}. It is stored as received, with
// the name and version that it was made for.
type BundleSignature struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Author    string `json:"author"`
	SignedAt  string `json:"signedAt"`  // RFC 3339, exactly as signed
	PublicKey string `json:"publicKey"` // base64 of 32 bytes, or PEM in the older format
	Signature string `json:"signature"` // base64
	Legacy    bool   `json:"legacy,omitempty"`
}

// Signer is a key that has signed tools.
type Signer struct {
	Fingerprint string    `json:"fingerprint"`
	PublicKey   string    `json:"publicKey"`
	Name        string    `json:"name"`
	Trusted     bool      `json:"trusted"`
	ThisDevice  bool      `json:"thisDevice"`
	AddedAt     time.Time `json:"addedAt"`
}

// Text returns the canonical JSON that is signed.
func (s *BundleSignature) Text(hash [32]byte) ([]byte, error) {
	doc, err := json.Marshal(struct {
		Helix          string `json:"helix"`
		DefinitionHash string `json:"definitionHash"`
		Name           string `json:"name"`
		Version        string `json:"version"`
		Author         string `json:"author"`
		SignedAt       string `json:"signedAt"`
	}{"tool/1", hex.EncodeToString(hash[:]), s.Name, s.Version, s.Author, s.SignedAt})
	if err != nil {
		return nil, err
	}
	return jcs.Canonicalize(doc)
}

// Sign returns this device's signature of a definition. The author defaults to the local user. It
// is Unavailable while the key is locked.
func Sign(tx *storage.Tx, db *storage.DB, it Item, hash [32]byte, author string) (*BundleSignature, error) {
	if author == "" {
		author = db.LocalUser().DisplayName
	}
	s := &BundleSignature{
		Name: it.Name, Version: it.Version, Author: author, SignedAt: tx.Now.UTC().Format(time.RFC3339Nano), PublicKey: KeyText(tx.Device().PublicKey),
	}
	text, err := s.Text(hash)
	if err != nil {
		return nil, err
	}
	raw, err := db.Sign(text)
	s.Signature = base64.StdEncoding.EncodeToString(raw)
	return s, err
}

// SignResult holds the signature made by this device.
type SignResult struct {
	Signature   string `json:"signature"`
	Fingerprint string `json:"fingerprint"`
}

// Signed records a new signature of a definition by this device.
func (k *Kind) Signed(tx *storage.Tx, it Item, hash [32]byte, sig *BundleSignature) (SignResult, error) {
	out := SignResult{Signature: sig.Signature, Fingerprint: Fingerprint(tx.Device().PublicKey)}
	return out, k.Changed(tx, it, "signed", map[string]any{"version": it.Version, "definitionHash": hex.EncodeToString(hash[:]), "fingerprint": out.Fingerprint})
}

// ParseKey parses a public key from the base64 of its 32 bytes or from PEM.
func ParseKey(text string) (ed25519.PublicKey, error) {
	text = strings.TrimSpace(text)
	invalid := fault.Invalidf("The public key is neither base64 of an Ed25519 key nor PEM.")
	if len(text) > 4096 {
		return nil, invalid
	}
	if block, _ := pem.Decode([]byte(text)); block != nil {
		k, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, invalid
		}
		if key, ok := k.(ed25519.PublicKey); ok {
			return key, nil
		}
		return nil, invalid
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, invalid
	}
	return raw, nil
}

// Fingerprint returns the SHA-256 of the key's 32 bytes in hex.
func Fingerprint(key ed25519.PublicKey) string {
	h := sha256.Sum256(key)
	return hex.EncodeToString(h[:])
}

// KeyText returns the key in base64.
func KeyText(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// Key returns the public key in the signature.
func (s *BundleSignature) Key() (ed25519.PublicKey, error) { return ParseKey(s.PublicKey) }

// Columns returns the values for the columns of a signature: the text, the fingerprint of the key
// and the time; nil if there is no signature.
func (s *BundleSignature) Columns() (text, fingerprint, at any, err error) {
	if s == nil {
		return nil, nil, nil, nil
	}
	doc, err := json.Marshal(s)
	if err != nil {
		return nil, nil, nil, err
	}
	if key, err := s.Key(); err == nil {
		fingerprint = Fingerprint(key)
	}
	if t, err := time.Parse(time.RFC3339Nano, s.SignedAt); err == nil {
		at = t
	}
	return string(doc), fingerprint, at, nil
}

// ReadSignature parses the text that Columns returned; nil if there is none.
func ReadSignature(text sql.NullString) (*BundleSignature, error) {
	if !text.Valid {
		return nil, nil
	}
	s := &BundleSignature{}
	return s, json.Unmarshal([]byte(text.String), s)
}

// Verify verifies the signature of a definition, using the name, version and author in the
// signature. The state does not yet reflect trust. Only the older format needs the code.
func (s *BundleSignature) Verify(hash [32]byte, code string) SignatureState {
	if s == nil {
		return SignatureNone
	}
	key, err := s.Key()
	if err != nil {
		return SignatureInvalid
	}
	sig, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil || len(sig) != ed25519.SignatureSize {
		return SignatureInvalid
	}
	if s.Legacy {
		for _, f := range []string{s.Name, s.Version, s.Author, s.SignedAt} {
			if strings.Contains(f, "|") { // otherwise text could be moved from one field to the next
				return SignatureInvalid
			}
		}
		old := strings.Join([]string{code, s.Name, s.Version, s.Author, s.SignedAt}, "|")
		if !ed25519.Verify(key, []byte(old), sig) {
			return SignatureInvalid
		}
		return SignatureLegacy
	}
	text, err := s.Text(hash)
	if err != nil || !ed25519.Verify(key, text, sig) {
		return SignatureInvalid
	}
	return SignatureUnknown
}

// Trust completes the state of a signature with the user's trust in its key.
func Trust(tx *storage.Tx, db *storage.DB, user uuid.UUID, s *BundleSignature, state SignatureState) (SignatureInfo, error) {
	info := SignatureInfo{State: state}
	if s == nil {
		return info, nil
	}
	info.Signer = s.Author
	if at, err := time.Parse(time.RFC3339Nano, s.SignedAt); err == nil {
		info.SignedAt = &at
	}
	key, err := s.Key()
	if err != nil {
		return info, nil
	}
	info.Fingerprint, info.PublicKey = Fingerprint(key), KeyText(key)
	name, trusted, err := knownKey(tx, db, user, key)
	if name != "" {
		info.Signer = name
	}
	if info.State == SignatureUnknown && trusted {
		info.State = SignatureTrusted
	}
	return info, err
}

// knownKey returns the user's name for a key, and whether the user trusts its signatures. The user
// trusts the key of this device, whose name is that in the signature.
func knownKey(tx *storage.Tx, db *storage.DB, user uuid.UUID, key ed25519.PublicKey) (name string, trusted bool, err error) {
	if key.Equal(tx.Device().PublicKey) && user == db.LocalUser().ID {
		return "", true, nil
	}
	known, err := loadSigner(tx, user, Fingerprint(key))
	if err != nil || known == nil {
		return "", false, err
	}
	return known.Name, known.Trusted, nil
}

// AddSigner adds the key of a signature to the list of signers, untrusted, unless it is already
// there or is this device's.
func AddSigner(tx *storage.Tx, user uuid.UUID, s *BundleSignature) error {
	if s == nil {
		return nil
	}
	key, err := s.Key()
	if err != nil || key.Equal(tx.Device().PublicKey) {
		return nil // a key that cannot be parsed makes the signature invalid
	}
	return addKey(tx, user, key, s.Author)
}

func addKey(tx *storage.Tx, user uuid.UUID, key ed25519.PublicKey, name string) error {
	_, err := tx.Exec(`INSERT INTO tool_signers (id, user_id, fingerprint, public_key, name, trusted, added_at, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT (user_id, fingerprint) WHERE deleted_at IS NULL DO NOTHING`,
		storage.NewID(), user, Fingerprint(key), KeyText(key), name, tx.Now, tx.Now, tx.Now)
	return err
}

const signerColumns = `SELECT fingerprint, public_key, name, trusted, added_at FROM tool_signers WHERE user_id = ? AND deleted_at IS NULL`

func scanSigner(row storage.Row) (x Signer, err error) {
	err = row.Scan(&x.Fingerprint, &x.PublicKey, &x.Name, &x.Trusted, storage.Time(&x.AddedAt))
	return x, err
}

// loadSigner returns a key in the list of signers, or nil.
func loadSigner(tx *storage.Tx, user uuid.UUID, fingerprint string) (*Signer, error) {
	x, err := scanSigner(tx.QueryRow(signerColumns+` AND fingerprint = ?`, user, fingerprint))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &x, err
}

// Signers lists the keys that the caller knows, this device's own first.
func Signers(tx *storage.Tx, db *storage.DB) ([]Signer, error) {
	out := []Signer{}
	own := tx.Device().PublicKey
	if len(own) > 0 {
		out = append(out, Signer{Fingerprint: Fingerprint(own), PublicKey: KeyText(own), Name: db.LocalUser().DisplayName, Trusted: true, ThisDevice: true})
	}
	err := tx.Select(signerColumns+` ORDER BY name, fingerprint`, identity.UserID(tx.Context())).Each(func(row storage.Row) error {
		x, err := scanSigner(row)
		if err == nil && (len(own) == 0 || x.Fingerprint != Fingerprint(own)) {
			out = append(out, x)
		}
		return err
	})
	return out, err
}

// SetTrust sets the name of a key and whether its signatures are trusted.
func SetTrust(tx *storage.Tx, user uuid.UUID, key ed25519.PublicKey, name string, trusted bool) (*Signer, error) {
	if key.Equal(tx.Device().PublicKey) {
		return nil, fault.Invalidf("This is this device's own key, which is always trusted here.")
	}
	if err := addKey(tx, user, key, name); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(`UPDATE tool_signers SET name = ?, trusted = ?, updated_at = ? WHERE user_id = ? AND fingerprint = ? AND deleted_at IS NULL`,
		name, trusted, tx.Now, user, Fingerprint(key)); err != nil {
		return nil, err
	}
	return loadSigner(tx, user, Fingerprint(key))
}

// authorHasOtherKey reports whether the user knows another key with the same author's name.
func authorHasOtherKey(tx *storage.Tx, user uuid.UUID, author, fingerprint string) (other bool, err error) {
	if author == "" || fingerprint == "" {
		return false, nil
	}
	err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM tool_signers WHERE user_id = ? AND lower(name) = lower(?) AND fingerprint <> ? AND deleted_at IS NULL)`,
		user, author, fingerprint).Scan(&other)
	return other, err
}
