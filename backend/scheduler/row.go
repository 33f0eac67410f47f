package scheduler

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/scheduler/cadence"
	"helix/backend/storage"
)

// sched is the row of a schedule with the state of the schedule on this device.
type sched struct {
	Schedule
	user      uuid.UUID
	systemKey string
	enabled   bool
	deletedAt *time.Time
	hasState  bool
	last      time.Time // every due time up to here is accounted for
	tz        string
	seen      int64 // revision for which the state was computed
	hub       bool  // this device has a hub
	cad       *cadence.Cadence
}

const schedColumns = `s.id, s.user_id, s.name, s.description, s.status, coalesce(s.disabled_reason, ''), coalesce(s.system_key, ''), s.target_kind, s.target_id,
	s.target_name, s.target_version, s.target_input, s.is_enabled, s.cadence, s.timezone, s.os_zone, s.starts_at, s.ends_at, s.max_runs, s.missed_policy, s.grace_secs,
	s.overlap, s.jitter_secs, s.retry, s.auto_disable_after, s.notify_after, s.notification, coalesce(s.notify_when, ''), s.max_run_ms, s.home_device_id,
	s.takeover, s.max_turns, s.max_cost_micros, s.revision, s.created_at, s.updated_at, s.deleted_at,
	t.schedule_id IS NOT NULL, t.next_run_at, t.last_due_at, coalesce(t.consecutive_failures, 0), coalesce(t.run_count, 0), coalesce(t.tz_version, ''), coalesce(t.revision_seen, 0)`

const schedTables = ` FROM schedules s LEFT JOIN schedule_state t ON t.schedule_id = s.id `

func (s *Service) scanSched(row storage.Row, hub bool) (*sched, error) {
	c := sched{hub: hub}
	var input, spec, zone, retry string
	err := row.Scan(&c.ScheduleID, &c.user, &c.Name, &c.Description, &c.Status, &c.DisabledReason, &c.systemKey, &c.Target.Kind, &c.Target.ID,
		&c.Target.Name, &c.Target.Version, &input, &c.enabled, &spec, &zone, &c.OsZone, storage.TimePtr(&c.StartsAt), storage.TimePtr(&c.EndsAt), &c.MaxRuns, &c.MissedPolicy, &c.GraceSecs,
		&c.Overlap, &c.JitterSecs, &retry, &c.AutoDisableAfter, &c.NotifyAfterFailures, &c.Notification, &c.NotifyWhen, &c.MaxRunMs, &c.Placement.HomeDeviceID,
		&c.Placement.Takeover, &c.Budget.MaxTurns, &c.Budget.MaxCostMicros, &c.Revision, storage.Time(&c.CreatedAt), storage.Time(&c.UpdatedAt), storage.TimePtr(&c.deletedAt),
		&c.hasState, storage.TimePtr(&c.NextRunAt), storage.Time(&c.last), &c.ConsecutiveFailures, &c.RunCount, &c.tz, &c.seen)
	if err != nil {
		return nil, err
	}
	c.RecentRuns = []RunMark{}
	c.System = c.systemKey != ""
	c.Placement.Here = !hub || c.Placement.HomeDeviceID == nil || *c.Placement.HomeDeviceID == s.device()
	c.Target.Input = json.RawMessage(input)
	if !c.enabled && c.Status == "active" {
		c.Status = "paused" // disabled on another device
	}
	err = errors.Join(json.Unmarshal([]byte(spec), &c.Cadence), json.Unmarshal([]byte(retry), &c.Retry))
	if err == nil {
		c.cad, err = s.cadence(c.Cadence, spec, c.CreatedAt)
	}
	if err != nil || !s.knows(c.Target.Kind) {
		c.cad, c.NeedsNewer, c.NextRunAt = nil, true, nil
		c.Raw = mustJSON(map[string]any{"target": map[string]any{"kind": c.Target.Kind, "name": c.Target.Name, "input": json.RawMessage(input)},
			"cadence": json.RawMessage(spec), "retry": json.RawMessage(retry), "timezone": zone})
		c.Words = "needs a newer Helix"
		return &c, nil
	}
	c.Words, c.Parts = c.cad.Words(), c.cad.Parts()
	return &c, nil
}

// knownKinds are the known kinds of targets, with the reason why a kind that is not registered
// cannot be used.
var knownKinds = []TargetKind{
	{"skill", "Skill", "Skills are not available in this build."},
	{"tool", "Tool", "Tools are not available in this build."},
	{"synthesis", "Memory synthesis", "Memory synthesis is not available in this build."},
	{"decay", "Memory decay", "Memory decay is not available in this build."},
	{"agent", "Agent turn", "agent turns are not available in this build"},
	{"cleanup", "History clean-up", "History clean-up is not available in this build."},
}

func (s *Service) knows(name string) bool {
	return s.kind(name) != nil || slices.ContainsFunc(knownKinds, func(k TargetKind) bool { return k.Kind == name })
}

// cadKey is the cache key of a parsed cadence. Parsing one loads its time zone.
type cadKey struct {
	spec    string
	created int64
}

const maxCads = 1024

func (s *Service) cadence(spec cadence.Spec, text string, created time.Time) (*cadence.Cadence, error) {
	key := cadKey{text, 0}
	if spec.Type == cadence.Interval && spec.Anchor == nil {
		key.created = created.Unix()
	}
	s.mu.Lock()
	c := s.cads[key]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := cadence.New(spec, created, 0)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cads) >= maxCads {
		clear(s.cads)
	}
	s.cads[key] = c
	return c, nil
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

// loadSched loads a schedule of any user, even if it is deleted.
func (s *Service) loadSched(tx *storage.Tx, id uuid.UUID) (*sched, error) {
	hub, err := s.connected(tx)
	if err != nil {
		return nil, err
	}
	c, err := s.scanSched(tx.QueryRow(`SELECT `+schedColumns+schedTables+`WHERE s.id = ?`, id), hub)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFoundf("Schedule not found.")
	}
	return c, err
}

// own loads a schedule of the caller that is not deleted.
func (s *Service) own(tx *storage.Tx, user, id uuid.UUID) (*sched, error) {
	c, err := s.loadSched(tx, id)
	if err == nil && (c.user != user || c.deletedAt != nil) {
		return nil, fault.NotFoundf("Schedule not found.")
	}
	return c, err
}

// ownUsable is own for a change. It returns an error for schedules of a newer version of Helix,
// which must not be changed.
func (s *Service) ownUsable(tx *storage.Tx, user, id uuid.UUID) (*sched, error) {
	c, err := s.own(tx, user, id)
	if err == nil && c.NeedsNewer {
		return nil, fault.Unavailablef("This schedule needs a newer version of Helix. Nothing was changed.")
	}
	return c, err
}

func (s *Service) query(tx *storage.Tx, where string, args ...any) ([]*sched, error) {
	hub, err := s.connected(tx)
	if err != nil {
		return nil, err
	}
	return storage.Collect(tx.Select(`SELECT `+schedColumns+schedTables+where, args...), func(row storage.Row) (*sched, error) { return s.scanSched(row, hub) })
}

// saveState stores the state of the schedule on this device, including next and last.
func (s *Service) saveState(tx *storage.Tx, c *sched) error {
	c.seen, c.hasState = c.Revision, true
	_, err := tx.Exec(`INSERT INTO schedule_state (schedule_id, user_id, next_run_at, last_due_at, consecutive_failures, run_count, tz_version, revision_seen)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (schedule_id) DO UPDATE SET next_run_at = excluded.next_run_at, last_due_at = excluded.last_due_at,
		consecutive_failures = excluded.consecutive_failures, run_count = excluded.run_count, tz_version = excluded.tz_version, revision_seen = excluded.revision_seen`,
		c.ScheduleID, c.user, c.NextRunAt, c.last, c.ConsecutiveFailures, c.RunCount, c.tz, c.seen)
	return err
}

// setStatus changes the status of a schedule. A schedule that is not active has no next time.
func (s *Service) setStatus(tx *storage.Tx, c *sched, status, reason string, now time.Time) error {
	c.Status, c.DisabledReason, c.UpdatedAt = status, reason, now
	if status != "active" {
		c.NextRunAt = nil
	}
	_, err := tx.Exec(`UPDATE schedules SET status = ?, disabled_reason = ?, is_enabled = ?, updated_at = ? WHERE id = ?`,
		status, orNull(reason), status == "active", now, c.ScheduleID)
	return errors.Join(err, s.saveState(tx, c))
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// nextAfter returns the first due time after t within the schedule's bounds, or nil.
func (c *sched) nextAfter(t time.Time) *time.Time {
	if c.cad == nil || c.MaxRuns != nil && c.RunCount >= *c.MaxRuns {
		return nil
	}
	if c.StartsAt != nil && t.Before(*c.StartsAt) {
		t = c.StartsAt.Add(-time.Microsecond)
	}
	d, ok := c.cad.Next(t)
	if !ok || c.EndsAt != nil && d.At.After(*c.EndsAt) {
		return nil
	}
	return &d.At
}

// fireAt returns when a due time is to be claimed. The delay is a fraction of the jitter, given by
// a hash of the schedule and the due time, and at most half of the time to the next due time.
func (c *sched) fireAt(due time.Time) time.Time {
	most := duration.Of(c.JitterSecs, time.Second)
	if most <= 0 {
		return due
	}
	if next, ok := c.cad.Next(due); ok {
		most = min(most, next.At.Sub(due)/2)
	}
	h := sha256.New()
	h.Write(c.ScheduleID[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(due.Unix())))
	n := binary.BigEndian.Uint64(h.Sum(nil))
	return due.Add(time.Duration(n % uint64(most/time.Millisecond+1) * uint64(time.Millisecond)))
}

// fires reports whether the schedule may fire automatically.
func (c *sched) fires() bool {
	return c.deletedAt == nil && c.Status == "active" && c.enabled && c.cad != nil
}

// detached returns a context that outlives the call and is not inside its transaction. The caller
// must set the user.
func detached(context.Context) context.Context { return context.Background() }
