package lifecycle

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/storage"
)

// Container describes the JSON files in which definitions of one kind are shared. Every file has
// the members format and formatVersion. A sealed file is canonical JSON (RFC 8785) with the members
// sha256, over the text without sha256 and signature, and optionally signature.
type Container struct {
	Format   string
	Version  int
	MaxBytes int
	MaxDepth int // of arrays and objects; ignored for sealed files, which have the limit of package jcs
	Sealed   bool
}

// ContainerError is the error for a file that cannot be read; Field is the invalid member, or "".
type ContainerError struct {
	Field string
	Err   error // a *fault.Error
}

func (e *ContainerError) Error() string { return e.Err.Error() }

func (e *ContainerError) Unwrap() error { return e.Err }

// Seal is the checksum and the signature of a sealed file.
type Seal struct {
	SHA256    string         `json:"sha256,omitempty"`
	Signature *SealSignature `json:"signature,omitempty"`
}

// SealSignature is the Ed25519 signature over the sum of a file, by the key of the device that
// exported it.
type SealSignature struct {
	DeviceKey string `json:"deviceKey"` // base64 of 32 bytes
	Sig       string `json:"sig"`       // base64
}

// Read performs the checks common to all kinds of files and returns the text to decode. The text of
// a sealed file must be canonical and have the sum that it contains. headed is false for JSON
// without a format, such as files of older programs; the caller decides whether to accept those.
func (c Container) Read(raw []byte) (text []byte, headed bool, err error) {
	if len(raw) > c.MaxBytes {
		return nil, false, &ContainerError{"", fault.Limitf("The file has %d bytes; at most %d are allowed.", len(raw), c.MaxBytes)}
	}
	text = raw
	if c.Sealed {
		text, err = jcs.Canonicalize(raw)
	} else {
		_, err = jcs.Decode(raw, c.MaxDepth, 0)
	}
	if err != nil { // including a duplicate member
		return nil, false, &ContainerError{"", fault.Invalidf("The file cannot be read: %s.", err).WithCause(err)}
	}
	var h struct {
		Format        string `json:"format"`
		FormatVersion int    `json:"formatVersion"`
	}
	err = json.Unmarshal(text, &h)
	switch {
	case err != nil:
		return nil, false, &ContainerError{"", fault.Invalidf("The file cannot be read: it is not a %s file.", c.Format).WithCause(err)}
	case h.Format == "":
		return text, false, nil
	case h.Format != c.Format:
		return nil, false, &ContainerError{"format", fault.Invalidf("%q is not the format %s.", Cut(h.Format, 40), c.Format)}
	case h.FormatVersion != c.Version:
		return nil, false, &ContainerError{"formatVersion", fault.Invalidf("The file has format version %d; this version of Helix reads %d. A newer Helix may read it.", h.FormatVersion, c.Version)}
	case !c.Sealed:
		return text, true, nil
	}
	var seal struct {
		SHA256 string `json:"sha256"`
	}
	if err := json.Unmarshal(text, &seal); err != nil {
		return nil, false, &ContainerError{"sha256", fault.Invalidf("The file cannot be read: its sum is not a text.").WithCause(err)}
	}
	sum, err := sealSum(text)
	if err != nil {
		return nil, false, &ContainerError{"", err}
	}
	if seal.SHA256 != sum {
		return nil, false, &ContainerError{"sha256", fault.Invalidf("The file was changed or damaged: its checksum does not match. Nothing was imported.")}
	}
	return text, true, nil
}

// sealSum returns the sum of a file. It covers unknown members, so that nothing can be added to the
// file.
func sealSum(text []byte) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return "", err
	}
	delete(members, "sha256")
	delete(members, "signature")
	plain, err := json.Marshal(members)
	if err != nil {
		return "", err
	}
	if plain, err = jcs.Canonicalize(plain); err != nil {
		return "", err
	}
	h := sha256.Sum256(plain)
	return hex.EncodeToString(h[:]), nil
}

// signed returns the text that the signature of a file with this sum covers.
func (c Container) signed(sum string) []byte {
	return fmt.Appendf(nil, "%s/%d\x00%s", c.Format, c.Version, sum)
}

// Write returns the file as JSON. set stores the seal in the file; the signature is omitted while
// the device key is locked.
func (c Container) Write(db *storage.DB, file any, set func(Seal)) (json.RawMessage, error) {
	raw, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	var seal Seal
	if seal.SHA256, err = sealSum(raw); err != nil {
		return nil, err
	}
	sig, err := db.Sign(c.signed(seal.SHA256))
	if err == nil {
		seal.Signature = &SealSignature{KeyText(db.Device().PublicKey), base64.StdEncoding.EncodeToString(sig)}
	} else if !fault.Is(err, fault.Unavailable) {
		return nil, err
	}
	set(seal)
	if raw, err = json.Marshal(file); err != nil {
		return nil, err
	}
	return jcs.Canonicalize(raw)
}

// Signer returns the signature of a file and its state; nil if the file is unsigned.
func (c Container) Signer(s Seal) (*BundleSignature, SignatureState, error) {
	if s.Signature == nil {
		return nil, SignatureNone, nil
	}
	key, kerr := base64.StdEncoding.DecodeString(s.Signature.DeviceKey)
	sig, serr := base64.StdEncoding.DecodeString(s.Signature.Sig)
	if kerr != nil || serr != nil || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, c.signed(s.SHA256), sig) {
		return nil, SignatureInvalid, fault.Invalidf("The signature does not match the file: the file was changed, or signed with another key. Nothing was imported.")
	}
	return &BundleSignature{PublicKey: s.Signature.DeviceKey, Signature: s.Signature.Sig}, SignatureUnknown, nil
}
