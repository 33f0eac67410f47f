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

// relayRow is one row as the relay tells of it.
type relayRow struct {
	rowKey
	seq    int64
	clocks Clocks
	device uuid.UUID
}

// relayUsed reports whether a program has ever followed the rows; until then nothing is noted.
func relayUsed(tx *storage.Tx) (seen int64, used bool, err error) {
	err = tx.QueryRow(`SELECT seen_seq FROM relay_state`).Scan(&seen)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return seen, err == nil, err
}

// relayBegin lists all rows that there are, once: a program that comes for the first time gets them.
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

// relayDevice is what the relay calls this device.
func (s *Service) relayDevice(tx *storage.Tx) uuid.UUID {
	if l, err := readLocal(tx); err == nil && l.hub != nil {
		return l.hub.Device
	}
	return s.db.Device().ID
}

// relayNote notes the local changes that are not noted yet. It must run before they leave change_log.
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

// relayApplied notes rows that came from the hub, where writer made them.
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

// writerIn finds who made a version in a page of the feed.
func writerIn(page []remote) func(rowKey) uuid.UUID {
	return func(k rowKey) uuid.UUID {
		var row struct {
			Device uuid.UUID `json:"hub_device_id"`
		}
		if i := slices.IndexFunc(page, func(x remote) bool { return x.rowKey == k }); i >= 0 {
			_ = json.Unmarshal(page[i].row, &row) // a row that cannot be read was not applied
		}
		return row.Device
	}
}

// relayBump says that a device has changed a row once more.
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

// relayStore makes a change the newest of all. It answers its place.
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

// relayAfter reads the changes after a place, the oldest first.
func relayAfter(tx *storage.Tx, user uuid.UUID, after int64, limit int) ([]relayRow, error) {
	return storage.Collect(tx.Select(`SELECT seq, tbl, row_id, clocks, device_id FROM relay_rows WHERE user_id = ? AND seq > ? ORDER BY seq LIMIT ?`, user, after, limit), func(row storage.Row) (r relayRow, err error) {
		r.clocks = Clocks{}
		err = row.Scan(&r.seq, &r.table, &r.id, storage.JSON(&r.clocks), &r.device)
		return r, err
	})
}

// relayDelta is the frame of a change; nil: the row is of another user or cannot be told.
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

// relayData is a row as JSON for programs: names of columns, sets as arrays, large integers as text.
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
