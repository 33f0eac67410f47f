package tools

import "time"

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
