package lifecycle

import (
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// Filter collects the conditions of a list. The zero value matches all rows.
type Filter struct {
	conds []string
	Args  []any
}

// Add adds a condition with its arguments.
func (f *Filter) Add(cond string, args ...any) {
	f.conds, f.Args = append(f.conds, cond), append(f.Args, args...)
}

// Text matches rows in which one of the columns contains the query, whose characters are all
// literal. An empty query matches every row. A column named tags is a JSON array.
func (f *Filter) Text(query string, columns ...string) {
	if query == "" {
		return
	}
	pattern := storage.Like(query)
	conds := make([]string, len(columns))
	for i, c := range columns {
		conds[i] = c + ` LIKE ? ESCAPE '\'`
		if c == "tags" {
			conds[i] = `EXISTS (SELECT 1 FROM json_each(tags) j WHERE j.value LIKE ? ESCAPE '\')`
		}
		f.Args = append(f.Args, pattern)
	}
	f.conds = append(f.conds, "("+strings.Join(conds, " OR ")+")")
}

// Tags matches rows whose column tags contains all of these, ignoring case.
func (f *Filter) Tags(tags ...string) {
	for _, t := range tags {
		f.Add("EXISTS (SELECT 1 FROM json_each(tags) j WHERE lower(j.value) = lower(?))", strings.TrimSpace(t))
	}
}

// OneOf matches rows whose column is one of the ids, or, if in is false, none of them.
func (f *Filter) OneOf(column string, ids []uuid.UUID, in bool) {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	op := " IN ("
	if !in {
		op = " NOT IN ("
	}
	f.Add(column+op+strings.TrimSuffix(strings.Repeat("?,", len(ids)), ",")+")", args...)
}

// Where returns the condition, for use after WHERE.
func (f *Filter) Where() string {
	if len(f.conds) == 0 {
		return "1"
	}
	return strings.Join(f.conds, " AND ")
}
