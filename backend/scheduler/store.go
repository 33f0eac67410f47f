package scheduler

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/trash"
)

func ignoreNoRows(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// find loads a schedule of the caller.
func (s *Service) find(ctx context.Context, id uuid.UUID) (c *sched, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*sched, error) { return s.own(tx, identity.UserID(ctx), id) })
}

// get returns one schedule with its recent runs.
func (s *Service) get(ctx context.Context, id uuid.UUID) (out Schedule, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		c, err := s.own(tx, identity.UserID(ctx), id)
		if err != nil {
			return err
		}
		if err := fillRuns(tx, []*sched{c}); err != nil {
			return err
		}
		out = c.Schedule
		return nil
	})
	return out, err
}

const recentRuns = 20

// fillRuns adds the recent runs to schedules.
func fillRuns(tx *storage.Tx, list []*sched) error {
	for _, c := range list {
		rows, err := queryRuns(tx, `WHERE r.schedule_id = ? ORDER BY r.due_at DESC, r.created_at DESC, r.id DESC LIMIT ?`, c.ScheduleID, recentRuns)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			last := rows[0].Run // newest first; the rows are reversed below
			c.LastRun = &last
		}
		slices.Reverse(rows)
		for _, r := range rows {
			c.RecentRuns = append(c.RecentRuns, RunMark{RunID: r.RunID, At: r.DueAt, Status: r.Status})
		}
	}
	return nil
}

// change changes a schedule of the caller and returns the result.
func (s *Service) change(ctx context.Context, id uuid.UUID, what string, fn func(tx *storage.Tx, c *sched, now time.Time) error) (Schedule, error) {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := s.ownUsable(tx, identity.UserID(ctx), id)
		if err != nil {
			return err
		}
		s.changed(tx, c.user, id, what)
		if err := fn(tx, c, s.now()); err != nil {
			return err
		}
		return s.audit(tx, c, "", what)
	})
	if err != nil {
		return Schedule{}, err
	}
	return s.get(ctx, id)
}

// Get returns one schedule.
func (s *Service) Get(ctx context.Context, p ScheduleParams) (Schedule, error) {
	return s.get(ctx, p.ScheduleID)
}

// List lists the user's schedules.
func (s *Service) List(ctx context.Context, p ListParams) (ListResult, error) {
	out := ListResult{Schedules: []Schedule{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	out.Limit, out.Offset = p.Limit, p.Offset
	where, args := []string{"s.user_id = ?", "s.deleted_at IS NULL"}, []any{identity.UserID(ctx)}
	if p.Deleted {
		where[1] = "s.deleted_at IS NOT NULL"
	}
	switch p.Status {
	case "":
	case "paused":
		where = append(where, "(s.status = 'paused' OR s.status = 'active' AND s.is_enabled = 0)")
	case "active":
		where = append(where, "s.status = 'active' AND s.is_enabled = 1")
	case "completed", "disabled":
		where, args = append(where, "s.status = ?"), append(args, p.Status)
	default:
		return out, fault.Invalidf("status: %q is not one of active, paused, completed, disabled", p.Status)
	}
	if p.Kind != "" {
		where, args = append(where, "s.target_kind = ?"), append(args, p.Kind)
	}
	if p.Query != "" {
		like := "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(p.Query) + "%"
		where = append(where, `(s.name LIKE ? ESCAPE '\' OR s.description LIKE ? ESCAPE '\' OR s.target_name LIKE ? ESCAPE '\')`)
		args = append(args, like, like, like)
	}
	cond := strings.Join(where, " AND ")
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if err := tx.QueryRow(`SELECT count(*) FROM schedules s WHERE `+cond, args...).Scan(&out.Total); err != nil {
			return err
		}
		list, err := s.query(tx, `WHERE `+cond+` ORDER BY s.system_key IS NOT NULL, s.created_at DESC, s.id DESC LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...)
		if err != nil {
			return err
		}
		if err := fillRuns(tx, list); err != nil {
			return err
		}
		for _, c := range list {
			out.Schedules = append(out.Schedules, c.Schedule)
		}
		return nil
	})
	return out, err
}

// params returns the fields of c in the form of create.
func (c *sched) params() CreateParams {
	spec := c.Cadence
	if c.OsZone {
		spec.Timezone = ""
	}
	placement, retry, budget := c.Placement, c.Retry, c.Budget
	return CreateParams{
		Name: c.Name, Description: c.Description, Target: c.Target, Cadence: mustJSON(spec), StartsAt: c.StartsAt, EndsAt: c.EndsAt, MaxRuns: c.MaxRuns,
		MissedPolicy: c.MissedPolicy, GraceSecs: &c.GraceSecs, Overlap: c.Overlap, JitterSecs: c.JitterSecs, Retry: &retry,
		AutoDisableAfter: &c.AutoDisableAfter, NotifyAfterFailures: &c.NotifyAfterFailures, Notification: c.Notification, NotifyWhen: c.NotifyWhen,
		MaxRunMs: c.MaxRunMs, Placement: &placement, Budget: &budget,
	}
}

// Update changes a schedule. It never fires a time before the edit. If the edit changes the times,
// those that were due and not claimed yet are recorded as missed.
func (s *Service) Update(ctx context.Context, p UpdateParams) (Schedule, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(p.Patch, &fields); err != nil || fields == nil {
		return Schedule{}, fault.Invalidf("patch: must be a single JSON object")
	}
	if _, ok := fields["paused"]; ok {
		return Schedule{}, fault.Invalidf("patch: use schedules.pause and schedules.resume to pause and resume")
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := fields[n]; return ok })
	}
	was, err := s.find(ctx, p.ScheduleID)
	if err != nil {
		return Schedule{}, err
	}
	if was.NeedsNewer {
		return Schedule{}, fault.Unavailablef("This schedule needs a newer version of Helix. Nothing was changed.")
	}
	in, now := was.params(), s.now()
	if in.Target, err = patchTarget(was.Target, fields["target"]); err != nil {
		return Schedule{}, err
	}
	delete(fields, "target")
	rest := mustJSON(fields)
	for _, zero := range []string{"retry", "budget", "placement", "graceSecs", "autoDisableAfter", "notifyAfterFailures"} {
		if string(fields[zero]) == "null" {
			return Schedule{}, fault.InvalidField(zero, fault.CodeMissing, "%s: can't be null", zero)
		}
	}
	if err := strict(rest, &in, "patch"); err != nil {
		return Schedule{}, err
	}
	timing := has("cadence", "startsAt", "endsAt", "maxRuns")
	checked := *was
	if err := s.fill(ctx, &checked, in, timing, string(mustJSON(in.Target)) != string(mustJSON(was.Target)), now); err != nil {
		return Schedule{}, err
	}
	if was.System && checked.Target.Kind != was.Target.Kind {
		return Schedule{}, fault.Deniedf("The target of a built-in schedule can't be changed.")
	}
	return s.change(ctx, p.ScheduleID, "updated", func(tx *storage.Tx, c *sched, now time.Time) error {
		if p.ExpectedRevision != 0 && c.Revision != p.ExpectedRevision || c.Revision != was.Revision {
			return fault.Conflictf("The schedule has changed since you opened it. Nothing was saved. Reload it and try again.").WithDetails(map[string]any{"revision": c.Revision})
		}
		return s.edit(tx, c, &checked, timing, now)
	})
}

// patchTarget changes only the input if the patch contains no other field of the target.
func patchTarget(was Target, raw json.RawMessage) (Target, error) {
	if raw == nil {
		return was, nil
	}
	var in Target
	if err := strict(raw, &in, "target"); err != nil {
		return was, err
	}
	if in.Kind != "" && in.Kind != was.Kind || in.ID != nil || in.Name != "" || in.Version != "" {
		if in.Kind == "" {
			in.Kind = was.Kind
		}
		return in, nil
	}
	if in.Input != nil {
		was.Input = in.Input
	}
	return was, nil
}

// edit overwrites the current row with the validated one.
func (s *Service) edit(tx *storage.Tx, c, to *sched, timing bool, now time.Time) error {
	if timing && c.fires() && c.hasState {
		if err := s.record(tx, c, "edited", now); err != nil {
			return err
		}
	}
	state := *c
	*c = *to
	c.last, c.NextRunAt, c.ConsecutiveFailures, c.RunCount, c.tz = state.last, state.NextRunAt, state.ConsecutiveFailures, state.RunCount, to.tz
	c.Status, c.DisabledReason, c.enabled, c.Revision, c.UpdatedAt = state.Status, state.DisabledReason, state.enabled, state.Revision+1, now
	again := timing && (c.Status == "completed" || c.Status == "disabled" && c.DisabledReason == "missed")
	if again {
		c.Status, c.DisabledReason, c.enabled = "active", "", true
	}
	if timing && c.last.Before(now) {
		c.last = now
	}
	if _, err := tx.Exec(`UPDATE schedules SET name = ?, description = ?, status = ?, disabled_reason = ?, target_kind = ?, target_id = ?, target_name = ?, target_version = ?,
		target_input = ?, is_enabled = ?, cadence = ?, timezone = ?, os_zone = ?, starts_at = ?, ends_at = ?, max_runs = ?, missed_policy = ?, grace_secs = ?, overlap = ?,
		jitter_secs = ?, retry = ?, auto_disable_after = ?, notify_after = ?, notification = ?, notify_when = ?, max_run_ms = ?, home_device_id = ?, takeover = ?,
		max_turns = ?, max_cost_micros = ?, revision = ?, updated_at = ? WHERE id = ?`,
		append([]any{c.Name, c.Description, c.Status, orNull(c.DisabledReason)}, append(c.fields(), c.Revision, now, c.ScheduleID)...)...); err != nil {
		return err
	}
	if c.fires() && timing {
		return s.advance(tx, c)
	}
	return s.saveState(tx, c)
}

// Pause stops a schedule from firing. Times that were due and not claimed yet are recorded as missed.
func (s *Service) Pause(ctx context.Context, p ScheduleParams) (Schedule, error) {
	return s.change(ctx, p.ScheduleID, "paused", func(tx *storage.Tx, c *sched, now time.Time) error {
		if c.Status != "active" {
			if c.Status == "paused" {
				return nil
			}
			return fault.Conflictf("The schedule is %s and can't run.", c.Status)
		}
		if paused, err := pausedAll(tx, c.user); err != nil {
			return err
		} else if !paused && c.hasState {
			if err := s.record(tx, c, "paused", now); err != nil {
				return err
			}
		}
		return s.setStatus(tx, c, "paused", "", now)
	})
}

// Resume makes a schedule fire again, starting with its next time, and resets its failure count.
func (s *Service) Resume(ctx context.Context, p ScheduleParams) (Schedule, error) {
	return s.change(ctx, p.ScheduleID, "resumed", func(tx *storage.Tx, c *sched, now time.Time) error {
		if c.fires() {
			return nil
		}
		if err := c.checkNext(now); err != nil {
			return err
		}
		return s.wakeUp(tx, c, now)
	})
}

// wakeUp activates a schedule from now on.
func (s *Service) wakeUp(tx *storage.Tx, c *sched, now time.Time) error {
	c.enabled, c.ConsecutiveFailures = true, 0
	if c.last.Before(now) {
		c.last = now
	}
	if err := s.setStatus(tx, c, "active", "", now); err != nil {
		return err
	}
	return s.advance(tx, c)
}

// Delete deletes a schedule. It can be restored for 30 days. Active runs continue.
func (s *Service) Delete(ctx context.Context, p ScheduleParams) (DeleteResult, error) {
	now := s.now()
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := s.own(tx, identity.UserID(ctx), p.ScheduleID)
		if err != nil {
			return err
		}
		if c.System {
			return fault.Deniedf("Built-in schedules can't be deleted. You can pause this one instead.")
		}
		if err := s.dropWaiting(tx, c, "deleted", now); err != nil {
			return err
		}
		c.NextRunAt = nil
		if _, err := tx.Exec(`UPDATE schedules SET deleted_at = ?, updated_at = ? WHERE id = ?`, now, now, p.ScheduleID); err != nil {
			return err
		}
		if err := trash.Deleted(tx, c.user, p.ScheduleID); err != nil {
			return err
		}
		s.changed(tx, c.user, c.ScheduleID, "deleted")
		if err := s.audit(tx, c, "", "deleted"); err != nil {
			return err
		}
		return s.saveState(tx, c)
	})
	return DeleteResult{DeletedAt: now}, err
}

// Restore restores a deleted schedule. A schedule whose times have all passed is restored
// without a next time.
func (s *Service) Restore(ctx context.Context, p ScheduleParams) (Schedule, error) {
	user, now := identity.UserID(ctx), s.now()
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := s.loadSched(tx, p.ScheduleID)
		if err != nil {
			return err
		}
		if c.user != user || c.deletedAt == nil {
			return fault.NotFoundf("Deleted schedule not found.")
		}
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM schedules WHERE user_id = ? AND deleted_at IS NULL AND system_key IS NULL`, user).Scan(&n); err != nil {
			return err
		}
		if n >= s.o.MaxPerUser {
			return fault.Limitf("You can have at most %d schedules. Delete some first.", s.o.MaxPerUser)
		}
		if _, err := tx.Exec(`UPDATE schedules SET deleted_at = NULL, updated_at = ? WHERE id = ?`, now, p.ScheduleID); err != nil {
			return err
		}
		c.deletedAt = nil
		s.changed(tx, user, c.ScheduleID, "restored")
		if err := s.audit(tx, c, "", "restored"); err != nil {
			return err
		}
		if !c.fires() {
			return nil
		}
		if c.last.Before(now) {
			c.last = now
		}
		return s.advance(tx, c)
	})
	if err != nil {
		return Schedule{}, err
	}
	return s.get(ctx, p.ScheduleID)
}
