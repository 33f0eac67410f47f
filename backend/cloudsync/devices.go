package cloudsync

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/storage"
)

// DeviceInfo is one device of the person.
type DeviceInfo struct {
	ID       uuid.UUID  `json:"id"`
	Name     string     `json:"name"`
	Platform string     `json:"platform"`
	Site     int64      `json:"site"`
	LastSeen *time.Time `json:"lastSeen"`
	// AckedSeq is the position in the hub's feed up to which the device has stored entries, as a
	// decimal string. Behind is the number of entries after it.
	AckedSeq  number64   `json:"ackedSeq"`
	Behind    int64      `json:"behind"`
	Current   bool       `json:"current"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
}

// MarshalJSON encodes n as a decimal string.
func (n number64) MarshalJSON() ([]byte, error) {
	return []byte(`"` + strconv.FormatInt(int64(n), 10) + `"`), nil
}

// DevicesResult lists devices, oldest first.
type DevicesResult struct {
	Devices []DeviceInfo `json:"devices"`
}

// Devices lists the devices of this person. It reads them from the hub.
func (s *Service) Devices(ctx context.Context, _ struct{}) (r DevicesResult, err error) {
	r.Devices = []DeviceInfo{}
	err = s.exclusive(ctx, func() error {
		c, l, err := s.open(ctx)
		if err != nil {
			return err
		}
		r.Devices, err = s.readDevices(ctx, c)
		return hubError(l.hub.Host, err)
	})
	return r, err
}

// readDevices reads the devices from the hub and stores their names locally.
func (s *Service) readDevices(ctx context.Context, c *pgx.Conn) ([]DeviceInfo, error) {
	rows, err := c.Query(ctx, `select d.device_id, d.name, d.platform, d.site, st.last_seen, coalesce(st.acked_seq, 0), h.seq - coalesce(st.acked_seq, 0), d.device_id = app.device_id(), d.revoked_at
			from app.device d join public.sync_head h using (user_id) left join public.sync_state st using (user_id, device_id) order by d.site`)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d DeviceInfo, err error) {
		var acked int64
		err = row.Scan(&d.ID, &d.Name, &d.Platform, &d.Site, &d.LastSeen, &acked, &d.Behind, &d.Current, &d.RevokedAt)
		d.AckedSeq = number64(acked)
		return d, err
	})
	if err != nil {
		return nil, err
	}
	return list, s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`DELETE FROM sync_devices`); err != nil {
			return err
		}
		for _, d := range list {
			if _, err := tx.Exec(`INSERT INTO sync_devices (site, name, removed) VALUES (?, ?, ?)`, d.Site, d.Name, d.RevokedAt != nil || d.LastSeen == nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// learnDevices reads the devices from the hub if a conflict refers to one whose name is unknown
// here.
func (s *Service) learnDevices(ctx context.Context, c *pgx.Conn) error {
	var unknown bool
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT NOT EXISTS (SELECT 1 FROM sync_devices) OR EXISTS (SELECT 1 FROM sync_conflicts WHERE status = 'open' AND deleted_at IS NULL
			AND (local_dot >> ?1 NOT IN (SELECT site FROM sync_devices) OR remote_dot >> ?1 NOT IN (SELECT site FROM sync_devices)))`, ctrBits).Scan(&unknown)
	}); err != nil || !unknown {
		return err
	}
	_, err := s.readDevices(ctx, c)
	return err
}

// deviceNames returns the locally stored names of devices by site.
func deviceNames(tx *storage.Tx) (map[int64]string, error) {
	names := map[int64]string{}
	return names, tx.Select(`SELECT site, name FROM sync_devices`).Each(func(r storage.Row) error {
		var site int64
		var name string
		err := r.Scan(&site, &name)
		names[site] = name
		return err
	})
}

// RenameParams rename a device.
type RenameParams struct {
	ID   uuid.UUID `json:"id"`
	Name string    `json:"name"`
}

const maxDeviceName = 100

// Rename changes the name of a device, which all devices of the person show.
func (s *Service) Rename(ctx context.Context, p RenameParams) (struct{}, error) {
	p.Name = strings.TrimSpace(p.Name)
	if n := utf8.RuneCountInString(p.Name); n == 0 || n > maxDeviceName {
		return struct{}{}, fault.InvalidField("name", fault.CodeRange, "name must have 1 to %d characters.", maxDeviceName)
	}
	return struct{}{}, s.exclusive(ctx, func() error {
		c, l, err := s.open(ctx)
		if err != nil {
			return err
		}
		if _, err := c.Exec(ctx, `select app.rename_device($1, $2)`, p.ID, p.Name); err != nil {
			return deviceError(l.hub.Host, err)
		}
		if _, err := s.readDevices(ctx, c); err != nil {
			return hubError(l.hub.Host, err)
		}
		if p.ID != l.hub.Device {
			return nil
		}
		l.hub.Name = p.Name
		return s.db.Write(ctx, func(tx *storage.Tx) error { return writeHub(tx, l.hub) })
	})
}

// deviceError converts an error from a hub function that changes a device.
func deviceError(host string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "P0002" {
		return fault.NotFoundf("No such device, or it was removed already.")
	}
	return hubError(host, err)
}

// RevokeParams name a device.
type RevokeParams struct {
	ID uuid.UUID `json:"id"`
}

// Revoke ends a device's access to the hub immediately. The data on that device stays there.
func (s *Service) Revoke(ctx context.Context, p RevokeParams) (struct{}, error) {
	return struct{}{}, s.exclusive(ctx, func() error {
		c, l, err := s.open(ctx)
		if err != nil {
			return err
		}
		if p.ID == l.hub.Device {
			return fault.Invalidf("This is the device you are on. To leave the hub, use `helix sync disconnect`.")
		}
		if _, err := c.Exec(ctx, `select app.revoke_device($1)`, p.ID); err != nil {
			return deviceError(l.hub.Host, err)
		}
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			return audit.Append(tx, audit.Entry{User: l.user, Action: "sync.device_revoked", SubjectKind: "device", SubjectID: p.ID.String()})
		})
	})
}
