package cloudsync

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/storage"
)

// DeviceInfo is one device of this person.
type DeviceInfo struct {
	ID       uuid.UUID  `json:"id"`
	Name     string     `json:"name"`
	Platform string     `json:"platform"`
	Site     int64      `json:"site"`
	LastSeen *time.Time `json:"lastSeen"`
	// AckedSeq is up to where it has stored the hub's feed, a decimal string; Behind is how many
	// entries it lacks.
	AckedSeq  number64   `json:"ackedSeq"`
	Behind    int64      `json:"behind"`
	Current   bool       `json:"current"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
}

// MarshalJSON writes a decimal string.
func (n number64) MarshalJSON() ([]byte, error) {
	return []byte(`"` + strconv.FormatInt(int64(n), 10) + `"`), nil
}

// DevicesResult lists devices, the oldest first.
type DevicesResult struct {
	Devices []DeviceInfo `json:"devices"`
}

// Devices lists the devices of this person at the hub.
func (s *Service) Devices(ctx context.Context, _ struct{}) (r DevicesResult, err error) {
	r.Devices = []DeviceInfo{}
	err = s.exclusive(ctx, func() error {
		c, l, err := s.open(ctx)
		if err != nil {
			return err
		}
		rows, err := c.Query(ctx, `select d.device_id, d.name, d.platform, d.site, st.last_seen, coalesce(st.acked_seq, 0), h.seq - coalesce(st.acked_seq, 0), d.device_id = app.device_id(), d.revoked_at
			from app.device d join public.sync_head h using (user_id) left join public.sync_state st using (user_id, device_id) order by d.site`)
		if err != nil {
			return hubError(l.hub.Host, err)
		}
		r.Devices, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d DeviceInfo, err error) {
			var acked int64
			err = row.Scan(&d.ID, &d.Name, &d.Platform, &d.Site, &d.LastSeen, &acked, &d.Behind, &d.Current, &d.RevokedAt)
			d.AckedSeq = number64(acked)
			return d, err
		})
		return hubError(l.hub.Host, err)
	})
	return r, err
}

// RevokeParams name a device.
type RevokeParams struct {
	ID uuid.UUID `json:"id"`
}

// Revoke ends a device's access to the hub, at once. What it has stays on it.
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
			var pg *pgconn.PgError
			if errors.As(err, &pg) && pg.Code == "P0002" {
				return fault.NotFoundf("No such device, or it was removed already.")
			}
			return hubError(l.hub.Host, err)
		}
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			return audit.Append(tx, audit.Entry{User: l.user, Action: "sync.device_revoked", SubjectKind: "device", SubjectID: p.ID.String()})
		})
	})
}
