package storage

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// Row is the current row of a result; *sql.Row and *sql.Rows implement it.
type Row interface {
	Scan(dest ...any) error
}

// Selection is a query that has not been run yet. Each and Collect run it.
type Selection struct {
	tx    *Tx
	query string
	args  []any
}

// Select prepares a query for Each or Collect. Other statements that return rows, such as INSERT …
// RETURNING, are possible too.
func (tx *Tx) Select(query string, args ...any) Selection { return Selection{tx, query, args} }

// Each runs the query and calls fn for each row. It stops at the first error of fn and returns it.
func (s Selection) Each(fn func(Row) error) error {
	rows, err := s.tx.Query(s.query, s.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return wrapSQL(rows.Err(), s.query)
}

// Collect runs the query and returns its rows, each read by scan. Without rows it returns an empty
// slice, never nil.
func Collect[T any](s Selection, scan func(Row) (T, error)) ([]T, error) {
	out := []T{}
	err := s.Each(func(r Row) error {
		v, err := scan(r)
		out = append(out, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// RowTo reads a row with one column. Use it as in Collect(tx.Select("SELECT id …"),
// RowTo[uuid.UUID]).
func RowTo[T any](r Row) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// CheckPage checks that limit is 1 to most and offset not negative, and sets a limit of 0 to
// def. Pass nil as the offset of a list without one.
func CheckPage(limit, offset *int, def, most int) error {
	if *limit == 0 {
		*limit = def
	}
	if *limit < 1 || *limit > most {
		return fault.InvalidField("limit", fault.CodeRange, "limit is %d; it must be 1 to %d.", *limit, most)
	}
	if offset != nil && *offset < 0 {
		return fault.InvalidField("offset", fault.CodeRange, "offset is %d; it can't be negative.", *offset)
	}
	return nil
}

// Cursor is the position after the last item of a page. The list is in descending order of
// the column Sort, then of id; Key is the last item's value of that column: an int64, a
// float64, or nil for NULL.
type Cursor struct {
	Sort string    `json:"s"`
	Key  any       `json:"k"`
	ID   uuid.UUID `json:"i"`
}

// String returns the cursor as opaque text for clients.
func (c Cursor) String() string {
	b, _ := json.Marshal(c) // numbers and strings only
	return base64.RawURLEncoding.EncodeToString(b)
}

// ReadCursor parses the cursor of a list that is ordered by column sort; it returns nil for "".
func ReadCursor(text, sort string) (*Cursor, error) {
	if text == "" {
		return nil, nil
	}
	invalid := fault.InvalidField("cursor", fault.CodeInvalid, "Invalid cursor. Start again without one.")
	var c Cursor
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.UseNumber()
		err = d.Decode(&c)
	}
	if err != nil || c.Sort != sort || c.ID == uuid.Nil {
		return nil, invalid
	}
	switch k := c.Key.(type) {
	case nil:
	case json.Number:
		if n, err := k.Int64(); err == nil {
			c.Key = n
		} else if c.Key, err = k.Float64(); err != nil {
			return nil, invalid
		}
	default:
		return nil, invalid
	}
	return &c, nil
}

// Like returns a LIKE pattern that matches s anywhere. Use it with ESCAPE '\'.
func Like(s string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(s) + "%"
}

// NullText returns a text as an argument of a statement: NULL if it is empty.
func NullText(s string) any {
	if s == "" {
		return nil
	}
	return s
}
