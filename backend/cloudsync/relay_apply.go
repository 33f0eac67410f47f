package cloudsync

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

// outcome is the result of a Delta.
type outcome struct {
	seq      int64
	result   string // applied, merged or duplicate
	conflict *conflictFrame
}

// applyDelta stores a client's Delta in the caller's transaction as a change of this device, which
// also sends it to the hub. If the client had not seen the newest version, the two are merged.
func (s *Service) applyDelta(tx *storage.Tx, user uuid.UUID, d received) (o outcome, err error) {
	t, ok := s.table(d.EntityType)
	if !ok {
		return o, fault.Invalidf("entity_type: there is no synced table %.64q.", d.EntityType)
	}
	k := rowKey{t.Table, d.EntityID}
	if err := s.relayNote(tx); err != nil { // so that earlier local changes are not attributed to the client
		return o, err
	}
	was, err := relayRowOf(tx, k)
	if err != nil {
		return o, err
	}
	mine, err := t.readRow(tx, d.EntityID)
	if err != nil {
		return o, err
	}
	if mine != nil && mine.user != user {
		return o, fault.NotFoundf("entity_id: no such item.")
	}
	if mine != nil && was.clocks.covers(d.Clock) {
		o.seq, o.result = was.seq, "duplicate"
		return o, nil
	}
	given, err := t.relayValues(d)
	if err != nil {
		return o, err
	}
	if d.Deleted {
		given = map[string]any{deletedAt: tx.Now.UnixMicro()}
	} else if mine != nil && mine.deleted() {
		given[deletedAt] = nil
	}
	clocks := was.clocks.with(d.Clock)
	switch {
	case mine == nil && d.Deleted:
		return o, fault.NotFoundf("entity_id: no such item.")
	case mine == nil:
		o.result = "applied"
		err = t.relayInsert(tx, user, d.EntityID, given, s.o.Private)
	default:
		o, err = s.relayMerge(tx, t, mine, was, d, given)
		if o.result == "merged" {
			clocks[s.relayDevice(tx)]++
		}
	}
	if err != nil {
		if kind := storage.ViolationOf(err); kind != "" {
			return o, fault.Invalidf("data: a value is not allowed in %s, or refers to an item that does not exist.", t.Table).WithCause(err)
		}
		return o, err
	}
	if _, err := tx.Exec(`UPDATE relay_state SET seen_seq = max(seen_seq, (SELECT coalesce(max(seq), 0) FROM change_log))`); err != nil {
		return o, err
	}
	o.seq, err = relayStore(tx, user, k, clocks, d.DeviceID)
	tx.AfterCommit(func() {
		bus.Publish(s.db.Bus(), user, storage.Changed{Table: t.Table, Many: true})
		if o.conflict != nil {
			bus.Publish(s.db.Bus(), user, ConflictsChanged{})
		}
	})
	return o, err
}

// relayValues converts the data of a Delta to values as the columns are stored.
func (t table) relayValues(d received) (map[string]any, error) {
	out := map[string]any{}
	if d.Deleted {
		return out, nil
	}
	raw, err := readObject(d.Data)
	if err != nil || raw == nil {
		return nil, fault.Invalidf("data: expected an object, or null with \"deleted\": true.")
	}
	for name, v := range raw {
		if name == "created_at" || name == "updated_at" { // set by this device
			continue
		}
		c, ok := t.column(name)
		if !ok || name == deletedAt {
			return nil, fault.Invalidf("data.%.64s: %s has no such field.", name, t.Table)
		}
		switch x := v.(type) {
		case []any:
			if c.Merge != storage.ORSet {
				return nil, fault.Invalidf("data.%s: a list is not allowed.", name)
			}
			set := []string{}
			for _, s := range x {
				s, ok := s.(string)
				if !ok {
					return nil, fault.Invalidf("data.%s: expected a list of texts.", name)
				}
				set = append(set, s)
			}
			slices.Sort(set)
			v = jsonText(slices.Compact(set))
		case string:
			if n, err := strconv.ParseInt(x, 10, 64); err == nil && c.Hub == "bigint" {
				v = json.Number(strconv.FormatInt(n, 10))
			}
		}
		x, err := localValue(c, v)
		if err != nil {
			return nil, fault.Invalidf("data.%s: not a value of type %s.", name, c.Hub)
		}
		out[name] = x
	}
	return out, nil
}

// relayInsert inserts a new row. Fields that are not given get their defaults.
func (t table) relayInsert(tx *storage.Tx, user, id uuid.UUID, given map[string]any, private bool) error {
	names, args := []string{"id", "user_id", "created_at", "updated_at"}, []any{id, user, tx.Now, tx.Now}
	for _, c := range t.columns {
		v, ok := given[c.Name]
		if hash := c.HashOf; hash != "" { // always computed from the text
			text, _ := given[hash].(string)
			v, ok = hashOf(c, text), true
		}
		if !ok || c.Child != "" {
			continue
		}
		x, err := tx.SealedValue(t.Table, c, id, v, private)
		if err != nil {
			return err
		}
		names, args = append(names, c.Name), append(args, x)
	}
	if _, err := tx.Exec(`INSERT INTO `+t.Table+` (`+strings.Join(names, ", ")+`) VALUES (`+marks(len(names))+`)`, args...); err != nil {
		return err
	}
	return t.writeSets(tx, user, id, given)
}

// relayMerge changes an existing row. If the client had seen all changes to the row, its fields are
// simply set. Otherwise they are merged by their rules, without a common base.
func (s *Service) relayMerge(tx *storage.Tx, t table, mine *localRow, was relayRow, d received, given map[string]any) (o outcome, err error) {
	if t.Policy == storage.AppendRows && !d.Deleted {
		return o, fault.Conflictf("entity_id: an item of %s never changes.", t.Table)
	}
	l, err := readLocal(tx)
	if err != nil {
		return o, err
	}
	p, err := pendingOf(tx, was.rowKey)
	if err != nil {
		return o, err
	}
	dot, err := l.nextDot(tx)
	if err != nil {
		return o, err
	}
	local := t.pendingVersion(mine, &mine.Version, p, dot)
	theirs := Version{Values: maps.Clone(local.Values), Created: mine.Created, Updated: tx.Now.UnixMicro(), Meta: local.Meta.clone()}
	if dot, err = l.nextDot(tx); err != nil {
		return o, err
	}
	theirs.Meta.Dot = dot
	hlc := max(tx.Now.UnixMilli()<<16, l.high+1)
	for _, c := range append(slices.Clone(t.columns), deletedColumn) {
		v, ok := given[c.Name]
		switch {
		case !ok || equal(v, local.Values[c.Name]):
			continue
		case c.Merge == storage.Immutable:
			return o, fault.Invalidf("data.%s: this field never changes.", c.Name)
		case c.Merge == storage.DenyWins: // a program may restrict, never allow
			v = stricter(v, local.Values[c.Name])
		}
		theirs.Values[c.Name] = v
		theirs.Meta.Stamps[c.No] = Stamp{Dot: dot, HLC: hlc}
	}
	seen := maps.Clone(d.Clock)
	seen[d.DeviceID] = math.MaxInt64 // a client has seen its own changes
	concurrent := !seen.covers(was.clocks)
	base := &local
	o.result = "applied"
	if concurrent {
		base, o.result = nil, "merged"
	}
	merged, conflicts := Merge(t.columns, base, local, theirs)
	for _, c := range t.columns {
		if v, ok := given[c.Name]; ok && c.Merge == storage.PNCounter {
			merged.Values[c.Name] = v
			if concurrent { // the value that the client started from is unknown
				merged.Values[c.Name] = extreme(storage.Max, v, local.Values[c.Name])
			}
		}
	}
	if err := t.relayUpdate(tx, mine.user, d.EntityID, mine, merged, s.o.Private); err != nil {
		return o, err
	}
	a := applier{s: s, tx: tx, l: &l, r: &Round{}, applied: &[]rowKey{}}
	for _, c := range conflicts {
		a.conflicts = append(a.conflicts, found{rowKey: was.rowKey, Conflict: c, mine: local.Meta.Dot, theirs: dot, mineAt: mine.Updated, theirsAt: tx.Now.UnixMicro()})
	}
	if concurrent {
		o.conflict = &conflictFrame{Type: "Conflict", EntityID: d.EntityID,
			Local:  conflictSide{ID: d.EntityID, Data: t.relayData(mine.Version), Clock: was.clocks, LastModified: time.UnixMicro(mine.Updated).UTC(), DeviceID: was.device},
			Remote: conflictSide{ID: d.EntityID, Data: t.relayData(theirs), Clock: d.Clock, LastModified: tx.Now.UTC(), DeviceID: d.DeviceID},
		}
		if d.Deleted {
			o.conflict.Remote.Data = nil
		}
		if mine.deleted() {
			o.conflict.Local.Data = nil
		}
	}
	return o, a.storeConflicts()
}

// relayUpdate writes the fields that differ; the capture triggers log them.
func (t table) relayUpdate(tx *storage.Tx, user, id uuid.UUID, mine *localRow, v Version, private bool) error {
	sets, args := []string{"updated_at = max(updated_at + 1, ?)"}, []any{tx.Now}
	children := map[string]any{}
	for _, c := range append(slices.Clone(t.columns), deletedColumn) {
		x := v.Values[c.Name]
		if equal(x, mine.Values[c.Name]) {
			continue
		}
		if c.Child != "" {
			children[c.Name] = x
			continue
		}
		stored, err := tx.SealedValue(t.Table, c, id, x, private)
		if err != nil {
			return err
		}
		sets, args = append(sets, c.Name+" = ?"), append(args, stored)
	}
	if _, err := tx.Exec(`UPDATE `+t.Table+` SET `+strings.Join(sets, ", ")+` WHERE id = ?`, append(args, id)...); err != nil {
		return err
	}
	return t.writeSets(tx, user, id, children)
}
