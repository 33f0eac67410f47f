package storage

import (
	"unicode/utf8"

	"github.com/google/uuid"
)

// SealText returns the form in which a text of a private column is stored: the text itself, or
// sealed bytes if private storage is on. An empty text is always stored as plain text: it reveals
// nothing, and marks what was purged.
func (k *Keys) SealText(private bool, table, column string, id uuid.UUID, text string) (any, error) {
	if !private || text == "" {
		return text, nil
	}
	return k.Seal(table, column, id, []byte(text))
}

// OpenText returns the text that SealText was called with. A column can contain both forms because
// the setting can change.
func (k *Keys) OpenText(table, column string, id uuid.UUID, stored []byte) (string, error) {
	const sealed = 0x01 // the first byte of a sealed value
	if len(stored) == 0 || stored[0] != sealed {
		return string(stored), nil
	}
	plain, err := k.Unseal(table, column, id, stored)
	if err != nil {
		if utf8.Valid(stored) { // a plain text that begins with that byte
			return string(stored), nil
		}
		return "", err
	}
	return string(plain), nil
}
