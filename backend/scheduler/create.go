package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/scheduler/cadence"
	"helix/backend/storage"
)

// Limits of a schedule's fields.
const (
	maxName        = 100
	maxDescription = 1000
	maxInput       = 256 << 10
	maxCondition   = 2048
	maxGrace       = 366 * 86400
	maxJitter      = 86400
	maxRunLimit    = 7 * 24 * time.Hour
	maxAttempts    = 10
)

// blank returns a schedule with the default of each field.
func (s *Service) blank(user uuid.UUID, now time.Time) *sched {
	home := s.device()
	c := &sched{user: user, enabled: true, last: now}
	c.Schedule = Schedule{
		ScheduleID: storage.NewID(), Status: "active", MissedPolicy: "once", GraceSecs: 86400, Overlap: "skip",
		Retry: Retry{Max: 2, BaseSecs: 60, CapSecs: 3600}, AutoDisableAfter: 5, NotifyAfterFailures: 3, Notification: "conditional", MaxRunMs: 1_800_000,
		Placement: Placement{HomeDeviceID: &home, Here: true}, Budget: Budget{MaxTurns: 10, MaxCostMicros: 500_000}, Revision: 1,
		RecentRuns: []RunMark{}, CreatedAt: now, UpdatedAt: now,
	}
	return c
}

// decodeCadence decodes a cadence in its external form and rejects unknown fields. osZone reports
// that a cron expression names no time zone; the operating system's is filled in.
func (s *Service) decodeCadence(raw json.RawMessage, created time.Time) (spec cadence.Spec, c *cadence.Cadence, osZone bool, err error) {
	if len(bytes.TrimSpace(raw)) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return spec, nil, false, fault.InvalidField("cadence", fault.CodeMissing, "cadence: required")
	}
	var in struct {
		Type       cadence.Type `json:"type"`
		Expression string       `json:"expression"`
		Timezone   string       `json:"timezone"`
		EverySecs  int64        `json:"everySecs"`
		Old        int64        `json:"every_secs"`
		Anchor     *time.Time   `json:"anchor"`
		At         *time.Time   `json:"at"`
	}
	if err := strict(raw, &in, "cadence"); err != nil {
		return spec, nil, false, err
	}
	spec = cadence.Spec{Type: in.Type, Expression: strings.TrimSpace(in.Expression), Timezone: strings.TrimSpace(in.Timezone), EverySecs: in.EverySecs, Anchor: in.Anchor, At: in.At}
	if spec.EverySecs == 0 {
		spec.EverySecs = in.Old
	}
	for _, x := range []struct {
		name string
		at   *time.Time
	}{{"anchor", spec.Anchor}, {"at", spec.At}} {
		if x.at != nil && (x.at.Year() < 1971 || x.at.Year() > 9998) {
			return spec, nil, false, fault.InvalidField("cadence."+x.name, fault.CodeRange, "cadence: the year %d is out of range", x.at.Year())
		}
	}
	if spec.Type == cadence.Cron {
		if osZone = spec.Timezone == ""; osZone {
			spec.Timezone = s.o.Zone()
		}
	} else {
		spec.Expression, spec.Timezone = "", ""
	}
	c, err = cadence.New(spec, created, max(s.o.MinInterval, 0))
	return spec, c, osZone, fault.In("cadence", err)
}

// strict decodes JSON and rejects unknown fields.
func strict(raw json.RawMessage, v any, where string) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		return fault.InvalidField(where, fault.CodeSyntax, "%s: must be a single JSON object", where)
	}
	var typ *json.UnmarshalTypeError
	var at *time.ParseError
	switch {
	case errors.As(err, &typ):
		return fault.InvalidField(strings.TrimSuffix(where+"."+typ.Field, "."), fault.CodeType, "%s: %s cannot be a %s", where, typ.Field, typ.Value)
	case errors.As(err, &at):
		return fault.InvalidField(where, fault.CodeSyntax, "%s: use a time such as 2026-03-01T09:00:00Z", where)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok { // encoding/json has no type for it
		return fault.InvalidField(where+"."+strings.Trim(name, `"`), fault.CodeUnknownField, "%s: unknown field %s", where, name)
	}
	return fault.InvalidField(where, fault.CodeSyntax, "%s is not valid JSON", where).WithCause(err)
}

// fill validates p and copies it to c. timing means that fields that determine due times may have
// changed, so that a single time in the past is rejected.
func (s *Service) fill(ctx context.Context, c *sched, p CreateParams, timing, target bool, now time.Time) error {
	name := strings.TrimSpace(p.Name)
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return fault.InvalidField("name", fault.CodeMissing, "name: required")
	case n > maxName:
		return fault.InvalidField("name", fault.CodeTooLong, "name: at most %d characters", maxName)
	case utf8.RuneCountInString(p.Description) > maxDescription:
		return fault.InvalidField("description", fault.CodeTooLong, "description: at most %d characters", maxDescription)
	}
	c.Name, c.Description = name, p.Description
	for _, e := range []struct {
		field string
		value string
		dst   *string
		all   []string
	}{
		{"missedPolicy", p.MissedPolicy, &c.MissedPolicy, []string{"skip", "once", "all"}},
		{"overlap", p.Overlap, &c.Overlap, []string{"skip", "queue", "cancelPrevious"}},
		{"notification", p.Notification, &c.Notification, []string{"always", "conditional", "never"}},
	} {
		if e.value == "" {
			continue
		}
		if !slices.Contains(e.all, e.value) {
			return fault.InvalidField(e.field, fault.CodeUnknownValue, "%s: %q is not one of %s", e.field, e.value, strings.Join(e.all, ", "))
		}
		*e.dst = e.value
	}
	if err := fillNumbers(c, p); err != nil {
		return err
	}
	if err := s.fillCondition(c, p.NotifyWhen); err != nil {
		return err
	}
	if timing {
		if err := s.fillTimes(c, p, now); err != nil {
			return err
		}
	}
	if p.Placement != nil {
		c.Placement.Takeover = p.Placement.Takeover
		if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
			c.hub, err = s.connected(tx)
			return err
		}); err != nil {
			return err
		}
		if p.Placement.HomeDeviceID != nil && c.hub {
			c.Placement.HomeDeviceID, c.Placement.Here = p.Placement.HomeDeviceID, *p.Placement.HomeDeviceID == s.device()
		}
	}
	if !target {
		return nil
	}
	return s.fillTarget(ctx, c, p.Target)
}

func fillNumbers(c *sched, p CreateParams) error {
	var wrong []fault.FieldProblem
	within := func(field string, v, lo, hi int64) {
		if v < lo || v > hi {
			wrong = append(wrong, fault.FieldProblem{Path: field, Code: fault.CodeRange, Message: fmt.Sprintf("%s: %d is outside %d–%d", field, v, lo, hi)})
		}
	}
	set := func(dst *int64, v *int64) {
		if v != nil {
			*dst = *v
		}
	}
	set(&c.GraceSecs, p.GraceSecs)
	if p.AutoDisableAfter != nil {
		c.AutoDisableAfter = *p.AutoDisableAfter
	}
	if p.NotifyAfterFailures != nil {
		c.NotifyAfterFailures = *p.NotifyAfterFailures
	}
	if p.MaxRunMs != 0 {
		c.MaxRunMs = p.MaxRunMs
	}
	if p.Retry != nil {
		c.Retry = *p.Retry
	}
	if p.Budget != nil {
		c.Budget = *p.Budget
	}
	c.JitterSecs = p.JitterSecs
	within("graceSecs", c.GraceSecs, 0, maxGrace)
	within("jitterSecs", c.JitterSecs, 0, maxJitter)
	within("autoDisableAfter", int64(c.AutoDisableAfter), 0, 1000)
	within("notifyAfterFailures", int64(c.NotifyAfterFailures), 0, 1000)
	within("maxRunMs", c.MaxRunMs, 1000, maxRunLimit.Milliseconds())
	within("retry.max", int64(c.Retry.Max), 0, maxAttempts)
	within("retry.baseSecs", c.Retry.BaseSecs, 1, 86400)
	within("retry.capSecs", c.Retry.CapSecs, 1, 7*86400)
	within("budget.maxTurns", int64(c.Budget.MaxTurns), 0, 10_000)
	within("budget.maxCostMicros", c.Budget.MaxCostMicros, 0, 1e12)
	switch len(wrong) {
	case 0:
		return nil
	case 1:
		return fault.InvalidField(wrong[0].Path, wrong[0].Code, "%s", wrong[0].Message)
	}
	all := make([]string, len(wrong))
	for i, w := range wrong {
		all[i] = w.Message
	}
	return fault.Invalidf("%s", strings.Join(all, "\n")).WithDetails(fault.FieldErrors{Errors: wrong})
}

func (s *Service) fillCondition(c *sched, text string) error {
	c.NotifyWhen = strings.TrimSpace(text)
	if c.NotifyWhen == "" {
		return nil
	}
	if len(c.NotifyWhen) > maxCondition {
		return fault.InvalidField("notifyWhen", fault.CodeTooLong, "notifyWhen: at most %d bytes", maxCondition)
	}
	if s.o.Condition == nil {
		return fault.Unavailablef("Notification conditions aren't available in this build.")
	}
	if _, err := s.o.Condition(c.NotifyWhen); err != nil {
		return fault.InvalidField("notifyWhen", fault.CodeSyntax, "notifyWhen: %s", fault.As(err).Message)
	}
	return nil
}

func (s *Service) fillTimes(c *sched, p CreateParams, now time.Time) error {
	spec, cad, osZone, err := s.decodeCadence(p.Cadence, c.CreatedAt)
	if err != nil {
		return err
	}
	c.Cadence, c.cad, c.OsZone, c.tz = spec, cad, osZone, ""
	c.StartsAt, c.EndsAt, c.MaxRuns = micros(p.StartsAt), micros(p.EndsAt), p.MaxRuns
	if c.MaxRuns != nil && *c.MaxRuns < 1 {
		return fault.InvalidField("maxRuns", fault.CodeRange, "maxRuns: at least 1")
	}
	if c.StartsAt != nil && c.EndsAt != nil && !c.StartsAt.Before(*c.EndsAt) {
		return fault.InvalidField("endsAt", fault.CodeRange, "endsAt: must be after startsAt")
	}
	if c.EndsAt != nil && !c.EndsAt.After(now) {
		return fault.InvalidField("endsAt", fault.CodePast, "endsAt: that time has passed")
	}
	return c.checkNext(now)
}

// checkNext returns an error for a schedule that has no due time after now.
func (c *sched) checkNext(now time.Time) error {
	if c.nextAfter(now) != nil {
		return nil
	}
	switch {
	case c.MaxRuns != nil && c.RunCount >= *c.MaxRuns:
		return fault.InvalidField("maxRuns", fault.CodeRange, "maxRuns: it has already run %d times", c.RunCount)
	case c.Cadence.Type == cadence.Once && !c.Cadence.At.After(now):
		return fault.InvalidField("cadence.at", fault.CodePast, "time has passed")
	case c.EndsAt != nil || c.StartsAt != nil:
		return fault.InvalidField("endsAt", cadence.CodeNever, "no run falls between startsAt and endsAt")
	}
	return fault.InvalidField("cadence", cadence.CodeNever, "this date never occurs")
}

func micros(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC().Truncate(time.Microsecond)
	return &at
}

func (s *Service) fillTarget(ctx context.Context, c *sched, t Target) error {
	if len(t.Input) == 0 || string(t.Input) == "null" {
		t.Input = json.RawMessage("{}")
	}
	switch {
	case t.Kind == "":
		return fault.InvalidField("target.kind", fault.CodeMissing, "target: kind is required")
	case len(t.Input) > maxInput:
		return fault.Limitf("The input of a schedule can have at most %d kB.", maxInput>>10).WithDetails(fault.Field("target.input", fault.CodeTooLong))
	case !json.Valid(t.Input) || t.Input[0] != '{':
		return fault.InvalidField("target.input", fault.CodeType, "target: input must be a JSON object")
	}
	k := s.kind(t.Kind)
	if k == nil {
		return fault.In("target.kind", unavailableKind(t.Kind))
	}
	var out Target
	err := fault.Catch(func() (err error) { out, err = k.Check(ctx, t); return err })
	if r, ok := callable.RefusalOf(err); err != nil && !(ok && r.Reason == callable.ReasonDisabled && c.Status == "paused") { // both can be enabled later
		return fault.In("target", err)
	}
	out.Kind = t.Kind
	if len(out.Input) == 0 {
		out.Input = t.Input
	}
	c.Target = out
	return nil
}

// Create creates a schedule.
func (s *Service) Create(ctx context.Context, p CreateParams) (Schedule, error) {
	user, now := identity.UserID(ctx), s.now()
	c := s.blank(user, now)
	if p.Paused {
		c.Status = "paused"
	}
	if err := s.fill(ctx, c, p, true, true, now); err != nil {
		return Schedule{}, err
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM schedules WHERE user_id = ? AND deleted_at IS NULL AND system_key IS NULL`, user).Scan(&n); err != nil {
			return err
		}
		if n >= s.o.MaxPerUser {
			return fault.Limitf("You can have at most %d schedules. Delete some first.", s.o.MaxPerUser)
		}
		if err := s.insertSched(tx, c); err != nil {
			return err
		}
		return s.audit(tx, c, "", "created")
	})
	if err != nil {
		return Schedule{}, err
	}
	return s.get(ctx, c.ScheduleID)
}

// insertSched inserts a new schedule and computes its first due time.
func (s *Service) insertSched(tx *storage.Tx, c *sched) error {
	if _, err := tx.Exec(`INSERT INTO schedules (id, user_id, name, description, status, system_key, target_kind, target_id, target_name, target_version, target_input, is_enabled,
		cadence, timezone, os_zone, starts_at, ends_at, max_runs, missed_policy, grace_secs, overlap, jitter_secs, retry, auto_disable_after, notify_after,
		notification, notify_when, max_run_ms, home_device_id, takeover, max_turns, max_cost_micros, revision, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		append([]any{c.ScheduleID, c.user, c.Name, c.Description, c.Status, orNull(c.systemKey)}, append(c.fields(), c.Revision, c.CreatedAt, c.UpdatedAt)...)...); err != nil {
		return err
	}
	s.changed(tx, c.user, c.ScheduleID, "created")
	c.last = c.CreatedAt
	if c.Status == "active" {
		c.NextRunAt = c.nextAfter(c.last)
	}
	c.tz = zonePrint(c.Cadence.Timezone)
	return s.saveState(tx, c)
}

// fields returns the values of the columns from target_kind to max_cost_micros, in order.
func (c *sched) fields() []any {
	zone := c.Cadence.Timezone
	if zone == "" {
		zone = "UTC"
	}
	return []any{c.Target.Kind, c.Target.ID, c.Target.Name, c.Target.Version, c.Target.Input, c.Status == "active",
		mustJSON(c.Cadence), zone, c.OsZone, c.StartsAt, c.EndsAt, c.MaxRuns, c.MissedPolicy, c.GraceSecs, c.Overlap, c.JitterSecs, mustJSON(c.Retry), c.AutoDisableAfter, c.NotifyAfterFailures,
		c.Notification, orNull(c.NotifyWhen), c.MaxRunMs, c.Placement.HomeDeviceID, c.Placement.Takeover, c.Budget.MaxTurns, c.Budget.MaxCostMicros}
}
