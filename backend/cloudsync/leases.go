package cloudsync

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/duration"
	"helix/backend/scheduler"
	"helix/backend/storage"
)

// leases are the scheduler's leases, stored on the hub. The hub knows the calling device by its login
// role, so the device that the scheduler names is not sent.
type leases struct {
	s    *Service
	turn chan struct{} // semaphore: after sleep, many due times are recorded at once
}

// Leases returns the hub's leases on schedules.
func (s *Service) Leases() scheduler.Leases { return leases{s, make(chan struct{}, 1)} }

// Connected reports whether this device has a hub.
func (leases) Connected(tx *storage.Tx) (bool, error) { return hasHub(tx) }

// Claim acquires or extends the lease on a schedule.
func (h leases) Claim(ctx context.Context, schedule, _ uuid.UUID) (scheduler.LeaseGrant, error) {
	return h.call(ctx, `select sync.claim_schedule($1)`, schedule)
}

// TakeOver acquires the lease even if another device holds it.
func (h leases) TakeOver(ctx context.Context, schedule, _ uuid.UUID) (scheduler.LeaseGrant, error) {
	return h.call(ctx, `select sync.claim_schedule($1, true)`, schedule)
}

// Renew extends the lease of a term.
func (h leases) Renew(ctx context.Context, schedule, _ uuid.UUID, term int64) (scheduler.LeaseGrant, error) {
	return h.call(ctx, `select sync.renew_schedule($1, $2)`, schedule, term)
}

// Record records a due time that a run accounts for.
func (h leases) Record(ctx context.Context, r scheduler.LeaseRecord) (ok bool, err error) {
	var last *time.Time
	if !r.LastDueAt.IsZero() {
		last = &r.LastDueAt
	}
	err = h.session(ctx, func(ctx context.Context, c *pgx.Conn, _ local) error {
		return c.QueryRow(ctx, `select sync.record_due($1, $2, $3, $4, $5, $6)`, r.Schedule, r.DueAt, r.Attempt, r.Run, r.Term, last).Scan(&ok)
	})
	return ok, err
}

func (h leases) session(ctx context.Context, fn func(context.Context, *pgx.Conn, local) error) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.turn }()
	return h.s.session(ctx, fn)
}

func (h leases) call(ctx context.Context, query string, args ...any) (g scheduler.LeaseGrant, err error) {
	var a struct {
		Held    bool      `json:"held"`
		Holder  uuid.UUID `json:"holder"`
		Term    int64     `json:"term"`
		TTL     int64     `json:"ttl"` // all times in microseconds
		Through *int64    `json:"through"`
		Now     int64     `json:"now"`
	}
	if err := h.session(ctx, func(ctx context.Context, c *pgx.Conn, _ local) error { return callJSON(ctx, c, query, &a, args...) }); err != nil {
		return g, err
	}
	g = scheduler.LeaseGrant{Held: a.Held, Holder: a.Holder, Term: a.Term, TTL: duration.Of(a.TTL, time.Microsecond), Now: time.UnixMicro(a.Now)}
	if a.Through != nil {
		g.Through = time.UnixMicro(*a.Through)
	}
	return g, nil
}
