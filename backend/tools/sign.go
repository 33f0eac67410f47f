package tools

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// SignatureState says what a signature is worth.
type SignatureState string

// The states.
const (
	SignatureTrusted SignatureState = "valid_trusted" // verifies, by a signer the user trusts
	SignatureUnknown SignatureState = "valid_unknown" // verifies, by a key nobody confirmed
	SignatureLegacy  SignatureState = "valid_legacy"  // verifies in the older form: shows authorship only
	SignatureInvalid SignatureState = "invalid"       // does not verify
	SignatureNone    SignatureState = "none"
)

// Enum lists the values for the generated client.
func (SignatureState) Enum() []string {
	return []string{"valid_trusted", "valid_unknown", "valid_legacy", "invalid", "none"}
}

// SignatureInfo is the state of a tool's signature on this device.
type SignatureInfo struct {
	State       SignatureState `json:"state"`
	Fingerprint string         `json:"fingerprint,omitempty"` // SHA-256 of the public key, 64 hex digits
	PublicKey   string         `json:"publicKey,omitempty"`   // base64, for tools.trust_signer
	Signer      string         `json:"signer,omitempty"`      // the name the user gave this key, else the author in the signature
	SignedAt    *time.Time     `json:"signedAt,omitempty"`
}

// BundleSignature is a signature as it travels: Ed25519 over the canonical JSON of
// {helix:"tool/1", definitionHash, name, version, author, signedAt}.
type BundleSignature struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Author    string `json:"author"`
	SignedAt  string `json:"signedAt"`  // RFC 3339, exactly as it was signed
	PublicKey string `json:"publicKey"` // base64 of 32 bytes, or PEM in the older form
	Signature string `json:"signature"` // base64
	Legacy    bool   `json:"legacy,omitempty"`
}

// SignResult holds the signature made by this device.
type SignResult struct {
	Signature   string `json:"signature"`
	Fingerprint string `json:"fingerprint"`
}

// Signer is a key that signed tools.
type Signer struct {
	Fingerprint string    `json:"fingerprint"`
	PublicKey   string    `json:"publicKey"`
	Name        string    `json:"name"`
	Trusted     bool      `json:"trusted"`
	ThisDevice  bool      `json:"thisDevice"`
	AddedAt     time.Time `json:"addedAt"`
}

// SignersResult lists the known signers, this device first.
type SignersResult struct {
	Signers []Signer `json:"signers"`
}

// TrustSignerParams name a key and say whether tools signed with it may run as the user's own.
type TrustSignerParams struct {
	PublicKey string `json:"publicKey"` // base64 or PEM
	Name      string `json:"name"`
	Trusted   bool   `json:"trusted"`
}

// SignerResult holds one signer.
type SignerResult struct {
	Signer Signer `json:"signer"`
}

// Sign signs the current definition of a tool with this device's key and stores the
// signature with it. It is unavailable while the key is locked.
func (s *Service) Sign(ctx context.Context, p ToolID) (SignResult, error) {
	var out SignResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		if t.sig, err = s.sign(tx, t); err != nil {
			return err
		}
		if err := saveTool(tx, t); err != nil {
			return err
		}
		out = SignResult{Signature: t.sig.Signature, Fingerprint: keyFingerprint(tx.Device().PublicKey)}
		s.announce(tx, t.ID, "signed")
		return audit.Append(tx, audit.Entry{Action: "tool.signed", SubjectKind: subjectKind, SubjectID: t.ID.String(),
			Details: map[string]any{"version": t.Version, "definitionHash": t.DefinitionHash, "fingerprint": out.Fingerprint}})
	})
	return out, err
}

// sign makes this device's signature of a tool's current definition.
func (s *Service) sign(tx *storage.Tx, t *Tool) (*signature, error) {
	author := t.Author
	if author == "" {
		author = s.db.LocalUser().DisplayName
	}
	sig := &signature{
		Name: t.Name, Version: t.Version, Author: author,
		SignedAt: tx.Now.UTC().Format(time.RFC3339Nano), PublicKey: keyText(tx.Device().PublicKey),
	}
	t.Author = author
	text, err := signedText(t.hash, sig.Name, sig.Version, sig.Author, sig.SignedAt)
	if err != nil {
		return nil, err
	}
	raw, err := s.db.Sign(text)
	if err != nil {
		return nil, err
	}
	sig.Signature = base64.StdEncoding.EncodeToString(raw)
	return sig, nil
}

// Signers lists the keys that signed tools here, and this device's own.
func (s *Service) Signers(ctx context.Context, _ struct{}) (SignersResult, error) {
	out := SignersResult{Signers: []Signer{}}
	user := identity.UserID(ctx)
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		own := tx.Device().PublicKey
		if len(own) > 0 {
			out.Signers = append(out.Signers, Signer{
				Fingerprint: keyFingerprint(own), PublicKey: keyText(own), Name: s.db.LocalUser().DisplayName, Trusted: true, ThisDevice: true,
			})
		}
		return tx.Select(`SELECT fingerprint, public_key, name, trusted, added_at FROM tool_signers
			WHERE user_id = ? AND deleted_at IS NULL ORDER BY name, fingerprint`, user).Each(func(row storage.Row) error {
			var x Signer
			if err := row.Scan(&x.Fingerprint, &x.PublicKey, &x.Name, &x.Trusted, storage.Time(&x.AddedAt)); err != nil {
				return err
			}
			if len(own) == 0 || x.Fingerprint != keyFingerprint(own) {
				out.Signers = append(out.Signers, x)
			}
			return nil
		})
	})
	return out, err
}

// TrustSigner names a key and says whether what it signed may run as the user's own tools
// do. Taking trust away stops such tools at their next start.
func (s *Service) TrustSigner(ctx context.Context, p TrustSignerParams) (SignerResult, error) {
	key, err := parseKey(p.PublicKey)
	if err != nil {
		return SignerResult{}, err
	}
	if err := checkText("name", p.Name, maxAuthor); err != nil {
		return SignerResult{}, err
	}
	user := identity.UserID(ctx)
	var out SignerResult
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		fp := keyFingerprint(key)
		if key.Equal(tx.Device().PublicKey) {
			return fault.Invalidf("This is the key of this device; it is always trusted here.")
		}
		if err := addSigner(tx, user, fp, keyText(key), p.Name); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE tool_signers SET name = ?, trusted = ?, updated_at = ? WHERE user_id = ? AND fingerprint = ? AND deleted_at IS NULL`,
			p.Name, p.Trusted, tx.Now, user, fp); err != nil {
			return err
		}
		known, err := loadSigner(tx, user, fp)
		if err != nil {
			return err
		}
		out.Signer = *known
		s.announce(tx, uuid.Nil, "signers")
		return audit.Append(tx, audit.Entry{Action: "signer.trusted", SubjectKind: "signer", SubjectID: fp,
			Details: map[string]any{"name": p.Name, "trusted": p.Trusted}})
	})
	return out, err
}

// addSigner makes a key known, untrusted, unless it already is known.
func addSigner(tx *storage.Tx, user uuid.UUID, fp, key, name string) error {
	_, err := tx.Exec(`INSERT INTO tool_signers (id, user_id, fingerprint, public_key, name, trusted, added_at, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT (user_id, fingerprint) WHERE deleted_at IS NULL DO NOTHING`,
		storage.NewID(), user, fp, key, name, tx.Now, tx.Now, tx.Now)
	return err
}

// loadSigner returns nil when the key is not known.
func loadSigner(tx *storage.Tx, user uuid.UUID, fp string) (*Signer, error) {
	x := &Signer{}
	err := tx.QueryRow(`SELECT fingerprint, public_key, name, trusted, added_at FROM tool_signers
		WHERE user_id = ? AND fingerprint = ? AND deleted_at IS NULL`, user, fp).
		Scan(&x.Fingerprint, &x.PublicKey, &x.Name, &x.Trusted, storage.Time(&x.AddedAt))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return x, err
}
