package cloudsync

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// The forms of a sensitive text on the hub: encrypted, or plain and escaped because it looks as
// if it were.
const (
	encrypted = "hx1."
	escaped   = "hx0."
)

// Cipher encrypts sensitive columns under the newest of the user's keys and decrypts under all of
// them. The zero value leaves columns plain.
type Cipher struct {
	aeads   map[int]cipher.AEAD
	version int
}

const userKeySize = 32

// newCipher is a cipher of one key; without a key it leaves columns plain.
func newCipher(key []byte, version int) (Cipher, error) {
	if len(key) == 0 {
		return Cipher{}, nil
	}
	return keyRing{version: key}.cipher(version)
}

func additional(table, column string, id uuid.UUID, version int) []byte {
	return []byte(table + "|" + column + "|" + id.String() + "|" + strconv.Itoa(version))
}

// seal is the form of a text on the hub.
func (c Cipher) seal(table, column string, id uuid.UUID, text string) string {
	aead := c.aeads[c.version]
	if aead == nil {
		if strings.HasPrefix(text, encrypted) || strings.HasPrefix(text, escaped) {
			return escaped + text
		}
		return text
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return fmt.Sprintf("%s%d.%s", encrypted, c.version, base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, []byte(text), additional(table, column, id, c.version))))
}

// keyError is a value that this device cannot read.
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
	plain, err := aead.Open(nil, b[:aead.NonceSize()], b[aead.NonceSize():], additional(table, column, id, n))
	if err != nil {
		return "", keyError{version}
	}
	return string(plain), nil
}
