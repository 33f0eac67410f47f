package cloudsync

import (
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// relayRow is the relay's record of one row.
type relayRow struct {
	rowKey
	seq    int64
	clocks Clocks
	device uuid.UUID
}

// relayUsed reports whether any program has ever used the relay. Until then, no changes are
// recorded for it.
func relayUsed(tx *storage.Tx) (seen int64, used bool, err error) {
	err = tx.QueryRow(`SELECT seen_seq FROM relay_state`).Scan(&seen)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return seen, err == nil, err
}

// relayBegin records all existing rows when the relay is first used, so that a new client receives
// them.
func (s *Service) relayBegin(tx *storage.Tx) error {
	if _, used, err := relayUsed(tx); err != nil || used {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO relay_state (one, seen_seq) SELECT 1, coalesce(max(seq), 0) FROM change_log`); err != nil {
		return err
	}
	own := s.relayDevice(tx)
	for _, t := range s.tables {
		if _, err := tx.Exec(`INSERT INTO relay_rows (user_id, tbl, row_id, clocks, device_id) SELECT user_id, ?, id, '{"clocks":{}}', ? FROM `+t.Table+` WHERE user_id IS NOT NULL ORDER BY id`, t.Table, own); err != nil {
			return err
		}
	}
	return nil
}

// relayDevice returns the id under which the relay reports this device.
func (s *Service) relayDevice(tx *storage.Tx) uuid.UUID {
	if l, err := readLocal(tx); err == nil && l.hub != nil {
		return l.hub.Device
	}
	return s.db.Device().ID
}

// relayNote records local changes that were not recorded yet. It must run before they are removed
// from change_log.
func (s *Service) relayNote(tx *storage.Tx) error {
	seen, used, err := relayUsed(tx)
	if err != nil || !used {
		return err
	}
	var last int64
	keys := []rowKey{}
	known := map[rowKey]bool{}
	if err := tx.Select(`SELECT seq, tbl, row_id FROM change_log WHERE seq > ? ORDER BY seq`, seen).Each(func(r storage.Row) error {
		var k rowKey
		if err := r.Scan(&last, &k.table, &k.id); err != nil {
			return err
		}
		if !known[k] {
			known[k] = true
			keys = append(keys, k)
		}
		return nil
	}); err != nil || last == 0 {
		return err
	}
	own := s.relayDevice(tx)
	for _, k := range keys {
		if err := s.relayBump(tx, k, own); err != nil {
			return err
		}
	}
	_, err = tx.Exec(`UPDATE relay_state SET seen_seq = ?`, last)
	return err
}

// relayApplied records rows that came from the hub. writer returns the device that wrote a row; the
// zero id means this one.
func (s *Service) relayApplied(tx *storage.Tx, applied []rowKey, writer func(rowKey) uuid.UUID) error {
	if _, used, err := relayUsed(tx); err != nil || !used {
		return err
	}
	for _, k := range applied {
		device := writer(k)
		if device == uuid.Nil {
			device = s.relayDevice(tx)
		}
		if err := s.relayBump(tx, k, device); err != nil {
			return err
		}
	}
	return nil
}

// writerIn returns a function that finds the device that wrote a row in a page of the feed.
func writerIn(page []remote) func(rowKey) uuid.UUID {
	return func(k rowKey) uuid.UUID {
		var row struct {
			Device uuid.UUID `json:"hub_device_id"`
		}
		if i := slices.IndexFunc(page, func(x remote) bool { return x.rowKey == k }); i >= 0 {
			_ = json.Unmarshal(page[i].row, &row) // a row that cannot be parsed was not applied
		}
		return row.Device
	}
}

// relayBump records one more change of a row by a device.
func (s *Service) relayBump(tx *storage.Tx, k rowKey, device uuid.UUID) error {
	r, err := relayRowOf(tx, k)
	if err != nil {
		return err
	}
	r.clocks[device]++
	_, err = relayStore(tx, s.db.LocalUser().ID, k, r.clocks, device)
	return err
}

func relayRowOf(tx *storage.Tx, k rowKey) (r relayRow, err error) {
	r = relayRow{rowKey: k, clocks: Clocks{}}
	err = tx.QueryRow(`SELECT seq, clocks, device_id FROM relay_rows WHERE tbl = ? AND row_id = ?`, k.table, k.id).Scan(&r.seq, storage.JSON(&r.clocks), &r.device)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	return r, err
}

// relayStore records a change with the next sequence number, which it returns.
func relayStore(tx *storage.Tx, user uuid.UUID, k rowKey, c Clocks, device uuid.UUID) (int64, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	r, err := tx.Exec(`INSERT OR REPLACE INTO relay_rows (user_id, tbl, row_id, clocks, device_id) VALUES (?, ?, ?, ?, ?)`, user, k.table, k.id, string(text), device)
	if err != nil {
		return 0, err
	}
	return r.LastInsertId()
}

// relayAfter reads the changes after a sequence number, oldest first.
func relayAfter(tx *storage.Tx, user uuid.UUID, after int64, limit int) ([]relayRow, error) {
	return storage.Collect(tx.Select(`SELECT seq, tbl, row_id, clocks, device_id FROM relay_rows WHERE user_id = ? AND seq > ? ORDER BY seq LIMIT ?`, user, after, limit), func(row storage.Row) (r relayRow, err error) {
		r.clocks = Clocks{}
		err = row.Scan(&r.seq, &r.table, &r.id, storage.JSON(&r.clocks), &r.device)
		return r, err
	})
}

// relayDelta returns the frame for a change; nil if the row belongs to another user or its table is
// not synced.
func (s *Service) relayDelta(tx *storage.Tx, user uuid.UUID, r relayRow) (*deltaFrame, error) {
	f := &deltaFrame{Type: "Delta", EntityType: r.table, EntityID: r.id, Clock: r.clocks, DeviceID: r.device, Seq: strconv.FormatInt(r.seq, 10)}
	t, ok := s.table(r.table)
	if !ok {
		return nil, nil
	}
	row, err := t.readRow(tx, r.id)
	switch {
	case err != nil:
		return nil, err
	case row == nil || row.deleted() && row.user == user:
		f.Deleted = true
	case row.user != user:
		return nil, nil
	default:
		f.Data = t.relayData(row.Version)
	}
	return f, nil
}

// relayData returns a row as JSON for programs: by column name, with sets as arrays and large
// integers as strings.
func (t table) relayData(v Version) map[string]any {
	out := map[string]any{"created_at": wireValue(timeColumn, v.Created), "updated_at": wireValue(timeColumn, v.Updated)}
	for _, c := range t.columns {
		x := wireValue(c, v.Values[c.Name])
		switch n := x.(type) {
		case int64:
			x = exact(n)
		case string:
			if c.Merge == storage.ORSet {
				x = readSet(n)
			}
		}
		out[c.Name] = x
	}
	return out
}
