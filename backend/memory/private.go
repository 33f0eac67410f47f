package memory

import "github.com/google/uuid"

// seal returns the form in which a text is stored; see storage.Keys.SealText.
func (s *Service) seal(table, column string, id uuid.UUID, text string) (any, error) {
	return s.db.Keys().SealText(s.o.Private, table, column, id, text)
}

// open returns the text that seal was called with.
func (s *Service) open(table, column string, id uuid.UUID, stored []byte) (string, error) {
	return s.db.Keys().OpenText(table, column, id, stored)
}
