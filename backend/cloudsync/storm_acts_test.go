package cloudsync

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// exchange runs one exchange. It may fail for reasons that are not bugs.
func (s *storm) exchange(x *replica) {
	s.t.Helper()
	s.exchanges++
	_, err := x.Coordinate(x.ctx, CoordinateParams{Action: []string{"", "", "", "push", "pull"}[s.r.IntN(5)]})
	if err != nil && !fault.Is(err, fault.Unavailable) {
		s.t.Fatalf("exchange: %v: %v", err, fault.As(err).Err)
	}
	s.seen(x)
}

// seen records a new site, under which pending edits are sent from now on.
func (s *storm) seen(x *replica) {
	site := one[int64](x.device, `SELECT coalesce(site, 0) FROM sync_local`)
	if site == x.site {
		if x.unsure != "" && x.epoch() != x.unsure { // still the same device
			x.unsure = ""
			for _, e := range x.waiting {
				e.marks = append(e.marks, e.mark)
			}
			x.waiting = nil
		}
		return
	}
	x.site, x.unsure, x.waiting = site, "", nil
	for _, e := range x.edits {
		e.marks = append(e.marks, mark{site, 0})
	}
}

// change makes an edit of one row in one transaction. An edit that violates the schema is ignored.
func (s *storm) change(x *replica, r *modelRow, fn func(tx *storage.Tx, before *localRow) error) {
	s.t.Helper()
	var before, after *localRow
	var ctr, site int64
	t, _ := x.table(r.t.Table) // this device may have fewer columns
	err := x.db.Write(x.ctx, func(tx *storage.Tx) (err error) {
		if before, err = t.readRow(tx, r.id); err != nil {
			return err
		}
		if err := tx.QueryRow(`SELECT ctr, site FROM sync_local`).Scan(&ctr, &site); err != nil {
			return err
		}
		if err := fn(tx, before); err != nil {
			return err
		}
		after, err = t.readRow(tx, r.id)
		return err
	})
	if storage.ViolationOf(err) != "" || after == nil && err == nil {
		return
	}
	if err != nil {
		s.t.Fatalf("edit %s: %v", r.t.Table, err)
	}
	known := Vector{}
	if before != nil && before.known {
		known = before.Meta.Vector
	}
	if len(r.edits) == 0 {
		s.rows, s.byID[r.id] = append(s.rows, r), r
		s.byTable[r.t.Table] = append(s.byTable[r.t.Table], r)
	}
	s.noteEdit(x, r, known, ctr, site, before, after)
}

// insert inserts a row into a table.
func (s *storm) insert(x *replica, t table) {
	s.t.Helper()
	r := &modelRow{t: t.newer(), id: uuid.UUID(storage.NewID())}
	if id, ok := naturalID(s.r, t); ok {
		if r.id = id; s.byID[id] != nil {
			r = s.byID[id]
		}
	}
	s.change(x, r, func(tx *storage.Tx, before *localRow) error {
		if before != nil {
			return nil
		}
		if err := x.insertAs(tx, t, r.id, s.r); err != nil {
			return err
		}
		for _, c := range t.columns {
			if c.Merge == storage.Text3 {
				var b strings.Builder
				for i := range 12 {
					fmt.Fprintf(&b, "w%d_%d.%c%s", x.life, x.made, 'a'+i, []string{" ", " ", "\n"}[i%3])
				}
				if err := s.set(tx, x, r, map[string]any{c.Name: b.String()}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// set writes columns together with their hashes, like the packages that own the tables.
func (s *storm) set(tx *storage.Tx, x *replica, r *modelRow, values map[string]any) error {
	for name, v := range values {
		c, _ := r.t.column(name)
		if text, ok := v.(string); ok {
			for _, h := range r.t.columns {
				if h.HashOf == name {
					if _, err := tx.Exec(`UPDATE `+r.t.Table+` SET `+h.Name+` = ? WHERE id = ?`, hashOf(h, text), r.id); err != nil {
						return err
					}
				}
			}
		}
		v, err := tx.SealedValue(r.t.Table, c, r.id, v, x.o.Private)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE `+r.t.Table+` SET `+name+` = ?, updated_at = updated_at + 1 WHERE id = ?`, v, r.id); err != nil {
			return err
		}
	}
	return nil
}

// edit changes one field of a row in a way that fits its merge rule.
func (s *storm) edit(x *replica, r *modelRow) {
	s.t.Helper()
	t, _ := x.table(r.t.Table)
	columns := slices.DeleteFunc(slices.Clone(t.columns), func(c storage.SyncedColumn) bool { return c.Merge == storage.Immutable || c.HashOf != "" })
	if r.t.Policy == storage.AppendRows || r.t.Table == "sync_conflicts" || len(columns) == 0 {
		return
	}
	c := columns[s.r.IntN(len(columns))]
	s.change(x, r, func(tx *storage.Tx, before *localRow) error {
		if before == nil || before.deleted() {
			return nil
		}
		form := s.forms[r.t.Table]
		if form == nil {
			var err error
			if form, err = forms(tx, r.t.Table); err != nil {
				return err
			}
			s.forms[r.t.Table] = form
		}
		v := before.Values[c.Name]
		switch {
		case c.Merge == storage.PNCounter:
			n, _ := v.(int64)
			v = n + s.r.Int64N(5) - 1
		case c.Merge == storage.Max, c.Merge == storage.Min:
			v = extreme(c.Merge, v, randomValue(s.r, c, form[c.Name]))
		case c.Child != "" || c.Merge == storage.ORSet:
			return s.retag(tx, x, r, c, readSet(v))
		case c.Merge == storage.Text3:
			text, _ := v.(string)
			words := words([]string{text})
			if i := 2 * s.r.IntN(len(words)/2+1); i < len(words) { // odd elements are gaps
				words[i] = fmt.Sprintf("w%d_%d.a", x.life, x.made)
			}
			v = strings.Join(words, "")
		case inUnit(r.t, c):
			values := map[string]any{c.Name: randomValue(s.r, c, form[c.Name])}
			h, _ := r.t.column("definition_hash")
			values[h.Name] = randomValue(s.r, h, form[h.Name])
			return s.set(tx, x, r, values)
		default:
			v = randomValue(s.r, c, form[c.Name])
		}
		return s.set(tx, x, r, map[string]any{c.Name: v})
	})
}

func (s *storm) retag(tx *storage.Tx, x *replica, r *modelRow, c storage.SyncedColumn, have []string) error {
	tag := string(rune('a' + s.r.IntN(6)))
	has := slices.Contains(have, tag)
	if c.Child == "" {
		if has {
			have = slices.DeleteFunc(have, func(m string) bool { return m == tag })
		} else {
			have = append(have, tag)
		}
		slices.Sort(have)
		return s.set(tx, x, r, map[string]any{c.Name: jsonText(append([]string{}, have...))})
	}
	if has {
		_, err := tx.Exec(`DELETE FROM `+c.Child+` WHERE `+c.ChildKey+` = ? AND `+c.Field+` = ?`, r.id, tag)
		return err
	}
	_, err := tx.Exec(`INSERT INTO `+c.Child+` (`+c.ChildKey+`, user_id, `+c.Field+`) VALUES (?, ?, ?)`, r.id, x.db.LocalUser().ID, tag)
	return err
}

func (s *storm) setDeleted(x *replica, r *modelRow, restore bool) {
	s.t.Helper()
	s.change(x, r, func(tx *storage.Tx, before *localRow) error {
		if before == nil || before.deleted() != restore {
			return nil
		}
		var at any
		if !restore {
			at = tx.Now
		}
		_, err := tx.Exec(`UPDATE `+r.t.Table+` SET deleted_at = ?, updated_at = updated_at + 1 WHERE id = ?`, at, r.id)
		return err
	})
}

// resolve resolves an open conflict, which is an edit like any other.
func (s *storm) resolve(x *replica) {
	s.t.Helper()
	for _, c := range must[ConflictsResult](s.t)(x.Conflicts(x.ctx, ConflictsParams{})).Conflicts {
		r := s.byID[c.RowID]
		if r == nil || r.t.Table != c.TableName || c.Kind == "delete_edit" {
			continue
		}
		var before *localRow
		var ctr, site int64
		read := func() (row *localRow) {
			if err := x.db.Read(x.ctx, func(tx *storage.Tx) (err error) {
				if err := tx.QueryRow(`SELECT ctr, site FROM sync_local`).Scan(&ctr, &site); err != nil {
					return err
				}
				t, _ := x.table(r.t.Table)
				row, err = t.readRow(tx, r.id)
				return err
			}); err != nil {
				s.t.Fatal(err)
			}
			return row
		}
		if before = read(); before == nil || before.deleted() {
			continue
		}
		if _, err := x.Resolve(x.ctx, ResolveParams{ConflictID: c.ID, Choice: []string{"mine", "theirs"}[s.r.IntN(2)]}); err != nil {
			s.t.Fatal(err)
		}
		at, of := ctr, site
		s.noteEdit(x, r, before.Meta.Vector, at, of, before, read())
		return
	}
}

// pick returns a row of any table, preferably a recent one.
func (s *storm) pick() *modelRow {
	list := s.byTable["memories"]
	if s.r.IntN(3) > 0 {
		list = s.rows
	}
	if len(list) == 0 {
		return nil
	}
	if n := 150; len(list) > n && s.r.IntN(10) > 0 {
		list = list[len(list)-n:]
	}
	return list[s.r.IntN(len(list))]
}

// step performs one random action of one replica.
func (s *storm) step() {
	x := s.replicas[s.r.IntN(len(s.replicas))]
	did := func(what string) { s.did[what]++ }
	switch n := s.r.IntN(1000); {
	case n < 75:
		s.exchange(x)
	case n < 100: // the connection breaks at a random point
		did("broken connections")
		s.proxy.BreakAfter(s.r.Int64N(1<<(6+s.r.IntN(12))), nil)
		s.exchange(x)
		s.proxy.Heal()
	case n < 102: // the hub is killed during the exchange
		did("kills of the hub")
		s.proxy.BreakAfter(s.r.Int64N(1<<(6+s.r.IntN(12))), func() {})
		s.exchange(x)
		s.restartHub()
	case n < 112: // killed after sending
		did("kills of a device")
		x.sendBroken()
		x.device = x.reopenedQuietly()
	case n < 118: // everything is delivered again
		did("repeated deliveries")
		x.exec(`UPDATE sync_cursor SET seq = 0`)
	case n < 126:
		did("reordered deliveries")
		s.deliver(x)
	case n < 132: // the clock jumps by minutes, or by days, which the hub rejects
		did("clock jumps")
		x.exec(`UPDATE sync_local SET hlc_high = hlc_high + ?`, s.r.Int64N(int64(3*24*time.Hour/time.Millisecond))>>(4*s.r.IntN(4))<<16)
	case n < 136:
		did("wrong clocks")
		x.exec(`UPDATE sync_local SET offset_us = ?`, s.r.Int64N(int64(20*time.Minute/time.Microsecond))-int64(10*time.Minute/time.Microsecond))
	case n < 139:
		s.takeCopy(x)
	case n < 141:
		if s.restore(x) {
			did("restored copies")
		}
	case n < 142:
		did("removed devices")
		s.revoke(x)
	case n < 152:
		s.resolve(x)
	case n < 155:
		if s.upgrade(x) {
			did("upgrades")
		}
	case n < 230 || len(s.rows) == 0:
		t := x.tables[s.r.IntN(len(x.tables))]
		if s.r.IntN(3) == 0 {
			t, _ = x.table("memories")
		}
		s.insert(x, t)
	case n < 262:
		if r := s.pick(); r != nil {
			s.setDeleted(x, r, s.r.IntN(4) == 0)
		}
	default:
		for range s.burst {
			if r := s.pick(); r != nil {
				s.edit(x, r)
			}
		}
	}
}

// sendBroken pushes the outbox, and the process is killed before it stores the answers.
func (x *replica) sendBroken() {
	_ = x.exclusive(x.ctx, func() error {
		c, l, err := x.open(x.ctx)
		if err != nil {
			return err
		}
		if again, err := x.checkHorizon(x.ctx, l); err != nil || again { // the hub is read first
			return err
		}
		if x.manyFresh == 1 {
			return x.sendFreshOnly(c)
		}
		if _, err := x.packageChanges(x.ctx); err != nil {
			return err
		}
		batch, err := x.nextBatch(x.ctx)
		if err != nil || len(batch) == 0 {
			return err
		}
		_, _, err = direct{x.Service, c}.send(x.ctx, batch)
		return err
	})
}

// reopenedQuietly returns the device in a new process with the same data.
func (x *replica) reopenedQuietly() *device {
	_ = x.Close()
	d := &device{Service: New(x.db, storage.NewSecrets(x.db), Options{Version: "test"}), t: x.t}
	d.manyFresh = x.manyFresh
	d.identify()
	d.load()
	return d
}

// deliver applies entries of the feed again, later and in another order.
func (s *storm) deliver(x *replica) {
	s.t.Helper()
	old := slices.Clone(x.stash)
	s.r.Shuffle(len(old), func(i, j int) { old[i], old[j] = old[j], old[i] })
	if err := x.exclusive(x.ctx, func() error {
		c, _, err := x.open(x.ctx)
		if err != nil {
			return err
		}
		if len(old) > 0 {
			var r Round
			if err := x.applyPage(x.ctx, old, 0, &r); err != nil {
				return err
			}
		}
		after := max(0, one[int64](x.device, `SELECT coalesce((SELECT seq FROM sync_cursor), 0)`)-s.r.Int64N(200))
		x.stash, _, err = fetchPage(x.ctx, c, after)
		return err
	}); err != nil && !fault.Is(err, fault.Unavailable) {
		s.t.Fatal(err)
	}
	s.seen(x)
}

// upgrade upgrades a device, or the hub. A device that is restored from an older copy is again of the
// former version.
func (s *storm) upgrade(x *replica) bool {
	s.t.Helper()
	if s.r.IntN(4) == 0 {
		upgradeHub(s.t, s.dsn)
		return true
	}
	t, _ := x.table("memories")
	if _, has := t.column("future"); has {
		return false
	}
	x.newer()
	return true
}

func (s *storm) upgradeAll() {
	s.t.Helper()
	upgradeHub(s.t, s.dsn)
	for _, x := range s.replicas {
		if t, _ := x.table("memories"); len(t.newer().columns) > len(t.columns) {
			x.newer()
		}
	}
}

func (s *storm) restartHub() {
	s.t.Helper()
	if err := s.server.Restart(); err != nil {
		s.t.Fatal(err)
	}
	s.proxy.Heal()
}

func (s *storm) takeCopy(x *replica) {
	s.t.Helper()
	// Counts that were not packaged when the data was copied would be counted by both copies.
	if err := x.exclusive(x.ctx, func() error {
		_, l, err := x.open(x.ctx) // nothing is packaged before hello
		if err != nil {
			return err
		}
		if again, err := x.checkHorizon(x.ctx, l); err != nil || again {
			return err
		}
		for {
			if n, err := x.packageChanges(x.ctx); err != nil || n == 0 {
				return err
			}
		}
	}); err != nil || one[int](x.device, `SELECT count(*) FROM change_log`) > 0 {
		return
	}
	s.seen(x)
	x.stop()
	data, err := os.ReadFile(x.path)
	if err != nil {
		s.t.Fatal(err)
	}
	x.copied.data, x.copied.edits, x.copied.life, x.copied.made, x.copied.past = data, slices.Clone(x.edits), x.life, x.made, x.past
	x.start(s.t)
}

// restore replaces the data of a replica with an older copy.
func (s *storm) restore(x *replica) bool {
	s.t.Helper()
	if x.copied.data == nil {
		return false
	}
	x.stop()
	for _, name := range []string{x.path + "-wal", x.path + "-shm"} {
		_ = os.Remove(name)
	}
	if err := os.WriteFile(x.path, x.copied.data, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.forget(slices.DeleteFunc(slices.Clone(x.edits), func(e *edit) bool { return slices.Contains(x.copied.edits, e) }))
	past := map[int]int{x.copied.life: x.copied.made}
	for life, n := range x.copied.past {
		past[life] = n
	}
	x.edits, x.past, x.life, x.made = x.copied.edits, past, s.lives, 0
	s.lives++
	x.stash, x.copied.data = nil, nil
	x.start(s.t)
	x.site, x.unsure = one[int64](x.device, `SELECT site FROM sync_local`), x.epoch()
	return true
}

func (x *replica) epoch() string { return one[string](x.device, `SELECT hex(epoch) FROM sync_local`) }

// revoke revokes a device. It either is replaced by a new one, or joins again with its data.
func (s *storm) revoke(x *replica) {
	s.t.Helper()
	i := slices.Index(s.replicas, x)
	other := s.replicas[(i+1)%len(s.replicas)]
	l := must[local](s.t)(x.local(x.ctx))
	if _, err := other.Revoke(other.ctx, RevokeParams{l.hub.Device}); err != nil {
		if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.NotFound) {
			return
		}
		s.t.Fatal(err)
	}
	s.seen(other)
	if s.r.IntN(2) == 0 {
		must[struct{}](s.t)(x.Disconnect(x.ctx, struct{}{}))
		x.copied.data = nil // the copy belongs to a device without access
	} else {
		s.forget(x.edits)
		x.stop()
		x = s.newReplica()
		s.replicas[i] = x
	}
	x.join(other.device)
	s.seen(other)
	s.seen(x)
}
