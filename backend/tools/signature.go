package tools

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/storage"
)

// signature is how a signature is stored: as it came, with the name and version that it
// was made for.
type signature = BundleSignature

// signedText is the canonical JSON under a signature.
func signedText(hash [32]byte, name, version, author, signedAt string) ([]byte, error) {
	doc, err := marshal(struct {
		Helix          string `json:"helix"`
		DefinitionHash string `json:"definitionHash"`
		Name           string `json:"name"`
		Version        string `json:"version"`
		Author         string `json:"author"`
		SignedAt       string `json:"signedAt"`
	}{"tool/1", hashText(hash), name, version, author, signedAt})
	if err != nil {
		return nil, err
	}
	return jcs.Canonicalize(doc)
}

// parseKey reads a public key from base64 of its 32 bytes or from PEM.
func parseKey(text string) (ed25519.PublicKey, error) {
	text = strings.TrimSpace(text)
	bad := fault.Invalidf("The public key is neither base64 of an Ed25519 key nor PEM.")
	if len(text) > 4096 {
		return nil, bad
	}
	if block, _ := pem.Decode([]byte(text)); block != nil {
		k, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, bad
		}
		if key, ok := k.(ed25519.PublicKey); ok {
			return key, nil
		}
		return nil, bad
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, bad
	}
	return raw, nil
}

// keyFingerprint is SHA-256 of the key's 32 bytes in hex.
func keyFingerprint(key ed25519.PublicKey) string {
	h := sha256.Sum256(key)
	return hex.EncodeToString(h[:])
}

func keyText(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

func (s *BundleSignature) key() (ed25519.PublicKey, error) { return parseKey(s.PublicKey) }

// verify checks the signature over a definition; name, version and author are those that it
// names itself. The state does not yet say who is trusted.
func (s *BundleSignature) verify(hash [32]byte, code string) SignatureState {
	if s == nil {
		return SignatureNone
	}
	key, err := s.key()
	if err != nil {
		return SignatureInvalid
	}
	sig, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil || len(sig) != ed25519.SignatureSize {
		return SignatureInvalid
	}
	if s.Legacy {
		for _, f := range []string{s.Name, s.Version, s.Author, s.SignedAt} {
			if strings.Contains(f, "|") { // otherwise text could move from one field to the next
				return SignatureInvalid
			}
		}
		old := strings.Join([]string{code, s.Name, s.Version, s.Author, s.SignedAt}, "|")
		if !ed25519.Verify(key, []byte(old), sig) {
			return SignatureInvalid
		}
		return SignatureLegacy
	}
	text, err := signedText(hash, s.Name, s.Version, s.Author, s.SignedAt)
	if err != nil || !ed25519.Verify(key, text, sig) {
		return SignatureInvalid
	}
	return SignatureUnknown
}

// trust completes a signature's state with what the user knows of its key.
func (s *Service) trust(tx *storage.Tx, user uuid.UUID, sig *BundleSignature, state SignatureState) (SignatureInfo, error) {
	info := SignatureInfo{State: state}
	if sig == nil {
		return info, nil
	}
	info.Signer = sig.Author
	if at, err := time.Parse(time.RFC3339Nano, sig.SignedAt); err == nil {
		info.SignedAt = &at
	}
	key, err := sig.key()
	if err != nil {
		return info, nil
	}
	info.Fingerprint, info.PublicKey = keyFingerprint(key), keyText(key)
	if key.Equal(tx.Device().PublicKey) && user == s.db.LocalUser().ID { // the key is that user's
		if info.State == SignatureUnknown {
			info.State = SignatureTrusted
		}
		return info, nil
	}
	known, err := loadSigner(tx, user, info.Fingerprint)
	if err != nil || known == nil {
		return info, err
	}
	if known.Name != "" {
		info.Signer = known.Name
	}
	if info.State == SignatureUnknown && known.Trusted {
		info.State = SignatureTrusted
	}
	return info, nil
}
