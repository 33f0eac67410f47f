package tools

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

type signature = lifecycle.BundleSignature

// SignersResult lists the known signers, this device first.
type SignersResult struct {
	Signers []lifecycle.Signer `json:"signers"`
}

// TrustSignerParams names a key and sets whether tools signed with it may run like the user's own.
type TrustSignerParams struct {
	PublicKey string `json:"publicKey"` // base64 or PEM
	Name      string `json:"name"`
	Trusted   bool   `json:"trusted"`
}

// SignerResult holds one signer.
type SignerResult struct {
	Signer lifecycle.Signer `json:"signer"`
}

// Sign signs the current definition of a tool with this device's key and stores the signature. It
// fails with Unavailable while the key is locked.
func (s *Service) Sign(ctx context.Context, p ToolID) (lifecycle.SignResult, error) {
	var out lifecycle.SignResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		if t.sig, err = lifecycle.Sign(tx, s.db, t.item(), t.hash, t.Author); err != nil {
			return err
		}
		t.Author = t.sig.Author
		if err := saveTool(tx, t); err != nil {
			return err
		}
		out, err = s.kind.Signed(tx, t.item(), t.hash, t.sig)
		return err
	})
	return out, err
}

// Signers lists the keys that have signed tools here, and this device's own.
func (s *Service) Signers(ctx context.Context, _ struct{}) (out SignersResult, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		out.Signers, err = lifecycle.Signers(tx, s.db)
		return err
	})
	return out, err
}

// TrustSigner names a key and sets whether tools signed with it may run like the user's own.
// Without trust, such tools are refused from their next start on.
func (s *Service) TrustSigner(ctx context.Context, p TrustSignerParams) (SignerResult, error) {
	key, err := lifecycle.ParseKey(p.PublicKey)
	if err != nil {
		return SignerResult{}, err
	}
	if err := lifecycle.CheckText("name", p.Name, maxAuthor); err != nil {
		return SignerResult{}, err
	}
	var out SignerResult
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		known, err := lifecycle.SetTrust(tx, identity.UserID(ctx), key, p.Name, p.Trusted)
		if err != nil {
			return err
		}
		out.Signer = *known
		s.announce(tx, uuid.Nil, "signers")
		return audit.Append(tx, audit.Entry{Action: "signer.trusted", SubjectKind: "signer", SubjectID: known.Fingerprint,
			Details: map[string]any{"name": p.Name, "trusted": p.Trusted}})
	})
	return out, err
}
