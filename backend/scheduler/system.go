package scheduler

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/scheduler/cadence"
	"helix/backend/storage"
)

// systemSchedule is a schedule that is part of Helix, never costs money and cannot be deleted.
type systemSchedule struct {
	key, name, description, expression string
}

var systemSchedules = []systemSchedule{
	{"decay", "Memory decay", "Reduces the strength of unused memories.", "0 0 * * * *"},
	{"cleanup", "History clean-up", "Deletes runs that are past their retention period.", "30 3 * * *"},
}

// ensureSystem creates the system schedules whose targets are registered. Their runs are not synced.
func (s *Service) ensureSystem(ctx context.Context) error {
	user := s.db.LocalUser().ID
	if user == uuid.Nil {
		return nil
	}
	return s.db.Write(s.as(ctx, user), func(tx *storage.Tx) error {
		for _, sys := range systemSchedules {
			if s.kind(sys.key) == nil {
				continue
			}
			id := uuid.NewSHA1(s.db.IDSpace(user), []byte("schedule "+sys.key))
			var there bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM schedules WHERE id = ? OR user_id = ? AND system_key = ?)`, id, user, sys.key).Scan(&there); err != nil {
				return err
			}
			if there {
				continue
			}
			c := s.blank(user, s.now())
			c.ScheduleID = id
			c.systemKey, c.System, c.Name, c.Description = sys.key, true, sys.name, sys.description
			c.Target = Target{Kind: sys.key, Input: []byte("{}")}
			c.Cadence = cadence.Spec{Type: cadence.Cron, Expression: sys.expression, Timezone: s.o.Zone()}
			c.OsZone, c.Placement.HomeDeviceID = true, nil
			var err error
			if c.cad, err = cadence.New(c.Cadence, c.CreatedAt, 0); err != nil {
				return err
			}
			if err := s.insertSched(tx, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// templates are schedules offered to the user and not active by default.
var templates = []struct{ key, name, description, kind, expression string }{
	{"consolidation", "Memory consolidation", "Merges related memories every morning.", "synthesis", "0 6 * * *"},
	{"synthesis", "Daily synthesis", "Summarizes the day every evening.", "synthesis", "0 20 * * *"},
	{"weekly", "Weekly review", "Reviews the week, early on Sunday.", "synthesis", "0 3 * * 0"},
	{"monthly", "Monthly review", "Reviews the past month on the first.", "synthesis", "0 3 1 * *"},
}

// Texts returns the English names, descriptions and warnings of this package, by key.
func Texts() map[string]string {
	out := map[string]string{}
	for _, t := range templates {
		out["schedule."+t.key+".name"], out["schedule."+t.key+".description"] = t.name, t.description
	}
	for key, text := range previewWarnings {
		out["schedule.warning."+key] = text
	}
	for _, t := range systemSchedules {
		out["schedule."+t.key+".name"], out["schedule."+t.key+".description"] = t.name, t.description
	}
	return out
}

// Templates lists the schedules that Helix offers. Those whose target is not in this build are marked.
func (s *Service) Templates(context.Context, struct{}) (TemplatesResult, error) {
	out := TemplatesResult{Templates: []Template{}}
	for _, t := range templates {
		spec := cadence.Spec{Type: cadence.Cron, Expression: t.expression, Timezone: s.o.Zone()}
		c, err := cadence.New(spec, s.now(), 0)
		if err != nil {
			return out, err
		}
		one := Template{Key: t.key, Name: t.name, Description: t.description, Target: Target{Kind: t.kind, Name: t.key}, Cadence: spec, Words: c.Words(), Parts: c.Parts()}
		if s.kind(t.kind) == nil {
			one.Unavailable = fault.As(unavailableKind(t.kind)).Message
		}
		out.Templates = append(out.Templates, one)
	}
	return out, nil
}

// endPauses ends pauses of all schedules that have expired.
func (s *Service) endPauses(ctx context.Context, now time.Time) (refused bool) {
	var over []uuid.UUID
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		over, err = storage.Collect(tx.Select(`SELECT user_id FROM schedule_pause WHERE until <= ?`, now), storage.RowTo[uuid.UUID])
		return err
	})
	for _, user := range over {
		if err == nil {
			err = s.db.Write(s.as(ctx, user), func(tx *storage.Tx) error { return s.resumeAll(tx, user, now) })
		}
	}
	if err != nil {
		s.log.Warn("a pause cannot be ended", "err", err)
	}
	return err != nil
}

// followZones recomputes times when the time zone of the operating system has changed, for
// schedules that follow it, and at the first check when the data of a zone have changed.
func (s *Service) followZones(ctx context.Context, now time.Time) {
	zone, first := s.o.Zone(), s.seenWall.IsZero()
	moved, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]*sched, error) {
		return s.query(tx, `WHERE s.deleted_at IS NULL AND t.schedule_id IS NOT NULL AND (s.os_zone = 1 AND s.timezone <> ? OR ?)`, zone, first)
	})
	if err != nil {
		s.log.Warn("time zones cannot be looked at", "err", err)
		return
	}
	for _, c := range moved {
		if c.cad == nil || c.Cadence.Type != cadence.Cron || !(c.OsZone && c.Cadence.Timezone != zone) && c.tz == zonePrint(c.Cadence.Timezone) {
			continue
		}
		err := s.db.Write(s.as(ctx, c.user), func(tx *storage.Tx) error { return s.rezone(tx, c.ScheduleID, zone, now) })
		if err != nil {
			s.log.Warn("a schedule cannot follow its time zone", "schedule", c.ScheduleID, "err", err)
		}
	}
}

// rezone recomputes the next time of a schedule whose zone or zone data have changed. What is still
// due is processed first, by the old rules.
func (s *Service) rezone(tx *storage.Tx, id uuid.UUID, zone string, now time.Time) error {
	c, err := s.loadSched(tx, id)
	if err != nil || c.cad == nil {
		return ignoreNotFound(err)
	}
	if c.fires() && c.NextRunAt != nil && !c.NextRunAt.After(now) {
		return nil
	}
	if c.OsZone && c.Cadence.Timezone != zone {
		c.Cadence.Timezone, c.UpdatedAt = zone, now
		c.Revision++
		text := string(mustJSON(c.Cadence))
		if c.cad, err = s.cadence(c.Cadence, text, c.CreatedAt); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE schedules SET cadence = ?, timezone = ?, revision = ?, updated_at = ? WHERE id = ?`, text, zone, c.Revision, now, id); err != nil {
			return err
		}
		s.changed(tx, c.user, id, "updated")
	}
	c.tz = zonePrint(c.Cadence.Timezone)
	if !c.fires() {
		return s.saveState(tx, c)
	}
	if c.last.Before(now) { // by the new rules nothing in the past is due
		c.last = now
	}
	return s.advance(tx, c)
}

// record records due times that will not run as missed, with a reason.
func (s *Service) record(tx *storage.Tx, c *sched, reason string, now time.Time) error {
	if !s.responsible(c) {
		return nil
	}
	if p, ok := c.due(now, settle); ok {
		if err := s.recordMissed(tx, c, p, reason, now, &batch{}); err != nil {
			return err
		}
		c.last = p.through
	}
	if c.last.Before(now) {
		c.last = now
	}
	return nil
}

// pausedAll reports whether all schedules of a user are paused.
func pausedAll(tx *storage.Tx, user uuid.UUID) (paused bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM schedule_pause WHERE user_id = ?)`, user).Scan(&paused)
	return paused, err
}

// resumeAll ends a pause of all schedules. Times during the pause do not count as missed.
func (s *Service) resumeAll(tx *storage.Tx, user uuid.UUID, now time.Time) error {
	from := now
	var until *time.Time
	err := tx.QueryRow(`SELECT until FROM schedule_pause WHERE user_id = ?`, user).Scan(storage.TimePtr(&until))
	if err != nil {
		return ignoreNoRows(err)
	}
	if until != nil && until.Before(now) {
		from = until.Add(-time.Microsecond) // a time due exactly when the pause ends is not missed
	}
	if _, err := tx.Exec(`DELETE FROM schedule_pause WHERE user_id = ?`, user); err != nil {
		return err
	}
	list, err := s.query(tx, `WHERE s.user_id = ? AND s.deleted_at IS NULL AND s.status = 'active'`, user)
	if err != nil {
		return err
	}
	for _, c := range list {
		if !c.fires() || !c.hasState {
			continue
		}
		if c.last.Before(from) {
			c.last = from
		}
		if err := s.advance(tx, c); err != nil {
			return err
		}
	}
	s.changed(tx, user, uuid.Nil, "resumed")
	return nil
}

// PauseAll stops all of the caller's schedules from firing. Active runs continue. Until is when the
// pause ends automatically.
func (s *Service) PauseAll(ctx context.Context, p PauseAllParams) (PauseAllResult, error) {
	user, now := identity.UserID(ctx), s.now()
	if p.Until != nil && !p.Until.After(now) {
		return PauseAllResult{}, fault.Invalidf("until: that time has passed.")
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if hub, err := s.connected(tx); err != nil {
			return err
		} else if p.AllDevices && hub {
			return fault.Unavailablef("Other devices can't be paused from here yet. Pause each device separately.")
		}
		already, err := pausedAll(tx, user)
		if err != nil {
			return err
		}
		if !already { // account for times that are due and not claimed yet
			list, err := s.query(tx, `WHERE s.user_id = ? AND s.deleted_at IS NULL AND s.status = 'active' AND t.next_run_at <= ?`, user, now)
			if err != nil {
				return err
			}
			for _, c := range list {
				if !c.fires() {
					continue
				}
				if err := s.record(tx, c, "paused", now); err != nil {
					return err
				}
				if err := s.advance(tx, c); err != nil {
					return err
				}
			}
		}
		_, err = tx.Exec(`INSERT INTO schedule_pause (user_id, paused_at, until) VALUES (?, ?, ?) ON CONFLICT (user_id) DO UPDATE SET until = excluded.until`, user, now, p.Until)
		if err != nil {
			return err
		}
		s.changed(tx, user, uuid.Nil, "paused")
		return s.audit(tx, nil, "", "paused_all")
	})
	return PauseAllResult{Paused: err == nil, Until: p.Until}, err
}

// ResumeAll makes the caller's schedules fire again, starting with their next times.
func (s *Service) ResumeAll(ctx context.Context, _ struct{}) (PauseAllResult, error) {
	user := identity.UserID(ctx)
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := s.resumeAll(tx, user, s.now()); err != nil {
			return err
		}
		return s.audit(tx, nil, "", "resumed_all")
	})
	return PauseAllResult{Paused: err != nil}, err
}
