package cloudsync

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/storage"
)

// edit is one local transaction of one device on one row: what it wrote, and which versions of the
// row the device had. The model of the storm is the list of edits and is independent of the
// implementation of sync. It derives from version vectors which edits precede which, and the
// expected result from the merge rules of the fields.
type edit struct {
	d      *replica
	life   int // life of the device: restoring a copy begins a new one
	pos    int // position within that life
	past   map[int]int
	marks  []mark
	mark   mark // the version in which it would be sent first
	known  Vector
	row    *modelRow
	values map[string]any   // by field; columns under a definition hash are one field
	counts map[string]int64 // amounts added to counters
	add    []string         // members of sets, as field|member
	remove []string
	// inserted, deleted and restored report what happened to the row as a whole.
	inserted, deleted, restored bool
	lost                        bool // its device was restored or removed before it was sent
}

// mark identifies the first version of the row that the site packaged after ctr, in which the edit
// was sent.
type mark struct{ site, ctr int64 }

func (e *edit) within(v Vector) bool {
	return slices.ContainsFunc(e.marks, func(m mark) bool { return v[m.site] > m.ctr })
}

// before reports whether e was known to the device that made f.
func (e *edit) before(f *edit) bool {
	if e == f {
		return false
	}
	own := e.life == f.life && e.pos < f.pos
	limit, ok := f.past[e.life]
	return own || ok && e.pos < limit || e.within(f.known)
}

func (e *edit) concurrent(f *edit) bool { return e != f && !e.before(f) && !f.before(e) }

type modelRow struct {
	t     table
	id    uuid.UUID
	edits []*edit
}

func (r *modelRow) live() []*edit {
	return slices.DeleteFunc(slices.Clone(r.edits), func(e *edit) bool { return e.lost })
}

// hashedUnit returns the columns covered by a definition hash; nil if there are none.
func (t table) hashedUnit() (out []storage.SyncedColumn) {
	hash := false
	for _, c := range t.columns {
		if c.Merge == storage.ManualMerge {
			out = append(out, c)
			hash = hash || c.Name == "definition_hash"
		}
	}
	if !hash {
		return nil
	}
	return out
}

func inUnit(t table, c storage.SyncedColumn) bool {
	return slices.ContainsFunc(t.hashedUnit(), func(u storage.SyncedColumn) bool { return u.No == c.No })
}

func textOf(c storage.SyncedColumn, v any) string { return jsonText(wireValue(c, v)) }

func (t table) unitText(v Version) string {
	all := map[string]string{}
	for _, c := range t.hashedUnit() {
		all[c.Name] = textOf(c, v.Values[c.Name])
	}
	return jsonText(all)
}

// noteEdit records the edit that a transaction made to one row. before is nil if it inserted the
// row.
func (s *storm) noteEdit(d *replica, r *modelRow, known Vector, ctr, site int64, before, after *localRow) {
	e := &edit{d: d, life: d.life, past: d.past, pos: d.made, mark: mark{site, ctr}, known: known, row: r, values: map[string]any{}, counts: map[string]int64{}, inserted: before == nil}
	e.deleted = before != nil && !before.deleted() && after.deleted()
	e.restored = before != nil && before.deleted() && !after.deleted()
	changed := e.deleted || e.restored || e.inserted
	for _, c := range r.t.columns {
		var was any
		if before != nil {
			was = before.Values[c.Name]
		}
		now := after.Values[c.Name]
		if before != nil && equal(was, now) {
			continue
		}
		changed = true
		switch {
		case c.Merge == storage.PNCounter:
			x, _ := now.(int64)
			y, _ := was.(int64)
			e.counts[c.Name] = x - y
		case c.Merge == storage.ORSet:
			have, had := readSet(now), readSet(was)
			for _, m := range have {
				if !slices.Contains(had, m) {
					e.add = append(e.add, c.Name+"|"+m)
				}
			}
			for _, m := range had {
				if !slices.Contains(have, m) {
					e.remove = append(e.remove, c.Name+"|"+m)
				}
			}
		case inUnit(r.t, c):
			e.values[unit] = r.t.unitText(after.Version)
		default:
			e.values[c.Name] = now
		}
	}
	if !changed {
		return
	}
	if d.unsure != "" {
		d.waiting = append(d.waiting, e)
	} else {
		e.marks = []mark{e.mark}
	}
	d.made++
	d.edits = append(d.edits, e)
	r.edits = append(r.edits, e)
	s.operations++
}

// last returns all edits of a field, and those of them that no other edit of the field knew of.
func last(edits []*edit, has func(*edit) bool) (all, out []*edit) {
	for _, e := range edits {
		if has(e) {
			all = append(all, e)
		}
	}
	for _, e := range all {
		if !slices.ContainsFunc(all, e.before) {
			out = append(out, e)
		}
	}
	return all, out
}

// keptConflict is a conflict with the versions that wrote its values.
type keptConflict struct {
	ConflictInfo
	values       []string // base, mine and theirs
	mine, theirs Dot
}

func dotOf(r *localRow, column string) Dot { n, _ := r.Values[column].(int64); return Dot(n) }

func (c keptConflict) String() string {
	return fmt.Sprintf("%s of %s: base %s, mine %d:%d %s, theirs %d:%d %s", c.Kind, c.Field, c.values[0], c.mine.Site(), c.mine.Ctr(), c.values[1], c.theirs.Site(), c.theirs.Ctr(), c.values[2])
}

// keptValues returns the values preserved in the conflicts of each row, by field.
func (d *device) keptValues() (map[uuid.UUID]map[string][]string, []keptConflict) {
	d.t.Helper()
	out, list := map[uuid.UUID]map[string][]string{}, []keptConflict{}
	t, _ := d.table("sync_conflicts")
	if err := d.db.Read(d.ctx, func(tx *storage.Tx) error {
		ids, err := storage.Collect(tx.Select(`SELECT id FROM sync_conflicts`), storage.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		for _, id := range ids {
			r, err := t.readRow(tx, id)
			if err != nil {
				return err
			}
			text := func(name string) string { s, _ := r.Values[name].(string); return s }
			c := keptConflict{ConflictInfo: ConflictInfo{ID: id, TableName: text("table_name"), Field: text("field"), Kind: text("kind"), Strategy: text("strategy"), Status: text("status")}}
			c.mine, c.theirs = dotOf(r, "local_dot"), dotOf(r, "remote_dot")
			b, _ := r.Values["row_id"].([]byte)
			copy(c.RowID[:], b)
			if out[c.RowID] == nil {
				out[c.RowID] = map[string][]string{}
			}
			for _, name := range []string{"base", "local_value", "remote_value"} {
				v := text(name)
				if c.Field == unit && v != "" {
					columns, err := readObject([]byte(v))
					if err != nil {
						return err
					}
					for name, x := range columns {
						out[c.RowID][name] = append(out[c.RowID][name], jsonText(x))
					}
				}
				if v == "" {
					v = "null"
				}
				c.values = append(c.values, v)
				out[c.RowID][c.Field] = append(out[c.RowID][c.Field], v)
			}
			list = append(list, c)
		}
		return nil
	}); err != nil {
		d.t.Fatal(err)
	}
	return out, list
}

// check compares one device with the model. All devices are equal at that point.
func (s *storm) check(t *testing.T) {
	t.Helper()
	d := s.replicas[0].device
	kept, conflicts := d.keptValues()
	for _, r := range s.rows {
		edits := r.live()
		if len(edits) == 0 {
			continue
		}
		var have *localRow
		if err := d.db.Read(d.ctx, func(tx *storage.Tx) (err error) {
			have, err = r.t.readRow(tx, r.id)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		bad := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s %s: %s\n%s", r.t.Table, r.id, fmt.Sprintf(format, args...), describe(edits))
		}
		if have == nil {
			bad("is gone")
			continue
		}
		for _, c := range r.t.columns {
			if !inUnit(r.t, c) {
				checkField(bad, c, have.Values[c.Name], edits, kept[r.id][c.Name])
			}
		}
		if r.t.hashedUnit() != nil {
			checkUnit(bad, r.t, have.Version, edits, kept[r.id])
		}
		checkDeletion(bad, have.deleted(), edits)
	}
	for _, c := range conflicts {
		if r := s.byID[c.RowID]; r != nil && r.t.Table == c.TableName && c.Kind != "version_mismatch" {
			checkConflict(t, c, r)
		}
	}
}

type complaint func(format string, args ...any)

// checkField compares one field with the result that its merge rule in storage.Synced requires.
func checkField(bad complaint, c storage.SyncedColumn, have any, edits []*edit, kept []string) {
	wrote := func(e *edit) bool { _, ok := e.values[c.Name]; return ok }
	all, end := last(edits, wrote)
	number := func(v any) float64 { n, _ := number(v); return n }
	switch {
	case c.Merge == storage.PNCounter:
		var sum int64
		for _, e := range edits {
			sum += e.counts[c.Name]
		}
		if n, _ := have.(int64); n != sum {
			bad("%s counts %d, want %d", c.Name, n, sum)
		}
	case c.Merge == storage.ORSet:
		checkSet(bad, c, readSet(have), edits)
	case c.Merge == storage.Max, c.Merge == storage.Min:
		var want any
		for _, e := range all {
			if want == nil || e.values[c.Name] != nil && (number(e.values[c.Name]) > number(want)) == (c.Merge == storage.Max) {
				want = e.values[c.Name]
			}
		}
		if len(all) > 0 && number(have) != number(want) {
			bad("%s is %v, want %v", c.Name, have, want)
		}
	case c.Merge == storage.DenyWins:
		for _, e := range end {
			replaced := slices.ContainsFunc(all, func(f *edit) bool { // a stricter value, replaced by an edit that knew of it
				return e.concurrent(f) && stricter(e.values[c.Name], f.values[c.Name]) == f.values[c.Name] && slices.ContainsFunc(all, f.before)
			})
			if !replaced && stricter(have, e.values[c.Name]) != have {
				bad("%s is %v, which is less strict than %v: %s", c.Name, have, e.values[c.Name], writes(c, all, end))
			}
		}
	case c.Merge == storage.Text3:
		text, _ := have.(string)
		for _, e := range all {
			for _, token := range strings.Fields(fmt.Sprint(e.values[c.Name])) {
				if strings.HasPrefix(token, e.token()+".") && !strings.Contains(text, token) && !slices.ContainsFunc(kept, func(k string) bool { return strings.Contains(k, token) }) && !replaced(all, e, c.Name, token) {
					bad("%s lost %s: %q", c.Name, token, text)
				}
			}
		}
	case c.HashOf != "" || c.Merge == storage.Immutable:
	case len(end) > 0:
		if c.Name == "name" && slices.Contains(kept, textOf(c, have)) {
			return // renamed because another item has the same name
		}
		if !slices.ContainsFunc(end, func(e *edit) bool { return equal(e.values[c.Name], have) }) {
			bad("%s is %s, which no last edit wrote: %s", c.Name, textOf(c, have), writes(c, all, end))
		}
		for _, e := range end {
			if v := e.values[c.Name]; !equal(v, have) && !slices.Contains(kept, textOf(c, v)) && !alike(all, e, c.Name) {
				bad("%s lost %s: it is %s, and no conflict has the other: %v", c.Name, textOf(c, v), textOf(c, have), kept)
			}
		}
	}
}

// writes lists the values that edits wrote to a field, and marks the last ones with a star.
func writes(c storage.SyncedColumn, all, end []*edit) string {
	var b strings.Builder
	for _, e := range all {
		star := ""
		if slices.Contains(end, e) {
			star = "*"
		}
		fmt.Fprintf(&b, "%d/%d%s=%s ", e.life, e.pos, star, textOf(c, e.values[c.Name]))
	}
	return b.String()
}

// replaced reports whether an edit that knew of e wrote a text without the token.
func replaced(all []*edit, e *edit, field, token string) bool {
	return slices.ContainsFunc(all, func(f *edit) bool {
		text, _ := f.values[field].(string)
		return e.before(f) && !strings.Contains(text, token)
	})
}

// alike reports whether another edit wrote the same value. Then an edit that knew of only one of
// the two may have replaced both.
func alike(all []*edit, e *edit, field string) bool {
	return slices.ContainsFunc(all, func(f *edit) bool {
		return e != f && equal(e.values[field], f.values[field]) && slices.ContainsFunc(all, f.before)
	})
}

func checkSet(bad complaint, c storage.SyncedColumn, have []string, edits []*edit) {
	added := map[string]bool{}
	for _, e := range edits {
		for _, m := range e.add {
			added[m] = true
		}
	}
	for _, m := range have {
		if !added[c.Name+"|"+m] {
			bad("%s has %s, which nobody added", c.Name, m)
		}
	}
	for m := range added {
		field, member, _ := strings.Cut(m, "|")
		removed := slices.ContainsFunc(edits, func(e *edit) bool { return slices.Contains(e.remove, m) })
		if field == c.Name && !removed && !slices.Contains(have, member) {
			bad("%s lost %s, which nobody removed", c.Name, member)
		}
	}
}

// checkUnit checks that the columns under a definition hash all come from one edit.
func checkUnit(bad complaint, t table, have Version, edits []*edit, kept map[string][]string) {
	all, end := last(edits, func(e *edit) bool { _, ok := e.values[unit]; return ok })
	columns := func(e *edit) map[string]string {
		out := map[string]string{}
		_ = unmarshalText(e.values[unit].(string), &out)
		return out
	}
	now := t.unitText(have)
	if !slices.ContainsFunc(end, func(e *edit) bool { return e.values[unit] == now }) {
		bad("the definition is of several edits: %s", now)
	}
	for _, e := range end {
		for _, c := range t.hashedUnit() {
			v := columns(e)[c.Name]
			known := slices.ContainsFunc(all, func(f *edit) bool { // known and replaced
				return e != f && columns(f)[c.Name] == v && slices.ContainsFunc(all, f.before)
			})
			if v != textOf(c, have.Values[c.Name]) && !slices.Contains(kept[c.Name], v) && !known {
				bad("the definition lost %s = %s", c.Name, v)
			}
		}
	}
}

// plain reports whether a person would notice the loss of the edit and recognize it as theirs.
func (e *edit) plain() bool { return len(e.values) > 0 || len(e.add) > 0 || len(e.remove) > 0 }

// checkDeletion checks that a deleted row came back only if an edit that did not know of the
// deletion changed it, or if it was restored.
func checkDeletion(bad complaint, gone bool, edits []*edit) {
	deletes, _ := last(edits, func(e *edit) bool { return e.deleted })
	if gone && len(deletes) == 0 {
		bad("is deleted, and nobody did")
	}
	if gone {
		return
	}
	for _, d := range deletes {
		if !slices.ContainsFunc(edits, func(e *edit) bool { return (e.restored || e.inserted || e.plain()) && !e.before(d) && e != d }) {
			bad("came back after it was deleted")
		}
	}
}

// checkConflict checks that two devices wrote the field concurrently.
func checkConflict(t *testing.T, c keptConflict, r *modelRow) {
	t.Helper()
	wrote := func(e *edit) bool { _, ok := e.values[c.Field]; return ok || e.inserted }
	other := wrote
	if c.Field == deletedAt {
		wrote, other = func(e *edit) bool { return e.deleted }, func(e *edit) bool { return !e.deleted }
	}
	var others []*edit
	for _, f := range r.edits {
		if other(f) {
			others = append(others, f)
		}
	}
	for _, e := range r.edits {
		if wrote(e) && slices.ContainsFunc(others, e.concurrent) {
			return
		}
	}
	t.Errorf("%s %s: a conflict in %s without two devices that wrote it: %s\n%s", c.TableName, c.RowID, c.Field, c, describe(r.edits))
}

func (e *edit) token() string { return fmt.Sprintf("w%d_%d", e.life, e.pos) }

func describe(edits []*edit) string {
	var b strings.Builder
	for _, e := range edits {
		fmt.Fprintf(&b, "  life %d pos %d marks %v known %v: %s %v +%v -%v inserted %v deleted %v restored %v lost %v\n", e.life, e.pos, e.marks, e.known,
			strings.Join(slices.Sorted(maps.Keys(e.values)), ","), e.counts, e.add, e.remove, e.inserted, e.deleted, e.restored, e.lost)
	}
	return b.String()
}

// forget marks the edits of a device that never reached the hub as lost, because its data was
// replaced by an old copy or it was removed.
func (s *storm) forget(edits []*edit) {
	c, err := pgx.Connect(s.t.Context(), s.server.DSN("postgres"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close(s.t.Context()) //nolint:errcheck // read-only
	for _, e := range edits {
		var b []byte
		err := c.QueryRow(s.t.Context(), `select sync_meta from public.`+e.row.t.Table+` where id = $1`, e.row.id).Scan(&b)
		m, _ := decodeMeta(b)
		e.lost = err != nil || !e.within(m.Vector)
	}
}
