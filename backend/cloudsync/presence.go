package cloudsync

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/fault"
)

const (
	heartbeatEvery = 60 * time.Second
	idleAfter      = 10 * time.Minute
)

// DevicePresence is the presence of a device.
type DevicePresence struct {
	DeviceID uuid.UUID `json:"deviceId"`
	Name     string    `json:"name"`
	Platform string    `json:"platform"`
	// State is online, idle (no change on the device for ten minutes) or offline (no heartbeat for
	// three minutes).
	State    string    `json:"state"`
	LastSeen time.Time `json:"lastSeen"`
}

// PresenceResult lists the devices that have sent a heartbeat.
type PresenceResult struct {
	Devices []DevicePresence `json:"devices"`
}

// Presence reports which devices of this person are online.
func (s *Service) Presence(ctx context.Context, _ struct{}) (r PresenceResult, err error) {
	r.Devices, err = hubRows[DevicePresence](ctx, s, `select p.device_id, d.name, p.platform, case when p.last_seen < now() - interval '180 seconds' then 'offline' else p.state end, p.last_seen
		from public.sync_presence p join app.device d using (device_id) where d.revoked_at is null order by d.site`)
	return r, err
}

// StatisticsParams select the days.
type StatisticsParams struct {
	// Days is the number of days up to today; 1 to 366, default 30.
	Days int `json:"days,omitempty"`
}

// DayStatistics is what one device exchanged on one day, in UTC.
type DayStatistics struct {
	Day         string    `json:"day"`
	DeviceID    uuid.UUID `json:"deviceId"`
	Name        string    `json:"name"`
	Pushed      int64     `json:"pushed"`
	Pulled      int64     `json:"pulled"`
	Merged      int64     `json:"merged"`
	Conflicts   int64     `json:"conflicts"`
	DeadLetters int64     `json:"deadLetters"`
	BytesUp     int64     `json:"bytesUp"`
	BytesDown   int64     `json:"bytesDown"`
}

// StatisticsResult lists days, newest first.
type StatisticsResult struct {
	Days []DayStatistics `json:"days"`
}

// Statistics reports how much the devices of this person exchanged with the hub each day.
func (s *Service) Statistics(ctx context.Context, p StatisticsParams) (r StatisticsResult, err error) {
	if p.Days == 0 {
		p.Days = 30
	}
	if p.Days < 1 || p.Days > 366 {
		return r, fault.InvalidField("days", fault.CodeInvalid, "Give 1 to 366 days.")
	}
	r.Days, err = hubRows[DayStatistics](ctx, s, `select t.day::text, t.device_id, d.name, t.pushed, t.pulled, t.merged, t.conflicts, t.dead_letters, t.bytes_up, t.bytes_down
		from public.sync_statistics t join app.device d using (device_id) where t.day > (now() at time zone 'utc')::date - $1::int order by t.day desc, d.site`, p.Days)
	return r, err
}

// hubRows runs a query on the hub and returns its rows.
func hubRows[T any](ctx context.Context, s *Service, query string, args ...any) (out []T, err error) {
	err = s.exclusive(ctx, func() error {
		c, l, err := s.open(ctx)
		if err != nil {
			return err
		}
		rows, err := c.Query(ctx, query, args...)
		if err == nil {
			out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
		}
		return hubError(l.hub.Host, err)
	})
	if out == nil {
		out = []T{}
	}
	return out, err
}

// counts sum up what this device did since its last heartbeat. Guarded by turn.
type counts struct {
	Round
	up, down int64 // bytes already reported
	changed  time.Time
	told     time.Time
}

func (n *counts) add(r Round) {
	n.Pushed, n.Pulled, n.Merged = n.Pushed+r.Pushed, n.Pulled+r.Pulled, n.Merged+r.Merged
	n.Conflicts, n.DeadLetters = n.Conflicts+r.Conflicts, n.DeadLetters+r.DeadLetters
	if r.Pushed > 0 {
		n.changed = time.Now()
	}
}

// heartbeat reports to the hub, at most once a minute, that this device is online, and its counts
// since the last heartbeat.
func (s *Service) heartbeat(ctx context.Context, h link) error {
	n := &s.counts
	if time.Since(n.told) < heartbeatEvery {
		return nil
	}
	state := "online"
	if time.Since(n.changed) > idleAfter {
		state = "idle"
	}
	up, down := s.traffic.up.Load(), s.traffic.down.Load()
	if err := h.heartbeat(ctx, s.o.Platform, state, map[string]any{
		"pushed": n.Pushed, "pulled": n.Pulled, "merged": n.Merged, "conflicts": n.Conflicts, "dead_letters": n.DeadLetters, "bytes_up": up - n.up, "bytes_down": down - n.down,
	}); err != nil {
		return err
	}
	*n = counts{up: up, down: down, changed: n.changed, told: time.Now()}
	return nil
}

// traffic counts the bytes sent to and received from the hub.
type traffic struct{ up, down atomic.Int64 }

func (t *traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{KeepAlive: 5 * time.Minute}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{c, t}, nil
}

type countedConn struct {
	net.Conn
	t *traffic
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.t.down.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.t.up.Add(int64(n))
	return n, err
}
