package cloudsync

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"helix/backend/storage"
)

// A hub that was restored from a backup lacks versions that it once acknowledged. It is noticed because
// its feed ends before this device's position, because it does not know this device's newest epoch, or because
// it knows an earlier position of this device than it once confirmed. This device then reads the whole hub again and sends what the hub lacks.

// resend logs a row for sending again, because the hub's version is an older one. Its counters and its
// version vector stay, so that two devices that send it again agree.
func (a *applier) resend(t table, k rowKey, mine *localRow, theirs Version, o *outboxRow) error {
	if o != nil {
		if err := t.retry(a.tx, k, *o, a.s.o.Private); err != nil {
			return err
		}
	}
	p, err := pendingOf(a.tx, k)
	if err != nil {
		return err
	}
	was, err := t.baseOf(a.tx, k.id)
	if err != nil {
		return err
	}
	if was == nil {
		was = &mine.Version
	}
	base := Version{Values: theirs.Values, Created: theirs.Created, Updated: theirs.Updated, Meta: was.Meta.clone()}
	base.Meta.Dot = theirs.Meta.Dot
	stamps := map[int]int64{}
	for _, c := range append(slices.Clone(t.columns), deletedColumn) {
		if equal(mine.Values[c.Name], theirs.Values[c.Name]) {
			continue
		}
		if stamps[c.No] = max(p.stamps[c.No], was.Meta.Stamps[c.No].HLC); stamps[c.No] == 0 {
			stamps[c.No] = a.tx.Now.UnixMilli() << 16
		}
	}
	if len(stamps) == 0 {
		return a.forget(k)
	}
	text, err := t.encodeBase(a.tx, k.id, base, a.s.o.Private)
	if err != nil {
		return err
	}
	return errors.Join(setBase(a.tx, k, text), relog(a.tx, k, "U", stamps), a.forget(k))
}

// ancestor returns what two versions have in common, for merging them when the hub has lost the version from which
// both were derived. A field that only one of them has written since has the value of the other. If both
// have, it has none, so that neither is overwritten silently.
func (t table) ancestor(x, y Version) *Version {
	out := Version{Values: map[string]any{}, Meta: newMeta()}
	for _, c := range append(slices.Clone(t.columns), deletedColumn) {
		from := x
		if !y.Meta.Vector.Covers(x.Meta.Stamps[c.No].Dot) {
			if from = y; !x.Meta.Vector.Covers(y.Meta.Stamps[c.No].Dot) {
				continue
			}
		}
		out.Values[c.Name] = from.Values[c.Name]
		out.Meta.Stamps[c.No] = from.Meta.Stamps[c.No]
		out.Meta.Adds[c.No] = from.Meta.Adds[c.No]
	}
	return &out
}

// skipSites makes the hub assign no site that a version on this device has. After a restore it would
// assign those again that it assigned after the backup.
func (s *Service) skipSites(ctx context.Context, c *pgx.Conn, own int64) error {
	most := own
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		for _, t := range s.tables {
			if err := tx.Select(`SELECT sync_meta FROM ` + t.Table + ` WHERE sync_meta IS NOT NULL`).Each(func(r storage.Row) error {
				var b []byte
				if err := r.Scan(&b); err != nil {
					return err
				}
				m, _ := decodeMeta(b) // a version of a newer Helix has no known sites
				for site := range m.Vector {
					most = max(most, site)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	_, err := c.Exec(ctx, `select app.skip_sites($1)`, most)
	return err
}

// copying reports whether this device is reading the whole hub again.
func copying(tx *storage.Tx) (yes bool, err error) {
	err = tx.QueryRow(`SELECT coalesce((SELECT copying FROM sync_cursor), 0)`).Scan(&yes)
	return yes, err
}
