package cloudsync

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"helix/backend/storage"
)

// Version is one version of one row: its values by column, decrypted, including deleted_at.
type Version struct {
	Values           map[string]any
	Created, Updated int64
	Meta             Meta
}

const deletedAt = "deleted_at" // field 0 of every table

func (v Version) deleted() bool { return v.Values[deletedAt] != nil }

// Conflict describes two values of which Merge could not keep both.
type Conflict struct {
	Field              string
	Kind               string // field_conflict or delete_edit
	Strategy           string
	Base, Mine, Theirs any
	// Open reports that a person has to decide. Otherwise the later write won, and Conflict records
	// the other value.
	Open bool
}

// unit is the field name for all columns covered by a definition hash, which are merged as one.
const unit = "definition"

// Merge merges two concurrent versions of a row. base is their last common version, or nil if there
// is none. Merge is pure, and symmetric except for the names mine and theirs in conflicts.
func Merge(columns []storage.SyncedColumn, base *Version, mine, theirs Version) (Version, []Conflict) {
	m := merger{base: base, mine: mine, theirs: theirs, out: Version{
		Values: map[string]any{}, Created: min(mine.Created, theirs.Created), Updated: max(mine.Updated, theirs.Updated), Meta: newMeta(),
	}}
	m.out.Meta.Dot, m.out.Meta.Vector = max(mine.Meta.Dot, theirs.Meta.Dot), mine.Meta.Vector.with(theirs.Meta.Vector)
	m.deletion(columns)
	hashed := slices.ContainsFunc(columns, func(c storage.SyncedColumn) bool {
		return c.Name == "definition_hash" && c.Merge == storage.ManualMerge
	})
	var together []storage.SyncedColumn
	for _, c := range columns {
		if hashed && c.Merge == storage.ManualMerge {
			together = append(together, c)
		} else {
			m.field(c)
		}
	}
	m.together(together)
	for _, c := range columns {
		m.hash(c)
	}
	return m.out, m.conflicts
}

type merger struct {
	base              *Version
	mine, theirs, out Version
	conflicts         []Conflict
}

// changed reports whether v changed a field since the base. Writing the same value, or packaging
// the row again, is no change. The exceptions are a DenyWins field, where lifting a denial and denying
// again is a change, and a set whose element was removed and added again.
func (m *merger) changed(v Version, c storage.SyncedColumn) bool {
	if m.base == nil {
		return true
	}
	if !maps.Equal(v.Meta.Adds[c.No], m.base.Meta.Adds[c.No]) {
		return true
	}
	return v.Meta.Stamps[c.No] != m.base.Meta.Stamps[c.No] && (c.Merge == storage.DenyWins || !equal(v.Values[c.Name], m.base.Values[c.Name]))
}

func (m *merger) baseValue(name string) any {
	if m.base == nil {
		return nil
	}
	return m.base.Values[name]
}

// take copies a field from one side to the result.
func (m *merger) take(c storage.SyncedColumn, from Version) {
	m.out.Values[c.Name] = from.Values[c.Name]
	if s, ok := from.Meta.Stamps[c.No]; ok {
		m.out.Meta.Stamps[c.No] = s
	}
	if n, ok := from.Meta.Counters[c.No]; ok {
		m.out.Meta.Counters[c.No] = maps.Clone(n)
	}
	if adds, ok := from.Meta.Adds[c.No]; ok {
		m.out.Meta.Adds[c.No] = maps.Clone(adds)
	}
}

// latest returns the side that wrote the field last as winner.
func (m *merger) latest(no int) (winner, loser Version) {
	if m.mine.Meta.Stamps[no].after(m.theirs.Meta.Stamps[no]) {
		return m.mine, m.theirs
	}
	return m.theirs, m.mine
}

func (m *merger) conflict(field, strategy string, open bool, base, mine, theirs any) {
	m.conflicts = append(m.conflicts, Conflict{Field: field, Kind: "field_conflict", Strategy: strategy, Base: base, Mine: mine, Theirs: theirs, Open: open})
}

// edits reports whether v holds an edit whose loss a person would notice. Counters and usage times
// change without an edit, so they are ignored.
func (m *merger) edits(columns []storage.SyncedColumn, v Version) bool {
	return slices.ContainsFunc(columns, func(c storage.SyncedColumn) bool {
		switch c.Merge {
		case storage.Max, storage.Min, storage.PNCounter, storage.Immutable:
			return false
		}
		return m.changed(v, c) && !equal(v.Values[c.Name], m.baseValue(c.Name))
	})
}

var deletedColumn = storage.SyncedColumn{SyncedField: storage.SyncedField{Name: deletedAt, Merge: storage.LWW}}

// deletion merges deleted_at. A row that was deleted on one side and edited on the other is kept.
// Its other fields are merged as usual, so edits made before the deletion are kept too.
func (m *merger) deletion(columns []storage.SyncedColumn) {
	x, y := m.mine, m.theirs
	dx, dy := x.deleted() && m.changed(x, deletedColumn), y.deleted() && m.changed(y, deletedColumn)
	switch {
	case dx && dy: // deleted on both sides: keep one tombstone
		winner, _ := m.latest(0)
		m.take(deletedColumn, winner)
		return
	case dx != dy && !(x.deleted() && y.deleted()):
		edited := y
		if dy {
			edited = x
		}
		if !m.edits(columns, edited) {
			break
		}
		m.take(deletedColumn, edited)
		m.out.Meta.Stamps[0] = later(x.Meta.Stamps[0], y.Meta.Stamps[0])
		m.conflicts = append(m.conflicts, Conflict{Field: deletedAt, Kind: "delete_edit", Strategy: "automatic", Mine: x.Values[deletedAt], Theirs: y.Values[deletedAt], Open: true})
		return
	}
	switch {
	case !m.changed(x, deletedColumn) && m.changed(y, deletedColumn):
		m.take(deletedColumn, y)
	case m.changed(x, deletedColumn) && !m.changed(y, deletedColumn):
		m.take(deletedColumn, x)
	default:
		winner, _ := m.latest(0)
		m.take(deletedColumn, winner)
	}
}

func later(a, b Stamp) Stamp {
	if a.after(b) {
		return a
	}
	return b
}

// field merges one column according to its declared rule.
func (m *merger) field(c storage.SyncedColumn) {
	x, y := m.mine.Values[c.Name], m.theirs.Values[c.Name]
	cx, cy := m.changed(m.mine, c), m.changed(m.theirs, c)
	winner, loser := m.latest(c.No)
	switch {
	case c.Merge == storage.PNCounter:
		m.count(c)
		return
	case equal(x, y):
		m.take(c, winner)
		return
	case !cx:
		m.take(c, m.theirs)
		return
	case !cy:
		m.take(c, m.mine)
		return
	}
	stamp := later(m.mine.Meta.Stamps[c.No], m.theirs.Meta.Stamps[c.No])
	base := m.baseValue(c.Name)
	m.take(c, winner)
	switch c.Merge {
	case storage.Max, storage.Min:
		m.out.Values[c.Name] = extreme(c.Merge, x, y)
	case storage.DenyWins:
		m.out.Values[c.Name] = stricter(x, y)
	case storage.ORSet:
		m.set(c, base, x, y)
	case storage.Text3:
		if text, ok := mergeTexts(base, winner.Values[c.Name], loser.Values[c.Name]); ok && m.base != nil {
			m.out.Values[c.Name] = text
		} else {
			m.conflict(c.Name, "three_way_merge", true, base, x, y)
		}
	case storage.ManualMerge:
		m.conflict(c.Name, "manual", true, base, x, y)
	case storage.LWW:
		if c.HashOf == "" { // set by hash
			m.conflict(c.Name, "last_write_wins", false, base, x, y)
		}
	}
	m.out.Meta.Stamps[c.No] = stamp
}

// count merges a counter. For each site it takes the larger of the two known counts.
func (m *merger) count(c storage.SyncedColumn) {
	all := mergeCounts(m.mine.Meta.Counters[c.No], m.theirs.Meta.Counters[c.No])
	m.out.Meta.Counters[c.No] = all
	m.out.Values[c.Name] = total(all)
	m.out.Meta.Stamps[c.No] = later(m.mine.Meta.Stamps[c.No], m.theirs.Meta.Stamps[c.No])
}

func mergeCounts(a, b map[int64]Count) map[int64]Count {
	all := map[int64]Count{}
	for _, counts := range []map[int64]Count{a, b} {
		for site, n := range counts {
			all[site] = Count{Plus: max(all[site].Plus, n.Plus), Minus: max(all[site].Minus, n.Minus)}
		}
	}
	return all
}

// together merges the columns covered by a definition hash; all of them come from the same side.
func (m *merger) together(columns []storage.SyncedColumn) {
	var cx, cy, differ bool
	var sx, sy Stamp
	for _, c := range columns {
		cx, cy = cx || m.changed(m.mine, c), cy || m.changed(m.theirs, c)
		differ = differ || !equal(m.mine.Values[c.Name], m.theirs.Values[c.Name])
		sx, sy = later(sx, m.mine.Meta.Stamps[c.No]), later(sy, m.theirs.Meta.Stamps[c.No])
	}
	winner := m.theirs
	if !cy || cx && sx.after(sy) {
		winner = m.mine
	}
	for _, c := range columns {
		m.take(c, winner)
		m.out.Meta.Stamps[c.No] = later(m.mine.Meta.Stamps[c.No], m.theirs.Meta.Stamps[c.No])
	}
	if !cx || !cy || !differ {
		return
	}
	object := func(v *Version) any {
		if v == nil {
			return nil
		}
		out := map[string]any{}
		for _, c := range columns {
			if !equal(m.mine.Values[c.Name], m.theirs.Values[c.Name]) {
				out[c.Name] = wireValue(c, v.Values[c.Name])
			}
		}
		text, _ := json.Marshal(out) // cannot fail: strings and numbers
		return string(text)
	}
	m.conflict(unit, "manual", true, object(m.base), object(&m.mine), object(&m.theirs))
}

// hash sets a hash column to the hash of the merged text.
func (m *merger) hash(c storage.SyncedColumn) {
	if c.HashOf == "" {
		return
	}
	text := m.out.Values[c.HashOf]
	for _, v := range []Version{m.mine, m.theirs} {
		if equal(text, v.Values[c.HashOf]) {
			m.out.Values[c.Name] = v.Values[c.Name]
			return
		}
	}
	s, _ := text.(string)
	m.out.Values[c.Name] = hashOf(c, s)
}

// equal compares two values as SQLite stores them.
func equal(a, b any) bool {
	if x, ok := a.([]byte); ok {
		y, ok := b.([]byte)
		return ok && bytes.Equal(x, y)
	}
	if _, ok := b.([]byte); ok {
		return false
	}
	return a == b
}

// number converts a value to float64. ok is false if it is not a number.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func extreme(rule storage.Merge, a, b any) any {
	x, okx := number(a)
	y, oky := number(b)
	switch {
	case !okx:
		return b
	case !oky:
		return a
	case (x > y) == (rule == storage.Max):
		return a
	}
	return b
}

// strict lists the values of DenyWins fields, strictest first. Of two numbers the smaller is
// stricter, since 0 means no.
var strict = []string{"revoked", "resolved", "disabled", "paused", "private", "pending_approval", "approved", "active", "auto", "open", "public"}

func stricter(a, b any) any {
	x, okx := number(a)
	y, oky := number(b)
	if okx && oky {
		if x <= y {
			return a
		}
		return b
	}
	rank := func(v any) int {
		if i := slices.Index(strict, fmt.Sprint(v)); i >= 0 {
			return i
		}
		return len(strict)
	}
	if cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))) <= 0 {
		return a
	}
	return b
}

// set merges two JSON arrays of strings as sets: what either side added is in, what either side removed
// is out, unless the other side has added it again.
func (m *merger) set(c storage.SyncedColumn, base, x, y any) {
	b, xs, ys := readSet(base), readSet(x), readSet(y)
	var former map[string]Dot
	if m.base != nil {
		former = m.base.Meta.Adds[c.No]
	}
	ax, ay := m.mine.Meta.Adds[c.No], m.theirs.Meta.Adds[c.No]
	out, adds := []string{}, map[string]Dot{}
	for _, s := range slices.Concat(xs, ys) {
		was, inX, inY := slices.Contains(b, s), slices.Contains(xs, s), slices.Contains(ys, s)
		again := inX && ax[s] != former[s] || inY && ay[s] != former[s]
		if slices.Contains(out, s) || was && !again && (!inX || !inY) {
			continue
		}
		out = append(out, s)
		if dot := max(ax[s], ay[s]); dot > 0 {
			adds[s] = dot
		}
	}
	slices.Sort(out)
	text, _ := json.Marshal(out) // cannot fail: strings
	m.out.Values[c.Name] = string(text)
	m.out.Meta.Adds[c.No] = adds
}

func readSet(v any) (out []string) {
	text, _ := v.(string)
	_ = json.Unmarshal([]byte(text), &out) // anything else is an empty set
	return out
}
