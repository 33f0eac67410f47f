package cloudsync

import (
	"context"
	"errors"

	"helix/backend/storage"
)

// registerAgain registers this installation as a new device, because its data folder is a copy of
// one that is in use, or was restored from a backup. It schedules a full read of the hub. Versions
// that were packaged before and that the hub lacks are sent under the new site.
func (s *Service) registerAgain(ctx context.Context, l *local) error {
	if err := s.skipSites(ctx, s.conn, l.site); err != nil {
		return err
	}
	if err := s.adoptKeys(ctx, direct{s, s.conn}, l); err != nil { // those that the hub has for the former registration
		return err
	}
	var d registration
	if err := callJSON(ctx, s.conn, `select app.invite_device($1, $2, $3)`, &d, l.hub.Name, s.o.Platform, []byte{0}); err != nil {
		return err
	}
	h := *l.hub
	h.Role, h.Device, h.Channel = d.Role, d.DeviceID, d.Channel
	c, err := h.connect(ctx, d.Password)
	if err != nil {
		return err
	}
	password, err := takeOver(ctx, c, d.ID, d.Role, nil)
	if err != nil {
		return errors.Join(err, c.Close(ctx))
	}
	if h.Project != nil {
		if err := s.renewProof(ctx, c); err != nil {
			return errors.Join(err, c.Close(ctx))
		}
	}
	if err := s.db.Write(s.asUser(ctx), func(tx *storage.Tx) error {
		if err := s.secrets.SetTx(tx, passwordSecret, []byte(password)); err != nil {
			return err
		}
		if err := writeHub(tx, &h); err != nil {
			return err
		}
		if err := copyAgain(tx); err != nil { // the local rows may be newer or much older than the cursor
			return err
		}
		_, err := tx.Exec(`UPDATE sync_local SET site = ?, ctr = 0, epoch = ?, next_epoch = NULL`, d.Site, storage.NewID())
		return err
	}); err != nil {
		return errors.Join(err, c.Close(ctx))
	}
	if err := s.hangUp(); err != nil {
		s.o.Logger.Warn("close the former connection", "err", err)
	}
	s.conn = c
	*l, err = s.local(ctx)
	s.o.Logger.Info("registered again at the hub: this data was copied or restored", "site", d.Site)
	return err
}

// hasFormer reports whether the outbox holds versions that were packaged under a former
// registration. They must not be sent before the whole hub was read.
func (s *Service) hasFormer(ctx context.Context) (yes bool, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM sync_outbox WHERE dot >> ? <> (SELECT site FROM sync_local))`, ctrBits).Scan(&yes)
	})
	return yes, err
}

// unpackageFormer turns versions that were packaged under a former registration, and that the hub
// lacks, back into changes. It requires that the whole hub was read since.
func (s *Service) unpackageFormer(ctx context.Context) error {
	if former, err := s.hasFormer(ctx); err != nil || !former {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		l, err := readLocal(tx)
		if err != nil {
			return err
		}
		rows, err := allOutbox(tx)
		if err != nil {
			return err
		}
		for _, x := range rows {
			t, ok := s.table(x.table)
			if !ok || x.dot.Site() == l.site {
				continue
			}
			if err := t.retry(tx, x.rowKey, x.outboxRow, s.o.Private); err != nil {
				return err
			}
		}
		return nil
	})
}

func allOutbox(tx *storage.Tx) ([]sent, error) {
	return storage.Collect(tx.Select(`SELECT `+outboxColumns+`, tbl, row_id FROM sync_outbox`), func(r storage.Row) (x sent, err error) {
		x.outboxRow, err = scanOutbox(r, &x.table, &x.id)
		return x, err
	})
}

// keepCounts merges the counts of a packaged version into the base of a row, so that later versions
// have at least the same: where two versions meet, the larger count of each site is taken. A version
// packaged anew with the sum of the changes since could have smaller ones. A row that the hub does not
// have gets a base without a version.
func (t table) keepCounts(tx *storage.Tx, k rowKey, counts map[int]map[int64]Count, private bool) error {
	if len(counts) == 0 {
		return nil
	}
	base, err := t.baseOf(tx, k.id)
	if err != nil {
		return err
	}
	if base == nil {
		r, err := t.readRow(tx, k.id)
		if err != nil || r == nil {
			return err
		}
		base = &Version{Meta: newMeta()}
		if r.known {
			base = &r.Version
		}
	}
	base.Meta = base.Meta.clone()
	same := true
	for no, c := range counts {
		same = same && sameCount(base.Meta.Counters[no], c)
		base.Meta.Counters[no] = mergeCounts(base.Meta.Counters[no], c)
	}
	if same {
		return nil
	}
	text, err := t.encodeBase(tx, k.id, *base, private)
	if err != nil {
		return err
	}
	return setBase(tx, k, text)
}

// sameCount reports whether two counters are of the same sums. A site without a sum has added nothing.
func sameCount(a, b map[int64]Count) bool {
	for site := range mergeCounts(a, b) {
		if a[site] != b[site] {
			return false
		}
	}
	return true
}
