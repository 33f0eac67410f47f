package scheduler

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// Leases is the hub's table of leases on schedules that other devices may take over. All times are
// the server's. An error means that the hub could not be reached.
type Leases interface {
	// Connected reports whether this device has a hub. Without one it fires all schedules.
	Connected(tx *storage.Tx) (bool, error)
	// Claim acquires or keeps the lease for a device. It fails while another device holds the lease, and
	// for a minute after that lease has expired. Each change of holder increments the term.
	Claim(ctx context.Context, schedule, device uuid.UUID) (LeaseGrant, error)
	// Renew extends the lease of the holder of a term.
	Renew(ctx context.Context, schedule, device uuid.UUID, term int64) (LeaseGrant, error)
	// Record records a due time that a device accounts for, before the run has any effect. ok is
	// false if another run has the due time or the term is not the latest. Recording the same run
	// again succeeds.
	Record(ctx context.Context, r LeaseRecord) (ok bool, err error)
	// TakeOver makes a device the home of a schedule and gives it the lease, whoever held it.
	TakeOver(ctx context.Context, schedule, device uuid.UUID) (LeaseGrant, error)
}

// LeaseGrant is the answer to a request for a lease.
type LeaseGrant struct {
	Held    bool
	Holder  uuid.UUID
	Term    int64
	TTL     time.Duration // remaining time of the holder
	Through time.Time     // every due time up to here was recorded by some device
	Now     time.Time     // the server's clock
}

// LeaseRecord is a due time that a device accounts for.
type LeaseRecord struct {
	Schedule, Device, Run uuid.UUID
	DueAt, LastDueAt      time.Time // LastDueAt: if the row stands for several due times, else zero
	Attempt               int
	Term                  int64
}

// Periods of leases.
const (
	leaseRenew  = 3 * time.Minute
	leaseMargin = time.Minute // a holder stops this long before its lease ends
	leaseWithin = 10 * time.Second
)

// holding is this device's knowledge of a lease.
type holding struct {
	user    uuid.UUID
	term    int64
	mono    time.Duration // when it must no longer be used, by both clocks
	wall    time.Time
	expires time.Time
	through time.Time
	// followed is the time of through up to which the schedule's state has been advanced.
	followed time.Time
	asking   bool
	asked    time.Duration // when it was last requested; 0: never
	away     bool          // the hub could not be reached then
	lost     bool          // processed without it: due times are missed
	other    bool          // another device holds it
}

func (h holding) valid(mono time.Duration, wall time.Time) bool {
	return h.term > 0 && mono < h.mono && wall.Before(h.wall)
}

// lease returns what is known about a schedule's lease; zero if it needs none.
func (s *Service) lease(id uuid.UUID) holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id]
}

// connected reports whether this device has a hub.
func (s *Service) connected(tx *storage.Tx) (bool, error) {
	if s.o.Leases == nil {
		return false, nil
	}
	return s.o.Leases.Connected(tx)
}

// leased reports whether firing c requires a lease.
func (c *sched) leased() bool { return c.hub && c.Placement.Takeover }

// responsible reports whether this device accounts for the due times of c.
func (s *Service) responsible(c *sched) bool { return c.Placement.Here || c.Placement.Takeover }

// holds reports whether this device may start runs of c now.
func (s *Service) holds(c *sched) bool {
	if !c.leased() {
		return c.Placement.Here
	}
	return s.lease(c.ScheduleID).valid(s.clock.Mono(), s.now())
}

// firedElsewhere reports whether another device is known to fire c now, so that runs waiting here are no
// longer this device's.
func (s *Service) firedElsewhere(c *sched) bool {
	return c.leased() && s.lease(c.ScheduleID).other
}

// mayClaim reports whether due times of c can be processed now. It requests a lease if one is
// needed, without waiting for the answer.
func (s *Service) mayClaim(ctx context.Context, c *sched, now time.Time) bool {
	if !c.leased() || c.NextRunAt == nil {
		return true
	}
	if s.holds(c) {
		return true
	}
	late := now.Sub(c.fireAt(*c.NextRunAt))
	if !c.Placement.Here && late <= missedAfter {
		return false // the home device has priority
	}
	s.askLease(ctx, c.user, c.ScheduleID)
	if s.holds(c) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[c.ScheduleID]
	if h.away && !h.asking && c.Placement.Here && late > missedAfter {
		h.lost = true
		s.held[c.ScheduleID] = h
		return true
	}
	return false
}

// askLease requests a lease, unless it was requested recently.
func (s *Service) askLease(ctx context.Context, user, id uuid.UUID) {
	mono := s.clock.Mono()
	s.mu.Lock()
	h := s.held[id]
	if h.asking || h.asked != 0 && mono-h.asked < s.o.Poll {
		s.mu.Unlock()
		return
	}
	h.user, h.asking, h.asked = user, true, max(mono, 1)
	s.held[id] = h
	s.mu.Unlock()
	s.leaseTask(ctx, user, id, func(ctx context.Context) (LeaseGrant, error) { return s.o.Leases.Claim(ctx, id, s.device()) })
}

func (s *Service) leaseTask(ctx context.Context, user, id uuid.UUID, call func(context.Context) (LeaseGrant, error)) {
	s.task(func() error {
		ctx, cancel := context.WithTimeout(s.as(context.WithoutCancel(ctx), user), leaseWithin)
		defer cancel()
		mono, wall := s.clock.Mono(), s.now() // before the request, because the lease starts then
		g, err := call(ctx)
		s.granted(id, g, err, mono, wall)
		s.kick()
		return nil
	}, func(err error) {
		s.granted(id, LeaseGrant{}, err, 0, time.Time{})
	})
}

// granted stores an answer of the hub.
func (s *Service) granted(id uuid.UUID, g LeaseGrant, err error, mono time.Duration, wall time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[id]
	h.asking = false
	if h.away = err != nil; h.away {
		s.log.Warn("the hub does not answer for a lease", "schedule", id, "err", err)
		s.held[id] = h
		return
	}
	h.lost = false
	if !g.Now.IsZero() {
		s.skew = s.now().Sub(g.Now).Milliseconds()
	}
	if g.Through.After(h.through) {
		h.through = g.Through
	}
	h.expires, h.other = g.Now.Add(g.TTL), !g.Held
	if g.Held {
		h.term, h.mono, h.wall = g.Term, mono+g.TTL-leaseMargin, wall.Add(g.TTL-leaseMargin)
	} else {
		h.term = 0
	}
	s.held[id] = h
}

// renewLeases renews the leases that this device holds.
func (s *Service) renewLeases(ctx context.Context, mono time.Duration) {
	if s.o.Leases == nil || mono-s.renewed < leaseRenew {
		return
	}
	s.renewed = mono
	type one struct {
		user, id uuid.UUID
		term     int64
	}
	var list []one
	s.mu.Lock()
	for id, h := range s.held {
		if h.term > 0 && !h.asking {
			h.asking = true
			s.held[id] = h
			list = append(list, one{h.user, id, h.term})
		}
	}
	s.mu.Unlock()
	for _, l := range list {
		s.leaseTask(ctx, l.user, l.id, func(ctx context.Context) (LeaseGrant, error) { return s.o.Leases.Renew(ctx, l.id, s.device(), l.term) })
	}
}

// follow advances the schedules that another device fires to what that device has recorded.
func (s *Service) follow(ctx context.Context) {
	if s.o.Leases == nil {
		return
	}
	type one struct {
		id      uuid.UUID
		user    uuid.UUID
		through time.Time
	}
	var list []one
	s.mu.Lock()
	for id, h := range s.held {
		if h.term == 0 && h.through.After(h.followed) {
			list = append(list, one{id, h.user, h.through})
		}
	}
	s.mu.Unlock()
	for _, l := range list {
		err := s.db.Write(s.as(ctx, l.user), func(tx *storage.Tx) error {
			c, err := s.loadSched(tx, l.id)
			if err != nil || !c.fires() || !c.hasState || !l.through.After(c.last) {
				return ignoreNotFound(err)
			}
			c.last = l.through
			return s.advance(tx, c)
		})
		if err != nil {
			s.log.Warn("a schedule cannot follow its holder", "schedule", l.id, "err", err)
			continue
		}
		s.mu.Lock()
		h := s.held[l.id]
		h.followed = l.through
		s.held[l.id] = h
		s.mu.Unlock()
	}
}

// reportToHub records a due time that did not run once it is committed, so that no other device
// takes it for open. If the hub cannot be reached, another device may run it.
func (s *Service) reportToHub(tx *storage.Tx, r runRow) {
	if s.o.Leases == nil {
		return
	}
	rec := LeaseRecord{Schedule: r.ScheduleID, Device: s.device(), Run: r.RunID, DueAt: r.DueAt, Attempt: r.Attempt, Term: r.term}
	if r.LastMissedAt != nil {
		rec.LastDueAt = *r.LastMissedAt
	}
	ctx := context.WithoutCancel(tx.Context())
	tx.AfterCommit(func() {
		s.task(func() error {
			ctx, cancel := context.WithTimeout(s.as(context.WithoutCancel(ctx), r.user), leaseWithin)
			defer cancel()
			_, err := s.o.Leases.Record(ctx, rec)
			return err
		}, func(err error) { s.log.Info("the hub does not hear of a missed time", "run", r.RunID, "err", err) })
	})
}

// admit asks the hub to record a run before it starts.
func (s *Service) admit(ctx context.Context, l *live) {
	s.task(func() error {
		ctx, cancel := context.WithTimeout(s.as(context.WithoutCancel(ctx), l.user), leaseWithin)
		defer cancel()
		ok, err := s.o.Leases.Record(ctx, LeaseRecord{Schedule: l.ScheduleID, Device: s.device(), Run: l.RunID, DueAt: l.DueAt, Attempt: l.Attempt, Term: l.term})
		s.mu.Lock()
		l.admitting = false
		switch {
		case err != nil:
			s.log.Warn("the hub does not record a run", "run", l.RunID, "err", err)
		case ok:
			l.admitted = true
			l.home.push(l)
		default:
			l.refused = true
		}
		s.mu.Unlock()
		s.kick()
		return nil
	}, func(err error) { s.log.Error("recording a run failed", "err", err) })
}

// admitAll has the hub record the queued runs of leased schedules. Runs that the hub rejects, or
// cannot record in time, do not run.
func (s *Service) admitAll(ctx context.Context, now time.Time) {
	if s.o.Leases == nil {
		return
	}
	var askFor, drop []*live
	mono := s.clock.Mono()
	s.mu.Lock()
	for _, l := range s.live {
		switch {
		case l.term == 0 || l.admitted || l.admitting:
		case l.refused, l.ClaimedAt != nil && now.Sub(*l.ClaimedAt) > missedAfter && l.asked != 0:
			drop = append(drop, l)
		case l.asked == 0 || mono-l.asked >= s.o.Poll:
			l.admitting, l.asked = true, max(mono, 1)
			askFor = append(askFor, l)
		}
	}
	s.mu.Unlock()
	for _, l := range askFor {
		s.admit(ctx, l)
	}
	for _, l := range drop {
		status, reason := "missed", "no_lease"
		if l.refused {
			status, reason = "skipped", "other_device"
		}
		err := s.db.Write(s.as(ctx, l.user), func(tx *storage.Tx) error { return s.closeRun(tx, l.runRow, status, reason, now) })
		if err != nil {
			s.log.Warn("a run without a lease cannot be closed", "run", l.RunID, "err", err)
			continue
		}
		s.cancelTarget(ctx, l)
		s.forget(l, mono)
	}
}

// TakeOver makes this device the home of a schedule. With takeover it gets the lease from the hub
// immediately, whoever held it; if the hub does not answer, nothing changes.
func (s *Service) TakeOver(ctx context.Context, p ScheduleParams) (Schedule, error) {
	c, err := s.find(ctx, p.ScheduleID)
	if err != nil {
		return Schedule{}, err
	}
	if c.hub {
		mono, wall := s.clock.Mono(), s.now()
		g, err := s.o.Leases.TakeOver(ctx, p.ScheduleID, s.device())
		if err != nil {
			return Schedule{}, fault.Unavailablef("The hub isn't responding, so another device may still be running it. Nothing was changed.").WithCause(err)
		}
		s.mu.Lock()
		s.held[p.ScheduleID] = holding{user: c.user}
		s.mu.Unlock()
		s.granted(p.ScheduleID, g, nil, mono, wall)
	}
	return s.change(ctx, p.ScheduleID, "updated", func(tx *storage.Tx, c *sched, now time.Time) error {
		if g := s.lease(c.ScheduleID); g.through.After(c.last) {
			c.last = g.through
		}
		// Earlier due times belong to the other device, unless its lease has just been taken: then
		// this device accounts for all that the hub has not recorded.
		if c.last.Before(now) && !c.Placement.Here && !c.leased() {
			c.last = now
		}
		c.Revision++
		c.UpdatedAt = now
		home := s.device()
		c.Placement.HomeDeviceID, c.Placement.Here = &home, true
		if _, err := tx.Exec(`UPDATE schedules SET home_device_id = ?, revision = ?, updated_at = ? WHERE id = ?`, home, c.Revision, now, c.ScheduleID); err != nil {
			return err
		}
		if c.fires() {
			return s.advance(tx, c)
		}
		return s.saveState(tx, c)
	})
}
