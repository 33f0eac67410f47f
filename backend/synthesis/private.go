package synthesis

import (
	"encoding/json"

	"github.com/google/uuid"
)

// rowTexts reads and writes the texts of one row, which are sealed with private storage.
// err is the first error.
type rowTexts struct {
	s     *Service
	table string
	id    uuid.UUID
	err   error
}

func (s *Service) texts(table string, id uuid.UUID) *rowTexts {
	return &rowTexts{s: s, table: table, id: id}
}

// seal returns the stored form of a text.
func (r *rowTexts) seal(column, text string) any {
	form, err := r.s.db.Keys().SealText(r.s.o.Private, r.table, column, r.id, text)
	if r.err == nil {
		r.err = err
	}
	return form
}

func (r *rowTexts) sealJSON(column string, v any) any { return r.seal(column, compactJSON(v)) }

// open returns a text from either form.
func (r *rowTexts) open(column string, stored []byte) string {
	text, err := r.s.db.Keys().OpenText(r.table, column, r.id, stored)
	if r.err == nil {
		r.err = err
	}
	return text
}

func (r *rowTexts) openJSON(column string, stored []byte, into any) {
	text := r.open(column, stored)
	if r.err == nil && text != "" {
		r.err = json.Unmarshal([]byte(text), into)
	}
}
