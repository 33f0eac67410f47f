package memory

import (
	"unicode/utf8"

	"github.com/google/uuid"
)

// seal gives the form in which a text is stored: itself, or sealed bytes with private storage.
// An empty text is stored as it is: it tells nothing, and marks what was removed for good.
func (s *Service) seal(table, column string, id uuid.UUID, text string) (any, error) {
	if !s.o.Private || text == "" {
		return text, nil
	}
	return s.db.Keys().Seal(table, column, id, []byte(text))
}

// open reads what seal has made. Both forms may stand in one column, because the setting can
// change.
func (s *Service) open(table, column string, id uuid.UUID, stored []byte) (string, error) {
	const sealed = 0x01 // the first byte of a sealed value
	if len(stored) == 0 || stored[0] != sealed {
		return string(stored), nil
	}
	plain, err := s.db.Keys().Unseal(table, column, id, stored)
	if err != nil {
		if utf8.Valid(stored) { // a plain text that begins with that byte
			return string(stored), nil
		}
		return "", err
	}
	return string(plain), nil
}
