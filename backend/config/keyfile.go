package config

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/scrypt"

	"helix/backend/fault"
)

// keyFileV1 is the content of root.key: the key itself, or, with a passphrase, the key
// sealed by AES-256-GCM under scrypt of the passphrase.
type keyFileV1 struct {
	V       int    `json:"v"`
	RootKey string `json:"rootKey,omitempty"`
	Wrapped string `json:"wrapped,omitempty"` // nonce ‖ ciphertext ‖ tag
	Salt    string `json:"salt,omitempty"`
	N       int    `json:"n,omitempty"`
	R       int    `json:"r,omitempty"`
	P       int    `json:"p,omitempty"`
}

const keyFileAAD = "helix/root.key/v1"

// readKeyFile returns the key in the file. A plain file is wrapped at once if there is a passphrase
// now.
func (r *Root) readKeyFile() (key []byte, safe bool, err error) {
	text, err := os.ReadFile(r.keyFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, fs.ErrNotExist
	}
	if err != nil {
		return nil, false, fault.Unavailablef("Couldn't read the key file.").WithCause(err)
	}
	damaged := func(cause error) ([]byte, bool, error) {
		return nil, false, fault.Unavailablef("The key file is damaged.").WithCause(cause)
	}
	var f keyFileV1
	if err := json.Unmarshal(text, &f); err != nil || f.V != 1 {
		return damaged(err)
	}
	if f.Wrapped == "" {
		if key = decodeKey(f.RootKey); key == nil {
			return damaged(nil)
		}
		if r.o.Passphrase != "" {
			if err := r.writeKeyFile(context.Background(), key); err != nil {
				r.o.Logger.Warn("wrap the key file", "err", err)
				return key, false, nil
			}
			return key, true, os.Remove(r.keyFile() + ".bak")
		}
		return key, false, nil
	}
	if r.o.Passphrase == "" {
		return nil, false, fault.Unavailablef("The key file needs its passphrase.")
	}
	salt, err := hex.DecodeString(f.Salt)
	if err != nil {
		return damaged(err)
	}
	sealed, err := hex.DecodeString(f.Wrapped)
	if err != nil || len(sealed) < 12+16 {
		return damaged(err)
	}
	// Limits, because a crafted file must not use up the memory. scrypt uses 128·N·r bytes.
	if f.N > 1<<20 || f.R > 16 || f.P > 4 {
		return damaged(nil)
	}
	aead, err := passphraseCipher(r.o.Passphrase, salt, f.N, f.R, f.P)
	if err != nil {
		return damaged(err)
	}
	key, err = aead.Open(nil, sealed[:12], sealed[12:], []byte(keyFileAAD))
	if err != nil {
		return nil, false, fault.Deniedf("The passphrase does not open the key file.")
	}
	if len(key) != keySize {
		return damaged(nil)
	}
	return key, true, nil
}

// writeKeyFile stores key, wrapped if there is a passphrase.
func (r *Root) writeKeyFile(ctx context.Context, key []byte) error {
	f := keyFileV1{V: 1, RootKey: hex.EncodeToString(key)}
	if r.o.Passphrase != "" {
		salt, nonce := make([]byte, 16), make([]byte, 12)
		_, _ = rand.Read(salt)
		_, _ = rand.Read(nonce)
		f = keyFileV1{V: 1, Salt: hex.EncodeToString(salt), N: r.o.scryptN, R: 8, P: 1}
		aead, err := passphraseCipher(r.o.Passphrase, salt, f.N, f.R, f.P)
		if err != nil {
			return err
		}
		f.Wrapped = hex.EncodeToString(aead.Seal(nonce, nonce, key, []byte(keyFileAAD)))
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.keyFile()), 0o700); err != nil {
		return err
	}
	return WriteFile(ctx, r.keyFile(), append(text, '\n'))
}

func passphraseCipher(passphrase string, salt []byte, n, r, p int) (cipher.AEAD, error) {
	k, err := scrypt.Key([]byte(passphrase), salt, n, r, p, keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
