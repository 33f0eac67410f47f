package memory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// sorts maps the sort orders of memory.list to the leading column, which sorts in descending order.
// Rows without a value come last; ties are broken by id.
var sorts = map[string]string{"": "created_at", "recent": "created_at", "occurred": "occurred_at", "salience": "salience", "retention": "retention"}

// List returns a page of memories. With a cursor it continues after the page that returned the
// cursor, at the same cost for every page; an offset counts from the start.
func (s *Service) List(ctx context.Context, p ListParams) (ListResult, error) {
	out := ListResult{Items: []Item{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, pageSize, maxPage); err != nil {
		return out, err
	}
	if p.Cursor != "" && p.Offset > 0 {
		return out, invalid("offset", "Give a cursor or an offset, not both.")
	}
	column, ok := sorts[p.Sort]
	if !ok {
		return out, invalid("sort", "%q is not a sort order. Use recent, occurred, salience or retention.", clip(p.Sort, 32))
	}
	live := "m.deleted_at IS NULL"
	if p.Trash {
		column, live = "deleted_at", "m.deleted_at IS NOT NULL AND m.content <> ''"
	}
	after, err := storage.ReadCursor(p.Cursor, column)
	if err != nil {
		return out, err
	}
	w := where{}
	w.add("m.user_id = ? AND "+live, identity.UserID(ctx))
	if err := w.filter(p.Filters, memoryColumns); err != nil {
		return out, err
	}
	var items []*memoryRow
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		known := false
		if !p.Trash { // the catalog counts about a hundred times as fast, and lists the ids if there are few
			var few []string
			out.Total, few, known = s.search.Memories(identity.UserID(ctx), p.Filters)
			if known && out.Total == 0 {
				return nil
			}
			if known && p.Filters != nil && out.Total <= search.FewMemories {
				list, err := json.Marshal(few)
				if err != nil {
					return err
				}
				w.add("m.id IN (SELECT unhex(value) FROM json_each(?))", string(list))
			}
		}
		if !known {
			if err := tx.QueryRow(`SELECT count(*) FROM memories m WHERE `+w.String(), w.args...).Scan(&out.Total); err != nil {
				return err
			}
		}
		items, err = s.listPage(tx, w, column, after, p.Limit, p.Offset)
		return err
	})
	if err != nil {
		return out, err
	}
	var hits []search.Hit
	for _, m := range items {
		out.Items = append(out.Items, m.Item)
		hits = append(hits, search.Hit{ID: m.ID, Kind: KindMemory})
	}
	if err := s.handedOut(ctx, hits...); err != nil {
		return ListResult{}, err
	}
	if n := len(items); n == p.Limit && (after != nil || int64(p.Offset+n) < out.Total) {
		out.NextCursor = storage.Cursor{Sort: column, Key: items[n-1].sortKey(column), ID: items[n-1].ID}.String()
	}
	return out, nil
}

// listPage reads a page. After a cursor, the rows with a value and those without are two
// ranges of the index.
func (s *Service) listPage(tx *storage.Tx, w where, column string, after *storage.Cursor, limit, offset int) ([]*memoryRow, error) {
	order := ` ORDER BY m.` + column + ` DESC, m.id DESC LIMIT ? OFFSET ?`
	if after == nil {
		return s.memoriesWhere(tx, `WHERE `+w.String()+order, append(slices.Clone(w.args), limit, offset)...)
	}
	var out []*memoryRow
	if after.Key != nil {
		v := w.clone()
		v.add("(m."+column+", m.id) < (?, ?)", after.Key, after.ID)
		var err error
		if out, err = s.memoriesWhere(tx, `WHERE `+v.String()+order, append(v.args, limit, 0)...); err != nil || len(out) == limit {
			return out, err
		}
	}
	if column != "occurred_at" && column != "retention" {
		return out, nil
	}
	v := w.clone()
	v.add("m." + column + " IS NULL")
	if after.Key == nil {
		v.add("m.id < ?", after.ID)
	}
	more, err := s.memoriesWhere(tx, `WHERE `+v.String()+order, append(v.args, limit-len(out), 0)...)
	return append(out, more...), err
}

// sortKey returns the value of a column in its stored form.
func (m *memoryRow) sortKey(column string) any {
	switch column {
	case "occurred_at":
		if m.OccurredAt != nil {
			return m.OccurredAt.UnixMicro()
		}
		return nil
	case "salience":
		return m.Salience
	case "retention":
		if m.stored != nil {
			return *m.stored
		}
		return nil
	case "deleted_at":
		return m.DeletedAt.UnixMicro()
	}
	return m.CreatedAt.UnixMicro()
}

// where collects the conditions of a query.
type where struct {
	conds []string
	args  []any
}

func (w *where) add(cond string, args ...any) {
	w.conds, w.args = append(w.conds, cond), append(w.args, args...)
}

// addIDs restricts a column to the given ids.
func (w *where) addIDs(column string, ids []uuid.UUID) {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	w.add(column+" IN ("+search.Marks(len(ids))+")", args...)
}

func (w *where) clone() where { return where{slices.Clone(w.conds), slices.Clone(w.args)} }

func (w *where) String() string { return strings.Join(w.conds, " AND ") }

// columns names the columns that filters apply to, for one kind of item. tagged returns the
// condition that an item has at least one of n tags.
type columns struct {
	kind, occurred, layer, typ, source, pinned, untrusted, salience, retention, conversation, document string
	tagged                                                                                             func(n int) string
}

var memoryColumns = columns{
	kind: KindMemory, occurred: "m.occurred_at", layer: "m.layer", typ: "m.type", source: "m.source", pinned: "m.pinned", untrusted: "m.untrusted",
	salience: "m.salience", retention: "coalesce(m.retention, 1)", conversation: "NULL", document: "NULL",
	tagged: func(n int) string {
		return "EXISTS (SELECT 1 FROM memory_tags t WHERE t.memory_id = m.id AND t.tag IN (" + search.Marks(n) + "))"
	},
}

var turnColumns = columns{
	kind: KindTurn, occurred: "t.occurred_at", layer: "c.layer", typ: "c.type", source: "c.source", pinned: "0", untrusted: "c.untrusted",
	salience: "50", retention: "1", conversation: "c.id", document: "NULL",
	tagged: func(n int) string {
		return "EXISTS (SELECT 1 FROM json_each(c.tags) j WHERE j.value IN (" + search.Marks(n) + "))"
	},
}

var chunkColumns = columns{
	kind: KindChunk, occurred: "d.occurred_at", layer: "d.layer", typ: "d.type", source: "d.source", pinned: "0", untrusted: "d.untrusted",
	salience: "50", retention: "1", conversation: "NULL", document: "d.id",
	tagged: func(n int) string {
		return "EXISTS (SELECT 1 FROM json_each(d.tags) j WHERE j.value IN (" + search.Marks(n) + "))"
	},
}

func anys[T any](vs []T) []any {
	out := make([]any, len(vs))
	for i, v := range vs {
		out[i] = v
	}
	return out
}

// filter adds the conditions for f.
func (w *where) filter(f *search.Filters, c columns) error {
	if f == nil {
		return nil
	}
	if err := f.Check(); err != nil {
		return err
	}
	if f.From != nil {
		w.add(c.occurred+" >= ?", f.From)
	}
	if f.To != nil {
		w.add(c.occurred+" < ?", f.To)
	}
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, c.kind) {
		w.add("0")
	}
	if n := len(f.Layers); n > 0 {
		w.add(c.layer+" IN ("+search.Marks(n)+")", anys(f.Layers)...)
	}
	if n := len(f.Types); n > 0 {
		w.add(c.typ+" IN ("+search.Marks(n)+")", anys(f.Types)...)
	}
	if n := len(f.Sources); n > 0 {
		w.add(c.source+" IN ("+search.Marks(n)+")", anys(f.Sources)...)
	}
	for _, t := range f.TagsAll {
		w.add(c.tagged(1), search.NormalTag(t))
	}
	if n := len(f.TagsAny); n > 0 {
		w.add(c.tagged(n), normalTags(f.TagsAny)...)
	}
	if n := len(f.TagsNone); n > 0 {
		w.add("NOT "+c.tagged(n), normalTags(f.TagsNone)...)
	}
	if f.Pinned != nil {
		w.add(c.pinned+" = ?", *f.Pinned)
	}
	if f.Untrusted != nil {
		w.add(c.untrusted+" = ?", *f.Untrusted)
	}
	if f.MinSalience != nil {
		w.add(c.salience+" >= ?", *f.MinSalience)
	}
	if f.MinRetention != nil {
		w.add(c.retention+" >= ?", *f.MinRetention)
	}
	if f.ConversationID != nil {
		w.add(c.conversation+" = ?", *f.ConversationID)
	}
	if f.DocumentID != nil {
		w.add(c.document+" = ?", *f.DocumentID)
	}
	return nil
}

func normalTags(tags []string) []any {
	out := make([]any, len(tags))
	for i, t := range tags {
		out[i] = search.NormalTag(t)
	}
	return out
}
