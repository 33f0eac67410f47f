package cloudsync

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Prefixes of sensitive texts on the hub: an encrypted text, and a plain text that is escaped
// because it begins with one of the prefixes.
const (
	encrypted = "hx1."
	escaped   = "hx0."
)

// Cipher encrypts sensitive columns with the newest of the user's keys and decrypts with any of
// them. The zero value leaves columns unencrypted.
type Cipher struct {
	aeads   map[int]cipher.AEAD
	version int
}

const userKeySize = 32

// newCipher returns a cipher with one key. With an empty key it leaves columns unencrypted.
func newCipher(key []byte, version int) (Cipher, error) {
	if len(key) == 0 {
		return Cipher{}, nil
	}
	return keyRing{version: key}.cipher(version)
}

func additional(table, column string, id uuid.UUID, version int) []byte {
	return []byte(table + "|" + column + "|" + id.String() + "|" + strconv.Itoa(version))
}

// seal returns a text in the form in which it is stored on the hub.
func (c Cipher) seal(table, column string, id uuid.UUID, text string) string {
	aead := c.aeads[c.version]
	if aead == nil {
		if strings.HasPrefix(text, encrypted) || strings.HasPrefix(text, escaped) {
			return escaped + text
		}
		return text
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(text)+aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	out := append(strconv.AppendInt([]byte(encrypted), int64(c.version), 10), '.')
	return string(base64.RawURLEncoding.AppendEncode(out, aead.Seal(nonce, nonce, []byte(text), additional(table, column, id, c.version))))
}

// keyError reports a value that this device has no key for.
type keyError struct{ version string }

func (e keyError) Error() string { return "encrypted with key version " + e.version }

// open is the inverse of seal.
func (c Cipher) open(table, column string, id uuid.UUID, text string) (string, error) {
	if rest, ok := strings.CutPrefix(text, escaped); ok {
		return rest, nil
	}
	rest, ok := strings.CutPrefix(text, encrypted)
	if !ok {
		return text, nil
	}
	version, data, _ := strings.Cut(rest, ".")
	b, err := base64.RawURLEncoding.DecodeString(data)
	n, e := strconv.Atoi(version)
	aead := c.aeads[n]
	if err != nil || e != nil || aead == nil || len(b) < aead.NonceSize() {
		return "", keyError{version}
	}
	for _, aead := range []cipher.AEAD{aead, c.aeads[-n]} {
		if aead == nil {
			continue
		}
		if plain, err := aead.Open(nil, b[:aead.NonceSize()], b[aead.NonceSize():], additional(table, column, id, n)); err == nil {
			return string(plain), nil
		}
	}
	return "", keyError{version}
}
