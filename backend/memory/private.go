package memory

import "github.com/google/uuid"

// seal gives the form in which a text is stored; see storage.Keys.SealText.
func (s *Service) seal(table, column string, id uuid.UUID, text string) (any, error) {
	return s.db.Keys().SealText(s.o.Private, table, column, id, text)
}

// open reads what seal has made.
func (s *Service) open(table, column string, id uuid.UUID, stored []byte) (string, error) {
	return s.db.Keys().OpenText(table, column, id, stored)
}
