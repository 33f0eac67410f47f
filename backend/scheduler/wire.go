package scheduler

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/scheduler/cadence"
)

// Schedule is a target with the times at which it is due.
type Schedule struct {
	ScheduleID          uuid.UUID       `json:"scheduleId"`
	Name                string          `json:"name"`
	Description         string          `json:"description"`
	Status              string          `json:"status"`                   // active, paused, completed or disabled
	DisabledReason      string          `json:"disabledReason,omitempty"` // failures, missed, target_gone or invalid
	System              bool            `json:"system"`                   // part of Helix; cannot be deleted
	NeedsNewer          bool            `json:"needsNewer,omitempty"`     // created by a newer Helix: shown, but neither fired nor changed
	Target              Target          `json:"target"`
	Cadence             cadence.Spec    `json:"cadence"`
	Words               string          `json:"words"`  // the cadence in plain English
	Parts               cadence.Parts   `json:"parts"`  // the same in a structured form, for other languages
	OsZone              bool            `json:"osZone"` // the cadence names no time zone and follows the operating system's
	StartsAt            *time.Time      `json:"startsAt"`
	EndsAt              *time.Time      `json:"endsAt"`
	MaxRuns             *int64          `json:"maxRuns"`
	MissedPolicy        string          `json:"missedPolicy"` // skip, once or all
	GraceSecs           int64           `json:"graceSecs"`
	Overlap             string          `json:"overlap"` // skip, queue or cancelPrevious
	JitterSecs          int64           `json:"jitterSecs"`
	Retry               Retry           `json:"retry"`
	AutoDisableAfter    int             `json:"autoDisableAfter"`
	NotifyAfterFailures int             `json:"notifyAfterFailures"`
	Notification        string          `json:"notification"` // always, conditional or never
	NotifyWhen          string          `json:"notifyWhen,omitempty"`
	MaxRunMs            int64           `json:"maxRunMs"`
	Placement           Placement       `json:"placement"`
	Budget              Budget          `json:"budget"`
	Revision            int64           `json:"revision"` // incremented by each edit
	NextRunAt           *time.Time      `json:"nextRunAt"`
	LastRun             *Run            `json:"lastRun"`
	RecentRuns          []RunMark       `json:"recentRuns"` // the last 20 runs, oldest first
	RunCount            int64           `json:"runCount"`
	ConsecutiveFailures int             `json:"consecutiveFailures"`
	Raw                 json.RawMessage `json:"raw,omitempty"` // the stored form, if the schedule needs a newer Helix
	CreatedAt           time.Time       `json:"createdAt"`
	UpdatedAt           time.Time       `json:"updatedAt"`
}

// RunMark is a summary of one run.
type RunMark struct {
	RunID  uuid.UUID `json:"runId"`
	At     time.Time `json:"at"`
	Status string    `json:"status"`
}

// Target is what a schedule starts.
type Target struct {
	Kind    string          `json:"kind"` // skill, tool, synthesis, decay, agent or cleanup
	ID      *uuid.UUID      `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Version string          `json:"version,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"` // default {}
}

// Retry is how failed runs are retried: after min(base·2ⁿ, cap) seconds times a random
// factor from 0.5 to 1.
type Retry struct {
	Max      int   `json:"max"`
	BaseSecs int64 `json:"baseSecs"`
	CapSecs  int64 `json:"capSecs"`
}

// Placement is the device that fires the schedule.
type Placement struct {
	HomeDeviceID *uuid.UUID `json:"homeDeviceId"`
	Takeover     bool       `json:"takeover"` // another device may take over when the home is offline
	Here         bool       `json:"here"`     // this device is the home
}

// Budget limits an agent's turns and cost.
type Budget struct {
	MaxTurns      int   `json:"maxTurns"`
	MaxCostMicros int64 `json:"maxCostMicros"`
}

// CreateParams contains the fields of a schedule. Omitted fields have their defaults.
type CreateParams struct {
	Name                string          `json:"name"` // 1..100
	Description         string          `json:"description,omitempty"`
	Target              Target          `json:"target"`
	Cadence             json.RawMessage `json:"cadence"`
	StartsAt            *time.Time      `json:"startsAt,omitempty"`
	EndsAt              *time.Time      `json:"endsAt,omitempty"`
	MaxRuns             *int64          `json:"maxRuns,omitempty"`
	MissedPolicy        string          `json:"missedPolicy,omitempty"` // default once
	GraceSecs           *int64          `json:"graceSecs,omitempty"`    // default 86400
	Overlap             string          `json:"overlap,omitempty"`      // default skip
	JitterSecs          int64           `json:"jitterSecs,omitempty"`
	Retry               *Retry          `json:"retry,omitempty"`
	AutoDisableAfter    *int            `json:"autoDisableAfter,omitempty"`    // default 5; 0: never
	NotifyAfterFailures *int            `json:"notifyAfterFailures,omitempty"` // default 3; 0: never
	Notification        string          `json:"notification,omitempty"`        // default conditional
	NotifyWhen          string          `json:"notifyWhen,omitempty"`          // RFC 9535 condition over {status, output, error, previous}
	MaxRunMs            int64           `json:"maxRunMs,omitempty"`            // default 1800000
	Placement           *Placement      `json:"placement,omitempty"`
	Budget              *Budget         `json:"budget,omitempty"`
	Paused              bool            `json:"paused,omitempty"` // created without being active
}

// UpdateParams changes a schedule. Patch contains the fields of create to change.
type UpdateParams struct {
	ScheduleID       uuid.UUID       `json:"scheduleId"`
	Patch            json.RawMessage `json:"patch"`
	ExpectedRevision int64           `json:"expectedRevision,omitempty"` // if it is not the current one, the error is a conflict; 0: no check
}

// ScheduleParams identifies a schedule.
type ScheduleParams struct {
	ScheduleID uuid.UUID `json:"scheduleId"`
}

// DeleteResult contains the time of deletion. The schedule can be restored for 30 days.
type DeleteResult struct {
	DeletedAt time.Time `json:"deletedAt"`
}

// ListParams filters the user's schedules.
type ListParams struct {
	Status string `json:"status,omitempty"`
	Kind   string `json:"kind,omitempty"` // of the target
	Query  string `json:"query,omitempty"`
	// Deleted lists the deleted schedules that can be restored instead.
	Deleted bool `json:"deleted,omitempty"`
	Limit   int  `json:"limit,omitempty"` // 1..100, default 50
	Offset  int  `json:"offset,omitempty"`
}

// ListResult is one page, newest first; system schedules come last.
type ListResult struct {
	Schedules []Schedule `json:"schedules"`
	Total     int        `json:"total"`
	Limit     int        `json:"limit"`
	Offset    int        `json:"offset"`
}

// PauseAllParams stops all schedules from firing.
type PauseAllParams struct {
	Until      *time.Time `json:"until,omitempty"` // default: until they are resumed
	AllDevices bool       `json:"allDevices,omitempty"`
}

// PauseAllResult is the state afterwards.
type PauseAllResult struct {
	Paused bool       `json:"paused"`
	Until  *time.Time `json:"until"`
}

// RunNowParams starts a schedule's target now. The next due time is not affected.
type RunNowParams struct {
	ScheduleID uuid.UUID       `json:"scheduleId"`
	Input      json.RawMessage `json:"input,omitempty"` // default: the schedule's
}

// RunNowResult identifies the run and the target's run.
type RunNowResult struct {
	RunID       uuid.UUID  `json:"runId"`
	TargetRunID *uuid.UUID `json:"targetRunId"`
}

// PreviewParams requests the due times of a cadence.
type PreviewParams struct {
	Cadence json.RawMessage `json:"cadence"`
	Count   int             `json:"count,omitempty"` // 1..100, default 10
	From    *time.Time      `json:"from,omitempty"`  // default now
}

// PreviewResult contains due times and a description of the cadence.
type PreviewResult struct {
	Times       []PreviewTime `json:"times"`
	Description string        `json:"description"`
	Parts       cadence.Parts `json:"parts"` // structured description
	Warnings    []string      `json:"warnings"`
	Cadence     cadence.Spec  `json:"cadence"` // with the time zone filled in
}

// PreviewTime is one due time.
type PreviewTime struct {
	At     time.Time `json:"at"`
	Local  string    `json:"local"`          // wall clock time in the zone of the cadence: 2006-01-02 15:04:05
	Offset string    `json:"offset"`         // from UTC, like +02:00
	Note   string    `json:"note,omitempty"` // gap_shifted, overlap_first or overlap_both
}

// CalendarParams requests at most 62 days.
type CalendarParams struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// CalendarResult contains past and future due times.
type CalendarResult struct {
	Items     []CalendarItem `json:"items"`
	Truncated bool           `json:"truncated"`
}

// CalendarItem is one due time or, with Count, several on one day.
type CalendarItem struct {
	ScheduleID uuid.UUID  `json:"scheduleId"`
	At         time.Time  `json:"at"`
	Kind       string     `json:"kind"` // planned, ran, failed, missed or skipped
	RunID      *uuid.UUID `json:"runId,omitempty"`
	Count      int        `json:"count,omitempty"`
}

// Run is one due time and what happened to it.
type Run struct {
	RunID         uuid.UUID  `json:"runId"`
	ScheduleID    uuid.UUID  `json:"scheduleId"`
	ScheduleName  string     `json:"scheduleName"`
	DueAt         time.Time  `json:"dueAt"`
	Trigger       string     `json:"trigger"` // due, catchup, retry or manual
	Attempt       int        `json:"attempt"`
	Status        string     `json:"status"`           // queued, running, waiting, success, failed, cancelled, interrupted, missed or skipped
	Reason        string     `json:"reason,omitempty"` // overlap, asleep, not_running, needs_approval, no_lease, …
	TargetKind    string     `json:"targetKind"`
	TargetRunID   *uuid.UUID `json:"targetRunId"`
	DeviceID      uuid.UUID  `json:"deviceId"`
	ClaimedAt     *time.Time `json:"claimedAt"`
	StartedAt     *time.Time `json:"startedAt"` // of a missed run: when the computer fell asleep
	FinishedAt    *time.Time `json:"finishedAt"`
	RetryAt       *time.Time `json:"retryAt,omitempty"` // when the next attempt is due
	LateMs        int64      `json:"lateMs"`
	OutputSummary string     `json:"outputSummary"`
	Error         *RunError  `json:"error,omitempty"`
	Notified      bool       `json:"notified"`
	TurnCount     int        `json:"turnCount"`
	CostMicros    int64      `json:"costMicros"`
	MissedCount   *int       `json:"missedCount,omitempty"` // if the row stands for several missed runs
	MissedMore    bool       `json:"missedMore,omitempty"`
	LastMissedAt  *time.Time `json:"lastMissedAt,omitempty"`
}

// RunError is the reason why a run failed.
type RunError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// RunsParams filters runs.
type RunsParams struct {
	ScheduleID *uuid.UUID `json:"scheduleId,omitempty"`
	Status     string     `json:"status,omitempty"`
	From       *time.Time `json:"from,omitempty"`
	To         *time.Time `json:"to,omitempty"`
	Cursor     string     `json:"cursor,omitempty"`
	Limit      int        `json:"limit,omitempty"` // 1..100, default 20
}

// RunsResult is one page, newest first.
type RunsResult struct {
	Runs       []Run  `json:"runs"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// RunParams identifies a run.
type RunParams struct {
	RunID uuid.UUID `json:"runId"`
}

// RunOutputParams requests the output of a run.
type RunOutputParams struct {
	RunID    uuid.UUID `json:"runId"`
	MaxChars int       `json:"maxChars,omitempty"` // 200..8000, default 4000
}

// RunOutputResult is the output as text.
type RunOutputResult struct {
	Text       string `json:"text"`
	Truncated  bool   `json:"truncated"`
	TotalChars int    `json:"totalChars"`
	IsError    bool   `json:"isError"` // there is no output, and the text is the error
}

// StatusResult is the status of the scheduler.
type StatusResult struct {
	Enabled     bool         `json:"enabled"`
	PausedAll   bool         `json:"pausedAll"`
	PausedUntil *time.Time   `json:"pausedUntil"`
	Lanes       []LaneStatus `json:"lanes"`
	NextDue     *NextDue     `json:"nextDue"`
	Clock       ClockStatus  `json:"clock"`
	Leases      []Lease      `json:"leases"`
	Targets     []TargetKind `json:"targets"`  // that schedules can start in this build
	Timezone    string       `json:"timezone"` // of the operating system
}

// TargetKind is one kind of target.
type TargetKind struct {
	Kind   string `json:"kind"`
	Title  string `json:"title"`
	Reason string `json:"reason,omitempty"` // why it cannot be used; empty: it can
}

// NextDue is the earliest due time.
type NextDue struct {
	ScheduleID uuid.UUID `json:"scheduleId"`
	Name       string    `json:"name"`
	At         time.Time `json:"at"`
}

// LaneStatus counts the runs in a lane.
type LaneStatus struct {
	Lane     string `json:"lane"`
	Running  int    `json:"running"`
	Capacity int    `json:"capacity"`
	Waiting  int    `json:"waiting"`
}

// ClockStatus compares this device's clock with the hub's.
type ClockStatus struct {
	SkewMs int64 `json:"skewMs"`
}

// Lease is the lease on a schedule with takeover.
type Lease struct {
	ScheduleID uuid.UUID `json:"scheduleId"`
	DeviceID   uuid.UUID `json:"deviceId"`
	Term       int64     `json:"term"`
	ExpiresAt  time.Time `json:"expiresAt"`
}

// Changed is the event schedules.changed.
type Changed struct {
	ScheduleID *uuid.UUID `json:"scheduleId"` // absent: all schedules, such as PauseAll
	Change     string     `json:"change"`     // created, updated, deleted, restored, paused, resumed, fired, disabled, completed
}

// RunEvent is the event schedules.run_event.
type RunEvent struct {
	RunID      uuid.UUID `json:"runId"`
	ScheduleID uuid.UUID `json:"scheduleId"`
	Status     string    `json:"status"`
	At         time.Time `json:"at"`
	Seq        int64     `json:"seq"` // of this process
}

// Notification is the event schedules.notification.
type Notification struct {
	NoticeID   uuid.UUID  `json:"noticeId"`
	ScheduleID uuid.UUID  `json:"scheduleId"`
	RunID      *uuid.UUID `json:"runId"`
	Title      string     `json:"title"`
	Body       string     `json:"body"`
	Level      string     `json:"level"`
	At         time.Time  `json:"at"`
}

// NoticesResult contains the notifications that no client has taken yet.
type NoticesResult struct {
	Notices []Notification `json:"notices"`
}

// TakeNoticesParams lists notifications that were shown.
type TakeNoticesParams struct {
	NoticeIDs []uuid.UUID `json:"noticeIds"`
}

// Template is a schedule that Helix offers and that is not active by default.
type Template struct {
	Key         string        `json:"key"`
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Target      Target        `json:"target"`
	Cadence     cadence.Spec  `json:"cadence"`
	Words       string        `json:"words"`
	Parts       cadence.Parts `json:"parts"`
	Unavailable string        `json:"unavailable,omitempty"` // why it cannot be used in this build
}

// TemplatesResult lists the templates.
type TemplatesResult struct {
	Templates []Template `json:"templates"`
}
